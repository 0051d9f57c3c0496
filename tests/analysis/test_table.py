"""What was measured as a table of estimates: which rows and cells there are, how they are written and saved."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import (
    METHOD,
    Analysis,
    Column,
    Estimate,
    Mean,
    Method,
    Verdict,
    corrected,
    difference,
    table_of,
)
from routebench.analysis._estimate import shown
from routebench.analysis._table import saved
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

FEW = {name: METHODS[name] for name in ("dynamic", "uniform")}
ONE = Estimate(97.0, 96.6, 97.4, 3, statistics.OVER_SEEDS)
SEEDS = {0: 1.0, 1: 2.0, 2: 4.0}


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runs():
    return made_up_runs(methods=FEW)


def test_values_of_a_seed_stand_in_the_order_of_the_records():
    """So that a page is the same wherever it is drawn: an order among equals by chance is the processor's."""
    epochs = [*range(40, 0, -1)]
    records = made_up_records(methods=FEW, failures=False)
    for record in records:
        one = {"metric": "accuracy", "value": 50.0, "unit": "%", "split": "moved", "higher_is_better": True}
        record["metrics"] += [one | {"epoch": epoch} for epoch in epochs]
    values = made_up_runs(records).values("accuracy", split="moved")
    for _, own in values.groupby("seed"):
        assert [*own["epoch"]] == epochs * len(set(own["cell"]))


@pytest.mark.parametrize("folder", ["routebench", "analyses", "reports", "docs"])
def test_no_sort_leaves_the_order_among_equals_to_chance(folder):
    """Pandas, NumPy and torch do so by default for one key: pages, and what is measured, would be the processor's."""
    found = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                several = bool(node.args) and isinstance(node.args[0], ast.List)
                stable = several or {"kind", "stable"} & {one.arg for one in node.keywords}
                if node.func.attr in ("sort_values", "argsort") and not stable:
                    found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("em", ("em", "", "")),
        ("em[a=1,b=2]", ("em", "a=1,b=2", "")),
        ("em (margin loss)", ("em", "", "margin loss")),
        ("em[a=1] (vector poses, b)", ("em", "a=1", "vector poses, b")),
    ],
)
def test_a_method_is_known_by_its_parts_and_written_as_the_plan_has_it(label, parts):
    method = Method.of(label, 2)
    assert (method.name, method.params, method.variant) == parts
    assert method.label == label
    assert method.exact == f"{label} T=2"


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("em[mass_normalisation=ratio]", "EM (ratio), T = 2"),
        ("em[final_lambda=0.1,bias=false]", "EM (final lambda 0.1; no bias), T = 2"),
        ("em[final_lambda=0.1,bias=false] (margin loss)", "EM (margin loss), T = 2"),
        ("inverted-attention[activations=true]", "Inverted attention (activations), T = 2"),
        ("my_own", "My own, T = 2"),
        ("uniform", "Uniform routing, T = 2"),
    ],
)
def test_a_method_is_named_for_a_reader(label, text):
    assert str(Method.of(label, 2)) == text
    assert str(replace(Method.of(label, 2), yours=True)) == f"★ {text}"


def test_methods_differ_by_what_was_run():
    assert Method.of("em", 2) == Method.of("em", 2.0) != Method.of("em", 3)
    assert sorted([Method.of("em", 10), Method.of("dynamic"), Method.of("em", 2)])[1].iterations == 2
    assert Method.of("cnn", 0).iterations is Method.of("cnn", pd.NA).iterations is None
    assert Method.of("cnn", None, "wide", "control", networks=2).exact == "cnn (wide)"


def test_values_are_those_of_the_finished_cells_of_each_method(runs):
    values = runs.values("accuracy", split="test", as_trained=True)
    expected = runs.results.query("metric == 'accuracy' and (iterations == test_iterations or test_iterations.isna())")
    assert len(values) == len(expected) == 12
    by_seed = runs.by_seed("accuracy", split="test", as_trained=True)
    own = expected[expected["label"] == "uniform"].set_index("seed")["value"]
    assert by_seed[next(method for method in by_seed if method.is_control)] == own.to_dict()


