"""The Triton kernels against stored votes in double precision: in the interpreter, and on a GPU if there is one."""

import importlib
import importlib.util
from dataclasses import replace

import pytest
import torch

from routebench.errors import UserError
from routebench.kernels import Sweep, reference, sweep, triton_sweep, using
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import evaluate
from routebench.ops import Competition, Windows
from tests.kernels.sweeps import KINDS, SMALL_GRID, STRIDED_GRID, largest_error, leaves, random_sweep

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.usefixtures("short_parts"),
]
CLOSE = 1e-5
GRID = Windows(3, 4, 2, 1, 1)
"""Six positions, of which every one shares cells with others."""
APART = Windows(4, 5, 2, 2, 1)
"""Four positions, and a column that nobody sees."""
SIZES = {"images": 2, "children": 3, "parents": 3}
interpreted = pytest.mark.usefixtures("interpreter")


def error(given):
    assert triton_sweep.obstacle(given) == ""
    return largest_error(triton_sweep.sweep, given)


@interpreted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", ["odd vectors", "odd matrices"])
@pytest.mark.parametrize("windows", [None, GRID], ids=["dense", "grid"])
def test_sums_and_gradients(kind, poses, windows):
    assert error(random_sweep(kind, poses, windows=windows, **SIZES)) < CLOSE


@interpreted
@pytest.mark.parametrize("kind", KINDS)
def test_children_that_are_not_there(kind):
    assert error(random_sweep(kind, absent=True, **SIZES)) < CLOSE


@interpreted
@pytest.mark.parametrize("poses", ["vectors", "matrices"])
def test_lanes_in_several_tiles(poses):
    given = random_sweep("Gaussian", poses, images=17, children=3)
    assert triton_sweep._over_children(given, live=8).grid == (3, 2)
    assert triton_sweep._over_lanes(given).grid == (3, 2)
    assert error(given) < CLOSE


@interpreted
def test_windows_that_leave_cells_out():
    given = leaves(random_sweep("query", windows=APART, **SIZES))
    assert error(given) < CLOSE
    (gradient,) = torch.autograd.grad(triton_sweep.sweep(given).first.sum(), given.children)
    unseen = gradient.unflatten(1, (4, 5))[:, :, 4]
    assert torch.equal(unseen, torch.zeros_like(unseen))


@interpreted
@pytest.mark.parametrize("kind", ["query", "Gaussian"])
@pytest.mark.parametrize("orphan", [False, True], ids=["", "orphan"])
@pytest.mark.parametrize("axis", ["types+positions", "positions"])
def test_competition_between_positions(kind, orphan, axis):
    given = random_sweep(kind, windows=GRID, axis=axis, orphan=orphan, **SIZES)
    assert error(given) < CLOSE


@interpreted
@pytest.mark.parametrize("kind", KINDS)
def test_competition_of_the_positions_of_each_type(kind):
    given = random_sweep(kind, "odd matrices", windows=GRID, axis="positions", offset=True, constant=True, **SIZES)
    assert error(given) < CLOSE


@interpreted
@pytest.mark.parametrize(("axis", "windows"), [("positions", None), ("types+positions", None), ("none", GRID)])
def test_other_axes(axis, windows):
    assert error(random_sweep("query", axis=axis, windows=windows, **SIZES)) < CLOSE


@interpreted
@pytest.mark.parametrize("axis", ["positions", "children"])
def test_equal_coupling_over_any_axis(axis):
    assert error(random_sweep("uniform about a centre", axis=axis, windows=GRID, **SIZES)) < CLOSE


@interpreted
def test_single_precision_sums_of_half_precision_inputs_are_not_rounded():
    rounded = random_sweep("Gaussian", **SIZES)
    rounded = leaves(rounded, torch.bfloat16)
    exact = reference.dense(leaves(rounded, torch.float64))
    torch.testing.assert_close(triton_sweep.sweep(rounded).first.double(), exact.first, rtol=1e-5, atol=1e-5)


@interpreted
def test_the_same_bits_every_time():
    given = random_sweep("Gaussian", "odd matrices", images=5, children=5)
    one, two = (evaluate(triton_sweep.sweep, leaves(given)) for _ in range(2))
    assert all(torch.equal(first, second) for first, second in zip(one, two, strict=True))


@interpreted
def test_an_input_that_was_changed_in_between_is_noticed():
    given = leaves(random_sweep(**SIZES))
    first = triton_sweep.sweep(given).first
    with torch.no_grad():
        given.query.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first.sum().backward()


@interpreted
def test_the_back_end_can_be_asked_for_by_name():
    given = random_sweep(**SIZES)
    with using("triton"):
        torch.testing.assert_close(sweep(given).first, reference.dense(given).first)


def test_obstacles(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    given = random_sweep()
    assert triton_sweep.obstacle(given) == "tensors are on 'cpu', and not on 'cuda'"
    with using("triton"), pytest.raises(UserError, match="'triton' cannot do this sweep: tensors are on 'cpu'"):
        sweep(given)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert triton_sweep.obstacle(given) == ""
    assert triton_sweep.obstacle(leaves(given, torch.float64)) == "torch.float64 is not supported"
    assert triton_sweep.obstacle(replace(given, query=given.query.double())) == "torch.float64 is not supported"
    assert triton_sweep.obstacle(random_sweep(axis="children")) == "competition over 'children' is not supported"
    assert triton_sweep.obstacle(random_sweep(axis="positions", windows=GRID)) == ""
    assert triton_sweep.obstacle(random_sweep("uniform", axis="children")) == ""
    assert triton_sweep.obstacle(random_sweep(images=0)) == "the batch is empty"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert triton_sweep.obstacle(given) == "triton is not installed"


@pytest.mark.parametrize(("parents", "pose_in"), [(1, 33), (513, 2)])
def test_weights_that_fit_no_registers_are_an_obstacle(monkeypatch, parents, pose_in):
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def given(parents, pose_in):
        query = torch.zeros(1, parents, 16)
        weight = torch.zeros(1, parents, pose_in, 16)
        return Sweep(torch.zeros(1, 1, pose_in), weight, Competition("types"), query=query)

    assert "are too many for the registers" in triton_sweep.obstacle(given(parents, pose_in))
    assert triton_sweep.obstacle(given(max(parents - 1, 1), min(pose_in, 32))) == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("poses", ["vectors", "odd matrices"])
@pytest.mark.parametrize("windows", [None, SMALL_GRID, STRIDED_GRID], ids=["dense", "overlapping", "apart"])
@pytest.mark.parametrize("axis", ["types+positions", "positions"])
def test_on_a_gpu(kind, poses, windows, axis):
    sizes = {"images": 65, "children": 70, "parents": 10}
    given = random_sweep(kind, poses, windows=windows, axis=axis, orphan=axis == "positions", **sizes)
    present = {name: value.cuda() for name in INPUTS if (value := getattr(given, name)) is not None}
    assert error(replace(given, **present)) < CLOSE
