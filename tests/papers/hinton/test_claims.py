"""Claims of Hinton et al. on runs in which they were planted, or the opposite."""

from dataclasses import replace

import pandas as pd
import pytest

from routebench.analysis import Verdict
from routebench.registry import analyses
from tests.analyses.planted import fitted, measured, methods, planted_is_found, verdict, verdicts
from tests.analysis.made_up_runs import made_up_runs

VARIANTS = {
    "Coordinate addition helps": "no coordinates",
    "Matrix poses beat vector poses": "vector poses",
    "The spread loss beats the margin loss": "margin loss",
    "The spread loss beats the cross entropy": "cross entropy",
}
WHITE = "Capsules withstand white-box attacks better than a CNN"
BLACK = "Capsules withstand black-box attacks no better than a CNN"
FGSM = {"attack": "fgsm", "loss": "training", "norm": "linf"}
PLANTED = {
    "FGSM never takes capsules below chance": (
        "robustness",
        {("em", "attacked_accuracy"): 30.0},
        {("em", "attacked_accuracy"): 5.0},
        FGSM,
    ),
    "Fewer gradients of the input are exactly zero for capsules than for a CNN": (
        "robustness",
        {("em", "zero_gradient_elements"): 1.0, ("cnn", "zero_gradient_elements"): 4.0},
        {("em", "zero_gradient_elements"): 4.0, ("cnn", "zero_gradient_elements"): 1.0},
        {"loss": "training"},
    ),
    "Gradients of the input are two orders of magnitude smaller for capsules than for a CNN": (
        "robustness",
        {("em", "gradient_magnitude"): 1.0, ("cnn", "gradient_magnitude"): 100.0},
        {("em", "gradient_magnitude"): 1.0, ("cnn", "gradient_magnitude"): 10.0},
        {"loss": "training"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", PLANTED)
def test_what_is_planted_is_found(claim):
    planted_is_found(claim, *PLANTED[claim])


def test_the_lowest_accuracy_at_any_eps_is_what_counts():
    cells = [("em", "attacked_accuracy", value, {**FGSM, "eps": eps}) for value, eps in ((90.0, "0.1"), (5.0, "0.2"))]
    assert verdict("FGSM never takes capsules below chance", measured("robustness", cells)) == Verdict.FAILS


@pytest.mark.parametrize(("gap", "verdict"), [(-3.0, Verdict.HOLDS), (3.0, Verdict.FAILS)])
def test_each_part_of_matrix_capsules_is_compared_with_the_whole(gap, verdict):
    known = methods({"em": 95.0, **{f"em ({variant})": 95.0 + gap for variant in VARIANTS.values()}})
    found = verdicts(fitted(known))
    assert [found[claim] for claim in VARIANTS] == [verdict] * 4
    one = verdicts(fitted(methods({"em": 95.0, "em (no coordinates)": 95.0 + gap})))
    assert one["Coordinate addition helps"] == verdict
    assert one["The spread loss beats the margin loss"] == Verdict.NOT_RUN


def attacked(white, black):
    """em is so many points above the CNN under BIM and under images made for another CNN."""
    rows, planned = [], []
    for seed in range(3):
        for label, steps, ahead in (("em", 3, (white, black)), ("cnn", None, (0.0, 0.0))):
            known = {"cell": f"{label}{seed}", "label": label, "iterations": steps, "seed": seed, "model": label}
            planned.append({**known, "method": label, "status": "ok", "role": "method"})
            for attack, loss, extra in (("bim", "training", ahead[0]), ("transfer", "", ahead[1])):
                where = {"attack": attack, "loss": loss, "norm": "linf", "eps": "0.1", "metric": "attacked_accuracy"}
                rows.append({**known, **where, "value": 50 + extra + 0.05 * seed * extra})
            rows.append({**known, "metric": "main_eps", "value": 0.1})
    made = made_up_runs(seeds=1)
    kinds = {"iterations": "Int64"}
    return replace(
        made,
        protocol="robustness",
        results=pd.DataFrame(rows).astype(kinds),
        planned=pd.DataFrame(planned).astype(kinds),
    )


@pytest.mark.parametrize(
    ("white", "black", "expected"),
    [(10.0, -5.0, (Verdict.HOLDS, Verdict.HOLDS)), (-10.0, 5.0, (Verdict.FAILS, Verdict.FAILS))],
)
def test_white_boxes_and_black_boxes(white, black, expected):
    found = verdicts(attacked(white, black))
    assert (found[WHITE], found[BLACK]) == expected


def test_without_a_cnn_nothing_is_said_of_attacks():
    runs = attacked(10.0, 0.0)
    runs = replace(runs, results=runs.results[runs.results["label"] == "em"])
    assert analyses["qualitative-claims"]((runs,)) is None
