"""The smallest detectable difference is detected as often as it says."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from routebench import statistics


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_the_smallest_detectable_difference_is_detected_8_times_in_10(rng: np.random.Generator, n: int) -> None:
    difference = statistics.smallest_detectable_difference(2.0, n)
    samples = rng.normal(difference, 2.0, size=(20_000, n))
    found = np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05)
    assert found == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 20_000))


def test_the_smallest_detectable_difference_agrees_with_the_normal_limit() -> None:
    limit = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / math.sqrt(2000)
    assert statistics.smallest_detectable_difference(1.0, 2000) == pytest.approx(limit, rel=0.002)


@pytest.mark.parametrize(("deviation", "n"), [(1.0, 0), (1.0, 1), (0.0, 5), (math.nan, 5)])
def test_nothing_is_known_about_the_spread(deviation: float, n: int) -> None:
    assert math.isnan(statistics.smallest_detectable_difference(deviation, n))


def test_a_level_that_cannot_be_solved_for_gives_nothing() -> None:
    assert math.isnan(statistics.smallest_detectable_difference(1.0, 2, alpha=1e-12))
    assert statistics.smallest_detectable_difference(1.0, 5, alpha=0.9) == 0.0  # what is not there is found as often


@pytest.mark.parametrize("n", [3, 5, 20])
def test_it_is_statsmodels_where_that_converges(n: int) -> None:
    expected = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
    assert statistics.smallest_detectable_difference(2.0, n) == pytest.approx(2 * expected, rel=1e-4)


def test_the_smallest_detectable_share_of_samples_is_detected_about_8_times_in_10(rng: np.random.Generator) -> None:
    share, n = statistics.smallest_detectable_share(0.06, 2000), 2000
    draws = rng.multinomial(n, [(0.06 + share) / 2, (0.06 - share) / 2, 0.94], size=4000)
    found = np.mean([stats.binomtest(int(b), int(b + c)).pvalue < 0.05 for b, c, _ in draws[:800]])
    assert found == pytest.approx(0.78, abs=0.05)  # the exact test is a little conservative
    assert math.isnan(statistics.smallest_detectable_share(0.0, 100))
    assert math.isnan(statistics.smallest_detectable_share(0.01, 100))
