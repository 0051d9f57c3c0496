"""The routing layer of one's own network."""

import copy
import subprocess
import sys

import pytest
import torch

from routebench import kernels
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.errors import UserError
from routebench.registry import routing
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
        (("dynamic", 0, 4, 8, 16), {}, "^children: expected an integer of at least 1, got 0$"),
        (("dynamic", 6.0, 4, 8, 16), {}, "^children: expected an integer of at least 1, got 6.0$"),
        (("dynamic", 6, -1, 8, 16), {}, "^parents: expected an integer of at least 1, got -1$"),
        (("dynamic", 6, 4, 0, 16), {}, "^pose_in: expected an integer of at least 1, got 0$"),
        (("dynamic", 6, 4, 8, 0), {}, "^pose: expected an integer of at least 1, got 0$"),
        (("dynamic", 6, 4, 8, 16), {"weight_std": 0}, "^weight_std: expected a number above 0 or none, got 0$"),
        (("dynamic", 6, 4, 8, 16), {"weight_std": -1.0}, "^weight_std: expected a number above 0 or none, got -1.0$"),
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


WRONG = """
import numpy as np
import torch
from routebench.routing import RoutingLayer

layer, x, there = RoutingLayer("em", 6, 4, 8, 16), torch.randn(3, 6, 8), torch.ones(3, 6, dtype=torch.bool)
calls = [
    lambda: layer(x.numpy()),
    lambda: layer(x[0]),
    lambda: layer(x[:, :5]),
    lambda: layer(x.long()),
    lambda: layer(x.double()),
    lambda: layer(x.half()),
    lambda: copied().double()(x),
    lambda: copied().bfloat16()(x.bfloat16()),
    lambda: layer(x, there[0]),
    lambda: layer(x, there[:, :5]),
    lambda: layer(x, there.float()),
    lambda: layer(x, there.tolist()),
    lambda: layer(x, activations=x[0, :, 0]),
    lambda: layer(x, activations=there.long()),
]
def copied():
    return RoutingLayer("em", 6, 4, 8, 16)
for call in calls:
    try:
        call()
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error, sep=": ")
"""
POSES, PADDED = (
    "expected poses as a tensor (batch, 6, 8) in float32",
    "; pad items with fewer children, and give a mask",
)
SHORT = "expected weights in float32 or float64, got bfloat16; keep this layer in float32 (`layer.float()`), and use"
TOLD = f"""\
TypeError: RoutingLayer: {POSES}, got ndarray
ValueError: RoutingLayer: {POSES}, got (6, 8) in float32
ValueError: RoutingLayer: {POSES}, got (3, 5, 8) in float32{PADDED}
ValueError: RoutingLayer: {POSES}, got (3, 6, 8) in int64; convert it with .to(torch.float32)
ValueError: RoutingLayer: {POSES}, got (3, 6, 8) in float64; convert it with .to(torch.float32)
ValueError: RoutingLayer: {POSES}, got (3, 6, 8) in float16; convert it with .to(torch.float32)
ValueError: RoutingLayer: {POSES[:-2]}64, got (3, 6, 8) in float32; convert it with .to(torch.float64)
ValueError: RoutingLayer: {SHORT} torch.autocast for the others
ValueError: RoutingLayer: expected mask as a tensor (3, 6) in bool, got (6,) in bool
ValueError: RoutingLayer: expected mask as a tensor (3, 6) in bool, got (3, 5) in bool
ValueError: RoutingLayer: expected mask as a tensor (3, 6) in bool, got (3, 6) in float32; true where a child is there
TypeError: RoutingLayer: expected mask as a tensor (3, 6) in bool, got list
ValueError: RoutingLayer: expected activations as a tensor (3, 6) in float32, got (6,) in float32
ValueError: RoutingLayer: expected activations as a tensor (3, 6) in float32, got (3, 6) in int64; convert it with \
.to(torch.float32)
"""


def test_what_is_given_is_told_as_it_was_given():
    done = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, check=True)
    assert done.stdout == TOLD  # tests check shapes themselves


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("method", sorted(routing))
@pytest.mark.filterwarnings("ignore:var_mean:UserWarning")  # of no votes at all
def test_few_children_few_parents_and_an_empty_batch(method, backend):
    if obstacle := kernels.unavailable(backend, torch.device("cpu")):
        pytest.skip(obstacle)
    for batch, children, parents in ((3, 1, 4), (3, 6, 1), (3, 1, 1), (1, 6, 4), (0, 6, 4)):
        layer = RoutingLayer(method, children, parents, 8, 16)
        poses = torch.randn(batch, children, 8, requires_grad=True)
        with kernels.using(backend):
            found = layer.capsules(poses)
            (found.poses.sum() + found.activations.sum()).backward()
        assert found.poses.shape == (batch, parents, 16) and found.activations.shape == (batch, parents)
        given = [one.grad for one in layer.parameters() if one.grad is not None]
        assert all(bool(one.isfinite().all()) for one in (found.poses, poses.grad, *given, *layer.buffers()))
        assert batch or not any(bool(one.any()) for one in given)


@pytest.mark.parametrize("method", ["dynamic", "em", "slot-attention", "variational-bayes"])
def test_double_precision_and_autocast(method):
    layer = RoutingLayer(method, 6, 4, 8, 5).eval()
    poses, mask = torch.randn(3, 6, 8), torch.arange(6) < torch.tensor([[6], [3], [0]])
    double = copy.deepcopy(layer).double()
    expected = double.capsules(poses.double(), mask)
    assert expected.poses.dtype == expected.activations.dtype == torch.float64
    assert torch.allclose(layer(poses, mask).double(), expected.poses, rtol=1e-4, atol=1e-5)
    assert torch.autograd.gradcheck(lambda given: double(given, mask), poses.double().requires_grad_())
    rounded = poses.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(rounded, mask)
    assert found.dtype == torch.float32 and torch.equal(found, layer(rounded.float(), mask))


@pytest.mark.parametrize("method", sorted(routing))
def test_it_is_kept_copied_and_frozen_like_any_layer(method):
    layer, poses = RoutingLayer(method, 6, 4, 8, 16), torch.randn(3, 6, 8)
    layer(poses)  # running statistics
    layer.eval()
    expected = layer(poses)
    assert torch.equal(copy.deepcopy(layer)(poses), expected)
    other = RoutingLayer(method, 6, 4, 8, 16).eval()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(poses), expected)
    other.requires_grad_(False)
    assert torch.equal(other(poses), expected) and not other(poses).requires_grad
    given = poses.clone().requires_grad_()
    other(given).square().sum().backward()
    assert bool(given.grad.isfinite().all())
