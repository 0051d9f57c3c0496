"""The fused kernel against stored votes in double precision."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from routebench.kernels import fused, reference, using
from routebench.kernels.compiler import library
from routebench.kernels.layout import pack
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import evaluate
from routebench.ops import Competition
from routebench.routing import make
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
from tests.references.problem import dense, dense_matrices, disturb, gradients, on_grid, routed_by

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [False, True])
def test_children_that_are_not_there(kind, offset):
    assert largest_error(fused.sweep, random_sweep(kind, images=9, absent=True, offset=offset)) < CLOSE


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


def test_one_parent_has_all_of_every_child():
    given = random_sweep("query", parents=1)
    assert torch.equal(fused.sweep(given).mass, torch.full((5, 1), 6.0))


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


PROBLEMS = {"dense": dense, "matrices": dense_matrices, "grid": on_grid}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("name", ["dynamic", "em", "inverted-attention"])
@pytest.mark.parametrize("axis", BETWEEN_POSITIONS)
def test_methods_have_the_same_parents_and_gradients(name, iterations, problem, axis):
    exact = PROBLEMS[problem]()
    method = disturb(make(name, exact.sizes, iterations=iterations).double())
    method.competition = axis
    expected = routed_by(method, exact)
    right = gradients([expected.poses, expected.activations], exact.leaves())
    single = type(exact)(*(leaf.detach().float() for leaf in exact.leaves()), exact.windows)
    method.float()
    with using("fused"):
        found = routed_by(method, single)
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
