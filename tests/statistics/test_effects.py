"""Effect sizes: closed forms, and by simulation."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from routebench import statistics
from routebench.statistics import _effects as effects
from tests import first_calls
from tests.statistics.simulation import seeds


def test_hedges_correction_is_the_tabulated_one() -> None:
    # Hedges 1981, table 1: c(m) for m = 2, 3, 10.
    assert [statistics.hedges_correction(m) for m in (2, 3, 10)] == pytest.approx([0.5642, 0.7236, 0.9228], abs=1e-4)


@pytest.mark.parametrize("degrees", [1, 0, -3, math.nan, math.inf])
def test_there_is_no_correction_with_fewer_than_two_degrees(degrees, monkeypatch) -> None:
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    with pytest.raises(ValueError, match="expected 2 degrees of freedom or more, got"):
        statistics.hedges_correction(degrees)


def test_the_standardised_difference_and_its_limits() -> None:
    found = statistics.standardised_difference(seeds([1.0, 2.0, 3.0, 4.0]), seeds([0.0] * 4))
    plain = 2.5 / math.sqrt(5 / 3)
    assert found.mean == pytest.approx(statistics.hedges_correction(3) * plain)
    t_value = 2 * plain
    assert stats.nct.sf(t_value, 3, 2 * found.low) == pytest.approx(0.025, rel=1e-4)
    assert stats.nct.cdf(t_value, 3, 2 * found.high) == pytest.approx(0.025, rel=1e-4)


def below(t_value: float, degrees: int, noncentrality: float) -> float:
    """P(T <= t) by integrating over the standard deviation; scipy's own loses digits where t is large."""

    def given(quantile: float) -> float:
        return float(special.ndtr(t_value * math.sqrt(stats.chi2.ppf(quantile, degrees) / degrees) - noncentrality))

    return float(integrate.quad(given, 0, 1, limit=400, points=[0.02, 0.03, 0.97, 0.98])[0])


@pytest.mark.parametrize("differences", [[1.0, 1.001, 1.002], [-1.0, -1.001, -1.002], [1.0, 1.0001, 1.0002, 1.0003]])
def test_the_limits_of_a_very_large_t_are_noncentralities_too(differences: list[float]) -> None:
    n = len(differences)
    found = statistics.standardised_difference(seeds(differences), seeds([0.0] * n))
    t_value = float(stats.ttest_1samp(differences, 0).statistic)
    assert abs(t_value) > effects.LARGE_T
    assert below(t_value, n - 1, math.sqrt(n) * found.low) == pytest.approx(0.975, abs=1e-5)
    assert below(t_value, n - 1, math.sqrt(n) * found.high) == pytest.approx(0.025, abs=1e-5)


@pytest.mark.parametrize("n", [3, 5, 10, 30])
def test_the_limits_have_no_step_where_the_limit_for_large_t_begins(n: int) -> None:
    for share in (0.025, 0.975):
        before, after = (effects._noncentrality(effects.LARGE_T * by, n - 1, share) / by for by in (0.999, 1.001))
        assert before == pytest.approx(after, rel=1e-3)


def test_scipys_inverse_is_not_asked_where_it_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    def inverse(degrees: float, share: float, t_value: float) -> float:
        assert abs(t_value) <= effects.LARGE_T
        return float(nctdtrinc(degrees, share, t_value))

    nctdtrinc = special.nctdtrinc
    monkeypatch.setattr(effects.special, "nctdtrinc", inverse)
    for step in (1.0, 1e-2, 1e-3, 1e-5, 1e-7):
        found = statistics.standardised_difference(seeds([87.2, 87.2 + step, 87.2]), seeds([0.0] * 3))
        assert 0 < found.low < found.mean < found.high < math.inf


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
