"""Methods ranked on several data sets: Friedman's test, Nemenyi's critical difference, Wilcoxon's tests with Holm.

Each data set counts once, whatever its number of seeds. Source of the procedure: Demsar, Statistical comparisons of
classifiers over multiple data sets, JMLR 7 (2006).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from routebench.statistics._by_sample import signed_sum_p
from routebench.statistics._families import holm
from routebench.statistics._intervals import ALPHA
from routebench.statistics._rounding import settled

RANKED = "ranks over data sets"
EXACT_BELOW = 10
PERMUTATIONS = 4000
TOO_FEW_DATA = "fewer than two data sets or methods, no test"


@dataclass(frozen=True)
class Ranking:
    """Methods ranked over data sets.

    Args:
        ranks: mean rank of each method, (methods,); 1 is best. NaN without data sets.
        statistic: Iman and Davenport's F; infinite where all data sets agree, NaN where there is no test.
        p_value: for 'all methods are alike'; NaN where there is no test.
        data_sets: how many.
        kind: the basis of the p-value, in words.
    """

    ranks: NDArray[np.float64]
    statistic: float
    p_value: float
    data_sets: int
    kind: str


def friedman(scores: ArrayLike) -> Ranking:
    """Friedman's test with Iman and Davenport's F, of 'all methods are alike on data sets like these'.

    `F = (N - 1) X / (N (k - 1) - X)` with Friedman's X, corrected for ties, on k - 1 and (k - 1)(N - 1) degrees of
    freedom. Below `EXACT_BELOW` data sets, where F has 8 % false positives, p comes from permuting ranks within each
    data set. From there on it is never below `k!^(1 - N)`, the chance that all agree.

    Sources: Friedman, The use of ranks to avoid the assumption of normality, JASA 32 (1937); Iman and Davenport,
    Approximations of the critical region of the Friedman statistic, Communications in Statistics A9 (1980).

    Args:
        scores: (N data sets, k methods), higher is better.

    Raises:
        ValueError: a score is not finite, or the scores are not two-dimensional.
    """
    table = _table(scores)
    data_sets, methods = table.shape
    ranks = stats.rankdata(-table, axis=1)
    mean = ranks.mean(axis=0) if data_sets else np.full(methods, np.nan)
    if data_sets < 2 or methods < 2:
        return Ranking(mean, math.nan, math.nan, data_sets, TOO_FEW_DATA)
    # scipy's friedmanchisquare refuses two methods; this is its formula.
    ties = 1 - _tied(ranks) / (data_sets * methods * (methods**2 - 1))
    if ties <= 0:  # every data set has all methods equal
        return Ranking(mean, 0.0, 1.0, data_sets, RANKED)
    spread = float(((mean - (methods + 1) / 2) ** 2).sum())
    chi_square = 12 * data_sets / (methods * (methods + 1)) * spread / ties
    left = data_sets * (methods - 1) - chi_square
    statistic = (data_sets - 1) * chi_square / left if left > 1e-9 else math.inf
    if data_sets < EXACT_BELOW:
        return Ranking(mean, statistic, _permuted_p(ranks), data_sets, RANKED)
    p_value = float(stats.f.sf(statistic, methods - 1, (methods - 1) * (data_sets - 1)))
    smallest = math.exp((1 - data_sets) * math.lgamma(methods + 1))
    return Ranking(mean, statistic, max(p_value, smallest), data_sets, RANKED)


def nemenyi_difference(methods: int, data_sets: int, alpha: float = ALPHA) -> float:
    """The critical difference: mean ranks further apart than this differ, at level alpha over all pairs together.

    `q(alpha) sqrt(k (k + 1) / (6 N))` with q the studentised range of k and infinite degrees of freedom over sqrt(2).
    Sources: Nemenyi, Distribution-free multiple comparisons, PhD thesis, Princeton (1963); Demsar 2006, section 3.2.2.
    Its verdict on two methods depends on the other methods (Benavoli, Corani and Mangili, Should we really use post-hoc
    tests based on mean-ranks?, JMLR 17, 2016); `wilcoxon_holm` avoids this.

    Args:
        methods: k, number of methods.
        data_sets: N, number of data sets.
        alpha: level of all pairs together, such as 0.05.

    Returns:
        in ranks; NaN with fewer than two data sets or methods.
    """
    if methods < 2 or data_sets < 2:
        return math.nan
    quantile = float(stats.studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * data_sets))


def wilcoxon_holm(scores: ArrayLike) -> NDArray[np.float64]:
    """Wilcoxon's signed-rank test of every pair over data sets, Holm's correction over all pairs.

    Exact; zero differences are split between the signs, as in Demsar. With N data sets a raw p is at least `2 / 2^N`:
    fewer than six never reach significance. Sources: Wilcoxon, Individual comparisons by ranking methods, Biometrics
    Bulletin 1 (1945); Demsar 2006; Benavoli, Corani and Mangili 2016, who recommend it over differences of mean ranks.

    Args:
        scores: (N data sets, k methods), higher is better.

    Returns:
        adjusted p, (k, k), symmetric; NaN on the diagonal, and everywhere without data sets.
    """
    table = _table(scores)
    methods = table.shape[1]
    rows, columns = np.triu_indices(methods, 1)
    adjusted = np.full((methods, methods), np.nan)
    largest = float(np.abs(table).max(initial=0.0))
    pairs = zip(rows, columns, strict=True)
    raw = [wilcoxon_p(settled(table[:, row] - table[:, column], largest)) for row, column in pairs]
    adjusted[rows, columns] = adjusted[columns, rows] = holm(raw)
    return adjusted


def wilcoxon_p(differences: ArrayLike) -> float:
    """Two-sided exact p of Wilcoxon's signed-rank test, zeros split (see `wilcoxon_holm`); NaN without differences.

    Tied differences share their mean rank, as in scipy, which then takes seconds for a dozen data sets.
    """
    found = np.atleast_1d(settled(differences))
    twice = np.rint(2 * stats.rankdata(np.abs(found))).astype(np.int64)  # ranks in halves
    return signed_sum_p(twice * np.sign(found).astype(np.int64)) if found.size else math.nan


def cliques(ranks: Sequence[float], critical_difference: float) -> list[tuple[float, float]]:
    """The bars of a critical-difference diagram: first and last mean rank of each largest group within the difference.

    Source: Demsar 2006, figure 1. Without a critical difference (NaN) one bar spans all.

    Args:
        ranks: mean rank of each method, in any order.
        critical_difference: in ranks, as from `nemenyi_difference`.
    """
    order = sorted(ranks)
    bars: list[tuple[float, float]] = []
    for place, first in enumerate(order):
        last = max(rank for rank in order[place:] if not rank - first > critical_difference)
        if last > first and (not bars or last > bars[-1][1]):
            bars.append((first, last))
    return bars


def _permuted_p(ranks: NDArray[np.float64]) -> float:
    """The share of permutations within rows whose mean ranks spread at least as far; the data count as one of them."""
    drawn = np.random.default_rng(0).permuted(np.broadcast_to(ranks, (PERMUTATIONS, *ranks.shape)), axis=-1)
    spread = drawn.mean(axis=1).var(axis=-1)
    return float((1 + np.sum(spread >= ranks.mean(axis=0).var() - 1e-9)) / (PERMUTATIONS + 1))


def _tied(ranks: NDArray[np.float64]) -> float:
    """Sum of t^3 - t over all groups of t tied ranks in a row."""
    return float(sum((count**3 - count) for row in ranks for count in np.unique(row, return_counts=True)[1]))


def _table(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores, (data sets, methods), with means equal up to rounding made exactly equal, so that they tie."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"expected finite scores (data sets, methods), got shape {table.shape}; leave out what failed")
    return settled(table)
