import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analyses.accuracy_pairwise import accuracy_pairwise
from routebench import statistics
from routebench.analysis import Verdict, figures
from routebench.analysis._table import saved
from routebench.analysis._verdicts import GAINS, LOSSES
from routebench.analysis.comparison import (
    comparison_of,
    contenders_of,
    difference_between,
    gains_of,
    objects_of,
    with_other_images,
)
from routebench.report._headline import headline_of
from tests.analysis.made_up_runs import METHODS, N_TEST, made_up_records, made_up_runs


def compare(runs):
    """The comparison, its table as it is saved."""
    found = comparison_of(runs)
    return replace(found, table=saved(found.table))


def row(found, name):
    return found.table.set_index("name").loc[name]


def test_every_method_and_iteration_count_has_a_row_best_first() -> None:
    found = compare(made_up_runs())
    assert len(found.table) == sum(len(grid) for grid, *_ in METHODS.values())
    whole = found.table["n_ok"] == found.table["n_planned"]
    assert whole.is_monotonic_decreasing  # what lost seeds comes last
    assert found.table["mean"][whole].is_monotonic_decreasing
    assert found.table["name"].is_unique
    assert row(found, "dynamic T=2")["iterations"] == 2
    assert found.table.set_index("name")["iterations"].isna()["uniform"]


def test_means_and_gains_are_scipys() -> None:
    records = made_up_records(failures=False)
    accuracy = {
        (r["label"], r["identity"]["iterations"], r["identity"]["seed"]): 100 * r["correct"].mean() for r in records
    }
    ours = np.array([accuracy["dynamic", 2, seed] for seed in range(3)])
    uniform = np.array([accuracy["uniform", None, seed] for seed in range(3)])
    found = row(compare(made_up_runs(records)), "dynamic T=2")
    limits = stats.ttest_rel(ours, uniform).confidence_interval()
    assert found["mean"] == pytest.approx(ours.mean())
    assert (found["gain"], found["gain_low"]) == (pytest.approx((ours - uniform).mean()), pytest.approx(limits.low))
    assert found["gain_p"] == pytest.approx(stats.ttest_rel(ours, uniform).pvalue)


def test_p_values_are_corrected_for_the_whole_table() -> None:
    table = compare(made_up_runs()).table
    family = int(table["gain"].notna().sum())
    assert family == table["gain_p"].notna().sum() + 1, "one seed of em is left, and its gain was asked for too"
    assert table["gain_p_holm"].to_numpy() == pytest.approx(
        statistics.holm(table["gain_p"].to_numpy(), family), nan_ok=True
    )
    assert (table["gain_p_holm"].dropna() >= table["gain_p"].dropna()).all()
    assert math.isnan(table.set_index("name").loc["uniform", "gain_p_holm"])


def test_only_the_accuracy_at_the_trained_iterations_is_a_headline() -> None:
    rows = made_up_runs().values("accuracy", split="test", as_trained=True)
    assert rows["cell"].is_unique
    rows = rows.assign(iterations=[method.iterations for method in rows["method"]])
    iterative = rows[rows["iterations"].notna()]
    assert (iterative["test_iterations"] == iterative["iterations"]).all()


def test_failures_are_counted_and_never_averaged_in() -> None:
    found = row(compare(made_up_runs()), "em T=3")
    assert (found["n_ok"], found["n_planned"]) == (1, 3)
    assert found["interval"] == statistics.OVER_SAMPLES


def test_one_seed_that_is_left_of_several_is_tested_by_no_image() -> None:
    assert math.isnan(row(compare(made_up_runs()), "em T=3")["gain_p"])


def test_a_method_without_any_result_keeps_its_row_at_the_end() -> None:
    records = made_up_records(failures=False)
    for record in records:
        if record["label"] == "none":
            record |= {"status": "failed", "reason": "RuntimeError: no", "metrics": []}
    found = compare(made_up_runs(records))
    last = found.table.iloc[-1]
    assert (last["name"], last["n_ok"], last["n_planned"]) == ("none", 0, 3)
    assert math.isnan(last["mean"])
    assert "none" not in set(found.measured["name"])


def test_one_seed_is_compared_by_test_image() -> None:
    found = compare(made_up_runs(seeds=1, failures=False))
    best = found.table.iloc[0]
    assert found.test_samples == N_TEST
    assert best["interval"] == best["gain_interval"] == statistics.OVER_SAMPLES
    assert math.isfinite(best["gain_p"])
    assert math.isnan(found.detectable)


