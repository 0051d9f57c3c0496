"""Ranks over data sets: Demsar's worked example, scipy, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics

# Demsar 2006, table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets. The mean ranks printed
# there take the two 0.975 of voting as different, hence the fourth digit.
DEMSAR = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
])  # fmt: skip


def test_demsars_ranks_and_critical_difference() -> None:
    found = statistics.friedman(DEMSAR)
    assert found.ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert statistics.nemenyi_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert statistics.nemenyi_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)
    assert found.p_value < 0.05


def test_demsars_statistic_but_for_the_ties_that_he_leaves_in() -> None:
    # He has chi-square 9.28 and F 3.69; scipy corrects for ties.
    chi_square = stats.friedmanchisquare(*DEMSAR.T).statistic
    found = statistics.friedman(DEMSAR)
    assert found.statistic == pytest.approx(13 * chi_square / (14 * 3 - chi_square))
    without = 12 * 14 / 20 * ((found.ranks**2).sum() - 25)
    assert without == pytest.approx(9.28, abs=0.01)
    assert 13 * without / (42 - without) == pytest.approx(3.69, abs=0.01)
    assert chi_square > without


@pytest.mark.parametrize(("methods", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_nemenyis_quantiles_are_demsars_table_5(methods: int, quantile: float) -> None:
    found = statistics.nemenyi_difference(methods, 6) / math.sqrt(methods * (methods + 1) / 36)
    assert found == pytest.approx(quantile, abs=1.5e-3)


def test_demsars_wilcoxon_example() -> None:
    differences = DEMSAR[:, 1] - DEMSAR[:, 0]  # he has R+ = 93, R- = 12 and rejects at 5 %
    assert stats.wilcoxon(np.round(differences, 9), zero_method="zsplit").statistic == 12
    assert statistics.wilcoxon_p(differences) == pytest.approx(2**-7)  # of all 2^14 signs; 0.011 by the normal curve


def test_wilcoxon_is_scipys_where_differences_are_tied_or_zero() -> None:
    for differences in ([1, 1, 2, -1, 3, 0, 2], [0, 0, 1, 2, 2, -2, 5, 6], [0.5, 0.5, 0.5, 0.5, 0.5, -0.5]):
        exact = stats.PermutationMethod()
        known = stats.wilcoxon(differences, zero_method="zsplit", method=exact).pvalue
        assert statistics.wilcoxon_p(differences) == pytest.approx(known)


def test_wilcoxon_holm_is_symmetric_and_adjusted_over_all_pairs() -> None:
    found = statistics.wilcoxon_holm(DEMSAR)
    raw = [statistics.wilcoxon_p(DEMSAR[:, i] - DEMSAR[:, j]) for i in range(4) for j in range(i + 1, 4)]
    assert found == pytest.approx(found.T, nan_ok=True)
    assert np.isnan(np.diag(found)).all()
    assert found[np.triu_indices(4, 1)] == pytest.approx(statistics.holm(raw))


def test_too_little_gives_no_test_and_agreement_no_impossible_p() -> None:
    one = statistics.friedman([[3.0, 2.0, 1.0]])
    assert (one.kind, list(one.ranks)) == (statistics.TOO_FEW_DATA, [1, 2, 3])
    assert math.isnan(one.p_value)
    assert math.isnan(statistics.nemenyi_difference(4, 1))
    agreed = statistics.friedman([[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]])
    assert agreed.statistic == math.inf
    assert agreed.p_value == pytest.approx(1 / 6, abs=0.02)  # two rankings of three methods agree once in 3!
    assert statistics.friedman(np.ones((3, 4))).p_value == 1.0
    assert math.isnan(statistics.wilcoxon_p([]))
    assert statistics.wilcoxon_p([0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="data sets, methods"):
        statistics.friedman([[math.nan, 1.0], [1.0, 2.0]])


def test_means_that_only_rounding_tells_apart_tie() -> None:
    rounded = np.array([[0.1 + 0.2, 0.3, 0.5], [0.1 + 0.7, 0.8, 0.5], [0.7 + 0.2, 0.9, 0.2]])[:, [1, 0, 2]]
    plain = np.array([[0.3, 0.3, 0.5], [0.8, 0.8, 0.5], [0.9, 0.9, 0.2]])
    assert (rounded != plain).any()
    assert statistics.friedman(rounded).ranks == pytest.approx(statistics.friedman(plain).ranks)
    assert statistics.friedman(rounded).ranks[0] == statistics.friedman(rounded).ranks[1]
    assert statistics.wilcoxon_holm(rounded) == pytest.approx(statistics.wilcoxon_holm(plain), nan_ok=True)


def test_differences_that_only_rounding_tells_apart_tie() -> None:
    found = np.array([[95.3, 94.1], [95.1, 93.9], [95.6, 94.4], [90.0, 93.0], [80.0, 84.0], [70.0, 71.2], [60, 55]])
    exact = [1.2, 1.2, 1.2, -3.0, -4.0, -1.2, 5.0]
    assert statistics.wilcoxon_holm(found)[0, 1] == statistics.wilcoxon_p(exact)


@pytest.mark.parametrize(("data_sets", "methods"), [(3, 4), (6, 5), (12, 4)])
def test_friedman_and_nemenyi_keep_their_size(data_sets: int, methods: int) -> None:
    drawn = np.random.default_rng(12).normal(size=(600, data_sets, methods))
    found = [statistics.friedman(scores) for scores in drawn]
    critical = statistics.nemenyi_difference(methods, data_sets)
    slack = 3 * math.sqrt(0.05 * 0.95 / 600)
    assert np.mean([ranking.p_value < 0.05 for ranking in found]) <= 0.05 + slack
    assert np.mean([np.ptp(ranking.ranks) > critical for ranking in found]) <= 0.05 + slack


def test_wilcoxon_holm_keeps_the_family_wise_error_and_finds_what_is_there() -> None:
    rng = np.random.default_rng(13)
    drawn = rng.normal(size=(120, 10, 3))
    wrong = np.mean([np.nanmin(statistics.wilcoxon_holm(scores)) < 0.05 for scores in drawn])
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 120)
    found = np.mean([statistics.wilcoxon_holm(scores + np.array([3, 0, 0]))[0, 1] < 0.05 for scores in drawn[:40]])
    assert found > 0.9


def test_bars_join_what_lies_within_the_critical_difference() -> None:
    assert statistics.cliques([1.0, 2.0, 2.5, 4.0], 1.5) == [(1.0, 2.5), (2.5, 4.0)]
    assert statistics.cliques([1.0, 4.0], 1.5) == []
    assert statistics.cliques([1.0, 4.0], math.nan) == [(1.0, 4.0)]
