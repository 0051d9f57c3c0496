"""Claims about parts of networks on runs in which they were planted, or the opposite."""

from dataclasses import replace

import pandas as pd
import pytest

from routebench.analysis.component_claims import ABLATIONS, ATTENTION, COMPONENT_CLAIMS
from routebench.analysis.judging import FAILS, HOLDS, NOT_RUN, UNDECIDED
from routebench.registry import analyses
from tests.analysis.made_up_runs import made_up_records, made_up_runs

find = analyses["qualitative-claims"]
VARIANTS = {
    "Coordinate addition helps": "no coordinates",
    "Matrix poses beat vector poses": "vector poses",
    "The spread loss beats the margin loss": "margin loss",
    "The spread loss beats the cross entropy": "cross entropy",
}
ONLY_WHOLE, MARGIN_LOSS, SPREAD_LOSS, VECTORS, WHITE, BLACK, THAN_DYNAMIC, THAN_EM = (
    next(claim.claim for claim in COMPONENT_CLAIMS if words in claim.claim)
    for words in (
        "Only the concurrent", "margin loss is no", "spread loss is no", "Vector poses beat", "white-box", "black-box",
        "than with dynamic", "than with EM",
    )
)  # fmt: skip


def methods(base, **accuracies):
    """Lines of `made_up_runs.METHODS`: the label `base` and others by their suffix, all with T=2 at an accuracy."""
    return {label: ([2], "method", "capsnet-small", [accuracy]) for label, accuracy in {**base, **accuracies}.items()}


def runs_of(known, protocol="accuracy", **options):
    records = made_up_records(**{"seeds": 5, "spread": 0.4, "failures": False, "methods": known, **options})
    return replace(made_up_runs(records), protocol=protocol)


def verdicts(runs):
    return find((runs,)).numbers.set_index("claim")["verdict"]


@pytest.mark.parametrize(("gap", "verdict"), [(-3.0, HOLDS), (3.0, FAILS)])
def test_each_part_of_matrix_capsules_is_compared_with_the_whole(gap, verdict):
    known = methods({"em": 95.0, **{f"em ({variant})": 95.0 + gap for variant in VARIANTS.values()}})
    found = verdicts(runs_of(known))
    assert [found[claim] for claim in VARIANTS] == [verdict] * 4
    one = verdicts(runs_of(methods({"em": 95.0, "em (no coordinates)": 95.0 + gap})))
    assert one["Coordinate addition helps"] == verdict
    assert one["The spread loss beats the margin loss"] == NOT_RUN


@pytest.mark.parametrize(("gap", "verdict"), [(-2.0, HOLDS), (2.0, FAILS)])
def test_other_losses_are_no_better(gap, verdict):
    known = methods({ATTENTION: 95.0, f"{ATTENTION} (margin loss)": 95.0 + gap, f"{ATTENTION} (spread loss)": 95.0})
    found = verdicts(runs_of(known))
    assert found[MARGIN_LOSS] == verdict
    assert found[SPREAD_LOSS] in (HOLDS, UNDECIDED)


@pytest.mark.parametrize(("gap", "verdict"), [(2.0, HOLDS), (-2.0, FAILS)])
def test_vectors_against_matrices_is_a_question_of_the_overlap_protocol(gap, verdict):
    known = methods({f"{ATTENTION} (matrix poses)": 90.0, f"{ATTENTION} (vector poses)": 90.0 + gap})
    assert verdicts(runs_of(known, protocol="overlap"))[VECTORS] == verdict


def rising(whole, of_ablations):
    """Accuracies at T=1, 2, 3: the method and each of its ablations gain so much per iteration."""
    slopes = {ATTENTION: whole, **dict(zip(ABLATIONS, of_ablations, strict=True))}
    return {
        label: ([1, 2, 3], "method", "capsnet-small", [90 + slope * steps for steps in range(3)])
        for label, slope in slopes.items()
    }


@pytest.mark.parametrize(
    ("of_ablations", "verdict"),
    [((-1.0, 0.0, -2.0), HOLDS), ((-1.0, 3.0, -2.0), FAILS), ((-1.0, 0.95, -2.0), UNDECIDED)],
)
def test_every_ablation_has_to_gain_less_from_iterations(of_ablations, verdict):
    runs = runs_of(rising(1.0, of_ablations), spread=0.3)
    row = find((runs,)).numbers.set_index("claim").loc[ONLY_WHOLE]
    assert row["verdict"] == verdict
    if verdict == FAILS:
        assert ABLATIONS[1] in row["of"]


def test_an_ablation_that_was_not_run_leaves_the_claim_open():
    known = rising(1.0, (0.0, 0.0, 0.0))
    del known[ABLATIONS[2]]
    assert verdicts(runs_of(known))[ONLY_WHOLE] == NOT_RUN


@pytest.mark.parametrize(("own", "other", "verdict"), [(0.1, 3.0, HOLDS), (3.0, 0.1, FAILS)])
def test_accuracy_that_hangs_on_the_number_of_iterations(own, other, verdict):
    lines = {
        label: ([1, 2, 3], "method", "capsnet-small", [90 - 2 * slope, 90.0, 90 + slope])
        for label, slope in ((ATTENTION, own), ("dynamic", other), ("em", other))
    }
    found = verdicts(runs_of(lines, spread=0.1))
    assert (found[THAN_DYNAMIC], found[THAN_EM]) == (verdict, verdict)
    two = {label: (steps[:2], role, model, values[:2]) for label, (steps, role, model, values) in lines.items()}
    found = verdicts(runs_of(two))
    assert (found[THAN_DYNAMIC], found[THAN_EM]) == (NOT_RUN, NOT_RUN)


def test_the_spread_over_iterations_names_the_form_that_it_is_of():
    levels = {ATTENTION: 90.0, "em": 80.0, "em[competition=types]": 70.0}
    lines = {
        label: ([1, 2, 3], "method", "capsnet-small", [level, level + 2, level + 1]) for label, level in levels.items()
    }

    def named(known):
        return find((runs_of(known),)).numbers.set_index("claim")["of"][THAN_EM]

    assert named(lines) == f"em, {ATTENTION}, T=1, 2, 3"
    steps, role, model, values = lines["em"]
    assert named(lines | {"em": (steps[:2], role, model, values[:2])}).startswith("em[competition=types], ")


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


@pytest.mark.parametrize(("white", "black", "expected"), [(10.0, -5.0, (HOLDS, HOLDS)), (-10.0, 5.0, (FAILS, FAILS))])
def test_white_boxes_and_black_boxes(white, black, expected):
    found = verdicts(attacked(white, black))
    assert (found[WHITE], found[BLACK]) == expected


def test_without_a_cnn_nothing_is_said_of_attacks():
    runs = attacked(10.0, 0.0)
    runs = replace(runs, results=runs.results[runs.results["label"] == "em"])
    assert find((runs,)) is None