def test_one_seed_without_kept_outputs_gives_means_alone() -> None:
    records = made_up_records(seeds=1, failures=False)
    runs = made_up_runs(records)
    found = compare(type(runs)(**{**vars(runs), "correct": lambda cell: None}))
    assert found.table["low"].isna().all()
    assert "gain_p" not in found.table
    assert found.table["rank_low"].isna().all()  # untested is not the same as not told apart


def test_a_method_that_cannot_be_tested_has_no_rank() -> None:
    runs = made_up_runs(seeds=1, failures=False)
    lost = next(iter(runs.planned.loc[runs.planned["label"] == "random", "cell"]))
    partly = replace(runs, correct=lambda cell: None if cell == lost else runs.correct(cell))
    before, after = (saved(comparison_of(one).table).set_index("name")["rank_low"] for one in (runs, partly))
    assert math.isfinite(before["random"])
    assert math.isnan(
        float(after.astype("Float64").to_numpy(dtype=float, na_value=math.nan)[after.index.get_loc("random")])
    )
    assert after.drop("random").notna().all()


def test_one_method_alone_has_no_rank() -> None:
    assert compare(made_up_runs(methods={"none": METHODS["none"]})).table["rank_low"].isna().all()


def test_what_a_caller_does_to_the_table_stays_with_the_caller() -> None:
    runs = made_up_runs()
    table = saved(comparison_of(runs).table)
    table["mean"] = 0.0
    assert (saved(comparison_of(runs).table)["mean"] > 0).all()


def test_without_uniform_there_is_no_gain() -> None:
    methods = {name: what for name, what in METHODS.items() if name != "uniform"}
    found = compare(made_up_runs(methods=methods))
    assert found.baseline is None
    assert found.table["gain"].isna().all()


def test_the_smallest_detectable_difference_shrinks_with_seeds() -> None:
    three = compare(made_up_runs(seeds=3, failures=False))
    ten = compare(made_up_runs(seeds=10, failures=False))
    assert 0 < ten.detectable < three.detectable
    assert (three.seeds, ten.seeds) == (3, 10)


def test_a_large_difference_takes_a_rank_and_noise_does_not() -> None:
    methods = {
        "good": ([None], "method", "capsnet-small", [97.0]),
        "same": ([None], "method", "capsnet-small", [97.0]),
        "uniform": ([None], "control", "capsnet-small", [90.0]),
    }
    table = compare(made_up_runs(seeds=6, methods=methods)).table.set_index("name")
    assert table["rank_low"].to_dict() == {"good": 1, "same": 1, "uniform": 3}
    assert table["rank_high"].to_dict() == {"good": 2, "same": 2, "uniform": 3}


def test_two_networks_under_one_label_are_told_apart_by_name() -> None:
    methods = {**METHODS}
    records = made_up_records(methods=methods, failures=False)
    for record in records:
        if record["label"] == "cnn" and record["identity"]["seed"] == 0:
            record["identity"]["model"] = "cnn-wide"
    names = set(compare(made_up_runs(records)).table["name"])
    assert {"cnn (cnn-small)", "cnn (cnn-wide)"} <= names


def test_any_two_rows_can_be_compared() -> None:
    runs = made_up_runs(failures=False)
    known = {method.exact: one for method, one in comparison_of(runs).contenders.items()}
    found = difference_between(runs, known["dynamic T=2"], known["dynamic T=1"])
    assert found.n == 3
    assert found.mean == pytest.approx(-difference_between(runs, known["dynamic T=1"], known["dynamic T=2"]).mean)


@pytest.fixture
def seeds_of_both():
    """`lucky` has the higher mean, by a seed that `steady` lacks; with all others `steady` is a point ahead."""
    accuracies = {"lucky": [90.0, 91.0, 92.0, 93.0, 91.5, 99.9], "steady": [90.9, 92.1, 93.0, 93.9, 92.6, math.nan]}
    methods = {name: ([None], "method", "capsnet-small", [90.0]) for name in accuracies}
    records = made_up_records(seeds=6, failures=False, methods=methods | {"uniform": METHODS["uniform"]})
    for record in records:
        value = accuracies.get(record["label"], [80.0] * 6)[record["identity"]["seed"]]
        if math.isnan(value):
            record |= {"status": "failed", "reason": "no", "metrics": []}
        for metric in record["metrics"]:
            metric["value"] = value if metric["metric"] == "accuracy" else metric["value"]
    return records


