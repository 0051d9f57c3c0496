"""Which test each kind of number gets, and what it says of noise and of what could have been seen."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench.comparing.comparison import ALL, METHOD, SETTING, UNJUDGED, Wishes, compare_folders
from routebench.comparing.sensitivity import sensitivities
from routebench.comparing.settings import settings_of
from routebench.comparing.tails import Tail
from routebench.comparing.verdict import verdict
from routebench.engine.store import Store
from tests.comparing.planted import COST, headline, write


def rows(comparison, level):
    return {row.method: row for row in comparison.changes if row.level == level}


def rescale(metric, factor):
    """Multiplies values of one metric; `factor` of the record and the metric."""

    def edit(record, arrays):
        for one in record["metrics"]:
            if one["metric"] == metric:
                one["value"] *= factor(record, one)

    return edit


def costs(target, edit, *metrics):
    return write(target, edit, source=COST, metrics=metrics)


def test_without_samples_seeds_are_paired_by_students_t(tmp_path):
    shifts = {0: 0.010, 1: 0.013, 2: 0.011}

    def more(record, arrays):
        for one in record["metrics"]:
            if one["metric"] == "loss":
                one["value"] += shifts[record["identity"]["seed"]]

    base, head = write(tmp_path / "base", keep=headline), write(tmp_path / "head", more, keep=headline)
    comparison = compare_folders(base, head, Wishes(metrics=("loss",)))
    row = next(row for row in comparison.changes if row.name == "uniform")
    assert row.evidence.kind == "seeds"
    assert row.evidence.p_value == pytest.approx(stats.ttest_1samp(list(shifts.values()), 0).pvalue)
    assert row.evidence.change == pytest.approx(np.mean(list(shifts.values())))


def test_memory_without_repeats_is_tested_over_the_settings_of_a_method(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(record, one):
        return math.exp(rng.normal(0, 0.02)) * (1.3 if record["identity"]["method"] == "em" else 1.0)

    base = costs(tmp_path / "base", lambda record, arrays: None, "training_memory")
    head = costs(tmp_path / "head", rescale("training_memory", noisy), "training_memory")
    comparison = compare_folders(base, head, Wishes())
    methods = rows(comparison, METHOD)
    assert {row.evidence.kind for row in methods.values()} == {"settings"}
    assert {name: row.verdict for name, row in methods.items()} == {
        "em": "regression",
        **dict.fromkeys(("dynamic", "inverted-attention", "uniform", "random"), "no difference shown"),
    }
    assert {row.verdict for row in comparison.changes if row.level == SETTING} == {UNJUDGED}


def test_the_noise_floor_of_times_is_what_repeats_differ_by(tmp_path):
    folders = [costs(tmp_path / name, lambda record, arrays: None, "training_time") for name in ("base", "head")]
    comparison = compare_folders(*folders, Wishes())
    settings, _ = settings_of(comparison.pairs.measured, comparison.base, comparison.head)
    apart = [
        abs(math.log(values[0] / values[1])) for one in settings for values in (*one.base.values(), *one.head.values())
    ]
    row = next(row for row in comparison.changes if row.level == SETTING and row.method == "dynamic")
    assert row.threshold >= np.quantile(apart, 0.95) - 1e-12
    assert min(row.threshold for row in comparison.changes if row.level == SETTING) == pytest.approx(
        np.quantile(apart, 0.95)
    )


def test_noisy_repeats_make_the_gate_blind_and_it_says_so(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(record, one):
        return math.exp(rng.normal(0, 0.8))

    folders = [costs(tmp_path / name, rescale("training_time", noisy), "training_time") for name in ("base", "head")]
    comparison = compare_folders(*folders, Wishes())
    assert comparison.exit_code == 0
    assert verdict(comparison) == "No regression, but blind for training_time."
    (one,) = sensitivities(comparison)
    assert one.blind
    assert one.could_see[SETTING] > one.could_see[METHOD] > math.log(1.2)


def test_a_method_noisier_than_others_has_a_floor_of_its_own(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(record, one):
        return math.exp(rng.normal(0, 0.5 if record["identity"]["method"] == "random" else 0.01))

    def settled(record, arrays):
        for one in record["metrics"]:
            one["value"] = 5.0 * noisy(record, one)

    folders = [costs(tmp_path / name, settled, "training_time") for name in ("base", "head")]
    methods = rows(compare_folders(*folders, Wishes()), METHOD)
    assert methods["random"].could_see > 3 * methods["em"].could_see
    assert not {row.verdict for row in methods.values()} & {"regression", "improvement"}


def test_the_spread_over_seeds_is_a_floor_for_accuracy(tmp_path):
    """Each seed's change is large and they cancel: many images tell, and the networks' own noise says no."""
    changes = {0: 40, 1: 40, 2: -20}

    def moved(record, arrays):
        correct = arrays["correct"].astype(bool)
        change = changes[record["identity"]["seed"]]
        correct[np.flatnonzero(correct == (change > 0))[: abs(change)]] = change < 0
        arrays["correct"] = correct.astype(np.uint8)
        for one in record["metrics"]:
            if one["metric"] == "accuracy" and one["test_iterations"] in (None, record["identity"]["iterations"]):
                one["value"] = 100 * float(correct.mean())

    base, head = write(tmp_path / "base", keep=headline), write(tmp_path / "head", moved, keep=headline)
    comparison = compare_folders(base, head, Wishes(metrics=("accuracy",)))
    overall = rows(comparison, ALL)["all methods"]
    assert overall.evidence.p_value < 0.001
    assert overall.threshold > abs(overall.evidence.change)
    assert comparison.exit_code == 0


def test_what_no_seed_varies_needs_no_test(tmp_path):
    """A batch that is a quarter as large with each of three seeds is a regression, though nothing tells its noise."""
    base, head = (of_three_seeds(tmp_path / name, factor) for name, factor in (("base", 1), ("head", 0.25)))
    comparison = compare_folders(base, head, Wishes())
    assert comparison.exit_code == 1
    assert {row.evidence.kind for row in comparison.changes} == {"counted"}
    assert compare_folders(base, base, Wishes()).exit_code == 0


def of_three_seeds(target, factor):
    """`largest_batch` of the published cost cells, the same with seeds 0, 1 and 2."""
    store, parts = Store(target), []
    for seed in range(3):
        part = Store(write(target.parent / f"{target.name}{seed}", source=COST, metrics=("largest_batch",)))
        (plan,) = part.plans()
        for cell in plan["cells"]:
            record = part.record(cell["cell"])
            record["cell"] = cell["cell"] = cell["identity"]["source"] = f"{cell['cell'][:-1]}{seed}x"
            record["identity"]["seed"] = cell["identity"]["seed"] = seed
            for metric in record["metrics"]:
                metric["value"] *= factor
            store.prepare()
            store.write_record(record, {})
        parts += plan["cells"]
    store.write_plan(plan["plan"], {**plan, "cells": parts})
    return target


def test_one_time_among_thousands_can_be_a_regression(tmp_path):
    """Three times as slow is seen whatever the number of rows: p has no floor of one in so many draws."""
    base = costs(tmp_path / "base", lambda record, arrays: None, "training_time")

    def slow(record, one):
        return 3.0 if record["identity"]["method"] == "em" and one["where"]["batch"] == 32 else 1.0

    head = costs(tmp_path / "head", rescale("training_time", slow), "training_time")
    slower = [row for row in compare_folders(base, head, Wishes()).changes if row.name.startswith("em")]
    found = [row for row in slower if row.level == SETTING and row.evidence.change > 1]
    assert found
    assert min(2 * 10_000 * row.evidence.p_value for row in found) < 0.05


def test_the_tail_is_no_lighter_than_that_of_the_draws():
    sizes = np.sort(np.abs(np.random.default_rng(0).normal(size=50_000)))
    tail = Tail(sizes)
    for size in (2.0, 2.8, 3.5):
        assert tail.p(size) == pytest.approx(2 * stats.norm.sf(size), rel=0.25)
    assert 2 * stats.norm.sf(6.0) < tail.p(6.0) < 1e-6
    assert Tail(np.zeros(1000)).p(1.0) == pytest.approx(1 / 1001)
    assert tail.p(tail.detectable(1e-7)) < 1e-7


def test_changes_that_differ_by_rounding_are_one_change(tmp_path):
    """1.2 with each seed but for the last bit: no spread, so no p-value of 1e-29; and no green light."""
    heads = dict(zip(range(3), (95.3, 95.1, 95.6), strict=True))

    def valued(values):
        def edit(record, arrays):
            arrays.clear()
            for one in record["metrics"]:
                one["value"] = values[record["identity"]["seed"]]

        return edit

    base = write(tmp_path / "base", valued(heads), keep=headline, metrics=("accuracy",))
    lower = dict(zip(range(3), (94.1, 93.9, 94.4), strict=True))
    head = write(tmp_path / "head", valued(lower), keep=headline, metrics=("accuracy",))
    comparison = compare_folders(base, head, Wishes())
    assert all(math.isnan(row.evidence.p_value) for row in comparison.changes)
    assert comparison.exit_code == 4
