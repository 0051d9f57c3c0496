"""The overview shows what the analyses found, of those that name a main measure, and invents no winner."""

import math
from dataclasses import replace

import pandas as pd
from pandas import DataFrame

from routebench.analysis._result import Analysis, Main
from routebench.registry import analyses
from routebench.report._overview import overview_of
from tests.analysis.made_up_runs import made_up_runs


def found_in(runs) -> Analysis:
    return analyses["accuracy-table"](runs)


def other_suite(table: DataFrame, main: Main | None, preset: str = "quick") -> tuple:
    runs = made_up_runs(seeds=1, preset=preset, failures=False)
    return replace(runs, suite="sparsity", protocol="sparsity", preset=preset), Analysis("x", "x.", table, main=main)


SPARSITY = DataFrame({
    "label": ["dynamic", "em", "mine"],
    "iterations": [3, 3, pd.NA],
    "role": "method",
    "t_score": [0.1, 0.8, 0.3],
    "t_score_low": [0.05, math.nan, 0.2],
    "t_score_high": [0.15, math.nan, 0.4],
})  # fmt: skip


def test_its_numbers_are_those_of_the_tables() -> None:
    runs = made_up_runs(failures=False)
    accuracy = found_in(runs)
    overview = overview_of([other_suite(SPARSITY, Main("t_score", "T-score")), (runs, accuracy)])
    assert [column.title for column in overview.columns] == ["Method", "Test accuracy, %", "T-score"]
    ours = overview.table.set_index("name")
    theirs = accuracy.numbers.set_index("name")
    assert list(ours.index) == [*theirs.index, "mine"]
    for part, column in (("", "mean"), ("_low", "low"), ("_high", "high")):
        assert (ours.loc[theirs.index, f"accuracy_1{part}"] == theirs[column]).all()
    shown = overview.shown().set_index("Method")
    assert shown.loc["dynamic T=3", "T-score"] == "0.10 ± 0.05"
    assert shown.loc["em T=3", "T-score"] == "0.80"
    assert shown.loc["mine", "Test accuracy, %"] == "–"
    assert shown.loc["dynamic T=1", "T-score"] == "–"


def test_an_analysis_without_a_main_measure_is_absent() -> None:
    runs = made_up_runs(failures=False)
    overview = overview_of([other_suite(SPARSITY, None), (runs, found_in(runs))])
    assert [column.title for column in overview.columns] == ["Method", "Test accuracy, %"]
    assert overview_of([other_suite(SPARSITY, None)]) is None


def test_each_suite_is_shown_with_its_strongest_preset() -> None:
    quick, smoke = (made_up_runs(failures=False, preset=preset, seeds=2) for preset in ("quick", "smoke"))
    overview = overview_of([(smoke, found_in(smoke)), (quick, found_in(quick))])
    assert len(overview.columns) == 2
    assert "quick preset" in overview.columns[1].explained


def test_several_data_sets_have_a_column_each() -> None:
    runs = made_up_runs(failures=False)
    overview = overview_of([(runs, found_in(runs)), (replace(runs, data="other"), found_in(runs))])
    assert [column.title for column in overview.columns[1:]] == [
        "Test accuracy, % · mnist5k",
        "Test accuracy, % · other",
    ]


def test_only_who_is_alone_in_the_best_group_is_marked() -> None:
    def marked(spread: float) -> list[str]:
        runs = made_up_runs(seeds=6, spread=spread, failures=False, methods={
            "dynamic": ([None], "method", "capsnet-small", [97.0]), "em": ([None], "method", "capsnet-small", [90.0]),
            "uniform": ([None], "control", "capsnet-small", [90.1]),
        })  # fmt: skip
        shown = overview_of([(runs, found_in(runs))]).shown()
        return [name for name, text in zip(shown["Method"], shown["Test accuracy, %"], strict=True) if "*" in text]

    assert marked(0.15) == ["dynamic"]
    assert marked(30.0) == []


def test_a_measure_may_come_in_a_table_of_its_own_and_lower_may_be_better() -> None:
    times = DataFrame({"label": ["a", "b"], "mean": [2.0, 1.0]})
    main = Main("mean", "Step", "ms", higher_is_better=False, digits=1, table=times)
    overview = overview_of([other_suite(DataFrame({"label": ["a"]}), main)])
    assert list(overview.table["name"]) == ["b", "a"]
    assert list(overview.shown()["Step, ms"]) == ["1.0", "2.0"]
    assert "lower is better" in overview.columns[1].explained
