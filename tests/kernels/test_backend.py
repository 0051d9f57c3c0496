"""The choice of a back end, and the check that it has to pass."""

import math
from dataclasses import replace

import pytest
import torch

from routebench.capsules import Capsules, Votes
from routebench.capsules.layers import ConvCapsules
from routebench.errors import UserError
from routebench.kernels import BACKENDS, Sums, Sweep, backend, fused, noting, reference, sweep, trust, using, wished
from routebench.ops import Competition, Windows
from routebench.options import SuiteOptions, options_of
from routebench.routing import factory
from tests import first_calls
from tests.kernels.sweeps import SMALL_GRID, random_sweep

pytestmark = pytest.mark.skipif(bool(fused.missing(3, 5, 0)), reason=f"no kernel here: {fused.missing(3, 5, 0)}")


@pytest.fixture(autouse=True)
def no_verdicts(monkeypatch):
    monkeypatch.setattr(trust, "_verdicts", {})


def test_automatic_choice_takes_the_kernel_where_it_can():
    assert backend.choose(random_sweep()) == "fused"
    assert backend.choose(random_sweep(axis="children")) == "reference"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_batch_that_is_not_finite_or_empty_decides_nothing(value):
    asked = []

    def kernel(given):
        asked.append(given)
        return reference.dense(given)

    broken = random_sweep()
    broken.children.data[0, 0, 0] = value
    for given in (broken, random_sweep(images=0)):
        assert not trust.is_trusted("new", kernel, given)
    assert not asked
    assert trust.is_trusted("new", kernel, random_sweep())
    assert trust.is_trusted("new", kernel, broken)


@pytest.mark.parametrize("name", ["dynamic", "em"])
def test_layers_of_16_bits_pass_the_check(name):
    layer = ConvCapsules((3, 3, 2), 2, 4, 4, factory(name)).bfloat16()
    found = layer(Capsules(torch.randn(2, 3, 3, 2, 4).bfloat16(), torch.rand(2, 3, 3, 2).bfloat16()))
    assert found.poses.isfinite().all()
    assert trust._verdicts and all(trust._verdicts.values())


def test_a_wish_lasts_for_a_block():
    assert wished() == "auto"
    with using("reference"):
        assert wished() == "reference"
        assert backend.choose(random_sweep()) == "reference"
    assert wished() == "auto"


def test_a_wish_that_cannot_be_granted_is_an_error():
    with using("fused"), pytest.raises(UserError, match="no competition over 'children'; use 'auto' or 'reference'"):
        sweep(random_sweep(axis="children"))


def test_a_back_end_that_does_not_exist():
    with pytest.raises(UserError, match="unknown back end 'fusd'; did you mean 'fused'"):
        backend.use("fusd")


def test_the_command_line_knows_every_back_end():
    assert options_of(SuiteOptions)["backend"].legal.choices == BACKENDS


def test_what_was_used_is_noted():
    with noting() as outer:
        with noting() as inner, using("reference"):
            sweep(random_sweep())
        assert inner == {"reference"}
        sweep(random_sweep())
    assert outer == {"reference", "fused"}


def test_equal_sums_of_a_dense_layer_are_one_matrix_product_in_every_back_end():
    given = replace(random_sweep("uniform"), weights=None)
    with noting() as used, using("fused"):
        torch.testing.assert_close(sweep(given).first, reference.dense(given).first)
    assert used == set()


def wrong(given):
    """The reference with one element off by a thousandth of the largest."""
    sums = reference.dense(given)
    off = torch.zeros_like(sums.first)
    off[0, 0, 0] = 0.001 * sums.first.detach().abs().max()
    return Sums(sums.mass, sums.first + off, sums.second)


def wrong_gradient(given):
    """The reference whose coupling has no gradient."""
    return reference.dense(replace(given, constant_coupling=True))


def not_finite(given):
    return Sums(*(None if total is None else total * float("nan") for total in reference.dense(given)))


@pytest.mark.parametrize("kernel", [wrong, wrong_gradient, not_finite])
@pytest.mark.parametrize("windows", [None, SMALL_GRID])
def test_a_kernel_that_differs_is_not_used_and_named(kernel, windows):
    given = random_sweep(windows=windows)
    with pytest.warns(UserWarning, match="back end 'new' differs from the reference by"):
        assert not trust.is_trusted("new", kernel, given)
    assert not trust.is_trusted("new", kernel, given)  # told once


