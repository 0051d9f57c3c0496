import math

import numpy as np
import pytest
from scipy import stats

from routebench.statistics import (
    CONSTANT,
    OVER_MACHINES,
    apart_difference,
    apart_equivalence_p,
    crossed_apart_difference,
    crossed_difference,
)


def samples(seed=0):
    random = np.random.default_rng(seed)
    return random.normal(0.4, 0.3, 5), random.normal(0.1, 0.6, 10)


def test_it_is_welchs_test_with_satterthwaites_degrees_of_freedom():
    one, other = samples()
    known = stats.ttest_ind(one, other, equal_var=False)
    found = apart_difference(one, other)
    assert found.kind == OVER_MACHINES and found.n == 5
    assert found.p_value == pytest.approx(known.pvalue, rel=1e-12)
    limits = known.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high), rel=1e-12)


def test_the_other_way_round_is_the_same_with_the_other_sign():
    one, other = samples()
    found, back = apart_difference(one, other), apart_difference(other, one)
    assert (found.mean, found.low, found.high, found.p_value) == (-back.mean, -back.high, -back.low, back.p_value)


def test_equivalence_is_the_larger_of_two_one_sided_tests():
    one, other = samples(3)
    for margin in (0.1, 0.5, 2.0):
        above = stats.ttest_ind(one - margin, other, equal_var=False, alternative="less").pvalue
        below = stats.ttest_ind(one + margin, other, equal_var=False, alternative="greater").pvalue
        assert apart_equivalence_p(one, other, margin) == pytest.approx(max(above, below), rel=1e-10)


def test_one_seed_gives_no_limits_and_no_spread_no_p():
    alone = apart_difference([0.4], [0.1, 0.2])
    assert alone.mean == pytest.approx(0.25) and math.isnan(alone.low) and math.isnan(alone.p_value)
    assert math.isnan(apart_difference([], [0.1, 0.2]).mean)
    equal = apart_difference([0.5, 0.5], [0.5, 0.5, 0.5])
    assert (equal.kind, equal.mean, equal.p_value) == (CONSTANT, 0.0, 1.0)
    tied = apart_difference([0.5, 0.5], [0.1, 0.1])
    assert tied.kind == CONSTANT and math.isnan(tied.p_value)
    assert math.isnan(apart_equivalence_p([0.5, 0.5], [0.1, 0.1], 1.0))
    assert math.isnan(apart_equivalence_p([0.5], [0.1, 0.2], 1.0))
    half = apart_difference([0.5, 0.5], [0.1, 0.2])
    assert half.p_value == pytest.approx(stats.ttest_1samp([0.1, 0.2], 0.5).pvalue), "the other's spread is known"


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="finite"):
        apart_difference([0.5, math.nan], [0.1, 0.2])
    with pytest.raises(ValueError, match="above zero"):
        apart_equivalence_p([0.5, 0.1], [0.1, 0.2], 0.0)
    with pytest.raises(ValueError, match="as many samples"):
        crossed_apart_difference(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="finite"):
        crossed_apart_difference(np.full((2, 3), math.nan), np.zeros((2, 3)))


TRUTH = 0.25 * 0.95
"""The lead over all samples: one in four is hard for the baseline, and not for the method."""


def answers(random, seeds, hard, right):
    """Right or not, (seeds, samples): each sample is as hard on both machines."""
    return (random.random((seeds, hard.size)) < np.clip(right - hard, 0, 1)).astype(float)


def test_with_other_samples_the_interval_is_wider_where_samples_vary_and_covers():
    random = np.random.default_rng(1)
    covered, wider, plain = 0, 0, 0
    for _ in range(200):
        hard = np.where(random.random(60) < 0.5, 0.95, 0.0)
        lead = np.where(random.random(60) < 0.5, hard, 0.0)
        ours, base = answers(random, 10, hard - lead, 0.98), answers(random, 10, hard, 0.98)
        theirs, other = answers(random, 10, hard, 0.98), answers(random, 10, hard, 0.98)
        found = crossed_apart_difference(ours - base, theirs - other)
        seeds = apart_difference((ours - base).mean(axis=1), (theirs - other).mean(axis=1))
        covered += found.low <= TRUTH <= found.high
        plain += seeds.low <= TRUTH <= seeds.high
        wider += found.half_width > seeds.half_width
    assert found.mean == pytest.approx(seeds.mean)
    assert wider > 150
    assert covered >= 185, "95 % less three standard errors"
    assert plain < 120, "over seeds alone it says nothing of other samples"


def test_where_every_seed_gives_the_same_answers_samples_alone_vary():
    """The interval is that of a mean over samples, with the degrees of freedom of the fewest seeds."""
    random = np.random.default_rng(2)
    one, other = (np.tile(random.integers(-1, 2, 20), (seeds, 1)) for seeds in (3, 4))
    found = crossed_apart_difference(one, other)
    apart = one[0] - other[0]
    half = stats.t.ppf(0.975, 2) * apart.std(ddof=1) / math.sqrt(20)
    assert (found.low, found.high) == pytest.approx((apart.mean() - half, apart.mean() + half))
    assert 0 < found.p_value < 1
    thirds = np.full((3, 5), 1 / 3)
    assert crossed_apart_difference(thirds, 0.1 * thirds).kind == CONSTANT, "but for rounding, nothing varies"


def test_limits_stay_in_the_range_of_gains():
    gains = np.array([[1, 1], [-1, -1]])
    found = crossed_apart_difference(gains, gains)
    assert (found.low, found.high) == (-2, 2)


def test_on_one_machine_it_is_as_wide_as_without_pairing():
    random = np.random.default_rng(5)
    hard = random.uniform(0.1, 0.5, 400)
    ours, base, theirs = (answers(random, 6, hard, right) for right in (0.95, 0.9, 0.92))
    apart = crossed_apart_difference(ours - base, theirs - base)
    paired = crossed_difference(ours, theirs)
    assert apart.mean == pytest.approx(paired.mean)
    assert 0.5 < apart.half_width / paired.half_width < 2
