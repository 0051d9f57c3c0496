"""Paired tests by seed against scipy, and by simulation: they keep their size."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics
from tests.statistics.simulation import MONTE_CARLO, RUNS, seeds


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_paired_difference_is_scipys_on_the_shared_seeds(rng: np.random.Generator) -> None:
    ours, theirs = rng.normal(97, 1, size=6), rng.normal(96, 1, size=6)
    expected = stats.ttest_rel(ours, theirs)
    found = statistics.paired_difference({**seeds(ours), 17: 0.0}, {**seeds(theirs), 18: 0.0})
    limits = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high, found.n) == (pytest.approx(limits.low), pytest.approx(limits.high), 6)


def test_pairing_by_seed_beats_what_the_seed_does_to_both(rng: np.random.Generator) -> None:
    shared = rng.normal(0, 5, size=8)
    better, worse = seeds(shared + 1 + rng.normal(0, 0.1, 8)), seeds(shared + rng.normal(0, 0.1, 8))
    assert statistics.paired_difference(better, worse).p_value < 1e-4
    assert stats.ttest_ind(list(better.values()), list(worse.values())).pvalue > 0.3


@pytest.mark.parametrize("n", [3, 5])
def test_paired_test_keeps_its_size(rng: np.random.Generator, n: int) -> None:
    samples = rng.normal(0, 1, size=(RUNS, 2, n))
    found = [statistics.paired_difference(seeds(ours), seeds(theirs)) for ours, theirs in samples]
    assert np.mean([difference.p_value < 0.05 for difference in found]) == pytest.approx(0.05, abs=MONTE_CARLO)


def test_differences_without_spread_are_not_called_significant() -> None:
    same = statistics.paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    shifted = statistics.paired_difference({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0})
    assert same.p_value == 1.0
    assert shifted.mean == 1.0
    assert math.isnan(shifted.p_value)
    assert shifted.kind == statistics.CONSTANT


def test_equal_differences_are_equal_though_floats_round_them() -> None:
    ours, theirs = seeds([95.3, 95.1, 95.6]), seeds([94.1, 93.9, 94.4])
    assert len({ours[seed] - theirs[seed] for seed in ours}) > 1
    found = statistics.paired_difference(ours, theirs)
    assert (found.mean, found.kind) == (pytest.approx(1.2), statistics.CONSTANT)
    assert math.isnan(found.p_value)
    assert math.isnan(statistics.equivalence_p(ours, theirs, 0.5))
    assert math.isnan(statistics.standardised_difference(ours, theirs).mean)
    assert np.ptp(statistics.shared_differences(ours, theirs)) == 0
    assert statistics.paired_difference(seeds([0.1 + 0.2, 0.3]), seeds([0.3, 0.1 + 0.2])).p_value == 1.0
    assert statistics.mean_interval([0.1 + 0.2, 0.3]).kind == statistics.CONSTANT


def test_what_more_than_rounding_tells_apart_stays_apart() -> None:
    found = statistics.shared_differences(seeds([95.3, 95.1, 95.300001]), seeds([94.1, 93.9, 94.1]))
    assert np.unique(found).size == 2
    assert found == pytest.approx([1.2, 1.2, 1.200001], abs=1e-12)


def test_no_shared_seed_and_one_shared_seed() -> None:
    none = statistics.paired_difference({0: 1.0}, {1: 1.0})
    one = statistics.paired_difference({0: 1.0}, {0: 0.5})
    assert none.n == 0
    assert math.isnan(none.mean)
    assert math.isnan(none.p_value)
    assert one.mean == 0.5
    assert math.isnan(one.p_value)
    assert one.kind == statistics.ONE_VALUE


@pytest.mark.parametrize(("n", "smallest"), [(0, math.nan), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_the_smallest_p_of_a_sign_flip_test(n: int, smallest: float) -> None:
    assert statistics.smallest_sign_flip_p(n) == pytest.approx(smallest, nan_ok=True)


def test_equivalence_is_the_larger_of_two_one_sided_t_tests(rng: np.random.Generator) -> None:
    sample = rng.normal(0.1, 0.2, size=6)
    above = stats.ttest_1samp(sample, -0.5, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, 0.5, alternative="less").pvalue
    assert statistics.equivalence_p(seeds(sample), seeds([0.0] * 6), 0.5) == pytest.approx(max(above, below))


def test_equivalence_says_nothing_of_one_seed_or_no_spread() -> None:
    assert math.isnan(statistics.equivalence_p({0: 1.0}, {0: 1.0}, 0.5))
    assert math.isnan(statistics.equivalence_p(seeds([1, 1]), seeds([1, 1]), 0.5))
    with pytest.raises(ValueError, match="margin"):
        statistics.equivalence_p({}, {}, 0.0)


def test_equivalence_keeps_its_size_at_the_margin_and_finds_equal_methods(rng: np.random.Generator) -> None:
    def share_below(mean: float) -> float:
        samples = rng.normal(mean, 0.3, size=(500, 5))
        return float(np.mean([statistics.equivalence_p(seeds(row), seeds([0.0] * 5), 0.5) < 0.05 for row in samples]))

    assert share_below(0.5) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)
    assert share_below(0.0) > 0.6
