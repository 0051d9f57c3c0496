"""The whole check of the methods that come with routebench, and how it treats options, choices and devices."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

import routebench
from routebench.claims import Claim
from routebench.conformance import Kind, Status, check
from routebench.conformance._agreement import USUAL, devices, on_device
from routebench.conformance._calls import Case, CheckInputs, difference
from routebench.conformance._claims import measured
from routebench.conformance._method import seeded, subject_of
from routebench.conformance._options import NotKnown, Traces, option, options, other_values
from routebench.conformance._problems import DENSE, MATRICES, WINDOWS, draw
from routebench.errors import UserError
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import Routed, RoutingMethod
from tests import first_calls

SHIPPED = [name for name in routing if routing[name].__module__.startswith("routebench.")]


def inputs_for(method, *shapes):
    return CheckInputs(subject_of(method), seed=0, shapes=shapes or (DENSE, WINDOWS))


@pytest.mark.parametrize("name", SHIPPED)
def test_methods_that_come_with_routebench_conform(name):
    verdict = check(name)
    assert verdict.conforms, verdict.faults
    claimed = [finding for finding in verdict.findings if finding.kind is Kind.CLAIMED]
    assert len(claimed) == len(routing[name].claims)
    assert all(finding.outcome is Status.OK for finding in claimed)


def test_one_seed_is_one_verdict_and_torchs_generator_is_left_alone():
    before = torch.random.get_rng_state()
    assert check("none", seed=7) == check("none", seed=7)
    assert torch.equal(torch.random.get_rng_state(), before)


class Draws(RoutingMethod):
    """Draws in training, has a parameter, and hence is called in all ways that a check has."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.gain = nn.Parameter(torch.ones(()))

    def route(self, votes, activations):
        poses = nn.functional.dropout(squash(votes.sweep().first), 0.5, self.training) * self.gain
        return Routed(poses, length(poses))


def test_what_a_method_draws_leaves_torchs_generators_alone():
    before = torch.random.get_rng_state()
    on_gpu = torch.cuda.get_rng_state_all()
    check(Draws, device="cuda" if torch.cuda.is_available() else "cpu")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(*pair) for pair in zip(torch.cuda.get_rng_state_all(), on_gpu, strict=True))


def test_a_gpus_generators_are_seeded_and_put_back(monkeypatch):
    states = [torch.tensor([1, 2], dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: list(states))
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", lambda given: states.__setitem__(slice(None), given))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: states.__setitem__(0, seed))
    with seeded(3):
        assert states == [3]
    assert torch.equal(states[0], torch.tensor([1, 2], dtype=torch.uint8))


def test_options_that_count_only_together_are_no_fault():
    traces = Traces(inputs_for("em[activation=mixing]", DENSE, MATRICES, WINDOWS))
    for name in ("lambda_schedule", "mass_normalisation", "start_beta_a"):  # a word, a choice and a number
        found = option(traces, name)
        assert not found.wrong
        assert "only with activation = 'description-length'" in found.seen


class Mean(RoutingMethod):
    """Uniform routing with hyperparameters that do nothing, or are told in some way."""

    def __init__(self, sizes, *, how: Literal["a", "b"] = "a", word: str = "x", power: int = 1):
        super().__init__(sizes)
        self.how, self.word, self.power = how, word, power

    def route(self, votes, activations):
        poses = squash(votes.sweep().first) * self.power
        return Routed(poses, length(poses))


def test_choices_are_read_from_annotations():
    assert other_values(subject_of(Mean), "how") == ["b"]
    assert other_values(subject_of("em"), "lambda_schedule") == ["training", "constant"]
    assert other_values(subject_of("dynamic"), "iterations") == [4, 6]
    with pytest.raises(NotKnown, match="any word"):
        other_values(subject_of(Mean), "word")


def test_an_option_is_wrong_ok_or_not_known():
    outcomes = {finding.name: finding.outcome for finding in options(inputs_for(Mean))}
    assert outcomes == {
        "option how": Status.WRONG,
        "option word": Status.NOT_CHECKED,
        "option power": Status.OK,
    }


class Guarded(RoutingMethod):
    """Uniform routing with guards against what ordinary numbers never are."""

    def __init__(self, sizes, *, clip: float = 1e4, floor: float = 1e-20, tiny: float = 1e-30, most: int = 10**6):
        super().__init__(sizes)
        self.clip, self.floor, self.tiny, self.most = clip, floor, tiny, most

    def route(self, votes, activations):
        total = votes.sweep().first.clamp(-self.most, self.most)
        poses = squash(total).clamp(-self.clip, self.clip) / (1 + self.tiny)
        return Routed(poses, (poses.square().sum(-1) + self.floor).sqrt())


def test_a_guard_far_from_ordinary_numbers_is_no_fault():
    found = options(inputs_for(Guarded))
    assert [finding.outcome for finding in found] == [Status.OK] * 4
    assert found[0].seen == ("0.01 instead of 10000.0 changes parents or gradients, 20000.0 or 5000.0 does not")


class Counted(RoutingMethod):
    """Takes every whole number above zero, and does nothing with it; or of every number."""

    def __init__(self, sizes, *, positive: int = 1, whole: int = 1):
        super().__init__(sizes)
        if positive < 1:
            raise ValueError("positive must be 1 or more")

    def route(self, votes, activations):
        poses = squash(votes.sweep().first)
        return Routed(poses, length(poses))


def test_no_value_is_tried_or_told_twice():
    assert other_values(subject_of(Counted), "positive") == [2, 3]
    assert other_values(subject_of(Counted), "whole") == [2, 0]
    assert [finding.seen for finding in options(inputs_for(Counted))] == [
        "2 or 3 instead of 1 changes not one bit of parents or gradients",
        "2 or 0 instead of 1 changes not one bit of parents or gradients",
    ]


class Learned(RoutingMethod):
    """Uniform routing with parameters of several shapes."""

    claims = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.POSE_ROTATION)

    def __init__(self, sizes, *, pose: bool = False, flat: bool = False):
        super().__init__(sizes)
        self.gain = nn.Parameter(torch.ones(sizes.parents))
        self.mixed = nn.Parameter(torch.eye(sizes.parents))
        self.by_pose = nn.Parameter(torch.ones(sizes.pose)) if pose else 1.0
        self.flat = nn.Parameter(torch.ones(sizes.parents * sizes.pose)) if flat else None

    def route(self, votes, activations):
        poses = squash(self.mixed @ votes.sweep().first) * self.gain[:, None] * self.by_pose
        if self.flat is not None:
            poses = poses * self.flat.view(poses.shape[1:])
        return Routed(poses, length(poses))


