"""The routing layer of one's own network."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.errors import UserError
from routebench.routing import RoutingLayer, factory


def test_it_is_the_layer_of_the_networks_here():
    torch.manual_seed(0)
    layer = RoutingLayer("em", 6, 4, 8, 16, iterations=2)
    torch.manual_seed(0)
    dense = DenseCapsules(6, 4, 8, 16, factory("em", iterations=2))
    poses, present = torch.randn(3, 6, 8), torch.rand(3, 6)
    expected = dense(Capsules(poses, present))
    found = layer.capsules(poses, activations=present)
    assert torch.equal(layer(poses, activations=present), expected.poses) and torch.equal(found.poses, expected.poses)
    assert torch.equal(found.activations, expected.activations)
    assert found.logits is not None and torch.equal(found.logits, expected.logits)


@pytest.mark.parametrize("shared", [False, True])
def test_it_takes_masks_and_learns(shared):
    layer = RoutingLayer("dynamic", 6, 4, 8, 16, shared=shared, iterations=3)
    poses = torch.randn(3, 6, 8)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1]])
    hidden = poses.masked_fill(~mask[..., None], torch.nan)
    assert torch.allclose(layer(hidden, mask), layer(poses.masked_fill(~mask[..., None], 0), mask))
    layer(hidden, mask).sum().backward()
    assert layer.layer.weight.shape[0] == (1 if shared else 6)
    assert all(bool(one.grad.isfinite().all()) and bool(one.grad.any()) for one in layer.parameters())


@pytest.mark.parametrize(
    ("arguments", "given", "expected"),
    [
        (("dynamik", 6, 4, 8, 16), {}, "did you mean 'dynamic'"),
        (("dynamic", 6, 4, 8, 16), {"iteration": 3}, "iteration"),
        (("dynamic", 6, 4, 8, 16), {"iterations": 0}, "iterations"),
    ],
)
def test_what_is_not_legal_is_refused(arguments, given, expected):
    with pytest.raises(UserError, match=expected):
        RoutingLayer(*arguments, **given)


def test_other_shapes_are_refused():
    layer = RoutingLayer("dynamic", 6, 4, 8, 16)
    with pytest.raises(ValueError, match="expected"):
        layer(torch.randn(3, 5, 8))
    with pytest.raises(ValueError, match="expected"):
        layer(torch.randn(3, 6, 7))
