"""An estimate with its limits: over seeds, or over test samples where there is one seed."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from routebench.statistics._rounding import settled

CONFIDENCE = 0.95
ALPHA = 0.05
"""Chance of a false alarm that a test, or a family of tests, may have."""
OVER_SEEDS = "t over seeds"
OVER_SEEDS_LOGIT = "t over seeds, on the logit scale"
OVER_SAMPLES = "over test samples (one seed)"
ONE_VALUE = "one value, no interval"
NO_VALUE = "no value"
CONSTANT = "t over seeds (all equal)"


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence limits, all in the unit of the values.

    Args:
        mean: the estimate; NaN without values.
        low: lower limit; NaN where none can be given.
        high: upper limit; NaN where none can be given.
        n: number of values: seeds, or test samples where `kind` is `OVER_SAMPLES`.
        kind: what varies in the interval, in words; a constant of `routebench.statistics`.
    """

    mean: float
    low: float
    high: float
    n: int
    kind: str

    @property
    def half_width(self) -> float:
        """Half of the distance between the limits."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Difference(Interval):
    """The mean of paired differences with limits, and the p-value of 'no difference' (NaN if untestable)."""

    p_value: float


def no_difference(n: int = 0, kind: str = NO_VALUE, mean: float = math.nan) -> Difference:
    """A difference with at most a known mean, without limits; `kind` says why."""
    return Difference(mean, math.nan, math.nan, n, kind, math.nan)


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE, whole: float | None = None) -> Interval:
    """The mean over seeds with Student's t interval, `mean +- t(n - 1) s / sqrt(n)`.

    Source: Student, The probable error of a mean, Biometrika 6 (1908). Values that are equal up to rounding give an
    interval of width zero, as the formula says, and the kind `CONSTANT`, because their spread is unknown, not zero.

    The limits of a share stay in its range. Where those of t leave it, t on the logit scale replaces them, `logit(m) +-
    t(n - 1) s / (sqrt(n) m (1 - m))`, and the kind is `OVER_SEEDS_LOGIT`. Source: the logit interval of Brown, Cai and
    DasGupta, Interval estimation for a binomial proportion, Statistical Science 16 (2001), section 4.2, with the
    variance over seeds in place of the binomial one. For shares around 99 % with a beta distribution (a + b = 100), 3,
    5 and 10 seeds, plain t covers 89, 88 and 90 times in 100, this 94, 91 and 91.

    Args:
        values: one per seed.
        confidence: e.g. 0.95.
        whole: for shares, the largest possible value: 100 for %; None for other values.

    Raises:
        ValueError: a value is not finite.
    """
    sample = settled(finite(values))
    if sample.size == 0:
        return Interval(math.nan, math.nan, math.nan, 0, NO_VALUE)
    mean = float(sample.mean())
    if sample.size == 1:
        return Interval(mean, math.nan, math.nan, 1, ONE_VALUE)
    if np.ptp(sample) == 0:
        return Interval(mean, mean, mean, sample.size, CONSTANT)
    margin = float(special.stdtrit(sample.size - 1, upper_level(confidence)) * standard_error(sample))
    is_share = whole is not None and sample.min() >= 0 and sample.max() <= whole
    if whole is not None and is_share and (mean < margin or mean + margin > whole):
        low, high = logit_limits(mean / whole, margin / whole)
        return Interval(mean, whole * low, whole * high, sample.size, OVER_SEEDS_LOGIT)
    return Interval(mean, mean - margin, mean + margin, sample.size, OVER_SEEDS)


def upper_level(confidence: float) -> float:
    """The share of a distribution below the upper limit of a two-sided interval.

    Raises:
        ValueError: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"expected a confidence between 0 and 1, such as 0.95, got {confidence!r}")
    return (1 + confidence) / 2


def logit_limits(mean: float, margin: float) -> tuple[float, float]:
    """Limits in [0, 1] of a mean in (0, 1) whose margin is that of t."""
    place, apart = special.logit(mean), margin / (mean * (1 - mean))
    return float(special.expit(place - apart)), float(special.expit(place + apart))


def wilson_interval(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for a proportion, in [0, 1]; `mean` is the plain proportion.

    Source: Wilson, Probable inference, JASA 22 (1927). It describes one trained network on other test samples of the
    same kind, and no other seed.

    Args:
        successes: number of samples that are right.
        n: number of all samples.
        confidence: coverage of the interval, such as 0.95.

    Raises:
        ValueError: not 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"expected 0 <= successes <= n, got {successes} of {n}")
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0, NO_VALUE)
    limits = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Interval(successes / n, float(limits.low), float(limits.high), n, OVER_SAMPLES)


def accuracy_interval(percents: ArrayLike, test_samples: int | None, confidence: float = CONFIDENCE) -> Interval:
    """The interval that a list of accuracies in % allows: over seeds, or over test samples where there is one seed.

    Args:
        percents: one accuracy per seed, in %.
        test_samples: how many test samples each was measured on; None where unknown.
        confidence: e.g. 0.95.
    """
    sample = finite(percents)
    if sample.size != 1 or not test_samples:
        return mean_interval(sample, confidence, whole=100)
    found = wilson_interval(round(sample[0] / 100 * test_samples), test_samples, confidence)
    return Interval(float(sample[0]), 100 * found.low, 100 * found.high, test_samples, OVER_SAMPLES)


def standard_error(sample: NDArray[np.float64]) -> float:
    """Standard error of the mean: `s / sqrt(n)`."""
    return float(sample.std(ddof=1)) / math.sqrt(sample.size)


def finite(values: ArrayLike) -> NDArray[np.float64]:
    """The values as a vector.

    Raises:
        ValueError: a value is not finite.
    """
    sample = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(sample).all():
        raise ValueError("expected finite values; drop failed runs first and show how many there were")
    return sample