def test_the_seeds_of_both_decide_and_not_those_of_one_alone(seeds_of_both) -> None:
    records = [record for record in seeds_of_both if record["status"] == "ok"]  # `steady` was asked for five
    runs = made_up_runs(records)
    found, table = comparison_of(runs), saved(comparison_of(runs).table).set_index("name")
    first, second, _ = found.measured["method"]
    assert (first.name, found.verdict(first, second), found.verdict(second, first)) == ("lucky", "worse", "better")
    assert (table["rank_low"]["steady"], table["rank_high"]["steady"], table["rank_low"]["lucky"]) == (1, 1, 2)
    said = headline_of(runs).said
    assert any(told.startswith("On the seeds that both finished, it is significantly behind Steady") for told in said)
    assert accuracy_pairwise(runs).table["verdict"].isin((*GAINS, *LOSSES)).sum() == 3
    assert figures.to_svg(accuracy_pairwise(runs).figure)
    both = made_up_runs([record for record in records if record["label"] != "uniform"])
    (pair,) = accuracy_pairwise(both).table.to_dict("records")
    assert (pair["first"].name, pair["verdict"]) == ("lucky", Verdict.WORSE)


def test_a_lost_seed_gives_no_verdict_in_favour_of_the_method_that_lost_it(seeds_of_both) -> None:
    found = comparison_of(made_up_runs(seeds_of_both))
    *_, last = found.measured["method"]
    assert (last.name, str(last)) == ("steady", "Steady (5 of 6 seeds)")
    assert {found.verdict(last, other) for other in found.measured["method"][:2]} == {"cannot be tested"}


def test_each_method_is_compared_with_equal_shares_in_its_own_network() -> None:
    records = [record for record in made_up_records(failures=False) if record["label"] in ("em", "uniform")]
    for record in made_up_records(failures=False):
        if record["label"] in ("em", "uniform"):
            record["cell"] = record["cell"][::-1]
            record["identity"]["model"] = "another"  # which comes first by name
            for metric in record["metrics"]:
                metric["value"] -= 20.0 if metric["metric"] == "accuracy" else 0.0
            records.append(record)
    runs = replace(made_up_runs(records), model="capsnet-small")
    gains = {method.exact: gain for method, gain in gains_of(runs).items()}
    assert len(gains) == 6 and all(name.startswith("em") for name in gains)
    assert all(abs(gain.mean) < 3 for gain in gains.values())
    for record in records:
        noise = {"another": 10.0 * (-1) ** record["identity"]["seed"]}.get(record["identity"]["model"], 0.0)
        for metric in record["metrics"]:
            metric["value"] += noise if metric["metric"] == "accuracy" else 0.0
    assert comparison_of(replace(made_up_runs(records), model="capsnet-small")).detectable < 3


def test_views_of_one_object_are_one_sample() -> None:
    methods = {"good": ([None], "method", "capsnet-small", [85.0]), "uniform": METHODS["uniform"]}
    runs, rng = made_up_runs(seeds=3, methods=methods), np.random.default_rng(0)
    rates = {"good": 0.9, "uniform": 0.6}
    objects = {cell: rng.random(25) < rates[method.name] for cell, method in runs.methods.items()}
    toys = replace(runs, data="rendered-shapes-small", correct=lambda cell: np.repeat(objects[cell], 162))
    plain = replace(runs, correct=objects.get)
    for one_seed in (False, True):
        found = []
        some = replace(toys, correct=lambda cell: np.repeat(objects[cell], 54))
        for own in (plain, toys, some, replace(toys, data="mnist")):
            ours, theirs = contenders_of(own)
            if one_seed:
                ours, theirs = (replace(one, accuracies={0: one.accuracies[0]}) for one in (ours, theirs))
            found.append(difference_between(own, ours, theirs) if one_seed else with_other_images(own, ours, theirs))
        assert found[1].p == pytest.approx(found[0].p, rel=1e-3)
        assert not found[2].known or math.isnan(found[2].p)  # which views of an object were taken, nobody knows
        assert found[3].p < found[1].p
    (one, *_) = contenders_of(made_up_runs(seeds=1, methods=methods))
    assert (objects_of(plain, [one]), objects_of(toys, [one])) == (25, 25)


def test_what_cannot_be_tested_keeps_a_place_that_no_other_is_sure_of() -> None:
    accuracies = {"top": 99.0, "middle": 95.0, "low": 90.0}
    methods = {name: ([None], "method", "capsnet-small", [value]) for name, value in accuracies.items()}
    records = made_up_records(seeds=6, failures=False, methods=methods)
    for record in records:
        if record["label"] == "top" and record["identity"]["seed"]:
            record |= {"status": "diverged", "reason": "no", "metrics": []}
    runs = replace(made_up_runs(records), correct=lambda cell: None)
    table = saved(comparison_of(runs).table).set_index("name")
    assert pd.isna(table["rank_low"]["top"])
    assert [(table["rank_low"][name], table["rank_high"][name]) for name in ("middle", "low")] == [(1, 2), (2, 3)]
