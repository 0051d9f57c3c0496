"""What a routing method claims is measured, for every method there is; and every measurement can fail."""

from functools import cache

import pytest
import torch
from torch import nn

from routebench.claims import Claim
from routebench.conformance._calls import CheckInputs
from routebench.conformance._claims import TESTS, worst_seen
from routebench.conformance._method import subject_of
from routebench.conformance._problems import DENSE, WINDOWS
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import Routed, RoutingMethod, hyperparameters_of

UNCLAIMED = [
    ("none", Claim.MASS_CONSERVATION),
    ("none", Claim.UNIFORM_FIRST),
    ("random", Claim.CHILD_ORDER),
    ("random", Claim.PARENT_ORDER),
    ("random", Claim.UNIFORM_FIRST),
    ("divide-and-conquer[members=2]", Claim.PADDING),
    ("dynamic", Claim.POSE_TRANSLATION),
    ("em", Claim.POSE_ROTATION),
    ("expert-choice", Claim.MASS_CONSERVATION),
    ("inverted-attention", Claim.POSE_ROTATION),
    ("inverted-attention", Claim.POSE_TRANSLATION),
    ("self-attention", Claim.CHILD_ORDER),
    ("self-attention", Claim.MASS_CONSERVATION),
    ("self-attention", Claim.UNIFORM_FIRST),
    ("sinkhorn-token-choice", Claim.MASS_CONSERVATION),
    ("slot-attention", Claim.POSE_ROTATION),
    ("slot-attention", Claim.UNIFORM_FIRST),
    ("static", Claim.CHILD_ORDER),
    ("static", Claim.UNIFORM_FIRST),
    ("wang-liu", Claim.POSE_TRANSLATION),
]
BY_OPTION = {
    "self-attention[prior=false]": {Claim.CHILD_ORDER, Claim.MASS_CONSERVATION},
    "slot-attention[start=zeros,update=replace,sinkhorn=2]": {Claim.UNIFORM_FIRST, Claim.MASS_CONSERVATION},
    'slot-attention[competition="types+positions",sinkhorn=2]': {Claim.MASS_CONSERVATION, Claim.CHILD_ORDER},
}
"""Claims that a method makes with an option, or keeps in spite of it."""
AXES = ("types", "types+positions", "positions", "children")
COMPETITIVE = [(name, axis) for name in routing if "competition" in hyperparameters_of(name) for axis in AXES]


@cache
def inputs_for(method):
    """A dense and a convolutional problem in both precisions and at several scales."""
    return CheckInputs(subject_of(method), seed=0, shapes=(DENSE, WINDOWS))


def holds(method, claim):
    """Whether a method, by name or class, has a property."""
    return not worst_seen(claim, inputs_for(method)).wrong


@pytest.mark.parametrize(("name", "claim"), UNCLAIMED, ids=[f"{name}-{claim.name}" for name, claim in UNCLAIMED])
def test_method_does_not_have_a_property_that_it_cannot_have(name, claim):
    assert not holds(name, claim)


@pytest.mark.parametrize("spec", BY_OPTION)
def test_claims_that_come_with_an_option_are_made_and_kept(spec):
    assert BY_OPTION[spec] <= set(subject_of(spec).claims)
    assert all(holds(spec, claim) for claim in BY_OPTION[spec])


def test_a_start_with_unequal_positions_is_not_said_to_be_uniform():
    spec = 'slot-attention[start=zeros,update=replace,sinkhorn=2,competition="types+positions"]'
    assert Claim.UNIFORM_FIRST not in subject_of(spec).claims
    assert TESTS[Claim.UNIFORM_FIRST].measure(inputs_for(spec).case(WINDOWS)).wrong


@pytest.mark.parametrize(("name", "axis"), COMPETITIVE)
def test_mass_is_conserved_over_whichever_axis_is_chosen(name, axis):
    assert holds(f'{name}[competition="{axis}"]', Claim.MASS_CONSERVATION)


@pytest.mark.parametrize("name", [name for name in routing if "iterations" in hyperparameters_of(name)])
def test_claims_are_measured_at_other_numbers_of_iterations(name):
    counts = {case.changes.get("iterations") for case in inputs_for(name).compared}
    assert {None, 1, 5} <= counts


def test_every_claim_has_a_measurement():
    assert set(TESTS) == set(Claim)


@pytest.mark.parametrize("name", routing)
def test_method_names_no_claim_twice(name):
    assert len(set(routing[name].claims)) == len(routing[name].claims)


