"""The whole check of the methods that come with routebench, and how it treats options, choices and devices."""

from typing import Literal

import pytest
import torch

from routebench.conformance import Kind, Outcome, check
from routebench.conformance.agreement import USUAL, devices, on_device
from routebench.conformance.case import Case, difference
from routebench.conformance.claimed import measured
from routebench.conformance.inputs import Inputs
from routebench.conformance.options import options
from routebench.conformance.problem import DENSE, WINDOWS, draw
from routebench.conformance.subject import subject_of
from routebench.conformance.values import NotKnown, other_values
from routebench.errors import UserError
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import Routed, RoutingMethod

SHIPPED = [name for name in routing if routing[name].__module__.startswith("routebench.")]


def inputs_for(method, *shapes):
    return Inputs(subject_of(method), seed=0, shapes=shapes or (DENSE, WINDOWS))


@pytest.mark.parametrize("name", SHIPPED)
def test_methods_that_come_with_routebench_conform(name):
    verdict = check(name)
    assert verdict.conforms, verdict.faults
    claimed = [finding for finding in verdict.findings if finding.kind is Kind.CLAIMED]
    assert len(claimed) == len(routing[name].claims)
    assert all(finding.outcome is Outcome.OK for finding in claimed)


def test_one_seed_is_one_verdict_and_torchs_generator_is_left_alone():
    before = torch.random.get_rng_state()
    assert check("none", seed=7) == check("none", seed=7)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_options_that_count_only_together_are_no_fault():
    found = {finding.name: finding for finding in options(inputs_for("em[activation=mixing]"))}
    assert not any(finding.wrong for finding in found.values())
    assert "only with activation = 'description-length'" in found["option final_lambda"].seen


class Mean(RoutingMethod):
    """Uniform routing with hyperparameters that do nothing, or are told in some way."""

    def __init__(self, sizes, *, how: Literal["a", "b"] = "a", word: str = "x", power: int = 1):
        super().__init__(sizes)
        self.how, self.word, self.power = how, word, power

    def route(self, votes, activations):
        poses = squash(votes.sweep().first) * self.power
        return Routed(poses, length(poses))


def test_choices_are_read_from_a_literal_and_from_the_error_of_a_wrong_word():
    assert other_values(subject_of(Mean), "how") == ["b"]
    assert other_values(subject_of("em"), "lambda_schedule") == ["training", "constant"]
    assert other_values(subject_of("dynamic"), "iterations") == [4, 6]
    with pytest.raises(NotKnown, match="any word"):
        other_values(subject_of(Mean), "word")


def test_an_option_is_wrong_ok_or_not_known():
    outcomes = {finding.name: finding.outcome for finding in options(inputs_for(Mean))}
    assert outcomes == {
        "option how": Outcome.WRONG,
        "option word": Outcome.NOT_CHECKED,
        "option power": Outcome.OK,
    }


def test_without_a_gpu_it_is_not_checked_and_not_ok():
    assert devices(inputs_for("none"), None).outcome is Outcome.NOT_CHECKED


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


def test_what_holds_without_a_claim_is_told():
    assert "could be claimed" in measured(subject_claim("POSE_SIGNED_PERMUTATION"), inputs_for("none")).seen
    assert "does not hold" in measured(subject_claim("POSE_TRANSLATION"), inputs_for("none")).seen


def subject_claim(name):
    from routebench.claims import Claim

    return Claim[name]
