"""Every mistake is caught, named in words, and is the only one found."""

from dataclasses import replace
from functools import partial

import pytest

from routebench.claims import Claim
from routebench.conformance import Kind, Status, check
from routebench.conformance._calls import CheckInputs
from routebench.conformance._claims import measured
from routebench.conformance._method import subject_of
from routebench.conformance._options import options
from routebench.conformance._problems import DENSE
from routebench.conformance._requirements import (
    deterministic,
    first_iteration,
    forgetful,
    images_apart,
    noiseless,
    precision,
    reach,
)

SAID = {
    "softmax-axis": {"mass conservation": "sums to one over the children, not over the parents"},
    "batch": {"batch independence": "when the other images of its batch change"},
    "detached": {
        "gradient of parents' poses": "no gradient of the parents' poses reaches the votes",
        "gradient of parents' activations": "no gradient of the parents' activations reaches the votes",
    },
    "iterations": {"iterations": "their number changes nothing"},
    "variance": {"finite parents": "always with one child, one child of one parent"},
    "squeeze": {
        "batch of one": "expected poses of shape (1, 4, 5), got (4, 5)",
        "one child or parent": "expected poses of shape (3, 1, 5), got (3, 5)",
    },
}
"""For each of the six the faults that are found, and what is said of them."""


@pytest.mark.parametrize("name", SAID)
def test_mistake_is_named_and_nothing_else(broken, name):
    verdict = check(broken[name])
    assert {fault.name for fault in verdict.faults} == set(SAID[name])
    assert not verdict.conforms
    for fault in verdict.faults:
        assert SAID[name][fault.name] in fault.seen
        assert fault.at
        assert fault.advice
    assert f"{len(SAID[name])} fault" in str(verdict)


def test_same_code_without_a_mistake_conforms(broken):
    verdict = check(broken["nothing"])
    assert verdict.conforms, verdict.faults
    assert "conforms" in str(verdict)


def first_problem(method):
    return CheckInputs(subject_of(method), seed=0, shapes=(DENSE,))


MORE = {
    "state": (forgetful, "after calls on other images"),
    "activations": (lambda inputs: reach(inputs)[2], "they enter the computation, but cancel"),
    "child-number": (partial(measured, Claim.CHILD_ORDER), "with its children in another order"),
    "child-weight": (partial(measured, Claim.CHILD_ORDER), "with its children in another order"),
    "parent-number": (partial(measured, Claim.PARENT_ORDER), "with its parents in another order"),
    "random": (deterministic, "with the same seed of torch"),
    "noise": (noiseless, "between two seeds of torch"),
    "option": (
        lambda inputs: options(inputs)[-1],
        "2.0, 0.5, 0.001, 1e-06, 1000.0, 1000000.0 or 0.01 instead of 1.0 changes not one bit",
    ),
    "precision": (precision, "poses are float32 for votes of float64"),
    "softmax-axis-unclaimed": (partial(measured, Claim.MASS_CONSERVATION), "over the children, not over the parents"),
}
"""For each of the other broken methods what finds it, and what it says."""


CLAIMED = ("child-number", "child-weight", "parent-number")


@pytest.mark.parametrize("name", MORE)
def test_other_mistakes_are_found_too(broken, name):
    ask, said = MORE[name]
    found = ask(first_problem(broken[name]))
    assert found.wrong
    assert found.kind is (Kind.CLAIMED if name in CLAIMED else Kind.REQUIRED)
    assert said in found.seen
    assert not ask(first_problem(broken["nothing"])).wrong


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("first-is", "between one iteration and 'uniform'"),
        ("first-is-unknown", "no method is called 'unifrom'; did you mean 'uniform'?"),
    ],
)
def test_a_method_that_one_iteration_is_not_is_found(broken, name, said):
    (found,) = first_iteration(first_problem(broken[name]))
    assert found.wrong
    assert said in found.seen
    assert found.advice


def test_a_method_that_one_iteration_is_conforms(broken):
    (found,) = first_iteration(first_problem("dynamic"))
    assert found.outcome is Status.OK
    assert found.deviation == 0
    assert first_iteration(first_problem("dynamic[detach=true]")) == first_iteration(first_problem("uniform")) == []


def test_what_a_method_raises_is_one_fault_and_nothing_more_is_asked(broken):
    verdict = check(broken["call"])
    (fault,) = verdict.faults
    assert fault.name == "ordinary shapes"
    assert "AttributeError: 'Votes' object has no attribute 'shape'" in fault.seen
    rest = [finding for finding in verdict.findings if finding is not fault]
    assert [finding.name for finding in rest] == ["one child or parent", "batch of one"]
    assert {finding.outcome for finding in rest} == {Status.NOT_CHECKED}


OVERWRITES = {"overwrites": "the children's poses", "overwrites-activations": "the children's activations"}


@pytest.mark.parametrize("name", OVERWRITES)
def test_a_method_that_overwrites_what_it_is_given_is_found(broken, name):
    trial = first_problem(broken[name]).plain[0].trial
    for gradients in (False, True):
        assert f"it overwrites {OVERWRITES[name]} that it is given" in trial(gradients=gradients).error


def test_what_cannot_be_compared_is_not_called_wrong(broken):
    inputs = replace(first_problem(broken["random"]), repeats=False)
    for found in (images_apart(inputs), measured(Claim.CHILD_ORDER, inputs), *options(inputs)):
        assert found.outcome is Status.NOT_CHECKED


def test_every_broken_method_is_tested(broken):
    assert set(broken) == {*SAID, *MORE, *OVERWRITES, "nothing", "call", "first-is", "first-is-unknown"}
