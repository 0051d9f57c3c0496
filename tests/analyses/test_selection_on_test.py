"""What selection by test images adds, with planted numbers."""

import pytest

from routebench import statistics
from routebench.registry import analyses
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

find = analyses["selection-on-test"]
FEW = {name: METHODS[name] for name in ("dynamic", "uniform")}


def runs_with(added, **options):
    """`added(seed, iterations)` points are between the accuracy of a cell and that of its best epoch."""
    records = made_up_records(**{"methods": FEW, "failures": False, **options})
    for record in records:
        known = record["identity"]
        if added(known["seed"], known["iterations"]) is not None:
            accuracy = next(
                metric["value"]
                for metric in record["metrics"]
                if (metric["metric"], metric["split"]) == ("accuracy", "test")
                and metric["test_iterations"] == known["iterations"]
            )
            best = accuracy + added(known["seed"], known["iterations"])
            record["metrics"].append(
                {"metric": "best_test_accuracy", "split": "test", "value": best, "unit": "%", "higher_is_better": None}
            )
    return made_up_runs(records)


def test_nothing_is_said_where_nothing_was_selected():
    assert find(made_up_runs(made_up_records(methods=FEW, failures=False))) is None


def test_what_is_added_is_paired_by_seed():
    table = find(runs_with(lambda seed, iterations: 0.5 + 0.1 * seed + 0.01 * (iterations or 0))).numbers.set_index(
        "name"
    )
    expected = statistics.mean_interval([0.52, 0.62, 0.72])
    found = table.loc["dynamic T=2"]
    assert [found["added"], found["added_low"], found["added_high"]] == pytest.approx(
        [expected.mean, expected.low, expected.high]
    )
    assert found["picked"] == pytest.approx(found["mean"] + 0.62)


def test_the_best_of_all_is_one_run_of_any_t():
    runs = runs_with(lambda seed, iterations: 1.0)
    found = find(runs).numbers.set_index("name")
    own = runs.results.query("metric == 'best_test_accuracy' and label == 'dynamic'")["value"].max()
    assert set(found.loc[[f"dynamic T={steps}" for steps in (1, 2, 3)], "best_of_all"]) == {own}
    assert found.loc["dynamic T=2", "best_of_all"] > found.loc["dynamic T=2", "picked"]


def test_one_seed_has_no_interval_and_half_the_cells_are_no_error():
    shown = find(runs_with(lambda seed, iterations: 1.0, seeds=1)).shown()
    assert not shown["Added"].str.contains("±").any()
    half = find(runs_with(lambda seed, iterations: 0.3 if iterations else None)).numbers
    assert half["label"].str.startswith("dynamic").any() and not half.empty
