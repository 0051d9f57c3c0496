"""Claims of Tsai et al. on runs in which they were planted, or the opposite."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench.analysis import Verdict
from routebench.papers.tsai.claims import ABLATIONS, ATTENTION
from routebench.registry import analyses
from tests.analyses.planted import EVERY, beside, fitted, measured, methods, verdict, verdicts
from tests.analysis.made_up_runs import made_up_runs

find = analyses["qualitative-claims"]
ONLY_WHOLE, MARGIN_LOSS, SPREAD_LOSS, VECTORS, THAN_DYNAMIC, THAN_EM, ITERATING, LARGER = (
    next(claim for claim in EVERY if words in claim)
    for words in (
        "Only the concurrent", "margin loss is no", "spread loss is no", "Vector poses beat", "than with dynamic",
        "than with EM", "jitter more", "jitter less",
    )
)  # fmt: skip


@pytest.mark.parametrize(("gap", "verdict"), [(-2.0, Verdict.HOLDS), (2.0, Verdict.FAILS)])
def test_other_losses_are_no_better(gap, verdict):
    known = methods({ATTENTION: 95.0, f"{ATTENTION} (margin loss)": 95.0 + gap, f"{ATTENTION} (spread loss)": 95.0})
    found = verdicts(fitted(known))
    assert found[MARGIN_LOSS] == verdict
    assert found[SPREAD_LOSS] in (Verdict.HOLDS, Verdict.UNDECIDED)


@pytest.mark.parametrize(("gap", "verdict"), [(2.0, Verdict.HOLDS), (-2.0, Verdict.FAILS)])
def test_vectors_against_matrices_is_a_question_of_the_overlap_protocol(gap, verdict):
    known = methods({f"{ATTENTION} (matrix poses)": 90.0, f"{ATTENTION} (vector poses)": 90.0 + gap})
    assert verdicts(fitted(known, protocol="overlap"))[VECTORS] == verdict


def rising(whole, of_ablations):
    """Accuracies at T=1, 2, 3: the method and each of its ablations gain so much per iteration."""
    slopes = {ATTENTION: whole, **dict(zip(ABLATIONS, of_ablations, strict=True))}
    return {
        label: ([1, 2, 3], "method", "capsnet-small", [90 + slope * steps for steps in range(3)])
        for label, slope in slopes.items()
    }


@pytest.mark.parametrize(
    ("of_ablations", "verdict"),
    [((-1.0, 0.0, -2.0), Verdict.HOLDS), ((-1.0, 3.0, -2.0), Verdict.FAILS), ((-1.0, 0.95, -2.0), Verdict.UNDECIDED)],
)
def test_every_ablation_has_to_gain_less_from_iterations(of_ablations, verdict):
    runs = fitted(rising(1.0, of_ablations), spread=0.3)
    row = find((runs,)).numbers.set_index("claim").loc[ONLY_WHOLE]
    assert row["verdict"] == verdict
    if verdict == Verdict.FAILS:
        assert ABLATIONS[1] in row["of"]


def test_an_ablation_that_was_not_run_leaves_the_claim_open():
    known = rising(1.0, (0.0, 0.0, 0.0))
    del known[ABLATIONS[2]]
    assert verdicts(fitted(known))[ONLY_WHOLE] == Verdict.NOT_RUN


@pytest.mark.parametrize(("own", "other", "verdict"), [(0.1, 3.0, Verdict.HOLDS), (3.0, 0.1, Verdict.FAILS)])
def test_accuracy_that_hangs_on_the_number_of_iterations(own, other, verdict):
    lines = {
        label: ([1, 2, 3], "method", "capsnet-small", [90 - 2 * slope, 90.0, 90 + slope])
        for label, slope in ((ATTENTION, own), ("dynamic", other), ("em", other))
    }
    found = verdicts(fitted(lines, spread=0.1))
    assert (found[THAN_DYNAMIC], found[THAN_EM]) == (verdict, verdict)
    two = {label: (steps[:2], role, model, values[:2]) for label, (steps, role, model, values) in lines.items()}
    found = verdicts(fitted(two))
    assert (found[THAN_DYNAMIC], found[THAN_EM]) == (Verdict.NOT_RUN, Verdict.NOT_RUN)


def test_the_spread_over_iterations_names_the_form_that_it_is_of():
    levels = {ATTENTION: 90.0, "em": 80.0, "em[competition=types]": 70.0}
    lines = {
        label: ([1, 2, 3], "method", "capsnet-small", [level, level + 2, level + 1]) for label, level in levels.items()
    }

    def named(known):
        return find((fitted(known),)).numbers.set_index("claim")["of"][THAN_EM]

    assert named(lines) == f"em, {ATTENTION}, T=1, 2, 3"
    steps, role, model, values = lines["em"]
    assert named(lines | {"em": (steps[:2], role, model, values[:2])}).startswith("em[competition=types], ")


def test_starts_of_parents():
    epochs = [
        (label, "train_loss", value, {"epoch": epoch})
        for label, values in (("inverted-attention", (1.0, 0.5)), ("inverted-attention[start=random]", (1.4, 0.5)))
        for epoch, value in enumerate(values, start=1)
    ]
    tested = {"split": "test", "test_iterations": 2}
    ends = [
        ("inverted-attention", "accuracy", 95.0, tested),
        ("inverted-attention[start=random]", "accuracy", 94.9, tested),
    ]
    runs = measured("accuracy", [*epochs, *ends])
    assert verdict("Parents that start at random learn more slowly", runs) == Verdict.HOLDS
    assert verdict("Parents that start at random end as good", runs) == Verdict.HOLDS
    assert EVERY["A learned start of parents is no better than zeros"].test(runs) is None


def test_starts_are_compared_at_an_iteration_count_that_both_have():
    random = "inverted-attention[start=random]"
    tested = {"split": "test", "test_iterations": 2}
    runs = measured("accuracy", [("inverted-attention", "accuracy", 95.0, tested), (random, "accuracy", 94.9, tested)])
    further = runs.planned[runs.planned["label"] == random].assign(iterations=3)
    further["cell"] = further["cell"] + "T3"
    runs = replace(runs, planned=pd.concat([runs.planned, further], ignore_index=True))
    assert verdict("Parents that start at random end as good", runs) == Verdict.HOLDS


def curves(deviations):
    """Held-out accuracy over 400 epochs, three seeds: a straight line with noise of a deviation for each method."""
    random = np.random.default_rng(0)
    rows, planned = [], []
    for (label, steps), deviation in deviations.items():
        for seed in range(3):
            known = {"label": label, "iterations": steps, "seed": seed, "model": "tsai-tiny"}
            planned.append(
                {**known, "cell": f"{label}{steps}{seed}", "method": label, "status": "ok", "role": "method"}
            )
            values = np.linspace(20, 90, 400) + deviation * random.standard_normal(400)
            rows += [
                {"cell": planned[-1]["cell"], **known, "metric": "held_out_accuracy", "value": value, "epoch": epoch}
                for epoch, value in enumerate(values, start=1)
            ]
    kinds = {"iterations": "Int64"}
    results = pd.DataFrame(rows).assign(unit="%", test_iterations=pd.NA, split="held-out")
    return replace(
        made_up_runs(seeds=1), model="tsai-tiny", protocol="accuracy",
        results=results.astype({**kinds, "test_iterations": "Int64"}), planned=pd.DataFrame(planned).astype(kinds),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("most", "larger", "expected"),
    [(2.0, 1.0, (Verdict.HOLDS, Verdict.HOLDS)), (0.5, 1.0, (Verdict.FAILS, Verdict.FAILS))],
)
def test_jitter_is_the_deviation_from_a_smooth_curve(most, larger, expected):
    attention = "inverted-attention"
    runs = curves({(attention, 1): 1.0, (attention, 4): most, (f"{attention} (6x6 poses)", 4): larger})
    assert (verdict(ITERATING, runs), verdict(LARGER, runs)) == expected
    for claim in (ITERATING, LARGER):
        alone = EVERY[claim].test(runs).statistic
        assert alone.mean == pytest.approx(most - 1.0, abs=0.1)
        other = curves({(attention, 1): 3.0, (attention, 4): 0.1, (attention, 6): 9.0})
        assert EVERY[claim].test(beside(runs, other)).statistic == alone


def test_three_epochs_have_no_jitter():
    runs = curves({("inverted-attention", 1): 1.0, ("inverted-attention", 4): 2.0})
    short = replace(runs, results=runs.results[runs.results["epoch"] <= 3])
    assert EVERY[ITERATING].test(short) is None
