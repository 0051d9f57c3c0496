"""Who competes for a child: coupling sums to one over the stated axis, and over no other."""

import pytest
import torch

from routebench.capsules import Competition, Windows
from routebench.ops import softmax_over_parents
from tests.references.competition import leaky_softmax_over_parents, on_a_grid
from tests.references.problem import assert_close, gradients
from tests.references.votes import seen_by

GRIDS = {
    "stride 1": (5, 4, 3, 1, 2),
    "stride 2": (5, 7, 3, 2, 2),
    "stride 2, last row and column unseen": (6, 6, 3, 2, 1),
    "stride above kernel": (5, 5, 1, 2, 2),
    "one window": (3, 3, 3, 1, 2),
}
IMAGES, PARENTS = 2, 3


@pytest.fixture(params=GRIDS)
def windows(request):
    return Windows(*GRIDS[request.param])


def logits_for(windows):
    shape = (IMAGES * windows.positions, windows.kernel**2 * windows.types, PARENTS)
    return (3 * torch.randn(shape, dtype=torch.float64)).requires_grad_()


def mass_of_children(coupling, windows):
    """What each child hands out, by parent type: (image, child, parent); and how often a window sees it."""
    handed_out = torch.zeros(IMAGES, windows.cells, coupling.shape[2], dtype=coupling.dtype)
    seen = torch.zeros(windows.cells, dtype=coupling.dtype)
    places = seen_by((windows.height, windows.width, windows.types), windows.kernel, windows.stride)
    for position, children in enumerate(places):
        for number, child in enumerate(children):
            seen[child] += 1
            for image in range(IMAGES):
                handed_out[image, child] += coupling.detach()[image * len(places) + position, number]
    return handed_out, seen


def test_windows_list_the_children_that_a_plain_loop_finds(windows):
    expected = seen_by((windows.height, windows.width, windows.types), windows.kernel, windows.stride)
    assert windows.index.tolist() == expected
    assert windows.positions == len(expected)


@pytest.mark.parametrize("parents", [1, 5, 15, 16, 20])
def test_few_parents_and_many_have_the_same_softmax(parents):
    logits = torch.randn(3, 7, parents, dtype=torch.float64, requires_grad=True)
    found, expected = softmax_over_parents(logits), logits.softmax(dim=2)
    assert_close(found, expected)
    of = torch.randn_like(expected)
    assert_close(torch.autograd.grad(found, logits, of), torch.autograd.grad(expected, logits, of))


@pytest.mark.parametrize("orphan", [False, True])
@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_coupling_and_gradient_equal_the_transcription(windows, axis, orphan):
    logits = logits_for(windows)
    places = seen_by((windows.height, windows.width, windows.types), windows.kernel, windows.stride)
    found = Competition(axis, windows=windows, orphan=orphan).couple(logits)
    expected = on_a_grid(places, axis, orphan)(logits)
    assert_close(found, expected)
    assert_close(gradients([found], [logits]), gradients([expected], [logits]))


def test_types_compete_at_each_position_so_that_a_child_counts_once_per_window(windows):
    coupling = Competition("types", windows=windows).couple(logits_for(windows))
    mass, seen = mass_of_children(coupling, windows)
    assert_close(mass.sum(dim=2), seen.expand(IMAGES, -1))


def test_types_and_positions_compete_so_that_a_child_hands_out_one(windows):
    coupling = Competition("types+positions", windows=windows).couple(logits_for(windows))
    mass, seen = mass_of_children(coupling, windows)
    assert_close(mass.sum(dim=2), (seen > 0).double().expand(IMAGES, -1))


def test_positions_compete_for_each_type_apart(windows):
    coupling = Competition("positions", windows=windows).couple(logits_for(windows))
    mass, seen = mass_of_children(coupling, windows)
    assert_close(mass, (seen > 0).double()[None, :, None].expand(IMAGES, -1, PARENTS))


def test_children_compete_for_each_parent(windows):
    coupling = Competition("children", windows=windows).couple(logits_for(windows)).detach()
    assert_close(coupling.sum(dim=1), torch.ones(IMAGES * windows.positions, PARENTS, dtype=torch.float64))


def test_without_competition_every_coefficient_is_one(windows):
    assert bool((Competition("none", windows=windows).couple(logits_for(windows)) == 1).all())


def test_an_interior_child_of_3_x_3_windows_hands_out_nine_under_types_and_one_under_types_and_positions():
    windows = Windows(5, 5, 3, 1, 1)
    centre = 12
    masses = {
        axis: float(
            mass_of_children(Competition(axis, windows=windows).couple(logits_for(windows)), windows)[0][
                0, centre
            ].sum()
        )
        for axis in ("types", "types+positions", "positions")
    }
    assert masses == pytest.approx({"types": 9.0, "types+positions": 1.0, "positions": PARENTS})


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_a_dense_layer_has_one_reading_of_competing_parents(axis):
    logits = torch.randn(2, 5, 3, dtype=torch.float64)
    assert_close(Competition(axis).couple(logits), logits.softmax(dim=2))


def test_orphan_takes_a_share_in_a_dense_layer():
    logits = torch.randn(2, 5, 3, dtype=torch.float64)
    assert_close(Competition(orphan=True).couple(logits), leaky_softmax_over_parents(logits))


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions", "children", "none"])
def test_uniform_coupling_is_that_of_equal_logits(windows, axis):
    competition = Competition(axis, windows=windows)
    logits = torch.zeros(IMAGES * windows.positions, windows.kernel**2 * windows.types, PARENTS, dtype=torch.float64)
    found = competition.uniform(logits, PARENTS)
    assert_close(found[..., None].expand_as(logits), competition.couple(logits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("axis", ["types", "types+positions", "positions", "children"])
def test_huge_logits_give_finite_coupling(windows, axis, dtype):
    coupling = Competition(axis, windows=windows).couple((1e4 * logits_for(windows).detach()).to(dtype))
    assert bool(torch.isfinite(coupling).all())
    assert float(coupling.max()) == pytest.approx(1.0)


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_orphan_among_very_negative_logits_takes_everything(windows, axis):
    logits = logits_for(windows)
    coupling = Competition(axis, windows=windows, orphan=True).couple(logits - 1e4)
    assert not coupling.any()
    assert not gradients([coupling], [logits])[0].any()


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions", "children", "none"])
def test_an_image_is_coupled_the_same_alone_and_in_a_batch(windows, axis):
    competition = Competition(axis, windows=windows)
    logits = logits_for(windows).detach()
    assert_close(competition.couple(logits[: windows.positions]), competition.couple(logits)[: windows.positions])


@pytest.mark.parametrize("sizes", [(2, 2, 5, 1, 1), (2, 2, 3, 1, 1), (2, 5, 3, 1, 1), (5, 2, 3, 2, 1)])
def test_windows_larger_than_their_grid_are_refused(sizes):
    with pytest.raises(ValueError, match="expected a grid of at least"):
        Windows(*sizes)
