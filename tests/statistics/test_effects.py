"""Effect sizes: closed forms, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics
from tests.statistics.simulation import seeds


def test_hedges_correction_is_the_tabulated_one() -> None:
    # Hedges 1981, table 1: c(m) for m = 2, 3, 10.
    assert [statistics.hedges_correction(m) for m in (2, 3, 10)] == pytest.approx([0.5642, 0.7236, 0.9228], abs=1e-4)


def test_the_standardised_difference_and_its_limits() -> None:
    found = statistics.standardised_difference(seeds([1.0, 2.0, 3.0, 4.0]), seeds([0.0] * 4))
    plain = 2.5 / math.sqrt(5 / 3)
    assert found.mean == pytest.approx(statistics.hedges_correction(3) * plain)
    t_value = 2 * plain
    assert stats.nct.sf(t_value, 3, 2 * found.low) == pytest.approx(0.025, rel=1e-4)
    assert stats.nct.cdf(t_value, 3, 2 * found.high) == pytest.approx(0.025, rel=1e-4)


def test_too_few_or_equal_values_have_no_effect_size() -> None:
    two = statistics.standardised_difference(seeds([1.0, 2.0]), seeds([0.0, 0.0]))
    assert (math.isnan(two.mean), two.kind) == (True, statistics.TOO_FEW)
    same = statistics.standardised_difference(seeds([1.0] * 4), seeds([0.0] * 4))
    assert (math.isnan(same.mean), same.kind) == (True, statistics.CONSTANT)
    assert statistics.standardised_difference({}, {}).kind == statistics.NO_VALUE


@pytest.mark.parametrize("n", [3, 5, 10])
def test_it_is_unbiased_and_its_limits_cover(n: int) -> None:
    samples = np.random.default_rng(4).normal(1.0, 1.0, size=(1500, n))
    found = [statistics.standardised_difference(seeds(row), seeds([0.0] * n)) for row in samples]
    covered = np.mean([interval.low <= 1.0 <= interval.high for interval in found])
    assert 0.93 <= covered <= 0.97
    if n > 3:  # with 3 the estimate has no finite variance
        values = np.array([interval.mean for interval in found])
        assert values.mean() == pytest.approx(1.0, abs=4 * values.std() / math.sqrt(1500))


def test_superiority_counts_pairs_and_halves_ties() -> None:
    assert statistics.probability_of_superiority([3, 2], [1, 2]) == pytest.approx(3.5 / 4)
    assert statistics.cliffs_delta([3, 2], [1, 2]) == pytest.approx(0.75)
    assert statistics.probability_of_superiority([1.0], [1.0]) == 0.5
    assert math.isnan(statistics.cliffs_delta([], [1.0]))