def test_what_is_learned_for_a_parent_goes_with_it_and_what_for_a_pose_element_breaks_rotation():
    held = inputs_for(Learned)
    assert not any(measured(claim, held).wrong for claim in Learned.claims)
    broken = replace(held, subject=replace(held.subject, params={"pose": True}))
    assert [claim for claim in Learned.claims if measured(claim, broken).wrong] == [Claim.POSE_ROTATION]


def test_parameters_of_which_it_cannot_be_told_whose_they_are_make_no_fault():
    flat = inputs_for(Learned)
    flat = replace(flat, subject=replace(flat.subject, params={"flat": True}))
    assert not flat.subject.tells_parents(DENSE.sizes)
    assert not measured(Claim.PARENT_ORDER, flat).wrong


def test_without_a_gpu_it_is_not_checked_and_not_ok():
    assert devices(inputs_for("none"), None).outcome is Status.NOT_CHECKED


def test_a_device_is_compared_by_outputs_and_gradients():
    case = Case(subject_of("dynamic"), draw(USUAL[0], 0))
    found = on_device(case, torch.device("cpu"))
    assert set(found.gradients) == {"poses", "activations", "weight"}
    assert difference(found, case.trial(gradients=True)) < 1e-9


def test_what_a_device_raises_is_a_fault():
    found = devices(inputs_for("none"), torch.device("xpu:99"))
    assert found.wrong
    assert "raises" in found.seen


def test_wrong_hyperparameters_are_a_wrong_call():
    with pytest.raises(UserError, match="iterations"):
        check("dynamic[iterations=0]")
    with pytest.raises(UserError, match="did you mean 'dynamic'"):
        check("dynamc")


@pytest.mark.parametrize("given", [lambda votes: votes, 3, None, int])
def test_what_is_no_method_is_a_wrong_call(given, monkeypatch):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    for call in (check, routebench.check):
        with pytest.raises(UserError, match="method: expected a name, or a class derived from RoutingMethod, got "):
            call(given)


def test_what_holds_without_a_claim_is_told():
    assert "holds: " in measured(subject_claim("POSE_SIGNED_PERMUTATION"), inputs_for("none")).seen
    assert "does not hold" in measured(subject_claim("POSE_TRANSLATION"), inputs_for("none")).seen


def subject_claim(name):
    return Claim[name]
