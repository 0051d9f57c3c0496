"""Intervals against scipy or a closed form, and by simulation: they cover."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics
from tests import first_calls
from tests.statistics.simulation import MONTE_CARLO, RUNS


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


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


@pytest.mark.parametrize("n", [3, 5, 10])
def test_limits_of_shares_are_possible_and_cover_no_less_than_those_of_t(rng: np.random.Generator, n: int) -> None:
    truth = 99.0
    shares = rng.beta(99, 1, size=(RUNS, n)) * 100
    plain = [statistics.mean_interval(sample) for sample in shares]
    found = [statistics.mean_interval(sample, whole=100) for sample in shares]
    assert all(0 <= one.low < one.mean < one.high <= 100 for one in found)
    beyond = [one.high > 100 for one in plain]
    assert [one.kind == statistics.OVER_SEEDS_LOGIT for one in found] == beyond
    covered, before = (np.mean([one.low <= truth <= one.high for one in kind]) for kind in (found, plain))
    assert covered >= before
    assert (covered, before) == pytest.approx({3: (0.944, 0.889), 5: (0.912, 0.882), 10: (0.906, 0.905)}[n], abs=0.03)


def test_limits_of_a_share_against_the_formula() -> None:
    found = statistics.mean_interval([0.9, 1.0], whole=1)
    odds, margin = math.log(19), math.tan(0.475 * math.pi) * 0.05 / (0.95 * 0.05)
    assert found.low == pytest.approx(1 / (1 + math.exp(margin - odds)))
    assert found.high == pytest.approx(1 / (1 + math.exp(-margin - odds)))
    assert statistics.mean_interval([0.0, 10.0], whole=100).low > 0
    inside, plain = statistics.mean_interval([97.0, 97.1], whole=100), statistics.mean_interval([97.0, 97.1])
    assert inside == plain
    assert statistics.mean_interval([-1.0, 10.0], whole=100).kind == statistics.OVER_SEEDS  # no share


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
    several = statistics.accuracy_interval([97.0, 97.4], 1000)
    one = statistics.accuracy_interval([97.0], 1000)
    assert several.kind == statistics.OVER_SEEDS
    assert several.n == 2
    assert one.kind == statistics.OVER_SAMPLES
    assert one.n == 1000
    assert (one.mean, one.low) == (97.0, pytest.approx(100 * statistics.wilson_interval(970, 1000).low))
    assert statistics.accuracy_interval([97.0], None).kind == statistics.ONE_VALUE
    assert statistics.accuracy_interval([], 1000).kind == statistics.NO_VALUE


@pytest.mark.parametrize("confidence", [95, 1, 0, -0.5, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence: float) -> None:
    right = np.array([1, 0, 1, 1], dtype=bool)
    pair = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 0.0, 2: 0.0}
    for call in (
        lambda: statistics.mean_interval([1, 2, 3], confidence),
        lambda: statistics.paired_samples(right, ~right, confidence),
        lambda: statistics.predicted_mean([1, 2, 3], 1, confidence=confidence),
        lambda: statistics.predicted_best([1, 2, 3], 1, confidence=confidence),
        lambda: statistics.standardised_difference(*pair, confidence),
        lambda: statistics.seeds_needed(*pair, 3, 1.0, confidence),
        lambda: statistics.apart_difference([1, 2, 3], [1, 2, 5], confidence),
        lambda: statistics.interquartile_mean_over_tasks([[1, 2, 3, 4, 5]], confidence),
    ):
        with pytest.raises(ValueError, match="expected a confidence between 0 and 1"):
            call()


def test_counts_and_shapes_that_are_none_are_refused() -> None:
    for call in (
        lambda: statistics.predicted_mean([1, 2, 3], 0),
        lambda: statistics.predicted_best([1, 2, 3], 0),
        lambda: statistics.by_view(np.ones((2, 4), dtype=bool), 0),
        lambda: statistics.holm([[0.1, 0.2]]),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: statistics.moderated_variances([1.0, math.nan, 2.0], [2, 2, 2]),
        lambda: statistics.moderated_variances([1.0, -1.0, 2.0], [2, 2, 2]),
        lambda: statistics.moderated_variances([1.0, 2.0, 2.0], [2, 2]),
        lambda: statistics.performance_profile([[1.0, 2.0]], [math.nan]),
        lambda: statistics.holm([0.1, 0.2], family=math.nan),
        lambda: statistics.holm([0.1, 0.2], family=2.5),
        lambda: statistics.stable_from([]),
        lambda: statistics.stable_from([[1.0, math.nan], [0.0, 1.0]]),
    ],
)
def test_what_is_no_number_or_none_of_its_kind_is_refused_in_a_line(call, monkeypatch):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    with pytest.raises(ValueError, match=r"^expected [^\n]+$"):
        call()
