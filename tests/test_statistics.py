"""Each formula against scipy or a closed form, and by simulation: intervals cover, tests keep their size."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from routebench import statistics

RUNS = 2500
# Three standard errors of a proportion of 0.95 over RUNS simulations.
MONTE_CARLO = 3 * math.sqrt(0.95 * 0.05 / RUNS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def seeds(values: np.ndarray | list[float]) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


# -- mean over seeds


def test_mean_interval_is_scipys(rng: np.random.Generator) -> None:
    sample = rng.normal(97, 0.4, size=5)
    expected = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
    found = statistics.mean_interval(sample)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.n, found.kind) == (5, statistics.OVER_SEEDS)
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2)


def test_two_values_have_the_wide_interval_of_one_degree_of_freedom() -> None:
    # t(0.975, 1) = tan(0.95 pi / 2); the standard error of {0, 1} is 1/2.
    assert statistics.mean_interval([0.0, 1.0]).half_width == pytest.approx(math.tan(0.475 * math.pi) / 2)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_mean_interval_covers_the_truth_95_times_in_100(rng: np.random.Generator, n: int) -> None:
    found = [statistics.mean_interval(sample) for sample in rng.normal(1.0, 2.0, size=(RUNS, n))]
    covered = np.mean([interval.low <= 1.0 <= interval.high for interval in found])
    assert covered == pytest.approx(0.95, abs=MONTE_CARLO)


def test_too_few_values_say_so() -> None:
    nothing, one = statistics.mean_interval([]), statistics.mean_interval([3.0])
    assert math.isnan(nothing.mean)
    assert (nothing.n, nothing.kind) == (0, statistics.NO_VALUE)
    assert one.mean == 3.0
    assert math.isnan(one.low)
    assert one.kind == statistics.ONE_VALUE


def test_equal_values_have_no_width_and_say_so() -> None:
    found = statistics.mean_interval([2.0, 2.0, 2.0])
    assert (found.low, found.high, found.kind) == (2.0, 2.0, statistics.CONSTANT)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_failed_measurement_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="drop failed runs"):
        statistics.mean_interval([1.0, bad])
    with pytest.raises(ValueError, match="drop failed runs"):
        statistics.paired_difference({0: 1.0}, {0: bad})


# -- one seed: over test samples


def test_wilson_is_the_closed_form() -> None:
    z, p, n = stats.norm.ppf(0.975), 0.97, 1000
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    margin = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    found = statistics.wilson_interval(970, 1000)
    assert (found.low, found.high) == pytest.approx((centre - margin, centre + margin))


def test_wilson_stays_inside_at_the_edges_and_refuses_nonsense() -> None:
    assert statistics.wilson_interval(0, 10).low == pytest.approx(0, abs=1e-12)
    assert statistics.wilson_interval(10, 10).high == pytest.approx(1, abs=1e-12)
    assert statistics.wilson_interval(0, 0).kind == statistics.NO_VALUE
    with pytest.raises(ValueError, match="successes"):
        statistics.wilson_interval(11, 10)


def test_wilson_covers_a_proportion_of_97_percent(rng: np.random.Generator) -> None:
    counts, times = np.unique(rng.binomial(1000, 0.97, size=20_000), return_counts=True)
    covered = [statistics.wilson_interval(int(count), 1000) for count in counts]
    inside = np.array([interval.low <= 0.97 <= interval.high for interval in covered])
    # The count is discrete, so that coverage swings about the nominal value (Brown, Cai and DasGupta 2001).
    assert (inside * times).sum() / times.sum() == pytest.approx(0.95, abs=0.012)


def test_accuracy_interval_uses_seeds_when_there_are_several_and_samples_when_there_is_one() -> None:
    several = statistics.accuracy_interval([97.0, 98.0], 1000)
    one = statistics.accuracy_interval([97.0], 1000)
    assert several.kind == statistics.OVER_SEEDS
    assert several.n == 2
    assert one.kind == statistics.OVER_SAMPLES
    assert one.n == 1000
    assert (one.mean, one.low) == (97.0, pytest.approx(100 * statistics.wilson_interval(970, 1000).low))
    assert statistics.accuracy_interval([97.0], None).kind == statistics.ONE_VALUE
    assert statistics.accuracy_interval([], 1000).kind == statistics.NO_VALUE


# -- paired differences


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


def test_no_shared_seed_and_one_shared_seed() -> None:
    none = statistics.paired_difference({0: 1.0}, {1: 1.0})
    one = statistics.paired_difference({0: 1.0}, {0: 0.5})
    assert none.n == 0
    assert math.isnan(none.mean)
    assert math.isnan(none.p_value)
    assert one.mean == 0.5
    assert math.isnan(one.p_value)
    assert one.kind == statistics.ONE_VALUE


# -- per sample


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


# -- many comparisons


def test_holm_on_the_worked_example() -> None:
    # m = 4, sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 -> made monotone
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_untestable_comparisons_out_of_the_family() -> None:
    adjusted = statistics.holm([0.02, math.nan, 0.5])
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == 0.5
    assert statistics.holm([]).size == 0
    with pytest.raises(ValueError, match="p-values"):
        statistics.holm([1.2])


def test_holm_keeps_the_family_wise_error(rng: np.random.Generator) -> None:
    families = rng.uniform(size=(RUNS, 8))
    wrong = np.mean([(statistics.holm(family) < 0.05).any() for family in families])
    assert wrong <= 0.05 + MONTE_CARLO
    assert np.mean((families < 0.05).any(axis=1)) > 0.3  # what no correction would do


# -- smallest detectable difference


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


# -- rank groups


def paired_by_seed(values: dict[str, np.ndarray]) -> Callable[[str, str], float]:
    return lambda one, other: statistics.paired_difference(seeds(values[one]), seeds(values[other])).p_value


def test_rank_groups_split_what_differs_and_keep_together_what_does_not() -> None:
    p_values = {
        ("a", "b"): 0.9,
        ("a", "c"): 1e-6,
        ("a", "d"): 1e-6,
        ("b", "c"): 1e-6,
        ("b", "d"): 1e-6,
        ("c", "d"): 0.4,
    }
    groups = statistics.rank_groups(["a", "b", "c", "d"], lambda one, other: p_values[one, other])
    assert groups == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_untestable_pairs_share_a_group_and_no_names_give_no_groups() -> None:
    assert statistics.rank_groups(["a", "b"], lambda one, other: math.nan) == {"a": 1, "b": 1}
    assert statistics.rank_groups(["a"], lambda one, other: math.nan) == {"a": 1}
    assert statistics.rank_groups([], lambda one, other: math.nan) == {}


def test_equal_methods_rarely_leave_the_best_group(rng: np.random.Generator) -> None:
    wrong = 0
    for sample in rng.normal(size=(300, 5, 3)):
        values = {str(name): row for name, row in enumerate(sample)}
        best_first = sorted(values, key=lambda name: -values[name].mean())
        wrong += max(statistics.rank_groups(best_first, paired_by_seed(values)).values()) > 1
    assert wrong / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_clearly_worse_method_leaves_the_best_group(rng: np.random.Generator) -> None:
    values = {"good": rng.normal(97, 0.2, 5), "bad": rng.normal(90, 0.2, 5)}
    assert statistics.rank_groups(["good", "bad"], paired_by_seed(values)) == {"good": 1, "bad": 2}
