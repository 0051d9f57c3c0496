"""What children hand out in real convolutional layers, with every method that has a competition of its own."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules
from routebench.kernels import using
from routebench.routing import factory
from tests.references.problem import assert_close, disturb
from tests.references.votes import seen_by

GRIDS = {"stride 1": (5, 6, 1), "stride 2": (5, 7, 2), "stride 2, last row and column unseen": (6, 8, 2)}
"""Height, width and stride; kernels are 3 x 3."""
METHODS = ("dynamic", "em", "inverted-attention")
AXES = ("types", "types+positions", "positions", "children")
IMAGES, TYPES, PARENTS, POSE = 2, 2, 3, 4
TIMES_SEEN = {
    "stride 1": {1, 2, 3, 4, 6, 9},
    "stride 2": {1, 2, 4},
    "stride 2, last row and column unseen": {0, 1, 2, 4},
}


@pytest.fixture(params=GRIDS)
def grid(request):
    return request.param


def layer_on(grid, method, axis):
    height, width, stride = GRIDS[grid]
    made = factory(method, competition=axis)
    return disturb(ConvCapsules((height, width, TYPES), PARENTS, POSE, POSE, made, stride=stride)).double()


def children_on(grid):
    shape = (IMAGES, *GRIDS[grid][:2], TYPES)
    return Capsules(2 * torch.randn(*shape, POSE, dtype=torch.float64), torch.rand(shape, dtype=torch.float64))


def times_seen(grid):
    """How many windows see each child, and for each position the children in its window."""
    height, width, stride = GRIDS[grid]
    places = seen_by((height, width, TYPES), 3, stride)
    return [sum(place.count(child) for place in places) for child in range(height * width * TYPES)], places


def couplings(layer, children):
    """The coupling (image, position, child, parent) of every sweep of a routing."""
    votes, activations = layer.votes(children)
    seen = []
    votes.watch = lambda coupling: seen.append(coupling.detach().unflatten(0, (IMAGES, -1)))
    layer.routing(votes, activations)
    return seen


def test_grids_have_the_borders_that_they_are_named_for(grid):
    assert set(times_seen(grid)[0]) == TIMES_SEEN[grid]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", METHODS)
def test_mass_over_the_axis_is_one_in_every_iteration(grid, method, axis):
    seen, places = times_seen(grid)
    found = couplings(layer_on(grid, method, axis), children_on(grid))
    assert len(found) >= 2
    assert float(found[-1].std()) > 0.01  # by now votes count
    for coupling in found:
        by_child = torch.zeros(IMAGES, len(seen), PARENTS, dtype=torch.float64)
        for position, window in enumerate(places):
            by_child[:, window] += coupling[:, position]
        expected = {
            "types": torch.ones_like(coupling[..., 0]),
            "types+positions": torch.tensor(seen).clamp(max=1).double().expand(IMAGES, -1),
            "positions": torch.tensor(seen).clamp(max=1).double()[None, :, None].expand_as(by_child),
            "children": torch.ones_like(coupling[:, :, 0]),
        }
        sums = {
            "types": coupling.sum(dim=3),
            "types+positions": by_child.sum(dim=2),
            "positions": by_child,
            "children": coupling.sum(dim=2),
        }
        assert_close(sums[axis], expected[axis])


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_mass_of_all_parents_is_what_all_children_hand_out(grid, axis, backend):
    """As the back ends add it up, without anyone watching."""
    seen, places = times_seen(grid)
    children = children_on(grid)
    single = Capsules(children.poses.float(), children.activations.float())
    votes, _ = layer_on(grid, "dynamic", axis).float().votes(single)
    with using(backend):
        mass = votes.sweep(torch.randn(IMAGES * len(places), PARENTS, POSE)).mass.unflatten(0, (IMAGES, -1))
    handed_out = {
        "types": sum(seen),
        "types+positions": sum(times > 0 for times in seen),
        "positions": PARENTS * sum(times > 0 for times in seen),
        "children": PARENTS * len(places),
    }[axis]
    assert_close(mass.sum(dim=(1, 2)), torch.full((IMAGES,), float(handed_out)), rtol=1e-5, atol=0)
