"""Which test each kind of number gets, and what it says of noise and of what could have been seen."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from routebench.analysis import Verdict
from routebench.comparing import Tolerance, Wishes, compare_folders, verdict
from routebench.comparing._evidence import _by_t
from routebench.comparing._verdicts import ALL, METHOD, SETTING
from routebench.engine.results import Store
from routebench.statistics import smallest_detectable_difference
from tests.comparing.planted import COST, headline, in_turn, write


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


def test_memory_is_counted_and_needs_no_test(tmp_path):
    """1.2 times as much of one method is a regression of that method and of no other; 1 % is accepted."""

    def larger(method, factor):
        return rescale("training_memory", lambda record, one: factor if record["identity"]["method"] == method else 1.0)

    base = costs(tmp_path / "base", lambda record, arrays: None, "training_memory")
    head = costs(tmp_path / "head", larger("em", 1.2), "training_memory")
    comparison = compare_folders(base, head, Wishes())
    assert {row.evidence.kind for row in comparison.changes} == {"counted"}
    assert {row.method for row in comparison.with_verdict(Verdict.REGRESSION)} == {"em"}
    assert verdict(comparison).startswith("Regression: training_memory in ")
    little = costs(tmp_path / "little", larger("em", 1.009), "training_memory")
    assert compare_folders(base, little, Wishes()).exit_code == 0


def test_a_gate_that_is_blind_is_undecided_and_says_what_it_needs(tmp_path):
    folders = in_turn(tmp_path, 6, np.random.default_rng(0), spread=0.3, keep=headline)
    comparison = compare_folders(*folders, Wishes())
    assert comparison.exit_code == 4
    (one, *_) = comparison.blind
    assert one.could_see[SETTING] > one.could_see[METHOD] > math.log(1.3)
    assert re.search(r"30 % needs about \d+ rounds, and there are 6\.$", verdict(comparison))
    metric = one.group.metric
    assert not compare_folders(*folders, Wishes(must_see={metric: Tolerance(500, percent=True)})).blind
    assert not compare_folders(*folders, Wishes(tolerances={metric: Tolerance(500, percent=True)})).blind


def test_as_many_rounds_as_it_asks_for_are_enough():
    changes = np.array([0.3, -0.2, 0.1, -0.25, 0.05, 0.0])
    evidence = _by_t("rounds", changes)
    needed = evidence.needed(0.001, math.log(1.3))
    enough = [smallest_detectable_difference(changes.std(ddof=1), many, 0.001) for many in (needed - 1, needed)]
    assert enough[1] <= math.log(1.3) < enough[0]


def test_a_method_noisier_than_others_has_a_floor_of_its_own(tmp_path):
    folders = in_turn(tmp_path, 6, np.random.default_rng(0), spread=0.01, keep=headline)
    rng = np.random.default_rng(1)
    store = Store(folders[1])
    for record in store.records():
        if record.identity.method == "random":
            metrics = [{**one, "value": one["value"] * math.exp(rng.normal(0, 0.5))} for one in record.metrics]
            store.write_record(replace(record, metrics=metrics), {})
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
        for cell in plan.cells:
            record, key = part.record(cell.cell), f"{cell.cell[:-1]}{seed}"
            identity = replace(cell.identity, source=key, seed=seed)
            for metric in record.metrics:
                metric["value"] *= factor
            store.prepare()
            store.write_record(replace(record, cell=key, identity=identity), {})
            parts.append(replace(cell, cell=key, identity=identity).as_dict())
    store.write_plan(plan.head["plan"], {**plan.head, "cells": parts})
    return target


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