def test_an_example_is_of_the_first_seed_and_the_largest_iteration_count(runs):
    lost = runs.planned["iterations"].eq(3).fillna(False).astype(bool)
    some = replace(runs, arrays=lambda cell: {"x": np.array([cell])}, planned=runs.planned[~lost])
    found = some.examples("x")
    assert [method.exact for method in found] == ["dynamic T=2", "uniform"]
    first = runs.planned.query("label == 'dynamic' and iterations == 2 and seed == 0")["cell"].iloc[0]
    assert next(iter(found.values()))["x"].tolist() == [first]
    assert [method.exact for method in some.examples("x", iterative=True)] == ["dynamic T=2"]
    assert some.examples("y") == runs.examples("x") == {}


def test_a_column_or_metric_that_nobody_measured_gives_nothing(runs):
    assert runs.values("accuracy", layer="classes").empty
    assert runs.means("absent").empty
    assert runs.by_seed("absent") == {}
    assert table_of(runs, [Mean("A", "absent")]).empty


def test_means_are_over_seeds_with_their_interval(runs):
    found = runs.means("accuracy", ["test_iterations"], split="test")
    row = next(r for r in found.to_dict("records") if r["method"].exact == "dynamic T=2" and r["test_iterations"] == 3)
    own = runs.results.query("label == 'dynamic' and iterations == 2 and test_iterations == 3 and metric == 'accuracy'")
    expected = statistics.mean_interval(own.sort_values("seed")["value"], whole=100)
    found, expected = vars(row["mean"]), vars(Estimate.of(expected))
    assert found.pop("n") == expected.pop("n") == 3
    assert found == expected  # as dictionaries, in which a NaN equals itself


def test_two_networks_under_one_label_are_two_methods():
    records = made_up_records(methods=METHODS, failures=False)
    for record in records:
        if record["label"] == "cnn" and record["identity"]["seed"] == 0:
            record["identity"]["model"] = "cnn-wide"
    found = made_up_runs(records).means("accuracy", split="test", as_trained=True)
    assert {"cnn (cnn-small)": 2, "cnn (cnn-wide)": 1}.items() <= {
        method.exact: cell.n for method, cell in zip(found["method"], found["mean"], strict=True)
    }.items()


def test_a_table_has_a_row_for_all_that_has_any_of_its_means(runs):
    lossless = runs.results[~((runs.results["metric"] == "parameters") & (runs.results["label"] == "uniform"))]
    columns = (METHOD, Mean("P", "parameters"), Mean("S", "seconds", metric="fit_seconds"))
    table = table_of(replace(runs, results=lossless), columns, order="seconds")
    assert [method.exact for method in table["method"]] == ["dynamic T=3", "dynamic T=2", "dynamic T=1", "uniform"]
    assert table["seconds"].iloc[0].mean == 11.0
    assert not table["parameters"].iloc[-1].known
    assert set(table["n"]) == {3}


