"""Tests per sample in closed form, and by simulation: they keep their size."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics
from routebench.statistics._by_sample import signed_sum_p


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def table(both: int, ours: int, theirs: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    one = np.repeat([True, True, False, False], [both, ours, theirs, neither])
    other = np.repeat([True, False, True, False], [both, ours, theirs, neither])
    return one, other


def test_mcnemar_is_the_exact_binomial_tail() -> None:
    found = statistics.paired_samples(*table(900, 12, 3, 85))
    tail = sum(math.comb(15, k) for k in range(4)) / 2**15
    assert found.p_value == pytest.approx(2 * tail)
    assert (found.mean, found.n) == (pytest.approx(0.009), 1000)


def test_mcnemar_without_discordant_samples_finds_nothing() -> None:
    assert statistics.paired_samples(*table(90, 0, 0, 10)).p_value == 1.0
    assert statistics.paired_samples([], []).kind == statistics.NO_VALUE
    with pytest.raises(ValueError, match="same samples"):
        statistics.paired_samples([True], [True, False])


def test_paired_samples_cover_and_keep_the_size(rng: np.random.Generator) -> None:
    draws = rng.multinomial(400, [0.90, 0.03, 0.03, 0.04], size=1000)
    found = [statistics.paired_samples(*table(*map(int, draw))) for draw in draws]
    covered = np.mean([difference.low <= 0 <= difference.high for difference in found])
    assert 0.94 <= covered <= 0.985  # conservative by design when few samples are discordant
    assert np.mean([difference.p_value < 0.05 for difference in found]) <= 0.05


def excludes_zero(found: statistics.Difference) -> bool:
    return found.low > 0 or found.high < 0


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99, 0.999])
def test_interval_and_p_of_every_small_table_agree(confidence: float) -> None:
    for ours in range(25):
        for theirs in range(25):
            counts = table(40, ours, theirs, 20)
            for found in (
                statistics.paired_samples(*counts, confidence),
                statistics.paired_samples_of_seeds(counts[0][None], counts[1][None], confidence),
            ):
                assert excludes_zero(found) == (found.p_value < 1 - confidence)
                assert found.low <= found.mean <= found.high


def test_interval_and_p_of_several_seeds_agree(rng: np.random.Generator) -> None:
    decided = set()
    for _ in range(500):
        shift, n = rng.uniform(-0.15, 0.15), int(rng.integers(20, 150))
        hard = rng.random(n)
        ours, theirs = (hard < 0.8 + rng.normal(0, 0.05, (3, n)) + apart for apart in (0, shift))
        found = statistics.paired_samples_of_seeds(ours, theirs)
        assert excludes_zero(found) == (found.p_value < 0.05)
        decided.add(found.p_value < 0.05)
    assert decided == {True, False}


def test_where_wald_and_the_test_disagree_the_test_decides() -> None:
    found = statistics.paired_samples(*table(50, 5, 0, 5))  # Wald alone: 0.7 to 15.4 points
    assert (found.p_value, found.low < 0 < found.high) == (0.0625, True)
    agreeing = statistics.paired_samples(*table(50, 12, 3, 5))
    b, c, total = 12.5, 3.5, 72
    wald = stats.norm.ppf(0.975) * math.sqrt(b + c - (b - c) ** 2 / total) / total
    assert (agreeing.low, agreeing.high) == (pytest.approx(9 / total - wald), pytest.approx(9 / total + wald))


@pytest.mark.parametrize("n", [60, 500])
@pytest.mark.parametrize("discordant", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("won", [0.5, 0.75, 0.9])
def test_coverage_counted_over_all_tables(n: int, discordant: float, won: float) -> None:
    ours, theirs = discordant * won, discordant * (1 - won)
    most = int(stats.binom.ppf(1 - 1e-5, n, discordant))
    covered = 0.0
    for apart in range(most + 1):
        chances = stats.binom.pmf(apart, n, discordant) * stats.binom.pmf(np.arange(apart + 1), apart, won)
        for only_ours in np.flatnonzero(chances > 1e-7):
            found = statistics.paired_samples(*table(n - apart, only_ours, apart - only_ours, 0))
            covered += chances[only_ours] * (found.low <= ours - theirs <= found.high)
    assert covered > 0.94


def test_odds_of_discordant_samples_are_the_exact_binomial_limits() -> None:
    found = statistics.discordant_odds(*table(900, 12, 3, 85))
    limits = stats.binomtest(12, 15).proportion_ci(0.95, "exact")
    assert (found.mean, found.n) == (pytest.approx(4.0), 15)
    assert found.low == pytest.approx(limits.low / (1 - limits.low))
    assert found.high == pytest.approx(limits.high / (1 - limits.high))
    assert (found.low > 1) == (statistics.paired_samples(*table(900, 12, 3, 85)).p_value < 0.05)
    assert statistics.discordant_odds(*table(9, 1, 0, 0)).mean == math.inf
    assert statistics.discordant_odds(*table(9, 0, 0, 1)).kind == statistics.NO_DISCORDANT


def test_one_seed_of_several_is_mcnemar() -> None:
    one, other = table(900, 12, 3, 85)
    single = statistics.paired_samples(one, other)
    found = statistics.paired_samples_of_seeds(one[None], other[None])
    assert found.p_value == pytest.approx(single.p_value)
    assert (found.low, found.high) == (pytest.approx(single.low), pytest.approx(single.high))


def test_scores_of_a_sample_share_one_sign() -> None:
    # Scores 2, 1, 1: of the 8 signed sums +-2 +-1 +-1, the two of |4| reach |4|.
    ours = np.array([[1, 1, 0, 1], [1, 0, 1, 1]])
    theirs = np.array([[0, 0, 0, 1], [0, 0, 0, 1]])
    assert statistics.paired_samples_of_seeds(ours, theirs).p_value == pytest.approx(2 / 8)
    assert statistics.paired_samples_of_seeds(ours, ours).p_value == 1.0
    assert statistics.paired_samples_of_seeds(np.ones((2, 0)), np.ones((2, 0))).kind == statistics.NO_VALUE


def test_copies_of_one_network_are_no_new_evidence() -> None:
    one, other = table(900, 12, 3, 85)
    single = statistics.paired_samples(one, other)
    copied = statistics.paired_samples_of_seeds(np.tile(one, (4, 1)), np.tile(other, (4, 1)))
    assert copied.p_value == pytest.approx(single.p_value)
    assert statistics.paired_samples(np.tile(one, 4), np.tile(other, 4)).p_value < single.p_value / 100  # pooled: wrong


def counted_p(scores: list[int]) -> float:
    """In whole numbers: how many of the 2^n signed sums are as far from zero."""
    ways = {0: 1}
    for score in scores:
        after: dict[int, int] = {}
        for total, count in ways.items():
            for moved in (total + score, total - score):
                after[moved] = after.get(moved, 0) + count
        ways = after
    return sum(count for total, count in ways.items() if abs(total) >= abs(sum(scores))) / 2 ** len(scores)


@pytest.mark.parametrize("mostly", [0.5, 0.7, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("n", [1, 3, 12, 150])
def test_the_signed_sum_is_counted_exactly_down_to_tiny_p(n: int, mostly: float, rng: np.random.Generator) -> None:
    scores = rng.integers(0, 8, size=n) * np.where(rng.random(n) < mostly, 1, -1)
    assert signed_sum_p(scores) == pytest.approx(counted_p(scores.tolist()), rel=1e-9)


@pytest.mark.parametrize("ours", [510, 600, 800, 950, 999, 1000])
def test_of_ones_it_is_the_binomial_tail_down_to_1e_300(ours: int) -> None:
    scores = np.repeat([1, -1], [ours, 1000 - ours])
    assert signed_sum_p(scores) == pytest.approx(2 * stats.binom.sf(ours - 1, 1000, 0.5), rel=1e-9)
    assert signed_sum_p(6 * scores) == pytest.approx(signed_sum_p(scores), rel=1e-9)


def test_60_networks_on_10000_images_are_not_too_many(rng: np.random.Generator) -> None:
    ours, theirs = (np.where(rng.random((60, 10_000)) < 0.05, 1, 0) ^ (rng.random(10_000) < 0.8) for _ in range(2))
    assert 0 < statistics.paired_samples_of_seeds(ours, theirs).p_value <= 1
