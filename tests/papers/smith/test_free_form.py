"""Free-form inference raises the bound from what the encoders say, and refuses what it cannot climb for."""

import math

import pytest
import torch

from routebench.papers.smith.models.probabilistic.beliefs import Belief
from routebench.papers.smith.models.probabilistic.free_form import _check, climb, drawn_from, mean_bound
from routebench.papers.smith.models.probabilistic.model import Posterior
from tests.papers.smith.small_capsules import PARTS, small


@pytest.mark.parametrize(
    "rule",
    [{"learning_rate": 1e-3}, {"learning_rate": 1e-3, "samples": 4}, {"optimiser": "adam", "learning_rate": 0.05}],
)
def test_climbing_raises_the_bound_image_by_image(rule):
    network, images = small(images=3)
    draws = torch.Generator().manual_seed(0)
    start = network.middle(images)
    before = mean_bound(network, images, start, samples=30, generator=torch.Generator().manual_seed(1))
    found = climb(network, images, steps=60, generator=draws, **rule)
    after = mean_bound(network, images, found.posterior, samples=30, generator=torch.Generator().manual_seed(1))
    assert (after > before).all()
    assert found.bounds.shape == (3, 60) and all(value.grad is None for value in network.parameters())
    alone = climb(network, images[:1], steps=1, generator=torch.Generator().manual_seed(0))
    assert alone.posterior.parts.poses.shape == (1, PARTS, 6)


def test_a_step_of_plain_descent_is_the_gradient_of_the_mean_over_samples():
    network, images = small()
    start = network.middle(images).parts.log_odds
    found = climb(network, images, steps=1, learning_rate=0.1, samples=3, generator=torch.Generator().manual_seed(0))
    own = network.middle(images)
    parts = Belief(own.parts.log_odds.detach().requires_grad_(), own.parts.poses)
    draws = torch.Generator().manual_seed(0)
    free = Posterior(own.objects, parts)
    bounds = torch.stack([network.bound(images, free, drawn_from(network, free, draws)).total for _ in range(3)])
    (slope,) = torch.autograd.grad(bounds.mean(dim=0).sum(), parts.log_odds)
    assert torch.allclose(found.posterior.parts.log_odds, start + 0.1 * slope)
    assert torch.allclose(found.bounds[:, 0], bounds.mean(dim=0))


def test_what_the_bound_takes_no_notice_of_stays_with_plain_descent_and_walks_with_adam():
    """t0's logits matter to the bound by 1e-6 here: objects have a common affinity that is next to nothing."""
    network, images = small()
    network.part_whole.raw_affinity.data.fill_(-50.0)
    start = network.middle(images).objects
    moves = {}
    for optimiser, rate in (("sgd", 1e-3), ("adam", 0.05)):
        found = climb(network, images, steps=20, learning_rate=rate, optimiser=optimiser)
        moves[optimiser] = float((found.posterior.objects.log_odds - start.log_odds).abs().mean().detach())
    assert moves["sgd"] < 0.02 < 5 * moves["sgd"] < moves["adam"]


def test_climbing_no_step_is_the_encoders_answer():
    network, images = small()
    found = climb(network, images, steps=0)
    assert torch.equal(found.posterior.objects.log_odds, network.middle(images).objects.log_odds)


@pytest.mark.parametrize(
    "rule",
    [{"steps": -1}, {"learning_rate": 0.0}, {"learning_rate": -0.1}, {"samples": 0}, {"optimiser": "rmsprop"}],
    ids=str,
)
def test_a_climb_that_cannot_be_is_refused(rule):
    (name,) = rule
    with pytest.raises(ValueError, match=f"{name} must be"):
        climb(*small(), **rule)


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (lambda images: 255 * images, r"expected values of images in \[0, 1\], got .* to 25"),
        (lambda images: images - 0.5, "expected values of images in"),
        (lambda images: images * math.nan, "got nan to nan"),
        (
            lambda images: (255 * images).to(torch.uint8),
            "expected images of torch.float64, as the network is, got torch.ui",
        ),
        (lambda images: images.expand(2, 3, 9, 8), r"shape \(batch, 1, height, width\), got \(2, 3, 9, 8\)"),
        (lambda images: images[0], r"shape \(batch, 1, height, width\), got \(1, 9, 8\)"),
    ],
)
def test_images_that_cannot_be_climbed_for_are_refused(spoilt, message):
    network, images = small()
    _check(network, images)
    with pytest.raises(ValueError, match=message):
        _check(network, spoilt(images))


def test_climbing_checks_its_images_and_its_network():
    network, images = small()
    with pytest.raises(ValueError, match="expected values of images in"):
        climb(network, 255 * images)
    with pytest.raises(TypeError, match="expected a network of GenerativeCapsules, got PartWhole"):
        _check(network.part_whole, images)
