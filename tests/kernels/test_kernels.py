"""What holds for every kernel, against stored votes in double precision; Triton's run in its interpreter."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch

from routebench.kernels import Sums, Sweep, fused, reference, triton_sweep
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import evaluate
from routebench.ops import Windows
from tests.kernels.sweeps import KINDS, largest_error, leaves, random_sweep

CLOSE = 1e-5
GRID = Windows(3, 4, 2, 1, 1)
"""Six positions, of which every one shares cells with others."""


@dataclass(frozen=True)
class Kernel:
    """How it sweeps, and what its problems have instead of the usual sizes."""

    sweep: Callable[[Sweep], Sums]
    sizes: dict[str, int]

    def error(self, given: Sweep) -> float:
        return largest_error(self.sweep, given)


@pytest.fixture
def kernel(request) -> Kernel:
    if request.param == "fused":
        if reason := fused.missing(8, 16, 0):
            pytest.skip(f"no kernel here: {reason}")
        return Kernel(fused.sweep, {})
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed")
    request.getfixturevalue("interpreter")
    request.getfixturevalue("short_parts")
    return Kernel(triton_sweep.sweep, {"images": 2, "children": 3, "parents": 3})  # the interpreter is slow


both = pytest.mark.parametrize("kernel", ["fused", "triton"], indirect=True)


def over_kinds(*interpreted: str) -> pytest.MarkDecorator:
    """All kinds of sweeps, of which only these are interpreted."""
    given = [*(("fused", kind) for kind in KINDS), *(("triton", kind) for kind in interpreted)]
    return pytest.mark.parametrize(("kernel", "kind"), given, indirect=["kernel"])


@over_kinds("query", "Gaussian")
@pytest.mark.parametrize("option", ["orphan", "offset", "constant"])
def test_options(kernel, kind, option):
    assert kernel.error(random_sweep(kind, **kernel.sizes, **{option: True})) < CLOSE


@both
@pytest.mark.parametrize("present", [("query", "bias"), ("query", "curvature"), ("bias",), ("query", "centre")])
@pytest.mark.parametrize("moments", [1, 2])
def test_parts_of_a_sweep_alone(kernel, present, moments):
    full = random_sweep("Gaussian", **kernel.sizes)
    absent = dict.fromkeys({"curvature", "bias", "centre", "weights"} - set(present))
    query = torch.randn_like(full.centre) if "query" in present else None
    assert kernel.error(replace(full, **absent, query=query, moments=moments)) < CLOSE


@over_kinds("uniform", "query", "Gaussian")
@pytest.mark.parametrize("sizes", [{"children": 1}, {"parents": 1}, {"images": 1, "children": 1, "parents": 1}])
def test_one_of_a_kind(kernel, kind, sizes):
    assert kernel.error(random_sweep(kind, **{"images": 3, **kernel.sizes, **sizes})) < CLOSE


@over_kinds("query", "Gaussian")
def test_poses_of_zero(kernel, kind):
    given = random_sweep(kind, **kernel.sizes)
    given = replace(given, children=torch.zeros_like(given.children))
    exact, found = (evaluate(way, leaves(given)) for way in (reference.dense, kernel.sweep))
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


@both
@pytest.mark.parametrize(
    ("scale", "axis", "windows"),
    [
        (1e-6, "types", None),
        (1e-6, "types", GRID),
        (1e4, "types", GRID),
        (1e4, "types+positions", GRID),
        (1e4, "positions", GRID),
    ],
    ids=["tiny", "tiny on a grid", "huge", "huge between positions", "huge between positions of a type"],
)
def test_tiny_and_huge_poses(kernel, scale, axis, windows):
    given = random_sweep("query", windows=windows, axis=axis, scale=scale, **kernel.sizes)  # huge: coupling is 0 or 1
    found, expected = (list(way(given))[:2] for way in (kernel.sweep, reference.dense))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-9)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in evaluate(kernel.sweep, leaves(given)))


@both
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of the interpreter
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("orphan", [False, True])
def test_what_is_not_finite_stays_visible_and_where_it_is(kernel, bad, orphan):
    given = random_sweep("query", orphan=orphan, **kernel.sizes)
    given.children[0, 0, 0] = bad
    first = kernel.sweep(given).first
    assert not bool(torch.isfinite(first[0]).all())
    assert bool(torch.isfinite(first[1:]).all())


@over_kinds("Gaussian")
def test_inputs_that_are_not_contiguous(kernel, kind):
    given = random_sweep(kind, offset=True, **kernel.sizes)
    present = {name: value for name in INPUTS if (value := getattr(given, name)) is not None}
    turned = {name: value.transpose(0, -1).contiguous().transpose(0, -1) for name, value in present.items()}
    assert not any(value.is_contiguous() for value in turned.values())
    assert kernel.error(replace(given, **turned)) < CLOSE


@over_kinds("query, two moments", "Gaussian")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_inputs_are_computed_in_single(kernel, kind, dtype):
    rounded = leaves(random_sweep(kind, **kernel.sizes), dtype)
    exact = evaluate(reference.dense, leaves(rounded, torch.float64))
    found = evaluate(kernel.sweep, leaves(rounded))
    sums = 3 if rounded.moments == 2 else 2
    assert {value.dtype for value in found[:sums]} == {torch.float32}
    assert {value.dtype for value in found[sums:]} == {dtype}
    for mine, right in zip(found, exact, strict=True):
        assert (mine.double() - right).abs().max() < 1e-2 * right.abs().max()


@both
def test_only_wanted_gradients(kernel):
    given = leaves(random_sweep("Gaussian", **kernel.sizes))
    full = kernel.sweep(given)
    present = [name for name in INPUTS if getattr(given, name) is not None]
    for name in ("children", "weight", "bias", "weights"):
        (alone,) = torch.autograd.grad(full.first.sum() + full.second.sum(), getattr(given, name), retain_graph=True)
        sums = kernel.sweep(replace(given, **{k: getattr(given, k).detach() for k in present if k != name}))
        (found,) = torch.autograd.grad(sums.first.sum() + sums.second.sum(), getattr(given, name))
        assert torch.equal(found, alone)


@both
@pytest.mark.parametrize("used", ["mass", "first", "second"])
def test_unused_sums_have_no_gradient(kernel, used):
    given, stored = (leaves(one) for one in [random_sweep("Gaussian", **kernel.sizes)] * 2)
    for way, leaf in ((kernel.sweep, given), (reference.dense, stored)):
        torch.autograd.backward(getattr(way(leaf), used).square().sum())
    for name in ("children", "weight", "curvature", "bias", "centre", "weights"):
        torch.testing.assert_close(getattr(given, name).grad, getattr(stored, name).grad, rtol=1e-4, atol=1e-4)


@over_kinds("uniform", "query")
def test_gradient_of_the_gradient(kernel, kind):
    def second(sweep, given):
        first = sum(total.sin().sum() for total in sweep(given) if total is not None)
        (gradient,) = torch.autograd.grad(first, given.weight, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [given.children, given.weight])

    given = random_sweep(kind, **kernel.sizes)
    exact = second(reference.dense, leaves(given, torch.float64))
    for mine, right in zip(second(kernel.sweep, leaves(given)), exact, strict=True):
        assert float((mine.double() - right).abs().max()) < 1e-4 * float(right.abs().max())
