"""What a training step keeps of a convolutional capsule layer: what goes in and comes out, and not the votes."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules
from routebench.kernels import fused, using
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import Routed, RoutingMethod, factory, hyperparameters_of
from tests.kernels.saved import saved_elements

STORE_VOTES = {
    "max-pooling": "the largest of all votes is no sum, which is all that can be had without storing them",
    "cluster": "each element of a vote has a weight of its own",
    "divide-and-conquer": "each group of children has parents of its own",
    "mesh": "costs are distances of votes; the rounds of its plans keep more numbers of a pair than a vote has",
}
"""Methods whose nature it is to store votes, with the reason."""
MANY_COEFFICIENTS = {
    "heinsen": "scores, coupling, what is used and what is ignored are numbers of a child and a parent, per iteration"
}
"""Methods that keep more than a handful of numbers per child and parent, none of them per element of a pose."""
SIDE, KERNEL, POSE = 5, 3, 36
POSITIONS = (SIDE - KERNEL + 1) ** 2
AXES = ("types", "types+positions", "positions", "children")
METHODS = [
    (name, axis)
    for name in routing
    for axis in (AXES if "competition" in hyperparameters_of(name) else (None,))
    if name not in STORE_VOTES
]


@pytest.fixture(params=["auto", "reference"], autouse=True)
def backend(request):
    if request.param == "auto" and fused.missing(POSE, POSE, 6):
        pytest.skip("no fast kernel here, so that auto is the reference")
    with using(request.param):
        yield request.param


def layer_of(method, axis, children, parents):
    params = {} if axis is None else {"competition": axis}
    return ConvCapsules(
        (SIDE, SIDE, children), parents, POSE, POSE, factory(method, **params), kernel=KERNEL, matrix=True
    )


def kept_per_image(layer):
    """Elements that one image more makes autograd keep; weights and what is made of them alone do not count."""
    kept = []
    for images in (2, 2, 3):  # the first time, kernels are compared with the reference
        shape = (images, SIDE, SIDE, layer.windows.types)
        with saved_elements() as saved:
            layer(Capsules(torch.randn(*shape, POSE, requires_grad=True), torch.rand(*shape, requires_grad=True)))
        kept.append(saved.elements)
    return kept[2] - kept[1]


def votes_per_image(children, parents):
    return POSITIONS * KERNEL**2 * children * parents * POSE


@pytest.mark.parametrize(("method", "axis"), METHODS, ids=[f"{name}-{axis}" for name, axis in METHODS])
def test_memory_does_not_grow_with_children_times_parents_times_pose(method, axis):
    """Twice the children and twice the parents: inputs and outputs are twice as many, votes four times."""
    small, large = (kept_per_image(layer_of(method, axis, size, size)) for size in (2, 4))
    excess = large - 2 * small
    assert small > 0
    part = 1 if method in MANY_COEFFICIENTS else 0.5  # a coupling of the method's own grows like votes / pose
    assert excess < part * votes_per_image(2, 2)


class StoresVotes(RoutingMethod):
    """Asks for all votes, as a new method may."""

    def route(self, votes, activations):
        poses = squash(votes.dense().square().sum(dim=1))
        return Routed(poses, length(poses))


class MakesCoupling(RoutingMethod):
    """Makes coupling of its own, which it may, from agreements."""

    def route(self, votes, activations):
        coupling = votes.competition.couple(votes.agreement(votes.sweep().first))
        poses = squash(votes.aggregate(coupling))
        return Routed(poses, length(poses))


@pytest.mark.parametrize(("method", "stores"), [(StoresVotes, True), (MakesCoupling, False)])
def test_the_measure_tells_stored_votes_from_coupling(method, stores):
    small, large = (
        kept_per_image(ConvCapsules((SIDE, SIDE, size), size, POSE, POSE, method, kernel=KERNEL, matrix=True))
        for size in (2, 4)
    )
    assert (large - 2 * small >= votes_per_image(2, 2) / 2) == stores
