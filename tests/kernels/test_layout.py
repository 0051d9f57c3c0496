"""How the fused kernel lays out children: once for all iterations, and again when they change."""

import numpy as np
import pytest
import torch

from routebench.capsules import Capsules, Votes
from routebench.capsules.layers import DenseCapsules
from routebench.kernels import fused, reference, using
from routebench.kernels.compiler import library
from routebench.kernels.layout import pack, unpack
from routebench.routing import factory
from tests.kernels.sweeps import random_sweep

pytestmark = pytest.mark.skipif(bool(fused.missing(8, 16, 0)), reason=f"no kernel here: {fused.missing(8, 16, 0)}")


@pytest.fixture
def laid_out(monkeypatch):
    """Shapes of what is packed."""
    shapes = []
    original = fused.pack
    monkeypatch.setattr(fused, "pack", lambda values, kernel: shapes.append(values.shape) or original(values, kernel))
    return shapes


@pytest.mark.parametrize("name", ["dynamic", "em", "inverted-attention", "variational-bayes", "slot-attention"])
def test_children_are_laid_out_once_for_all_iterations_of_one_routing(name, laid_out):
    layer = DenseCapsules(6, 4, 3, 5, factory(name, iterations=5))
    children = Capsules(torch.randn(2, 6, 3, requires_grad=True), torch.rand(2, 6))
    with using("fused"):
        torch.autograd.backward(layer(children).poses.square().sum())
        assert laid_out.count((2, 6, 3)) == 1
        layer(children)
    assert laid_out.count((2, 6, 3)) == 2


def fused_adam(poses):
    poses.grad = torch.ones_like(poses)
    torch.optim.Adam([poses], lr=1.0, fused=True).step()


WAYS_TO_CHANGE = {
    "data.copy_": lambda poses: poses.data.copy_(torch.randn_like(poses)),
    "new data": lambda poses: setattr(poses, "data", torch.randn_like(poses)),
    "numpy": lambda poses: np.copyto(poses.detach().numpy(), 2.0),
    "vector_to_parameters": lambda poses: torch.nn.utils.vector_to_parameters(torch.randn(poses.numel()), [poses]),
    "fused Adam": fused_adam,
    "in place": lambda poses: poses.detach().mul_(2),
}


@pytest.mark.parametrize("way", WAYS_TO_CHANGE)
def test_a_layer_sees_every_change_of_its_children(way):
    layer = DenseCapsules(6, 4, 3, 5, factory("em"))
    poses, activations = torch.nn.Parameter(torch.randn(2, 6, 3)), torch.rand(2, 6)
    before = layer(Capsules(poses, activations)).poses
    WAYS_TO_CHANGE[way](poses)
    with using("fused"):
        found = layer(Capsules(poses, activations)).poses
    with using("reference"):
        torch.testing.assert_close(found, layer(Capsules(poses, activations)).poses, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, before)


def test_children_that_change_between_sweeps_of_the_same_votes_are_laid_out_again():
    given = random_sweep()
    votes = Votes(given.children, given.weight, given.competition)
    before = votes.sweep(given.query).first
    given.children.mul_(2)
    torch.testing.assert_close(votes.sweep(given.query).first, reference.dense(given).first, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(votes.sweep(given.query).first, before)


def test_inference_tensors_are_never_out_of_date():
    with torch.inference_mode():
        given = random_sweep()
        votes = Votes(given.children, given.weight, given.competition)
        votes.sweep(given.query)
        given.children.mul_(2)
        torch.testing.assert_close(votes.sweep(given.query).first, reference.dense(given).first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("images", [1, 7, 8, 37])
def test_images_side_by_side_and_apart_again(images):
    kernel = library(3, 5, 0)
    side_by_side = kernel.lanes_in_a_block()
    values = torch.randn(images, 3, 5)
    packed = pack(values, kernel)
    padded = torch.cat([values, values.new_zeros(-images % side_by_side, 3, 5)])
    assert torch.equal(packed, padded.unflatten(0, (-1, side_by_side)).movedim(1, -1))
    assert torch.equal(unpack(packed, images, kernel), values)
