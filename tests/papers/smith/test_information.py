"""What presences say of images: against a plain transcription in float64, an integral, and cases that are known."""

import math

import pytest
import torch
from scipy import integrate, stats

from routebench.papers.smith.models.probabilistic.concrete import concrete_sample
from routebench.papers.smith.models.probabilistic.information import (
    divergence_from_the_mean,
    information,
    share_that_varies,
)
from tests.papers.smith.spread import spread


def plain(drawn, log_odds, temperature):
    """The mean over draws and images of log q(t|x) - log mean over x' of q(t|x'), in loops."""
    draws, images, capsules = drawn.shape

    def log_density(logits, image):
        return sum(
            stats.logistic.logpdf(
                float(logits[capsule]), float(log_odds[image, capsule]) / temperature, 1 / temperature
            )
            for capsule in range(capsules)
        )

    total = 0.0
    for draw in range(draws):
        for image in range(images):
            logits = drawn[draw, image]
            mixed = sum(math.exp(log_density(logits, other)) for other in range(images)) / images
            total += log_density(logits, image) - math.log(mixed)
    return total / draws / images


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_information_is_that_of_the_transcription(temperature):
    log_odds = 2 * spread(60, 3, seed=1)
    drawn = concrete_sample(log_odds.expand(2, -1, -1), temperature, torch.Generator().manual_seed(2))
    expected = plain(drawn, log_odds, temperature)
    assert float(divergence_from_the_mean(drawn, log_odds, temperature)) == pytest.approx(expected, rel=1e-12)
    told = information(log_odds, temperature, draws=2, generator=torch.Generator().manual_seed(2))
    assert told == pytest.approx(expected, rel=1e-12)


def test_information_of_two_kinds_of_images_is_the_integral():
    away = 1.5

    def integrand(logit):
        own, other = stats.logistic.pdf(logit, away), stats.logistic.pdf(logit, -away)
        return own * math.log(own / (0.5 * own + 0.5 * other))

    log_odds = torch.tensor([away, -away], dtype=torch.float64)[:, None].repeat(50, 1)
    told = information(log_odds, 1.0, draws=400, generator=torch.Generator().manual_seed(0))
    assert told == pytest.approx(integrate.quad(integrand, -50, 50)[0], abs=0.01)


def test_no_difference_says_nothing_and_great_ones_say_which_image_it_is():
    draws = torch.Generator().manual_seed(0)
    assert information(torch.ones(40, 5), 1.0, draws=4, generator=draws) == pytest.approx(0, abs=1e-12)
    apart = 100.0 * torch.arange(40)[:, None]
    assert information(apart, 1.0, draws=4, generator=draws) == pytest.approx(math.log(40), abs=1e-9)


def test_a_choice_varies_if_it_is_not_the_same_in_all_but_a_few_images():
    chosen = torch.zeros(100, 3, dtype=torch.long)  # by image and part
    chosen[:5, 1] = 2
    chosen[:6, 2] = 2
    responsibilities = torch.nn.functional.one_hot(chosen, 3).transpose(1, 2).double()
    assert share_that_varies(responsibilities) == pytest.approx(1 / 3)
