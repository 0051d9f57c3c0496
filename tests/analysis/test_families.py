"""One difference has one interval, one p and one verdict, wherever a page shows it."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analyses.accuracy_pairwise import pairs_of
from analyses.accuracy_table import accuracy_table
from analyses.gain_over_uniform import gain_over_uniform
from analyses.primary_comparisons import primary_comparisons
from routebench import statistics
from routebench.analysis import Method, SeedValues, corrected, difference, gains_over
from routebench.analysis._estimate import UNEVEN
from routebench.analysis.comparison import comparison_of
from routebench.analysis.contenders import contenders_of, p_beyond_between
from routebench.analysis.families import settled
from routebench.analysis.judging import judged
from routebench.analysis.named import chosen_t, fold_images, named_table, on_these_images_alone, over_first
from routebench.declared import as_recorded
from routebench.report._headline import headline_of
from routebench.report._values import estimates_of
from routebench.report._values import pairs_of as compared_in_explorer
from tests.analysis.made_up_runs import METHODS, N_TEST, made_up_records, made_up_runs


def entry(label, steps=None, model="capsnet-small"):
    return {"label": label, "model": model, "iterations": steps}


PAIRS = [
    {"ours": entry("dynamic", 2), "theirs": entry("uniform")},
    {"ours": entry("em", 2), "theirs": entry("uniform")},
    {"ours": entry("inverted-attention", 2), "theirs": entry("uniform")},
    {"ours": entry("inverted-attention", 2), "theirs": entry("cnn", None, "cnn-small")},
    {"ours": entry("em", 2), "theirs": entry("em", 1)},
]


def staged(first=3, seeds=7, spread=0.4, **options):
    """Runs of a suite that named comparisons, to which seeds were added after the first."""
    runs = made_up_runs(made_up_records(seeds=seeds, failures=False, spread=spread, **options))
    return replace(runs, primary={"margin": 0.5, "first": first, "half_width": 0.3, "pairs": PAIRS})


@pytest.fixture(scope="module")
def runs():
    return staged()


def test_a_named_difference_is_the_same_in_every_table_and_figure(runs):
    table, found = named_table(runs), comparison_of(runs)
    gains = found.table.set_index("method")["gain"]
    pairs = {(row["first"], row["second"]): row for row in pairs_of(runs).to_dict("records")}
    drawn = gain_over_uniform(runs).table.set_index("method")["gain"]
    assert {one.kind for one in table["difference"]} == {statistics.OVER_SEEDS_TWO_STAGES}
    for row in table.to_dict("records"):
        ours, theirs, one = row["method"], row["against"], row["difference"]
        if theirs.label == "uniform":
            assert gains[ours] == drawn[ours] == one
        assert found.verdict(ours, theirs) == one.verdict
        shown = pairs.get((ours, theirs)) or pairs[theirs, ours]
        sign = 1 if (ours, theirs) in pairs else -1
        assert shown["difference"] == (one if sign > 0 else -one)
        assert shown["p_equal_holm"] == pytest.approx(row["p_beyond"], nan_ok=True)
    em = next(method for method in over_first(runs) if method.exact == "em T=2")
    (beside,) = (row["difference"] for row in table.to_dict("records") if row["against"].exact == "em T=1")
    assert over_first(runs)[em] == beside


@pytest.fixture(scope="module")
def normed():
    """Runs in which a variant of the network is 1.6 points more accurate, whatever the method."""
    return made_up_runs(
        made_up_records(
            seeds=5,
            failures=False,
            methods=METHODS
            | {
                "em (normed)": ([1, 3], "method", "capsnet-small", [98.0, 98.1]),
                "dynamic (normed)": ([2], "method", "capsnet-small", [98.2]),
                "uniform (normed)": ([None], "control", "capsnet-small", [97.9]),
            },
        )
    )


def test_a_variant_gains_over_the_same_variant_of_the_baseline(normed):
    table = comparison_of(normed).table
    gains = {method.exact: gain.mean for method, gain in zip(table["method"], table["gain"], strict=True)}
    assert gains["em (normed) T=3"] == pytest.approx(0.2, abs=0.3)
    assert gains["em T=3"] == pytest.approx(-0.4, abs=0.3)
    assert gains["cnn"] == pytest.approx(0.8, abs=0.3)
    drawn = gain_over_uniform(normed).table
    for gain, both in zip(drawn["gain"], drawn["both"], strict=True):
        assert both.mean == pytest.approx(gain.mean)  # of the same two methods
    first = {method.exact: gain.mean for method, gain in over_first(normed).items()}
    assert first["dynamic (normed) T=2"] == pytest.approx(0.3, abs=0.3)
    seeds = {method: {0: 1.0, 1: 1.1, 2: 1.2} for method in normed.methods.values()}
    over = {method.label for method in gains_over("uniform", seeds)}
    assert "em (normed)" in over and not {"uniform", "uniform (normed)"} & over


def test_the_headline_names_the_variant_of_the_baseline(normed):
    pairs = [
        {"ours": entry("em (normed)", 3), "theirs": entry("uniform (normed)")},
        {"ours": entry("em", 3), "theirs": entry("uniform")},
    ]
    runs = replace(normed, primary={"margin": 0.5, "first": 5, "half_width": None, "pairs": pairs})
    said = headline_of(runs).said
    assert sum(one.startswith("Against uniform routing (normed), ") for one in said) == 1
    assert sum(one.startswith("Against uniform routing, ") for one in said) == 1


def test_after_a_second_stage_every_pair_has_its_interval(runs):
    found = comparison_of(runs)
    for (ours, theirs), one in found.pairs.items():
        known = [found.contenders[each].accuracies for each in (ours, theirs)]
        expected = statistics.two_stage_difference(*known, 3)
        assert (one.low, one.high, one.p) == pytest.approx((expected.low, expected.high, expected.p_value))
        plain = statistics.paired_difference(*known)
        assert one.half_width != pytest.approx(plain.half_width)


def test_the_explorer_has_the_intervals_of_the_tables(runs):
    rows = runs.results[(runs.results["metric"] == "accuracy") & (runs.results["split"] == "test")]
    rows = rows[rows["test_iterations"].isna() | (rows["test_iterations"] == rows["iterations"])]
    rows = rows[["suite", "data", "model", "label", "iterations", "role", "seed", "metric", "split", "unit", "value"]]
    rows = rows.assign(preset=runs.preset, first=runs.first).reset_index(drop=True)
    rows["group"], _ = estimates_of(rows)
    pairs = compared_in_explorer(rows)
    (groups,), margins = pairs.groups, pairs.margins
    of_group = {
        group: (own["label"].iloc[0], own["iterations"].iloc[0]) for group, own in rows.groupby("group", sort=False)
    }
    known = {(one.label, one.iterations): one for one in comparison_of(runs).contenders}
    place = 0
    for at, one in enumerate(groups):
        for other in groups[at + 1 :]:
            methods = [
                known[label, None if pd.isna(steps) else int(steps)] for label, steps in map(of_group.get, (one, other))
            ]
            expected = settled(runs).difference(*methods)
            assert margins[place] == pytest.approx(expected.half_width, rel=1e-5)
            place += 1


def test_claims_of_papers_have_two_stages_too():
    values = dict(enumerate([0.5, 0.2, 0.6, 1.9, -1.0, 0.3, 0.2]))
    expected = statistics.two_stage_difference(values, dict.fromkeys(values, 0.0), 3)
    found = judged(values, first=3).statistic
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert judged(values).statistic.half_width == pytest.approx(statistics.mean_interval([*values.values()]).half_width)


def test_the_table_marks_what_the_sentence_does_not_count(runs):
    """A gain that was not named has its p with a word beside it; the headline counts named ones alone."""
    analysis, named = accuracy_table(runs), {*named_table(runs)["method"]}
    shown = analysis.shown(extra=False).set_index("Method")["p (Holm)"]
    for method, gain in zip(analysis.table["method"], analysis.table["gain"], strict=True):
        if gain.known:
            assert shown[method.marked].endswith(", exploratory") == (method not in named)
    told = headline_of(runs).said
    (against,) = (one for one in told if one.startswith("Against uniform routing"))
    better = [one for one in named if comparison_of(runs).table.set_index("method")["gain"][one].verdict == "better"]
    assert better and all(str(one) in against for one in better)


def test_every_pair_belongs_to_one_family_and_ranks_never_claim_what_a_verdict_denies(runs):
    found = settled(runs)
    table = comparison_of(runs)
    for pair, one in table.pairs.items():
        assert math.isnan(one.p_holm) or one.p <= one.p_holm <= found.p_together(*pair) + 1e-12


def test_a_named_comparison_that_was_never_finished_still_counts():
    plain = staged()
    lost = plain.planned["label"] == "em"
    without = replace(
        plain,
        planned=plain.planned.assign(status=plain.planned["status"].mask(lost, "not run")),
        results=plain.results[plain.results["label"] != "em"],
    )
    table = named_table(without)
    assert len(table) == len(PAIRS) and not table["difference"][1].known
    raw = [one.p for one in table["difference"]]
    assert [one.p_holm for one in table["difference"]] == pytest.approx(statistics.holm(raw, len(PAIRS)), nan_ok=True)
    assert statistics.holm(raw)[0] != pytest.approx(table["difference"][0].p_holm)


def with_accuracies(values, diverged=()):
    """Runs with these accuracies by label and T, and seeds that diverged."""
    methods = {}
    for label, steps in values:
        grid, _, _, level = methods.setdefault(
            label, ([], "control" if label == "uniform" else "method", "capsnet-small", [])
        )
        grid.append(steps)
        level.append(90.0)
    records = made_up_records(seeds=5, failures=False, methods=methods)
    for record in records:
        known = record["identity"]
        if (record["label"], known["iterations"], known["seed"]) in diverged:
            record |= {"status": "diverged", "reason": "no", "metrics": []}
        for metric in record["metrics"]:
            if metric["metric"] == "accuracy":
                metric["value"] = values[record["label"], known["iterations"]][known["seed"]]
    return made_up_runs(records)


UNIFORM = [90.0, 90.1, 89.9, 90.05, 89.95]
STEADY = [90.3, 90.42, 90.18, 90.37, 90.23]


def gain_in(runs, steps):
    return next(
        gain
        for method, gain in zip(*(comparison_of(runs).table[key] for key in ("method", "gain")), strict=True)
        if (method.label, method.iterations) == ("em", steps)
    )


def test_a_collapse_with_another_t_takes_a_small_lead_away_and_not_a_large_one():
    fallen = [90.3, 90.4, 87.3, 90.2, 90.3]
    small = with_accuracies({("em", 1): STEADY, ("em", 2): fallen, ("uniform", None): UNIFORM})
    steady = with_accuracies({("em", 1): STEADY, ("em", 2): STEADY, ("uniform", None): UNIFORM})
    large = with_accuracies({("em", 1): [one + 5 for one in STEADY], ("em", 2): fallen, ("uniform", None): UNIFORM})
    assert gain_in(steady, 1).verdict == "better"
    assert (gain_in(small, 1).verdict, gain_in(small, 1).kind) == ("cannot be tested", UNEVEN)
    assert not gain_in(small, 1).has_limits and gain_in(small, 1).mean == pytest.approx(gain_in(steady, 1).mean)
    assert gain_in(large, 1).verdict == "better"
    (note,) = (note for note in accuracy_table(small).notes if "fell out of the others" in note)
    assert "EM (1 of 10 seeds, up to 3.0 points below the others)" in note
    equal = [contenders_of(one) for one in (steady, small)]
    p_values = [
        p_beyond_between(one, *(each for each in own if each.method.iterations != 2), 0.5)
        for one, own in zip((steady, small), equal, strict=True)
    ]
    assert p_values[0] < 1 and math.isnan(p_values[1]), "nor are they equal"


def test_a_method_that_collapses_may_still_be_worse():
    fallen, low = [89.3, 89.4, 86.3, 89.2, 89.3], [one - 1 for one in UNIFORM]
    runs = with_accuracies({("em", 1): [low[0] + 0.02, *low[1:]], ("em", 2): fallen, ("uniform", None): UNIFORM})
    assert gain_in(runs, 1).verdict == "worse"


def test_no_verdict_favours_a_method_that_diverged_with_a_seed():
    values = {("em", 1): [one + 5 for one in STEADY], ("uniform", None): UNIFORM}
    assert gain_in(with_accuracies(values), 1).verdict == "better"
    assert gain_in(with_accuracies(values, {("em", 1, 2)}), 1).verdict == "cannot be tested"
    behind = {("em", 1): [one - 5 for one in STEADY], ("uniform", None): UNIFORM}
    assert gain_in(with_accuracies(behind, {("em", 1, 2)}), 1).verdict == "worse"


def test_other_metrics_look_at_collapses_too():
    control = Method("uniform", role="control")
    ours = {Method("em", iterations=step): dict(enumerate(values)) for step, values in
            enumerate((STEADY, [90.3, 90.4, 87.3, 90.2, 90.3]), 1)}  # fmt: skip
    found = gains_over("uniform", {**ours, control: dict(enumerate(UNIFORM))})
    assert found[Method("em", iterations=1)].kind == UNEVEN


def test_tests_that_the_data_made_impossible_count():
    plain = [difference(dict(enumerate(own)), dict.fromkeys(range(3), 0.0)) for own in ([1, 2, 3.5], [1.0] * 3)]
    assert math.isnan(plain[1].p)
    assert corrected(plain)[0].p_holm == pytest.approx(2 * plain[0].p)
    assert corrected(plain[:1])[0].p_holm == pytest.approx(plain[0].p)


@pytest.mark.parametrize(
    ("metric", "unit", "ours", "theirs", "limits"),
    [
        ("accuracy", "%", [99.0, 2.0, 50.0], [1.0, 98.0, 5.0], (-100, 100)),
        ("activation_correlation", "", [0.9, -0.9, 0.5], [-0.9, 0.9, 0.1], (-2, 2)),
        ("t_score", "", [1.0, 0.0, 0.9], [0.0, 1.0, 0.1], (-1, 1)),
        ("free_form_gain", "%", [90.0, -90.0, 50.0], [-90.0, 90.0, 1.0], (-200, 200)),
    ],
)
def test_no_difference_reaches_beyond_what_is_possible(metric, unit, ours, theirs, limits):
    sides = [SeedValues(dict(enumerate(own)), within=as_recorded(metric, unit).range) for own in (ours, theirs)]
    found = difference(*sides)
    assert (found.low, found.high) == limits
    plain = difference(*map(dict, sides))
    assert plain.low < found.low and plain.high > found.high, "t alone says more than is possible"


def test_answers_of_few_images_reach_no_further_than_all_of_them():
    ours, theirs = np.ones((2, 3), dtype=bool), np.zeros((2, 3), dtype=bool)
    ours[0, 0] = False
    for found in (
        statistics.crossed_difference(ours, theirs),
        statistics.paired_samples(ours[1], theirs[1]),
        statistics.paired_samples_of_seeds(ours, theirs),
    ):
        assert -1 <= found.low <= found.high <= 1


def tuned(scores, **options):
    """Named comparisons whose T was chosen by tuning scores, by label and T."""
    runs = staged(**options)
    known = {
        cell: {"score": scores[method.label, method.iterations]}
        for cell, method in runs.methods.items()
        if (method.label, method.iterations) in scores
    }
    return replace(runs, tuning=lambda cell: known.get(cell, {}), trials=16)


def test_the_page_says_how_close_t_was_and_what_its_choice_costs():
    images = {("em", 1): 4801, ("em", 2): 4802, ("em", 3): 4700, ("dynamic", 1): 4600, ("dynamic", 2): 4658}
    images |= {("dynamic", 3): 4651, ("uniform", None): 4500, ("random", None): 4321, ("none", None): 4567}
    runs = tuned({key: round(100 * count / 5500, 4) for key, count in images.items()})
    assert fold_images(runs) == 5500
    first, second = chosen_t(runs)
    assert (first.method.exact, first.next.exact, first.among) == ("em T=2", "em T=1", 3)
    assert (second.method.exact, second.next.exact) == ("dynamic T=2", "dynamic T=3")
    notes = " ".join(primary_comparisons(replace(runs, primary={**runs.primary, "pairs": PAIRS[:3]})).notes)
    assert "the best of up to 48 trials, and a configuration without T, such as a baseline, has 16" in notes
    assert "EM, T = 2 is ahead of T = 1 by 0.02 points (1 of 5,500 images)" in notes
    assert "A limit" not in " ".join(primary_comparisons(staged()).notes), "nothing was tuned"


def test_a_verdict_that_other_images_would_undo_is_named():
    """Every method has the same images right with each seed, and other images than the others: images decide."""
    runs = staged(spread=0.05)
    places = {label: place for place, label in enumerate(METHODS)}
    accuracy = runs.values("accuracy", split="test", as_trained=True).set_index("cell")["value"]

    def correct(cell):
        order = np.random.default_rng(places[runs.methods[cell].label]).permutation(N_TEST)
        return order < round(float(accuracy[cell]) / 100 * N_TEST)

    runs = replace(runs, correct=correct)
    rows = named_table(runs).to_dict("records")
    lost = [row for row in rows if on_these_images_alone(row)]
    assert lost and all(row["verdict"] != row["both_verdict"] for row in lost)
    notes = " ".join(primary_comparisons(runs).notes)
    said = " ".join(headline_of(runs).said)
    assert "Decided on these test images, and not if they were drawn anew too: " in notes
    for row in lost:
        assert str(row["method"]) in notes.partition("drawn anew too: ")[2]
        assert str(row["method"]) in said.partition("Not if test images were drawn anew too")[2]