class Mean(RoutingMethod):
    """Uniform routing without squashing: has every property but one, once a test has spoilt it."""

    gives_activations = False

    def route(self, votes, activations):
        return Routed(self.spoilt(votes.sweep().first, votes))

    def spoilt(self, poses, votes):
        """What the parents are instead."""
        return poses


class LooksAtChildNumbers(Mean):
    def spoilt(self, poses, votes):
        return poses + votes.dense()[:, 0]


class LooksAtParentNumbers(Mean):
    def spoilt(self, poses, votes):
        return poses * torch.arange(1, poses.shape[1] + 1)[:, None]


class LooksAtTheBatch(Mean):
    def spoilt(self, poses, votes):
        return poses - poses.mean(dim=0)


class LooksAtElements(Mean):
    def spoilt(self, poses, votes):
        return poses.tanh()


class LooksAtElementNumbers(Mean):
    def spoilt(self, poses, votes):
        return poses.cumsum(dim=-1)


class LooksAtLengths(Mean):
    def spoilt(self, poses, votes):
        return squash(poses)


class GivesTooMuch(Mean):
    def route(self, votes, activations):
        coupling = torch.sigmoid(votes.agreement(votes.sweep().first))
        return Routed(votes.aggregate(coupling))


class CompetesOverTheWrongAxis(Mean):
    def route(self, votes, activations):
        return Routed(votes.aggregate(votes.agreement(votes.sweep().first).softmax(dim=1)))


class LearnsABias(Mean):
    def __init__(self, sizes):
        super().__init__(sizes)
        self.bias = nn.Parameter(torch.zeros(sizes.pose))

    def spoilt(self, poses, votes):
        return poses + self.bias


class HidesItsCoupling(Mean):
    def route(self, votes, activations):
        return Routed(votes.dense().mean(dim=1))


class DividesByItsChildren(Mean):
    def spoilt(self, poses, votes):
        return poses / votes.children


class TakesTheLargestVote(Mean):
    def route(self, votes, activations):
        return Routed(votes.dense().amax(dim=1))


class ActivationsByNumber(Mean):
    gives_activations = True

    def route(self, votes, activations):
        poses = votes.sweep().first
        return Routed(poses, length(poses) * torch.arange(poses.shape[1]))


BROKEN = [
    (Claim.CHILD_ORDER, LooksAtChildNumbers),
    (Claim.PARENT_ORDER, LooksAtParentNumbers),
    (Claim.PARENT_ORDER, ActivationsByNumber),
    (Claim.BATCH_INDEPENDENCE, LooksAtTheBatch),
    (Claim.MASS_CONSERVATION, GivesTooMuch),
    (Claim.MASS_CONSERVATION, CompetesOverTheWrongAxis),
    (Claim.MASS_CONSERVATION, HidesItsCoupling),
    (Claim.POSE_ROTATION, LooksAtElements),
    (Claim.POSE_ROTATION, LearnsABias),
    (Claim.POSE_TRANSLATION, LooksAtLengths),
    (Claim.POSE_SIGNED_PERMUTATION, LooksAtElementNumbers),
    (Claim.PADDING, HidesItsCoupling),
    (Claim.PADDING, DividesByItsChildren),
    (Claim.PADDING, TakesTheLargestVote),
    (Claim.UNIFORM_FIRST, CompetesOverTheWrongAxis),
    (Claim.UNIFORM_FIRST, HidesItsCoupling),
]


@pytest.mark.parametrize(("claim", "method"), BROKEN, ids=[f"{c.name}-{m.__name__}" for c, m in BROKEN])
def test_measurement_catches_a_broken_method(claim, method):
    assert not holds(method, claim)


def test_every_measurement_is_shown_to_fail():
    assert {claim for claim, _ in BROKEN} == set(Claim)


def test_unspoilt_method_passes_everything_that_linear_routing_can():
    for claim in set(Claim) - {Claim.POSE_TRANSLATION}:  # 6 children of a quarter move a parent by 1.5 times the vector
        assert holds(Mean, claim)


def test_broken_methods_break_nothing_else_that_they_should_have():
    assert holds(LooksAtLengths, Claim.POSE_ROTATION)
    assert holds(LooksAtElements, Claim.PARENT_ORDER)
    assert holds(LooksAtChildNumbers, Claim.MASS_CONSERVATION)
    assert holds(LearnsABias, Claim.PARENT_ORDER)
