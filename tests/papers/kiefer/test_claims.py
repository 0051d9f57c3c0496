"""Claims of Kiefer et al. on runs in which they were planted, or the opposite."""

from dataclasses import replace

import pytest

from routebench.analysis import Verdict
from tests.analyses.planted import EVERY, measured, planted_is_found, verdict

CLAMPED = {"inference": "plain", "targets": "label", "free": "classes"}
PLANTED = {
    "Inference without a penalty spreads activity evenly over class capsules": (
        "predictive-coding", {("none", "hoyer"): 0.3}, {("none", "hoyer"): 0.7}, CLAMPED,
    ),
    "The right class capsule stays longer than others without a penalty": (
        "predictive-coding",
        {("none", "right_length"): 0.9, ("none", "other_length"): 0.4},
        {("none", "right_length"): 0.4, ("none", "other_length"): 0.9},
        CLAMPED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", PLANTED)
def test_what_is_planted_is_found(claim):
    planted_is_found(claim, *PLANTED[claim])


@pytest.mark.parametrize(("lost", "expected"), [(0.0, Verdict.HOLDS), (3.0, Verdict.FAILS), (0.5, Verdict.UNDECIDED)])
def test_a_layer_in_between_is_compared_with_the_network_without(lost, expected):
    plain, between = (
        measured("sparsity", [("dynamic", "right_answers", value, {})], model=model)
        for model, value in (("capsnet-small", 95.0), ("capsnet-small-intermediate", 95.0 - lost))
    )
    claim = "A layer in between costs no accuracy"
    assert EVERY[claim].test(plain, (plain, between)) is None
    noise = 1 + 0.002 * between.results["seed"]
    between = replace(between, results=between.results.assign(value=between.results["value"] * noise))
    assert verdict(claim, between, plain) == expected
    assert EVERY[claim].test(between, (between, replace(plain, preset="full"))) is None
