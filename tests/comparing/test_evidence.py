"""Which test each kind of number gets, and what it says of noise and of what could have been seen."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench.comparing.comparison import ALL, METHOD, SETTING, UNJUDGED, Wishes, compare_folders
from routebench.comparing.sensitivity import sensitivities
from routebench.comparing.settings import settings_of
from routebench.comparing.verdict import verdict
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
