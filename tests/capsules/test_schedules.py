"""Layers one after the other, or all together."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.capsules.schedules import SCHEDULES, concurrent, sequential
from routebench.registry import routing
from routebench.routing import factory, hyperparameters_of
from tests.references.inverted_attention import update
from tests.references.problem import assert_close, disturb
from tests.references.votes import every_vote


def two_layers(name="inverted-attention", iterations=3, second=None, **params):
    """7 primary capsules, 4 capsules, 3 classes; all poses have 6 elements."""
    layers = [
        DenseCapsules(7, 4, 6, 6, factory(name, iterations=iterations, **params)),
        DenseCapsules(4, 3, 6, 6, factory(name, iterations=second or iterations, **params)),
    ]
    return [disturb(layer).double() for layer in layers]


def primary_capsules():
    return Capsules(torch.randn(2, 7, 6, dtype=torch.float64), torch.rand(2, 7, dtype=torch.float64))


def jacobi(layers, primary, iterations):
    """Procedure 2 of Tsai et al. 2020: new values of all layers from the old values of all layers."""
    weights = [layer.weight for layer in layers]
    learned = [dict(layer.routing.named_parameters()) for layer in layers]
    old = [primary, *(primary.new_zeros(2, layer.parents, 6) for layer in layers)]
    for level in (0, 1):  # the first iteration reads the fresh layer below
        old[level + 1], _ = update(old[level + 1], every_vote(old[level], weights[level]), learned[level])
    for _ in range(iterations - 1):
        new = [update(old[level + 1], every_vote(old[level], weights[level]), learned[level])[0] for level in (0, 1)]
        old = [primary, *new]
    return old


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_concurrent_routing_equals_the_transcribed_jacobi_iteration(iterations):
    layers, primary = two_layers(iterations=iterations), primary_capsules()
    found = concurrent(layers, primary)
    assert_close([capsules.poses for capsules in found], jacobi(layers, primary.poses, iterations))


@pytest.mark.parametrize("name", [name for name in routing if "schedule" in hyperparameters_of(name)])
def test_one_iteration_is_the_same_in_both_schedules_and_more_are_not(name):
    for iterations in (1, 3):
        method = factory(name, iterations=iterations)
        first = ConvCapsules((5, 5, 2), 3, 4, 4, method)
        layers = [disturb(layer).double() for layer in (first, DenseCapsules(first.grid, 4, 4, 4, method))]
        primary = Capsules(torch.randn(3, 5, 5, 2, 4).double(), torch.rand(3, 5, 5, 2).double())
        found = []
        for schedule in (sequential, concurrent):
            torch.manual_seed(1)  # for starts that are drawn
            last = schedule(layers, primary)[-1]
            found.append(torch.cat([last.poses.flatten(), last.activations.flatten()]))
        assert torch.allclose(*found) == (iterations == 1)


def test_first_layer_is_the_same_in_both_schedules():
    layers, primary = two_layers(iterations=3), primary_capsules()
    assert_close(sequential(layers, primary)[1].poses, concurrent(layers, primary)[1].poses)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_return_every_layer_with_the_primary_one_first(schedule):
    layers, primary = two_layers(), primary_capsules()
    found = SCHEDULES[schedule](layers, primary)
    assert found[0] is primary
    assert [capsules.poses.shape[1] for capsules in found] == [7, 4, 3]


def test_sequential_routing_is_one_layer_after_the_other():
    layers, primary = two_layers(), primary_capsules()
    assert_close(sequential(layers, primary)[-1].poses, layers[1](layers[0](primary)).poses)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_convolutional_and_dense_layers_can_be_mixed(schedule):
    method = factory("inverted-attention", iterations=3)
    first = ConvCapsules((4, 4, 2), 3, 6, 6, method)
    layers = [first, DenseCapsules(first.grid, 5, 6, 6, method)]
    found = SCHEDULES[schedule](layers, Capsules(torch.randn(2, 4, 4, 2, 6), torch.ones(2, 4, 4, 2)))
    assert tuple(found[1].poses.shape) == (2, 2, 2, 3, 6)
    assert tuple(found[2].poses.shape) == (2, 5, 6)


def test_concurrent_schedule_needs_single_iterations():
    layers = [DenseCapsules(7, 4, 6, 6, factory("uniform"))]
    with pytest.raises(ValueError, match="single iterations, got Uniform"):
        concurrent(layers, Capsules(torch.randn(2, 7, 6), torch.ones(2, 7)))


def test_concurrent_schedule_needs_one_number_of_iterations():
    with pytest.raises(ValueError, match=r"one number of iterations for all layers, got \[2, 3\]"):
        concurrent(two_layers(iterations=2, second=3), primary_capsules())
