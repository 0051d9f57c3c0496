"""Seeds until an interval is narrow enough: it covers as often as it says, although the data chose the number."""

import math

import numpy as np
import pytest
from scipy import special

from routebench.statistics import (
    OVER_SEEDS_TWO_STAGES,
    equivalence_p,
    mean_interval,
    paired_difference,
    seeds_needed,
    two_stage_difference,
    two_stage_equivalence_p,
)
from tests.statistics.simulation import seeds

RUNS = 4000
THREE_ERRORS = 3 * math.sqrt(0.95 * 0.05 / RUNS)
HALF_WIDTH = 0.3


def two_stage(values, first):
    return two_stage_difference(seeds(values), seeds([0.0] * len(values)), first)


def needed(first, half_width):
    return seeds_needed(seeds(first), seeds([0.0] * len(first)), len(first), half_width)


def normal(random, size):
    return random.normal(0.1, 0.5, size)


def skewed(random, size):
    """Exponential, as of a method that collapses in a few seeds."""
    return 0.1 + 0.4 * (random.exponential(1, size) - 1)


def by_two_stages(random, draw, first):
    values = draw(random, first)
    values = np.concatenate([values, draw(random, needed(values, HALF_WIDTH) - first)])
    return two_stage(values, first)


def by_looking_at_every_seed(random, draw, first):
    """What must not be done: Student's interval until it is narrow enough."""
    values = list(draw(random, first))
    while mean_interval(values).half_width > HALF_WIDTH and len(values) < 1000:
        values += list(draw(random, 1))
    return mean_interval(values)


def coverage(rule, draw, first, runs=RUNS):
    random = np.random.default_rng(0)
    found = [rule(random, draw, first) for _ in range(runs)]
    assert all(interval.half_width <= HALF_WIDTH + 1e-9 for interval in found)
    return np.mean([interval.low <= 0.1 <= interval.high for interval in found]), np.mean([one.n for one in found])


@pytest.mark.parametrize("first", [3, 5, 10])
def test_two_stages_cover_as_often_as_they_say(first):
    covered, mean_seeds = coverage(by_two_stages, normal, first)
    assert covered > 0.95 - THREE_ERRORS
    assert first <= mean_seeds < 70


def test_looking_at_every_seed_covers_less_often():
    covered, _ = coverage(by_looking_at_every_seed, normal, 3, runs=1000)
    assert covered < 0.95 - 3 * THREE_ERRORS


def test_skewed_differences_are_covered_as_often_as_by_the_first_ten_seeds_alone():
    covered, _ = coverage(by_two_stages, skewed, 10)
    random = np.random.default_rng(0)
    plain = [mean_interval(skewed(random, 10)) for _ in range(RUNS)]
    assert covered > np.mean([one.low <= 0.1 <= one.high for one in plain]) - THREE_ERRORS > 0.85


def test_two_stages_find_no_difference_that_is_not_there_too_often():
    random = np.random.default_rng(1)
    found = [by_two_stages(random, lambda generator, size: generator.normal(0, 0.5, size), 10) for _ in range(RUNS)]
    assert np.mean([not one.low <= 0 <= one.high for one in found]) < 0.05 + THREE_ERRORS


def test_the_number_is_the_formula():
    first = [0.2, 0.9, -0.4, 0.5, 0.3]
    reach = special.stdtrit(4, 0.975) * np.std(first, ddof=1) / 0.25
    assert needed(first, 0.25) == math.ceil(reach**2) > 5
    assert needed(first, 100) == 5  # the first stage stays
    assert needed([1.0, 1.0, 1.0], 0.1) == 3
    later = seeds([*first, 40.0, -40.0])  # what comes later does not move it
    assert seeds_needed(later, dict.fromkeys(later, 0.0), 5, 0.25) == needed(first, 0.25)


def test_the_spread_is_that_of_the_first_stage():
    first, later = [0.2, 0.9, -0.4, 0.5, 0.3], [10.0, -10.0, 10.0]
    found = two_stage([*first, *later], 5)
    assert found.kind == OVER_SEEDS_TWO_STAGES
    assert found.mean == pytest.approx(np.mean([*first, *later]))
    assert found.half_width == pytest.approx(special.stdtrit(4, 0.975) * np.std(first, ddof=1) / math.sqrt(8))
    assert found.p_value == pytest.approx(
        2 * special.stdtr(4, -found.mean * special.stdtrit(4, 0.975) / found.half_width)
    )
    none = seeds([0.0] * 5)
    assert two_stage(first, 5) == paired_difference(seeds(first), none)
    assert two_stage_equivalence_p(seeds(first), none, 5, 0.5) == equivalence_p(seeds(first), none, 0.5)


def test_equivalence_is_shown_where_the_interval_of_90_percent_lies_within_the_margin():
    random = np.random.default_rng(3)
    for _ in range(200):
        values = seeds(random.normal(0.2, 0.4, 12))
        none = dict.fromkeys(values, 0.0)
        found = two_stage_difference(values, none, 6, confidence=0.9)
        within = found.low > -0.5 and found.high < 0.5
        assert within == (two_stage_equivalence_p(values, none, 6, 0.5) < 0.05)


def test_nothing_is_needed_before_the_first_stage_is_whole():
    assert seeds_needed(seeds([1.0, 2.0]), seeds([0.0, 0.0, 0.0]), 3, 0.1) is None
    assert needed([1.0], 0.1) is None
    with pytest.raises(ValueError, match="above zero"):
        needed([1.0, 2.0], 0.0)


@pytest.mark.parametrize("half_width", [1e-200, 5e-324, 1e-9])
def test_a_width_that_is_out_of_reach_asks_for_the_most_seeds(half_width):
    ours, theirs = {0: 1.0, 1: 3.0, 2: 8.0}, {0: 0.0, 1: 0.0, 2: 0.0}
    assert seeds_needed(ours, theirs, 3, half_width) == 10_000