def test_a_kernel_is_checked_once_for_each_kind_of_sweep():
    asked = []

    def kernel(given):
        asked.append(given)
        return fused.sweep(given)

    for images in (5, 3):
        assert trust.is_trusted("new", kernel, random_sweep(images=images))
    assert len(asked) == 1
    assert len(asked[0].children) == trust.IMAGES
    trust.is_trusted("new", kernel, random_sweep(parents=3))
    trust.is_trusted("new", kernel, random_sweep("Gaussian"))
    assert len(asked) == 3


def test_the_check_takes_a_corner_of_a_grid():
    windows = Windows(9, 8, 3, 2, 2)
    small = trust.sample(random_sweep("Gaussian", windows=windows, axis="types+positions", orphan=True))
    assert small.competition.windows == Windows(5, 5, 3, 2, 2)
    assert (small.competition.axis, small.competition.orphan) == ("types+positions", True)
    assert small.lanes == len(small.bias) == trust.IMAGES * 4


def test_a_corner_is_made_of_the_lanes_that_see_it():
    given = random_sweep("Gaussian", windows=Windows(7, 6, 3, 2, 2))
    whole, small = reference.dense(given), reference.dense(trust.sample(given))
    corner = whole.first.unflatten(0, (5, *given.competition.windows.grid))[: trust.IMAGES, :2, :2].flatten(0, 2)
    torch.testing.assert_close(small.first, corner)


def test_sums_that_cancel_are_judged_by_the_rounding_of_the_reference():
    given = random_sweep("uniform about a centre", children=300)
    exact = reference.dense(replace(given, centre=None))
    at_the_mean = replace(given, centre=exact.first / exact.mass[..., None])
    assert trust.is_trusted("fused", fused.sweep, at_the_mean)


def test_the_check_works_without_gradients_and_leaves_no_trace():
    given = random_sweep()
    before = given.children.clone()
    with torch.inference_mode():
        assert trust.is_trusted("fused", fused.sweep, given)
    assert torch.equal(given.children, before)
    assert not given.children.requires_grad
    assert Competition().axis == given.competition.axis


@pytest.mark.parametrize("name", ["reference", "fused", "auto"])
def test_votes_of_nothing_are_refused(name):
    for below, weight in (((2, 3, 8), (3, 4, 8, 0)), ((2, 3, 8), (3, 0, 8, 8)), ((2, 0, 8), (1, 4, 8, 8))):
        with using(name), pytest.raises(ValueError, match="at least one of everything"):
            sweep(Sweep(torch.zeros(below), torch.zeros(weight), Competition()))


@pytest.mark.parametrize("name", ["reference", "fused", "auto"])
@pytest.mark.parametrize(
    ("below", "weight", "said"),
    [
        ((2, 3, 8), (3, 4, 4, 4), "weights of 8 rows for poses of 8, got 4 x 4"),
        ((2, 3, 12), (3, 4, 4, 4), "weights of 12 rows for poses of 12, got 4 x 4"),
        ((2, 3, 16), (3, 4, 4, 5), "weights of 16 rows, or 4 x 4 for poses of 16, got 4 x 5"),
        ((2, 3, 16), (3, 4, 8, 8), "weights of 16 rows, or 4 x 4 for poses of 16, got 8 x 8"),
        ((2, 3, 8), (3, 4, 7, 16), "weights of 8 rows for poses of 8, got 7 x 16"),
        ((2, 5, 8), (3, 4, 8, 16), "weights for 3 children, got 5 cells"),
        ((3, 8), (3, 4, 8, 16), "three axes and weights with four"),
        ((2, 3, 8), (3, 8, 16), "three axes and weights with four"),
    ],
)
def test_poses_and_weights_that_do_not_fit_are_refused_by_all_alike(monkeypatch, name, below, weight, said):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    for make in (Sweep, Votes):
        with using(name), pytest.raises(ValueError, match=said):
            make(torch.zeros(below), torch.zeros(weight), Competition())


@pytest.mark.parametrize(("cells", "owners"), [(59, 27), (60, 26), (120, 27), (54, 27)])
def test_cells_and_weights_that_windows_do_not_have_are_refused(cells, owners):
    with pytest.raises(ValueError, match="expected 60 cells below and weights for 27 children"):
        Sweep(torch.zeros(2, cells, 8), torch.zeros(owners, 4, 8, 6), Competition(windows=SMALL_GRID))


@pytest.mark.parametrize("moments", [0, 3, -1])
def test_there_are_one_or_two_moments(moments):
    with pytest.raises(ValueError, match="expected 1 or 2 moments"):
        replace(random_sweep(), moments=moments)


@pytest.mark.parametrize("name", ["weight", "query"])
def test_the_kernel_takes_no_tensor_of_another_device(name):
    given = random_sweep()
    assert fused.obstacle(replace(given, **{name: getattr(given, name).to("meta")})) == (
        "it runs on processors, not on meta"
    )
