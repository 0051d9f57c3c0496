"""Where other runs lie: against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics

SAMPLE = [97.0, 97.4, 97.1, 97.9]


def test_one_other_run_lies_as_far_off_as_students_t_says():
    found = statistics.predicted_mean(SAMPLE, 1)
    half = stats.t.ppf(0.975, 3) * np.std(SAMPLE, ddof=1) * math.sqrt(1 + 1 / 4)
    assert (found.mean - found.low, found.high - found.mean) == pytest.approx((half, half))
    assert (found.n, found.kind) == (4, statistics.PREDICTED)


def test_the_mean_of_very_many_runs_is_the_truth():
    found, truth = statistics.predicted_mean(SAMPLE, 10**9), statistics.mean_interval(SAMPLE)
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_best_of_one_run_is_that_run(n):
    sample = np.random.default_rng(n).normal(97, 0.4, n)
    best, plain = statistics.predicted_best(sample, 1), statistics.predicted_mean(sample, 1)
    assert (best.low, best.high) == pytest.approx((plain.low, plain.high), rel=1e-4)


def test_the_lowest_of_several_mirrors_the_highest():
    high = statistics.predicted_best(SAMPLE, 5)
    low = statistics.predicted_best([-value for value in SAMPLE], 5, lowest=True)
    assert (-low.high, -low.low) == pytest.approx((high.low, high.high))
    assert high.high - high.mean > high.mean - high.low


def test_a_printed_deviation_widens_what_few_close_seeds_predict():
    close = [97.0, 97.01, 97.02]
    wide, narrow = statistics.predicted_mean(close, 5, spread=1.0), statistics.predicted_mean(close, 5)
    assert wide.half_width == pytest.approx(stats.t.ppf(0.975, 4) / math.sqrt(5), rel=0.01)  # Welch: theirs alone
    assert narrow.half_width < 0.05
    assert statistics.predicted_mean(close, 5, spread=0.001) == narrow


def test_one_seed_says_nothing_without_the_deviation_of_the_paper():
    assert math.isnan(statistics.predicted_mean([97.0], 1).low)
    assert math.isnan(statistics.predicted_mean([97.0, 97.0], 5).low)
    assert math.isnan(statistics.predicted_best([97.0], 5).low)
    assert math.isnan(statistics.predicted_mean([97.0], 1, spread=1.0).low)  # one run has no deviation
    assert math.isnan(statistics.predicted_mean([], 5, spread=1.0).mean)
    half = stats.t.ppf(0.975, 4) * 0.2 * math.sqrt(1 + 1 / 5)
    assert statistics.predicted_mean([97.0], 5, spread=0.2).half_width == pytest.approx(half)


@pytest.mark.parametrize("values", [[99.0, 99.9], [0.1, 2.0, 0.3]])
def test_a_predicted_share_is_possible(values):
    for found in (statistics.predicted_mean(values, 1, whole=100), statistics.predicted_best(values, 3, whole=100)):
        assert 0 <= found.low < found.high <= 100
