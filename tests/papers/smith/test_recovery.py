"""Whether training keeps presences that are true: images drawn from a known model, training from that model on."""

import pytest
import torch

from routebench.papers.smith.models.probabilistic.information import information
from tests.papers.smith.known_truth import OBJECTS, drawn, network, teach, tell, train


def told(network, scene, images):
    """Nats that presences of objects say of images, and how often each says more where its object is than where not."""
    with torch.no_grad():
        logits = network.middle(images).objects.log_odds
    there = scene.objects.presences > 0
    ordered = [(logits[there[:, i], i][:, None] > logits[~there[:, i], i]).double().mean() for i in range(OBJECTS)]
    return information(logits, 1.0, draws=4, generator=torch.Generator().manual_seed(0)), min(map(float, ordered))


@pytest.mark.parametrize(("whole", "kept"), [({}, False), ({"switch": "anywhere", "off_deviation": 0.1}, True)])
def test_presences_that_are_true_stay_true_only_where_being_on_has_no_reward(whole, kept):
    """A certain pose is rewarded for its part being on; what objects are there is then forgotten at once."""
    known = network(0, **whole)
    tell(known)
    scene, images = drawn(known, 1000, seed=0)
    test, seen = drawn(known, 300, seed=100)
    teach(known, scene, images, 600, seed=0)
    information, order = told(known, test, seen)
    assert information > 2 and order > 0.95  # on and off are 3 log 2 = 2.08 nats
    train(known, images, 150, seed=0)
    information, order = told(known, test, seen)
    assert (information > 1 and order > 0.95) if kept else (information < 0.2 and order < 0.7)
