"""What presences tell is measured as the encoder says it and as the model sees it."""

import pytest
import torch
from torch.nn.functional import one_hot

from routebench.data import Dataset, Images
from routebench.papers.smith.models.probabilistic.beliefs import Belief
from routebench.papers.smith.models.probabilistic.model import GenerativeCapsules, Posterior, Scene
from routebench.papers.smith.protocols.presences import presence_metrics, presence_probes

CLASSES = 4


class Told(GenerativeCapsules):
    """Says the class of an image, which its brightness is, by one object each, as loudly as it is told to."""

    def __init__(self, loudness):
        torch.nn.Module.__init__(self)
        self.loudness = loudness

    def middle(self, images):
        label = (images.flatten(1).mean(dim=1) * 255).round().long() // 50
        log_odds = self.loudness * (one_hot(label, CLASSES).float() - 0.5)
        belief = Belief(log_odds, torch.zeros(len(images), CLASSES, 6))
        return Posterior(belief, belief)

    def infer(self, images, generator=None):
        posterior = self.middle(images)
        drawn = posterior.objects.sample(1.0, generator)
        return posterior, Scene(drawn, drawn)


@pytest.fixture(scope="module")
def digits():
    def part(count):
        labels = torch.arange(count) % CLASSES
        return Images((50 * labels).to(torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous(), labels)

    return Dataset("brightness", tuple("abcd"), part(400), part(100), part(200), "", "")


def measured(loudness, digits):
    network, device = Told(loudness), torch.device("cpu")
    found = presence_metrics(network, digits.test, presence_probes(network, digits, device), device)
    return {each.where.get("presences", each.metric): each.value for each in found}


def test_what_is_below_the_noise_of_a_presence_is_told_by_its_logit_alone(digits):
    quiet = measured(1e-3, digits)
    assert quiet["logits"] == 100
    assert quiet["drawn"] < 100 * (1 / CLASSES + 0.15)  # chance, and four standard errors of 200 images
    assert quiet["presence_spread"] == pytest.approx(1e-3 * (3 / 16) ** 0.5, rel=1e-3)


def test_what_is_said_aloud_is_told_by_presences_that_are_drawn(digits):
    loud = measured(20.0, digits)
    assert loud["logits"] == 100 and loud["drawn"] > 97
