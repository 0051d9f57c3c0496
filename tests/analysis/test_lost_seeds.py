"""A method never stands higher because its bad seeds are missing, and what is said of it tells of how many seeds."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench.analysis import (
    METHOD,
    MISSING,
    Analysis,
    Main,
    Mean,
    Method,
    SeedValues,
    Verdict,
    best_first,
    corrected,
    gains_over,
    standing,
    table_of,
)
from routebench.analysis import difference as paired
from routebench.analysis._result import INCOMPLETE
from routebench.analysis.comparison import comparison_of, gains_of
from routebench.analysis.judging import accuracies, difference, judged_in
from routebench.analysis.named import named_table
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._decisions import Decisions
from routebench.report._headline import headline_of
from routebench.report._scorecard import scorecard_of
from tests.analysis.made_up_runs import made_up_records, made_up_runs

SEEDS = 6
NO_NUMBER = {"ok, with nan": math.nan, "ok, with null": None, "ok, with inf": math.inf}
"""Runs that ended well, and have no accuracy."""
ENDS = ("diverged", "failed", "oom", "timeout", *NO_NUMBER)
ABSENT = "ok, without"
"""Runs that ended well, and have no row of accuracy."""


def runs_of(
    accuracies: dict[str, float], lost: dict[str, int], status: str = "diverged", primary: bool = False, **options
):
    """Runs of methods without T, of which some lost their last seeds."""
    methods = {
        name: ([None], "control" if name == "uniform" else "method", "capsnet-small", [value])
        for name, value in accuracies.items()
    }
    records = made_up_records(seeds=SEEDS, methods=methods, failures=False, **options)
    for record in records:
        if record["identity"]["seed"] < SEEDS - lost.get(record["label"], 0):
            continue
        if status == ABSENT:
            record["metrics"] = [metric for metric in record["metrics"] if metric["metric"] != "accuracy"]
        elif status in NO_NUMBER:
            for metric in record["metrics"]:
                metric["value"] = NO_NUMBER[status] if metric["metric"] == "accuracy" else metric["value"]
        else:
            record |= {"status": status, "metrics": [], "reason": "" if status == "not run" else "it ended"}
    runs = made_up_runs(records, preset="full")
    sides = [{"label": name, "model": "capsnet-small", "iterations": None} for name in accuracies if name != "uniform"]
    base = {"label": "uniform", "model": "capsnet-small", "iterations": None}
    named = {"margin": 0.5, "first": SEEDS, "pairs": [{"ours": side, "theirs": base} for side in sides]}
    return replace(runs, primary=named) if primary else runs


def method_of(runs, name):
    return next(method for method in runs.methods.values() if method.name == name)


@pytest.mark.parametrize("status", [*ENDS, "not run"])
@pytest.mark.parametrize("lost", [1, 3, SEEDS - 1])
def test_a_high_mean_over_fewer_seeds_stands_behind_lower_means_over_all(status, lost) -> None:
    runs = runs_of({"em": 98.0, "dynamic": 96.0, "uniform": 97.0}, {"em": lost}, status)
    assert [method.name for method in comparison_of(runs).table["method"]] == ["uniform", "dynamic", "em"]
    assert Decisions.of(runs).leader.method.name == "uniform"
    assert [gain.method.name for gain in Decisions.of(runs).gains] == ["dynamic", "em"]
    own = table_of(runs, [METHOD, Mean("x", "accuracy", "±.1", where={"split": "test"})], order="accuracy")
    assert [method.name for method in own["method"]] == ["uniform", "dynamic", "em"]


def test_of_two_that_lost_seeds_the_one_with_more_left_stands_first() -> None:
    runs = runs_of({"em": 98.0, "dynamic": 96.0, "uniform": 97.0}, {"em": 3, "dynamic": 1, "uniform": 2})
    assert [method.name for method in comparison_of(runs).table["method"]] == ["dynamic", "uniform", "em"]


def test_a_column_that_only_some_seeds_have_orders_by_these() -> None:
    runs = runs_of({"em": 98.0, "uniform": 97.0}, {})
    results = runs.results[(runs.results["label"] != "em") | (runs.results["seed"] > 1)]
    own = table_of(replace(runs, results=results), [Mean("x", "accuracy", "±.1")], order="accuracy")
    assert [method.name for method in own["method"]] == ["uniform", "em"]


def test_less_is_better_is_no_way_around_it() -> None:
    runs = runs_of({"em": 10.0, "uniform": 20.0}, {"em": 1})
    table = comparison_of(runs).table
    assert [method.name for method in best_first(table, "mean", ascending=True)["method"]] == ["uniform", "em"]
    assert [method.name for method in best_first(table, "mean")["method"]] == ["uniform", "em"]
    assert standing({"mean": float("nan")}, "mean")[0]


LOST = pytest.mark.parametrize(
    ("given", "lost", "verdict"),
    [
        (99.0, {"em": 1}, Verdict.UNTESTABLE),  # ahead, by seeds that it kept
        (99.0, {}, Verdict.BETTER),
        (99.0, {"uniform": 1}, Verdict.BETTER),  # what the other lost speaks for the other
        (95.0, {"em": 1}, Verdict.WORSE),
        (95.0, {"uniform": 1}, Verdict.UNTESTABLE),
        (99.0, {"em": 1, "uniform": 1}, Verdict.BETTER),  # both lost the same seed
    ],
)


@LOST
def test_a_gain_is_tested_only_against_the_side_that_lacks_values_of_runs_that_ended_well(given, lost, verdict) -> None:
    values = runs_of({"em": given, "uniform": 97.0}, {}).by_seed("accuracy", split="test")
    some = {}
    for method, own in values.items():
        gone = {*sorted(own)[: lost.get(method.label, 0)]}
        kept = {seed: value for seed, value in own.items() if seed not in gone}
        some[method] = SeedValues(kept, within=(0.0, 100.0), lost=gone)
    (found,) = gains_over("uniform", some).values()
    assert found.verdict is verdict


@pytest.mark.parametrize("status", [*ENDS, ABSENT])
@LOST
def test_a_difference_is_tested_only_against_the_side_that_lost_seeds(status, given, lost, verdict) -> None:
    runs = runs_of({"em": given, "uniform": 97.0}, lost, status, primary=True)
    em, uniform = method_of(runs, "em"), method_of(runs, "uniform")
    assert gains_of(runs)[em].verdict is verdict
    assert comparison_of(runs).verdict(em, uniform) is verdict
    assert [*named_table(runs)["verdict"]] == [verdict]
    assert [*named_table(runs)["both_verdict"]] in ([verdict], [Verdict.OPEN])
    values = runs.by_seed("accuracy", split="test")
    assert gains_over("uniform", values)[em].verdict is verdict
    assert corrected([paired(values[em], values[uniform])])[0].verdict is verdict
    errors = {method: {seed: 100 - own for seed, own in of.items()} for method, of in values.items()}
    told = gains_over("uniform", errors, higher_is_better=False)[em].verdict
    turned = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert told is turned.get(verdict, verdict)


@pytest.mark.parametrize(
    ("way", "ahead", "is_tested"),
    [
        (True, 1, False),
        (True, -1, True),
        (False, 1, True),
        (False, -1, False),
        (None, 1, False),  # neither is better: lost seeds of either may have made the difference
        (None, -1, False),
    ],
)
def test_lost_seeds_speak_for_their_side_whichever_way_is_better(way, ahead, is_tested) -> None:
    left, whole = {seed: ahead + 0.01 * seed for seed in range(4)}, dict.fromkeys(range(5), 0.0)
    ours, theirs = SeedValues(left, lost={4}, higher_is_better=way), SeedValues(whole, higher_is_better=way)
    for found in (paired(ours, theirs), -paired(theirs, ours)):
        assert (found.has_limits, math.isnan(found.p)) == (is_tested, not is_tested)
        assert found.mean == pytest.approx(ahead + 0.015)
    both = SeedValues(dict.fromkeys(range(4), 0.0), lost={4}, higher_is_better=way)
    assert paired(ours, both).has_limits, "a seed that both lost speaks for neither"


def test_values_of_runs_know_their_direction_and_the_seeds_that_were_lost() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {"em": 2})
    em = method_of(runs, "em")
    ways = {metric: runs.by_seed(metric, **where)[em].higher_is_better
            for metric, where in {"accuracy": {"split": "test"}, "loss": {}, "parameters": {}}.items()}  # fmt: skip
    assert ways == {"accuracy": True, "loss": False, "parameters": None}
    assert {one.lost for one in (runs.by_seed("loss")[em], accuracies(runs)[em])} == {frozenset({4, 5})}
    own = runs.results.assign(metric="my error", higher_is_better=False)
    own = replace(runs, results=own.drop_duplicates("cell"))
    assert own.by_seed("my error")[em].higher_is_better is False


def test_seeds_that_were_not_run_yet_are_no_bad_ones() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {"em": 2}, "not run")
    assert gains_of(runs)[method_of(runs, "em")].verdict is Verdict.BETTER
    assert "EM (4 of 6 seeds)" in headline_of(runs).title


@pytest.mark.parametrize("yours", [frozenset(), frozenset({"em"})])
def test_equal_answers_with_the_seeds_that_are_left_are_no_tie_on_every_seed(yours) -> None:
    records = made_up_records(
        seeds=4,
        methods={
            "em": ([None], "method", "capsnet-small", [97.0]),
            "uniform": ([None], "control", "capsnet-small", [97.0]),
        },
        failures=False,
    )
    base = {record["identity"]["seed"]: record for record in records if record["label"] == "uniform"}
    for record in records:
        if record["label"] == "em":
            record["metrics"] = [dict(metric) for metric in base[record["identity"]["seed"]]["metrics"]]
            if record["identity"]["seed"] > 1:
                record |= {"status": "diverged", "reason": "no", "metrics": []}
    runs = replace(made_up_runs(records, preset="full"), yours=yours)
    found = headline_of(runs)
    assert "as accurate" not in str(found)
    assert "EM with 2 of 4 seeds (diverged)" in str(found)
    if yours:
        assert found.title.startswith("★ EM (2 of 4 seeds) lost 2 seeds, which may be its bad ones")
    assert comparison_of(runs).table["method"].iloc[-1].name == "em"


def test_a_tie_says_with_how_many_seeds() -> None:
    records = made_up_records(seeds=4, methods={"em": ([None], "method", "capsnet-small", [97.0])}, failures=False)
    control = [{**record, "cell": record["cell"][::-1], "label": "uniform"} for record in records]
    for record in control:
        record["identity"] = {**record["identity"], "method": "uniform", "role": "control", "routed": False}
        record["metrics"] = [{**m, "value": m["value"] + (m["metric"] == "train_loss")} for m in record["metrics"]]
    runs = replace(made_up_runs([*records, *control], preset="full"), yours=frozenset({"em"}))
    assert headline_of(runs).title == "★ EM is as accurate as uniform routing with each of the 4 seeds of both."


def test_every_text_of_a_method_says_how_many_seeds_it_has() -> None:
    runs = runs_of({"em": 98.0, "uniform": 97.0}, {"em": 2})
    em = method_of(runs, "em")
    assert (str(em), em.exact) == ("EM (4 of 6 seeds)", "em")
    assert str(em.anywhere) == str(em.family) == "EM"
    assert str(method_of(runs, "uniform")) == "Uniform routing"
    assert "EM (4 of 6 seeds)" in analyses["accuracy-pairwise"](runs).shown().to_string()


def test_a_table_explains_its_order_only_where_seeds_are_missing() -> None:
    for lost, told in (({"em": 2}, True), ({}, False), ({"em": SEEDS}, False)):
        runs = runs_of({"em": 98.0, "dynamic": 96.0, "uniform": 97.0}, lost)
        found = analyses["accuracy-table"](runs)
        assert (INCOMPLETE in found.notes) is told
        assert replace(found, title="x").notes == found.notes
    plain = Method.of("em")
    assert Analysis("x", "y", comparison_of(runs).table.assign(method=plain)).notes == ()


def test_a_scorecard_counts_the_seeds_of_each_question_and_says_nothing_better_of_lost_ones() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {"em": 2})
    found = analyses["accuracy-table"](runs)
    (row,) = [row for row in scorecard_of([("a", runs, found)]).rows if row.method.name == "em"]
    assert str(row.method) == "EM"
    assert row.marks[0].kind == "ns"
    assert row.marks[0].value.endswith(" (4 of 6 seeds)")
    behind = runs_of({"em": 95.0, "uniform": 97.0}, {"em": 2})
    card = scorecard_of([("a", behind, analyses["accuracy-table"](behind))])
    assert card.said[0] == "Significantly worse: EM (4 of 6 seeds)."
    assert isinstance(found.main, Main)


def test_a_front_does_not_rest_on_seeds_that_are_left() -> None:
    runs = runs_of({"em": 99.0, "dynamic": 98.0, "uniform": 97.0}, {"em": 2})
    (table,) = [analyses["pareto"]((runs,)).table]
    verdicts = {method.name: told for method, told in zip(table["method"], table["verdict"], strict=True)}
    assert verdicts["em"] != "front"
    assert verdicts["dynamic"] == "front"


def test_the_best_number_of_iterations_has_all_seeds() -> None:
    records = made_up_records(
        seeds=4, methods={"em": ([1, 2, 3], "method", "capsnet-small", [95.0, 96.0, 99.0])}, failures=False
    )
    for record in records:
        if record["identity"]["iterations"] == 3 and record["identity"]["seed"] > 1:
            record |= {"status": "diverged", "metrics": [], "reason": "no"}
    runs = made_up_runs(records, preset="full")
    assert comparison_of(runs).measured["method"].iloc[0].iterations == 2
    drawn = analyses["training-curves"](runs)
    assert drawn is not None


def test_what_lacks_seeds_on_one_data_set_has_no_rank_over_all() -> None:
    whole = runs_of({"em": 99.0, "dynamic": 98.0, "uniform": 97.0}, {})
    part = replace(runs_of({"em": 99.0, "dynamic": 98.0, "uniform": 97.0}, {"em": 1}), data="other")
    found = analyses["accuracy-across-data"]((whole, part))
    assert "em" not in {method.name for method in found.table["name"]}
    assert any(note.startswith("Left out") and "EM" in note for note in found.notes)


def test_over_all_tasks_lost_seeds_are_counted_and_nothing_is_better_by_them() -> None:
    given = {"em": 99.0, "dynamic": 98.0, "uniform": 97.0}
    parts = (runs_of(given, {}, primary=True), replace(runs_of(given, {"em": 1}, primary=True), data="other"))
    found = analyses["summary-over-tasks"](parts)
    assert [*found.table["label"]] == ["dynamic", "em"]
    assert found.shown()["Method"].iloc[1] == "EM (11 of 12 seeds)"
    assert [*found.shown()["Verdict"]] == ["better", "–"]


def tied(records, images):
    """Em answers as uniform routing does, and as many more images right with every seed."""
    base = {record["identity"]["seed"]: record for record in records if record["label"] == "uniform"}
    for record in records:
        if record["label"] == "em":
            right = base[record["identity"]["seed"]]["correct"].copy()
            right[np.flatnonzero(~right)[:images]] = True
            record["correct"] = right
            accuracy = [metric for metric in record["metrics"] if metric["metric"] == "accuracy"]
            for metric in accuracy:
                metric["value"] = 100 * float(right.mean())


def two_of(seeds, lost=(), images=10, yours=(), named=False):
    """Em and uniform routing, of which em has so many more images right with every seed, and lost some."""
    methods = {
        name: ([None], role, "capsnet-small", [97.0]) for name, role in (("em", "method"), ("uniform", "control"))
    }
    records = made_up_records(seeds=seeds, methods=methods, failures=False)
    tied(records, images)
    for record in records:
        if record["label"] == "em" and record["identity"]["seed"] in lost:
            record |= {"status": "diverged", "metrics": [], "reason": "it ended"}
    runs = replace(made_up_runs(records, preset="full"), yours=frozenset(yours))
    em, uniform = ({"label": name, "model": "capsnet-small", "iterations": None} for name in methods)
    primary = {"margin": 0.5, "first": seeds, "pairs": [{"ours": em, "theirs": uniform}]}
    return replace(runs, primary=primary) if named else runs


def test_what_has_no_test_has_no_interval_anywhere() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {"em": 1}, primary=True)
    em = method_of(runs, "em")
    (named,) = named_table(runs).to_dict("records")
    (pair,) = analyses["accuracy-pairwise"](runs).table.to_dict("records")
    (gain,) = analyses["gain-over-uniform"](runs).table.to_dict("records")
    values = gains_over("uniform", runs.by_seed("accuracy", split="test"))
    for row in (named, {"difference": values[em]}, {**pair, "difference": -pair["difference"]}, gain):
        found = [row[key] for key in ("difference", "gain", "both") if key in row]
        assert found
        assert all(not one.has_limits and math.isnan(one.p) and one.kind == MISSING for one in found), row
    assert not pair["effect"].has_limits
    notes = analyses["accuracy-table"](runs).notes
    assert any(note.startswith("1 comparison cannot be tested: the side that is ahead lost seeds") for note in notes)
    assert not any("fell out" in note for note in notes)


def test_equal_within_the_margin_is_nothing_that_lost_seeds_show() -> None:
    runs = two_of(5, lost={4}, images=0, named=True)
    (row,) = named_table(runs).to_dict("records")
    assert (row["verdict"], row["both_verdict"]) == (Verdict.UNTESTABLE, Verdict.UNTESTABLE)
    behind = runs_of({"em": 96.95, "uniform": 97.0}, {"em": 1}, primary=True, spread=0.02)
    (row,) = named_table(behind).to_dict("records")
    assert Verdict.EQUAL not in (row["verdict"], row["both_verdict"])


def test_seeds_that_all_differ_alike_are_counted_and_told_as_if_images_were_drawn_anew() -> None:
    runs = two_of(3, named=True)
    (row,) = named_table(runs).to_dict("records")
    assert (row["seeds"], row["difference"].n) == (3, 3)
    assert (row["verdict"], row["both_verdict"]) == (Verdict.BETTER, Verdict.BETTER)
    assert row["both"].low < row["both"].mean < row["both"].high
    assert "Not if" not in str(headline_of(runs))
    lost = headline_of(two_of(4, lost={3}, yours={"em"}))
    assert "with each of the 3 seeds of both" in lost.title
    once = headline_of(two_of(2, lost={1}, yours={"em"}))
    assert "with the one seed of both" in once.title


def test_a_tie_is_no_lead_and_not_on_every_seed_where_seeds_were_lost() -> None:
    assert "ahead of" not in str(headline_of(two_of(4, lost={3}, images=0)))
    assert "No test compares it with EM (3 of 4 seeds)." in headline_of(two_of(4, lost={3}, images=0)).said


def test_detectable_differences_name_the_seeds_that_they_are_of() -> None:
    runs = runs_of({"em": 98.0, "dynamic": 96.0, "uniform": 97.0}, {"em": SEEDS - 1})
    notes = [note for note in analyses["accuracy-pairwise"](runs).notes if note.startswith("Smallest")]
    assert all(f"with {SEEDS} seeds" in note for note in notes) and notes


@pytest.mark.parametrize("status", ["diverged", "not run"])
def test_why_nothing_could_be_tested_is_told(status) -> None:
    runs = runs_of({"em": 98.0, "uniform": 97.0}, {"uniform": SEEDS - 1}, status)
    why = {"diverged": "seeds were lost", "not run": "too few seeds have results of both a method and uniform routing"}
    assert headline_of(runs).title == f"Whether routing helps could not be tested: {why[status]}."
    assert scorecard_of([("a", runs, analyses["accuracy-table"](runs))]).title == "Does routing help? Not tested."


def test_a_method_of_the_user_without_any_result_is_told_first() -> None:
    given = {"em": 98.0, "dynamic": 98.0, "uniform": 97.0}
    runs = replace(runs_of(given, {"em": SEEDS}), yours=frozenset({"em"}))
    found = headline_of(runs)
    assert found.title == "★ EM has no result."
    assert f"★ EM with {SEEDS} of {SEEDS} seeds (diverged)" in str(found)
    assert scorecard_of([("a", runs, analyses["accuracy-table"](runs))]).title == "Does EM help? No result."


@pytest.mark.parametrize("yours", [frozenset(), frozenset({"em"})])
def test_what_is_the_same_function_as_equal_shares_has_finished_and_is_told(yours) -> None:
    records = made_up_records(
        seeds=3,
        methods={
            "em": ([1], "method", "capsnet-small", [97.0]),
            "uniform": ([None], "control", "capsnet-small", [97.0]),
            **({"cnn": ([None], "control", "capsnet-small", [96.0])} if yours else {}),
        },
        failures=False,
    )
    base = {record["identity"]["seed"]: record for record in records if record["label"] == "uniform"}
    for record in records:
        if record["label"] == "em":
            own = base[record["identity"]["seed"]]
            steps = {"accuracy": 1, "loss": 1}
            record["metrics"] = [{**m, "test_iterations": steps.get(m["metric"])} for m in own["metrics"]]
    runs = replace(made_up_runs(records, preset="full"), yours=yours)
    said = {
        frozenset(): "Routing is not shown to help: EM, T = 1 gives what a baseline gives, on every seed.",
        frozenset({"em"}): "★ EM, T = 1 is as accurate as uniform routing with each of the 3 seeds of both.",
    }
    assert headline_of(runs).title == said[yours]
    table = analyses["accuracy-table"](runs)
    if yours:
        card = scorecard_of([("a", runs, table)])
        assert card.title == "Does EM help? Not shown."
        assert [row.method.name for row in card.rows] == ["em", "uniform", "cnn"]


def test_of_equal_means_the_same_method_comes_first_everywhere_and_both_are_told() -> None:
    methods = {
        name: ([None], role, "capsnet-small", [97.0])
        for name, role in (("cnn", "control"), ("em", "method"), ("uniform", "control"))
    }
    records = made_up_records(seeds=3, methods=methods, failures=False)
    values = {"cnn": (97.0, 97.1, 97.1), "em": (96.8, 97.0, 97.4), "uniform": (96.0, 96.1, 96.3)}
    assert len({float(np.mean(own)) for own in (values["cnn"], values["em"])}) == 2, "equal but for rounding"
    for record in records:
        for metric in record["metrics"]:
            if metric["metric"] == "accuracy":
                metric["value"] = values[record["label"]][record["identity"]["seed"]]
    runs = made_up_runs(records, preset="full")
    assert [method.name for method in analyses["accuracy-table"](runs).table["method"]][:2] == ["em", "cnn"]
    assert "Highest mean accuracy: EM, 97.1 ± 0.8 % (3 seeds), and the same with CNN." in str(headline_of(runs))


def test_a_range_of_gains_is_from_the_smallest_to_the_largest() -> None:
    given = {"em": 99.0, "dynamic": 98.0, "uniform": 97.0}
    for named in (False, True):
        told = headline_of(runs_of(given, {"em": 2}, "not run", primary=named)).title
        sizes = [float(size) for size in re.findall(r"([\d.]+) to ([\d.]+) points", told)[0]]
        assert sizes == sorted(sizes) and sizes[1] > sizes[0] + 0.5


@pytest.mark.parametrize(("given", "told"), [(97.0, "EM does not differ significantly from"), (90.0, "EM loses to")])
def test_a_single_method_is_named_and_not_counted(given, told) -> None:
    runs = runs_of({"em": given, "uniform": 97.0}, {})
    assert headline_of(runs).title == f"Routing is not shown to help: {told} uniform routing."


def test_a_question_about_two_methods_is_asked_of_both_once() -> None:
    runs = replace(runs_of({"em": 98.0, "dynamic": 96.0, "uniform": 97.0}, {}), yours=frozenset({"em", "dynamic"}))
    card = scorecard_of([("a", runs, analyses["accuracy-table"](runs))])
    assert card.title.startswith("Do EM and Dynamic help? ")
    records = made_up_records(
        seeds=5,
        methods={
            "em": ([1, 2], "method", "capsnet-small", [94.0, 98.0]),
            "uniform": ([None], "control", "capsnet-small", [96.0]),
        },
        failures=False,
    )
    runs = replace(made_up_runs(records, preset="full"), yours=frozenset({"em"}))
    card = scorecard_of([("a", runs, analyses["accuracy-table"](runs))])
    assert card.title.startswith("Does EM help? ")


@pytest.mark.parametrize("status", [*ENDS, ABSENT])
@pytest.mark.parametrize("loser", ["em", "uniform"])
@pytest.mark.parametrize("named", ["method", "text", "label"])
def test_a_claim_is_undecided_where_a_seed_lacks_a_number_however_the_run_ended(status, loser, named) -> None:
    whole = runs_of({"em": 99.0, "uniform": 97.0}, {})
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {loser: 1}, status)
    for given, verdict in ((whole, Verdict.HOLDS), (runs, Verdict.UNDECIDED)):
        known = accuracies(given)
        em, uniform = (next(method for method in known if method.name == name) for name in ("em", "uniform"))
        of = {"method": (em, uniform), "text": (str(em), str(uniform)), "label": (em.label, uniform.label)}[named]
        found = judged_in(given, difference(known[em], known[uniform]), of)
        assert found.verdict == verdict
    assert "1 seed without a result" in found.why


def test_a_claim_about_fewer_seeds_than_another_method_has_is_decided() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0, "dynamic": 97.5}, {"dynamic": 2}, "not run")
    known = {method.name: (method, values) for method, values in accuracies(runs).items()}
    (dynamic, low), (uniform, base) = known["dynamic"], known["uniform"]
    runs = replace(runs, planned=runs.planned[(runs.planned["label"] != "dynamic") | (runs.planned["seed"] < 4)])
    assert judged_in(runs, difference(low, base), (dynamic, uniform)).verdict == Verdict.HOLDS


def test_several_values_of_one_seed_are_refused_where_one_would_count_or_each_as_a_seed() -> None:
    runs = runs_of({"em": 99.0, "uniform": 97.0}, {})
    more = runs.results[runs.results["metric"] == "accuracy"].assign(test_iterations=5, value=12.0)
    mixed = replace(runs, results=pd.concat([runs.results, more], ignore_index=True))
    for ask in (mixed.by_seed, mixed.means):
        with pytest.raises(UserError, match=r"expected one value of .* for each seed, got several that differ in"):
            ask("accuracy")
        with pytest.raises(UserError, match=r"choose one, as in values\(metric, test_iterations=\.\.\.\)"):
            ask("accuracy", split="test")
    table = mixed.means("accuracy", by=["test_iterations"])
    assert {mean.n for mean in table["mean"]} == {SEEDS}