@pytest.mark.parametrize(
    ("cell", "form", "text"),
    [
        (ONE, ".1", "97.0"),
        (ONE, "±.2", "97.00 ± 0.40"),
        (ONE, "[].1", "97.0 [96.6, 97.4]"),
        (Estimate(4.1, 3.94, 4.26), "~", "4.1 [3.9, 4.3]"),
        (Estimate(0.01, -3.0, 3.02), "~", "0.0 [−3.0, 3.0]"),
        (Estimate(4.1), "~", "4.1"),
        (4.123, "~", "4.1"),
        (0.0321, "~", "0.032"),
        (1234.5, "~", "1,234"),
        (-0.52, "~", "−0.52"),
        (0.0, "~", "0"),
        (math.nan, "~", "–"),
        (replace(ONE, kind=statistics.OVER_SAMPLES), "±.1", "97.0 [96.6, 97.4]"),
        (Estimate(97.0, 95.9, 97.8, 3, statistics.OVER_SEEDS_LOGIT), "±.1", "97.0 [95.9, 97.8]"),
        (Estimate(97.0, 97.0, 97.0, 3, statistics.CONSTANT), "±.1", "97.0"),
        (Estimate(97.0, 97.0, 97.0, 3, statistics.CONSTANT), "±0.1", "97.0 ± 0.0"),
        (Estimate(0.4, -0.1, 0.9), "+.1", "+0.4 [−0.1, +0.9]"),
        (Estimate(-0.001), "+.2", "0.00"),
        (Estimate(36.11, 7.03, 65.19, 3, statistics.OVER_SEEDS), "±.2", "36 ± 29"),  # no digit that tells nothing
        (Estimate(-10.84, -12.25, -9.43, 3, statistics.OVER_SEEDS), "±.2", "−10.8 ± 1.4"),
        (Estimate(97.0), "±.1", "97.0"),
        (Estimate(), "±.1", "–"),
        (0.031, "p", "0.031"),
        (math.nan, "p", "–"),
        (-0.5, "+.1", "−0.5"),
        (12345.0, ",.0f", "12,345"),
        (pd.NA, "", "–"),
        ("a", "", "a"),
        (3, "", "3"),
    ],
)
def test_cells_are_written_by_their_form(cell, form, text):
    assert shown(cell, form) == text


def test_differences_are_paired_and_corrected_over_their_family():
    gains = corrected(
        [difference(SEEDS, {0: 0.0, 1: 1.1, 2: 2.9, 3: 9.0}), difference(SEEDS, {}), difference(SEEDS, SEEDS)]
    )
    expected = statistics.paired_difference(SEEDS, {0: 0.0, 1: 1.1, 2: 2.9})
    assert (gains[0].mean, gains[0].low, gains[0].p) == (expected.mean, expected.low, expected.p_value)
    assert gains[0].p_holm == pytest.approx(2 * expected.p_value)  # what cannot be tested is not of the family
    assert [gain.verdict for gain in gains] == [Verdict.BETTER, Verdict.UNTESTABLE, Verdict.OPEN]
    assert difference({}, SEEDS).n == 0


@pytest.mark.parametrize(
    ("difference", "p_value", "p_equal", "verdict"),
    [
        (0.4, 0.01, math.nan, Verdict.BETTER),
        (-0.4, 0.01, math.nan, Verdict.WORSE),
        (0.4, 0.01, 0.01, Verdict.BETTER_BY_LITTLE),
        (-0.4, 0.01, 0.01, Verdict.WORSE_BY_LITTLE),
        (-0.4, 0.01, 0.9, Verdict.WORSE),
        (0.4, 0.20, 0.01, Verdict.EQUAL),
        (0.4, 0.20, 0.20, Verdict.OPEN),
        (0.4, 0.05, math.nan, Verdict.OPEN),
        (0.4, math.nan, 0.01, Verdict.UNTESTABLE),
    ],
)
def test_a_verdict_needs_a_test(difference, p_value, p_equal, verdict):
    assert Verdict.of(difference, p_value, p_equal) is verdict


def test_estimates_without_a_value_are_equal():
    """From Python 3.13 on, a dataclass compares NaN by value."""
    first, second = (replace(ONE, p=float("nan")) for _ in range(2))
    assert first == second
    assert len({first, second, Estimate(), Estimate()}) == 2
    assert replace(ONE, n=4) != ONE
    assert replace(ONE, p=0.04) != ONE


