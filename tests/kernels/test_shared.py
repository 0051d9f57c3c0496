"""Weights that several children share: the same sums, gradients, products and methods as with weights for each."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from routebench import kernels
from routebench.capsules import Capsules, Votes
from routebench.capsules.layers import DenseCapsules
from routebench.kernels import fused, products, reference, triton_sweep
from routebench.ops import Competition
from routebench.registry import routing
from routebench.routing import factory
from tests.kernels.sweeps import KINDS, POSES, largest_error, random_sweep

CLOSE = 1e-5
PLACES = 3


def shared(kind="query", poses="vectors", *, types=2, **given):
    """A sweep of children at three places, whose weights are those of the first place."""
    made = random_sweep(kind, poses, children=PLACES * types, **given)
    return replace(made, weight=made.weight[:types].clone())


def of_each(given):
    """Sums and gradients, of weights by owner."""
    leaves = {name: value for name in ("children", "weight", "query") if (value := getattr(given, name)) is not None}
    leaves = {name: value.double().requires_grad_() for name, value in leaves.items()}
    others = ("offset", "curvature", "bias", "centre", "weights")
    rest = {name: value.double() for name in others if (value := getattr(given, name)) is not None}
    made = replace(given, **leaves, **rest)
    return made, leaves


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", POSES)
@pytest.mark.parametrize("offset", [False, True])
def test_the_reference_is_that_of_spread_weights(kind, poses, offset):
    found, given = [], shared(kind, poses, offset=offset)
    for spread in (False, True):
        made, leaves = of_each(given)
        sums = reference.sweep(made.spread() if spread else made)
        total = sum((one * torch.linspace(-1, 1, one.numel()).view_as(one)).sum() for one in sums if one is not None)
        found.append([*(one for one in sums if one is not None), *torch.autograd.grad(total, [*leaves.values()])])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", POSES)
@pytest.mark.parametrize("types", [1, 2, 5])
@pytest.mark.parametrize("images", [1, 9, 26])
def test_the_kernel_on_a_processor(kind, poses, types, images):
    assert largest_error(fused.sweep, shared(kind, poses, types=types, images=images)) < CLOSE


@pytest.mark.parametrize("kind", KINDS)
def test_children_that_are_not_there_and_offsets(kind):
    assert largest_error(fused.sweep, shared(kind, images=9, absent=True, offset=True)) < CLOSE


def test_two_threads_give_what_one_gives():
    given = shared("Gaussian", types=6, images=20)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert largest_error(fused.sweep, given) < CLOSE
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("short_parts", "interpreter")
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_on_a_gpu(kind):
    pytest.importorskip("triton")
    assert largest_error(triton_sweep.sweep, shared(kind, images=2, parents=3)) < CLOSE


@pytest.mark.parametrize("poses", POSES)
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("common", [False, True])
def test_products_with_a_coupling_of_ones_own(poses, offset, common):
    given = shared(poses=poses, offset=offset)
    double = replace(given, children=given.children.double(), weight=given.weight.double(), query=None,
                     offset=None if given.offset is None else given.offset.double())  # fmt: skip
    lanes = 1 if common else given.lanes
    coupling = torch.rand(lanes, given.seen, 4, dtype=torch.float64)
    vectors = torch.randn(given.lanes, 4, given.pose, dtype=torch.float64)
    for make in (lambda one: products.aggregate(one, coupling), lambda one: products.agreement(one, vectors)):
        assert torch.allclose(make(double), make(double.spread()), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", sorted(routing))
def test_every_method_routes_as_with_spread_weights(method):
    torch.manual_seed(0)
    layer = DenseCapsules((4, 1, 2), 3, 8, 8, factory(method), share=True).double().eval()
    poses, present = torch.randn(5, 4, 1, 2, 8, dtype=torch.float64), torch.rand(5, 4, 1, 2, dtype=torch.float64)
    found = layer(Capsules(poses, present))
    votes, activations = layer.votes(Capsules(poses, present))
    spread = Votes(poses.flatten(1, 3), layer.weight.repeat(4, 1, 1, 1), Competition(layer.routing.competition))
    torch.manual_seed(1)
    expected = layer.routing(spread, activations)
    torch.manual_seed(1)
    again = layer.routing(votes, activations)
    assert torch.allclose(again.poses, expected.poses, rtol=1e-9, atol=1e-11)
    assert found.poses.shape == (5, 3, 8)
    assert torch.allclose(votes.dense(), spread.dense(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["dynamic", "em", "heinsen", "self-routing", "variational-bayes"])
def test_no_images_are_routed_to_none(method):
    layer = DenseCapsules((4, 1, 2), 3, 8, 8, factory(method), share=True).eval()
    assert layer(Capsules(torch.randn(0, 4, 1, 2, 8), torch.rand(0, 4, 1, 2))).poses.shape == (0, 3, 8)


def test_many_tokens_and_parents_take_no_memory_for_weights_of_each_pair():
    """196 tokens and 1,000 parents of 16: weights for each pair would be 50 million numbers, 200 MB."""
    layer = DenseCapsules((196, 1, 1), 1000, 16, 16, factory("dynamic", iterations=2), share=True)
    assert layer.weight.numel() == 1000 * 16 * 16
    largest = []
    with _noting(largest), kernels.using("fused"):
        layer(Capsules(torch.randn(1, 196, 1, 1, 16))).poses.sum().backward()
    assert max(largest) <= 16 * 1000 * 196  # the block of sixteen images that a register holds, of coupling at most


class _noting(TorchDispatchMode):  # noqa: N801  # it is used as a function
    """Notes how large the tensors are that operations give."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor):
                self.sizes.append(one.untyped_storage().nbytes() // one.element_size())
        return found


def test_weights_of_a_number_that_does_not_divide_the_children_are_refused():
    with pytest.raises(ValueError, match="expected 4 cells below and weights for 4 children, got 6 cells"):
        Votes(torch.randn(2, 6, 8), torch.randn(4, 3, 8, 8), Competition())
