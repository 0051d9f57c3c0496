"""The range of another laboratory's number if its network is ours: one run, the mean of some, or the best of some."""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from routebench.statistics._intervals import (
    CONFIDENCE,
    CONSTANT,
    NO_VALUE,
    ONE_VALUE,
    Interval,
    finite,
    logit_limits,
    upper_level,
)
from routebench.statistics._rounding import settled

PREDICTED = "of other runs, by t over seeds"
NODES = 2000
"""Quantiles that stand for the distribution of a standard deviation: limits of two seeds are right to 5 digits."""


def predicted_mean(
    values: ArrayLike, runs: int, spread: float = math.nan, confidence: float = CONFIDENCE, whole: float | None = None
) -> Interval:
    """The interval in which the mean of so many other runs lies: `m +- t(n - 1) s sqrt(1 / n + 1 / k)`.

    An interval of the mean says where the truth lies; another run lies further off. Where the other runs' own standard
    deviation is printed, and `m +- t(df) sqrt(s^2 / n + spread^2 / k)` with Welch's degrees of freedom is wider, that
    is the interval; with one value of ours, it is `m +- t(k - 1) spread sqrt(1 + 1 / k)`. Source: Hahn and Meeker,
    Statistical Intervals (1991), section 4.7; Welch, The generalization of Student's problem, Biometrika 34 (1947).

    Args:
        values: one per seed.
        runs: k, of the other laboratory.
        spread: standard deviation over its runs; NaN where it prints none, or has one run.
        confidence: e.g. 0.95.
        whole: for shares, the largest possible value; the limits stay in its range as those of `mean_interval` do.

    Returns:
        `mean` is ours; without limits where nothing tells how far runs lie apart: one value, or equal ones.
    """
    _expect_runs(runs)
    sample, level = settled(finite(values)), upper_level(confidence)
    printed, unknown = runs > 1 and spread > 0, _without_spread(sample.tolist())
    if unknown and not (printed and sample.size):
        return unknown
    n = sample.size
    if unknown:
        margin = float(special.stdtrit(runs - 1, level)) * spread * math.sqrt(1 / n + 1 / runs)
        return _limits(float(sample.mean()), margin, margin, n, whole)
    ours, theirs = float(sample.var(ddof=1)) / n, spread**2 / runs if printed else 0.0
    margin = float(special.stdtrit(n - 1, level)) * math.sqrt(ours * (1 + n / runs))
    if printed:
        degrees = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (runs - 1))
        margin = max(margin, float(special.stdtrit(degrees, level)) * math.sqrt(ours + theirs))
    return _limits(float(sample.mean()), margin, margin, n, whole)


def predicted_best(
    values: ArrayLike, runs: int, *, lowest: bool = False, confidence: float = CONFIDENCE, whole: float | None = None
) -> Interval:
    """The interval in which the best of so many other runs lies, each like one of ours, normally distributed.

    The limits are `m + c s`, with c from `P((max(Z_1, ..., Z_k) - mean(Z)) / s <= c)` for standard normal Z, by
    quadrature. With one run this is `predicted_mean`.

    Args:
        values: one per seed.
        runs: k, of which the best is told.
        lowest: whether less is better, as of an error.
        confidence: e.g. 0.95.
        whole: for shares, the largest possible value.

    Returns:
        as `predicted_mean`.
    """
    _expect_runs(runs)
    sample = settled(finite(values))
    if unknown := _without_spread(sample.tolist()):
        return unknown
    deviation = float(sample.std(ddof=1))
    tails = ((1 - confidence) / 2, upper_level(confidence))
    low, high = (deviation * _best_quantile(tail, sample.size, runs) for tail in tails)
    below, above = (high, -low) if lowest else (-low, high)
    return _limits(float(sample.mean()), below, above, sample.size, whole)


def _expect_runs(runs: int) -> None:
    """Raises ValueError for fewer than one run."""
    if runs < 1:
        raise ValueError(f"expected 1 run or more, got {runs}")


def _without_spread(sample: list[float]) -> Interval | None:
    if len(sample) > 1 and min(sample) < max(sample):
        return None
    kind = {0: NO_VALUE, 1: ONE_VALUE}.get(len(sample), CONSTANT)
    return Interval(sample[0] if sample else math.nan, math.nan, math.nan, len(sample), kind)


def _limits(mean: float, below: float, above: float, n: int, whole: float | None) -> Interval:
    low, high = mean - below, mean + above
    if whole is not None and 0 < mean < whole and (low < 0 or high > whole):
        low, _ = logit_limits(mean / whole, below / whole)
        _, high = logit_limits(mean / whole, above / whole)
        low, high = whole * low, whole * high
    return Interval(mean, low, high, n, PREDICTED)


@cache
def _best_quantile(level: float, n: int, runs: int) -> float:
    """Quantile of the highest of some values less the mean of n others, in units of the standard deviation of these."""
    deviations = np.sqrt(special.chdtri(n - 1, 1 - (np.arange(NODES) + 0.5) / NODES) / (n - 1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights = weights / weights.sum()

    def excess(limit: float) -> float:
        below = special.ndtr(limit * deviations[:, None] + nodes / math.sqrt(n)) ** runs
        return float((below @ weights).mean()) - level

    return float(optimize.brentq(excess, -1e4, 1e4))