def test_a_table_is_saved_by_what_its_cells_are():
    tested = replace(ONE, p=0.01, p_holm=0.02)
    row = {"method": Method.of("em", 2, "wide"), "x": ONE, "mean": tested, "other": Method.of("cnn"), "n": 5}
    table = saved(DataFrame([row | {"verdict": Verdict.OPEN, "curve": [1, 2], "why": None}]))
    assert table.iloc[0].to_dict() == {
        "name": "em T=2", "label": "em", "iterations": 2, "role": "method", "model": "wide",
        "x": 97.0, "x_low": 96.6, "x_high": 97.4, "x_n": 3, "x_interval": ONE.kind,
        "mean": 97.0, "low": 96.6, "high": 97.4, "p": 0.01, "p_holm": 0.02, "interval": ONE.kind,
        "other": "cnn", "n": 5, "verdict": "not told apart", "why": None,
    }  # fmt: skip


def test_what_is_missing_is_saved_as_missing():
    rows = [{"method": Method.of("cnn"), "x": ONE}, {"method": Method.of("em"), "x": math.nan}]
    assert saved(DataFrame(rows)).to_csv(index=False).splitlines()[1:] == [
        f"cnn,cnn,,method,,97.0,96.6,97.4,3,{ONE.kind}",
        f"em,em,,method,,,,,0,{Estimate().kind}",
    ]


def test_a_column_judges_if_it_says_so_or_writes_a_p():
    columns = (METHOD, Column("p", "gain.p", "p"), Column("Verdict", "verdict", judges=True))
    table = DataFrame([{"method": Method.of("em"), "gain": ONE, "verdict": Verdict.OPEN}])
    found = Analysis("A", "B.", table, figure=Figure(), columns=columns)
    assert found.unjudged.columns == (METHOD,)
    assert found.unjudged.figure is None
    assert replace(found, columns=columns[:2]).unjudged.figure is found.figure


def test_a_column_sorts_by_a_part_of_its_cells():
    row = {"gain": replace(ONE, p_holm=0.5), "worst_0.05": 1.5, "method": Method.of("em", 2)}
    columns = [Column("A", "gain.p_holm", "p"), Column("B", "worst_0.05", ".0f"), Column("C", "method.label")]
    printed = [column.printed(row) for column in columns]
    assert [(one.value, one.text) for one in printed] == [(0.5, "0.500"), (1.5, "2"), ("em", "em")]


def equal_shares_twice(change):
    """Runs in which `dynamic` with one iteration measured what uniform routing did, but for times, and then changed."""
    runs = made_up_runs(methods=FEW, failures=False)
    cells = runs.planned.set_index(["label", "seed", runs.planned["iterations"].fillna(0)])["cell"]
    parts = [runs.results[~((runs.results["label"] == "dynamic") & (runs.results["iterations"] == 1))]]
    for seed in sorted(set(runs.planned["seed"])):
        rows = runs.results[runs.results["cell"] == cells["uniform", seed, 0]].copy()
        rows["cell"], rows["label"], rows["iterations"] = cells["dynamic", seed, 1], "dynamic", 1
        rows.loc[rows["unit"] == "s", "value"] += 1
        parts.append(rows)
    results = pd.concat(parts, ignore_index=True)
    change(results)
    return replace(runs, results=results)


def shown_rows(runs):
    columns = (METHOD, Mean("Accuracy", "accuracy", "±.1", where={"split": "test", "as_trained": True}))
    return [METHOD.printed(row).text for row in table_of(runs, columns).to_dict("records")]


def test_equal_functions_share_a_row_that_names_both():
    rows = shown_rows(equal_shares_twice(lambda results: None))
    assert rows == ["Dynamic, T = 2", "Dynamic, T = 3", "Uniform routing = Dynamic, T = 1 (baseline)"]


def test_functions_that_differ_in_one_value_have_a_row_each():
    def change(results):
        loss = results[(results["label"] == "dynamic") & (results["iterations"] == 1) & (results["metric"] == "loss")]
        results.loc[loss.index[:1], "value"] += 1e-9

    rows = shown_rows(equal_shares_twice(change))
    assert rows == ["Dynamic, T = 1", "Dynamic, T = 2", "Dynamic, T = 3", "Uniform routing (baseline)"]
