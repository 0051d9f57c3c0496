"""The fused kernel against stored votes in double precision."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from routebench.capsules import Capsules, Votes
from routebench.capsules.layers import DenseCapsules
from routebench.kernels import fused, reference, using
from routebench.kernels.compiler import library
from routebench.kernels.layout import pack, unpack
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import evaluate
from routebench.ops import Competition
from routebench.routing import factory, make
from tests.kernels.sweeps import (
    KINDS,
    POSES,
    SMALL_GRID,
    STRIDED_GRID,
    UNEVEN_GRID,
    largest_error,
    leaves,
    random_sweep,
)
from tests.references.problem import dense, dense_matrices, disturb, gradients, on_grid

pytestmark = pytest.mark.skipif(bool(fused.missing(8, 16, 0)), reason=f"no kernel here: {fused.missing(8, 16, 0)}")
CLOSE = 1e-5
BETWEEN_POSITIONS = ("types+positions", "positions")
GRIDS = {"dense": None, "overlapping": SMALL_GRID, "apart": STRIDED_GRID, "uneven": UNEVEN_GRID}
COMPETITIONS = [
    pytest.param(axis, windows, orphan, id=f"{axis}-{name}{'-orphan' * orphan}")
    for axis, (name, windows), orphan in product(BETWEEN_POSITIONS, GRIDS.items(), (False, True))
    if orphan or (axis, name) != ("positions", "apart")  # where coupling is 1 and many gradients are 0
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", POSES)
@pytest.mark.parametrize("windows", [None, SMALL_GRID, STRIDED_GRID], ids=["dense", "overlapping", "apart"])
@pytest.mark.parametrize("images", [1, 9, 26])  # less than a register, one more than one, three and a bit
def test_sums_and_gradients(kind, poses, windows, images):
    assert largest_error(fused.sweep, random_sweep(kind, poses, windows=windows, images=images)) < CLOSE


@pytest.mark.parametrize("kind", ["query", "Gaussian"])
@pytest.mark.parametrize(("axis", "windows", "orphan"), COMPETITIONS)
def test_competition_between_positions(kind, windows, orphan, axis):
    given = random_sweep(kind, windows=windows, axis=axis, orphan=orphan, images=9)
    assert largest_error(fused.sweep, given) < CLOSE


def test_the_only_position_that_sees_a_child_has_all_of_it():
    given = leaves(random_sweep("Gaussian", windows=STRIDED_GRID, axis="positions", images=9))
    found = fused.sweep(given)
    torch.testing.assert_close(found.mass, given.weights.sum(dim=1, keepdim=True).expand(-1, 4))
    torch.autograd.backward(found.first.sum() + found.second.sum())
    for name in ("curvature", "bias"):  # no logit changes a coupling of 1
        gradient = getattr(given, name).grad
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", POSES)
@pytest.mark.parametrize("constant", [False, True], ids=["", "constant"])
def test_competition_of_the_positions_of_each_type(kind, poses, constant):
    given = random_sweep(kind, poses, windows=SMALL_GRID, axis="positions", images=17, offset=True, constant=constant)
    assert largest_error(fused.sweep, given) < CLOSE


@pytest.mark.parametrize("option", ["orphan", "offset", "constant"])
@pytest.mark.parametrize("kind", KINDS)
def test_options(kind, option):
    assert largest_error(fused.sweep, random_sweep(kind, **{option: True})) < CLOSE


@pytest.mark.parametrize("present", [("query", "bias"), ("query", "curvature"), ("bias",), ("query", "centre")])
@pytest.mark.parametrize("moments", [1, 2])
def test_parts_of_a_sweep_alone(present, moments):
    full = random_sweep("Gaussian")
    absent = dict.fromkeys({"curvature", "bias", "centre", "weights"} - set(present))
    given = replace(
        full, **absent, query=torch.randn_like(full.centre) if "query" in present else None, moments=moments
    )
    assert largest_error(fused.sweep, given) < CLOSE


@pytest.mark.parametrize("sizes", [{"children": 1}, {"parents": 1}, {"images": 1, "children": 1, "parents": 1}])
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_a_kind(kind, sizes):
    assert largest_error(fused.sweep, random_sweep(kind, **{"images": 3, **sizes})) < CLOSE


def test_one_parent_has_all_of_every_child():
    given = random_sweep("query", parents=1)
    assert torch.equal(fused.sweep(given).mass, torch.full((5, 1), 6.0))


@pytest.mark.parametrize("kind", KINDS)
def test_poses_of_zero(kind):
    given = random_sweep(kind)
    given = replace(given, children=torch.zeros_like(given.children))
    exact, found = (evaluate(way, leaves(given)) for way in (reference.dense, fused.sweep))
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_tiny_and_huge_poses(scale):
    given = random_sweep("query", scale=scale)  # with the huge ones, coupling is 0 or 1
    torch.testing.assert_close(list(fused.sweep(given))[:2], list(reference.dense(given))[:2], rtol=1e-4, atol=1e-9)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in evaluate(fused.sweep, leaves(given)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("orphan", [False, True])
def test_what_is_not_finite_stays_visible(bad, orphan):
    given = random_sweep("query", orphan=orphan)
    given.children[0, 0, 0] = bad
    assert not bool(torch.isfinite(fused.sweep(given).first[0]).all())
    assert bool(torch.isfinite(fused.sweep(given).first[1:]).all())


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_are_not_contiguous(kind):
    given = random_sweep(kind)
    turned = {
        name: value.transpose(0, -1).contiguous().transpose(0, -1)
        for name in INPUTS
        if (value := getattr(given, name)) is not None
    }
    assert not any(value.is_contiguous() for value in turned.values())
    assert largest_error(fused.sweep, replace(given, **turned)) < CLOSE


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_inputs_are_computed_in_single(kind):
    rounded = leaves(random_sweep(kind, "vectors"), torch.bfloat16)
    exact = evaluate(reference.dense, leaves(rounded, torch.float64))
    found = evaluate(fused.sweep, leaves(rounded))
    sums = 3 if rounded.moments == 2 else 2
    assert {value.dtype for value in found[:sums]} == {torch.float32}
    assert {value.dtype for value in found[sums:]} == {torch.bfloat16}
    torch.testing.assert_close([value.double() for value in found], exact, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("axis", ["types", *BETWEEN_POSITIONS])
@pytest.mark.parametrize("kind", KINDS)
def test_two_threads_give_what_one_gives(kind, axis):
    given = random_sweep(kind, windows=SMALL_GRID, axis=axis, images=9)
    one = evaluate(fused.sweep, leaves(given))
    torch.set_num_threads(2)
    try:
        two, again = evaluate(fused.sweep, leaves(given)), evaluate(fused.sweep, leaves(given))
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(first, second) for first, second in zip(two, again, strict=True))


def test_only_wanted_gradients():
    given = leaves(random_sweep("Gaussian"))
    full = fused.sweep(given)
    for name in ("children", "weight", "bias", "weights"):
        (alone,) = torch.autograd.grad(full.first.sum() + full.second.sum(), getattr(given, name), retain_graph=True)
        only = replace(
            given,
            **{
                other: getattr(given, other).detach()
                for other in INPUTS
                if other != name and getattr(given, other) is not None
            },
        )
        sums = fused.sweep(only)
        (found,) = torch.autograd.grad(sums.first.sum() + sums.second.sum(), getattr(given, name))
        assert torch.equal(found, alone)


def test_unused_sums_have_no_gradient():
    given = leaves(random_sweep("Gaussian"))
    torch.autograd.backward(fused.sweep(given).mass.sum())
    stored = leaves(given)
    torch.autograd.backward(reference.dense(stored).mass.sum())
    torch.testing.assert_close(given.bias.grad, stored.bias.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_the_gradient(kind):
    def second(sweep, given):
        first = sum(total.sin().sum() for total in sweep(given) if total is not None)
        (gradient,) = torch.autograd.grad(first, given.weight, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [given.children, given.weight])

    given = random_sweep(kind)
    exact = second(reference.dense, leaves(given, torch.float64))
    for mine, right in zip(second(fused.sweep, leaves(given)), exact, strict=True):
        assert float((mine.double() - right).abs().max()) < 1e-4 * float(right.abs().max())


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


PROBLEMS = {"dense": dense, "matrices": dense_matrices, "grid": on_grid}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("name", ["dynamic", "em", "inverted-attention"])
@pytest.mark.parametrize("axis", BETWEEN_POSITIONS)
def test_methods_have_the_same_parents_and_gradients(name, iterations, problem, axis):
    exact = PROBLEMS[problem]()
    method = disturb(make(name, exact.sizes, iterations=iterations).double())
    method.competition = axis
    expected = method(*exact.given_to(method))
    right = gradients([expected.poses, expected.activations], exact.leaves())
    single = type(exact)(*(leaf.detach().float() for leaf in exact.leaves()), exact.windows)
    method.float()
    with using("fused"):
        found = method(*single.given_to(method))
        outputs = [None if value is None else value.double() for value in (found.poses, found.activations)]
        ours = gradients(outputs, single.leaves())
    torch.testing.assert_close(found.poses.double(), expected.poses, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(ours, right, strict=True):
        assert float((mine.double() - theirs).abs().max()) <= 1e-4 * float(theirs.abs().max())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"children": torch.zeros(2, 6, 3, dtype=torch.float64)}, "single precision"),
        ({"competition": Competition("children")}, "no competition over 'children'"),
        ({"competition": Competition("none")}, "no competition over 'none'"),
        ({"children": torch.zeros(2, 6, 3, device="meta")}, "runs on processors, not on meta"),
    ],
)
def test_obstacles(change, told):
    assert told in fused.obstacle(replace(random_sweep(images=2), **change))


def test_no_obstacle():
    assert fused.obstacle(random_sweep()) == ""
    assert fused.obstacle(random_sweep(axis="positions", windows=SMALL_GRID)) == ""


@pytest.mark.parametrize("name", ["query", "curvature", "bias", "centre", "weights"])
def test_a_tensor_of_another_shape_is_refused_before_a_kernel_sees_it(name):
    given = random_sweep("Gaussian")
    broken = replace(given, query=torch.randn_like(given.centre))
    object.__setattr__(broken, name, getattr(broken, name)[..., :1])  # past what tests check in signatures
    with pytest.raises(ValueError, match=f"expected {name} of shape"):
        broken.__post_init__()


def test_views_that_start_anywhere():
    given = random_sweep("Gaussian", images=16, parents=1, children=1)
    shifted = {
        name: torch.cat([value[:1], value])[1:] for name in INPUTS if (value := getattr(given, name)) is not None
    }
    assert any(value.data_ptr() % 64 for value in shifted.values())
    assert largest_error(fused.sweep, replace(given, **shifted)) < CLOSE
    kernel = library(3, 5, 0)
    assert all(pack(value, kernel).data_ptr() % 64 == 0 for value in shifted.values() if value.ndim == 2)


@pytest.mark.parametrize("images", [1, 7, 8, 37])
def test_images_side_by_side_and_apart_again(images):
    kernel = library(3, 5, 0)
    side_by_side = kernel.lanes_in_a_block()
    values = torch.randn(images, 3, 5)
    packed = pack(values, kernel)
    padded = torch.cat([values, values.new_zeros(-images % side_by_side, 3, 5)])
    assert torch.equal(packed, padded.unflatten(0, (-1, side_by_side)).movedim(1, -1))
    assert torch.equal(unpack(packed, images, kernel), values)


@pytest.mark.parametrize("axis", ["types", *BETWEEN_POSITIONS])
def test_large_logits_keep_the_sum_of_coupling(axis):
    given = random_sweep("query", windows=SMALL_GRID, axis=axis, images=9)
    given = replace(given, query=torch.zeros_like(given.query), bias=torch.full((given.lanes, 4), 1e6))
    torch.testing.assert_close(fused.sweep(given).mass, reference.dense(given).mass, rtol=1e-5, atol=1e-5)


def test_another_default_type_changes_nothing():
    given = random_sweep("Gaussian")
    before = fused.sweep(given)
    torch.set_default_dtype(torch.float64)
    try:
        after = fused.sweep(given)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("axis", ["types", *BETWEEN_POSITIONS])
def test_an_orphan_takes_children_that_no_parent_wants(axis):
    given = random_sweep("Gaussian", windows=SMALL_GRID, axis=axis, orphan=True, images=9)
    given = replace(given, bias=torch.full_like(given.bias, -300.0))
    assert float(fused.sweep(given).mass.abs().max()) < 1e-30
