"""Two methods measured on two machines: their seeds are other samples, their test samples are the same."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from routebench.statistics._intervals import (
    CONFIDENCE,
    CONSTANT,
    ONE_VALUE,
    Difference,
    finite,
    no_difference,
    upper_level,
)
from routebench.statistics._rounding import settled

OVER_MACHINES = "Welch's t over the seeds of two machines"
OVER_MACHINES_AND_SAMPLES = "Welch's t over the seeds of two machines, and test samples"
ROUNDING = 1e-24
"""Variances up to here are those of equal values that were rounded."""
WIDEST = 2.0
"""The largest difference of two gains, which are differences of proportions."""


class _Mean(NamedTuple):
    """A mean difference, its standard error (0 without any spread), and its degrees of freedom."""

    mean: float
    error: float
    freedom: float


def apart_difference(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Difference:
    """The difference of two means over seeds that have nothing in common, with Welch's t interval and p-value.

    The values to give are gains: on each machine, a method minus the baseline that runs on both, seed by seed. Whatever
    a machine adds to all of its accuracies then cancels, and is not taken for a difference between methods; the
    spread of the baseline on both machines is what that costs. With a, b for the gains,

        mean(a) - mean(b) +- t(f) sqrt(s_a^2 / n_a + s_b^2 / n_b)

    Source: Welch, The generalization of `Student's` problem when several different population variances are involved,
    Biometrika 34 (1947), with the degrees of freedom f of Satterthwaite, Biometrics Bulletin 2 (1946).

    Args:
        ours: one gain per seed, (seeds of one machine,).
        theirs: one gain per seed, (seeds of the other machine,), in the same unit.
        confidence: e.g. 0.95.

    Returns:
        the difference, its n the smaller number of seeds. Without any spread p is 1 if there is no difference, else NaN
            (untestable); with one seed on a machine there are no limits.

    Raises:
        ValueError: a value is not finite.
    """
    one, other = (settled(finite(values)) for values in (ours, theirs))
    n = min(one.size, other.size)
    if n < 2:
        return no_difference(n, ONE_VALUE, float(one.mean() - other.mean()) if n else math.nan)
    return _difference(_welch(one, other), n, OVER_MACHINES, confidence)


def apart_equivalence_p(ours: ArrayLike, theirs: ArrayLike, margin: float) -> float:
    """The p-value of 'the true difference is at least `margin`, in either direction', by the t of `apart_difference`.

    Args:
        ours, theirs: as for `apart_difference`.
        margin: the smallest difference that matters, in their unit, above zero.

    Returns:
        the larger p of two one-sided tests; NaN with one seed on a machine, or without any spread.

    Raises:
        ValueError: a value is not finite, or the margin is not above zero.
    """
    if not margin > 0:
        raise ValueError(f"expected a margin above zero, got {margin}")
    one, other = (settled(finite(values)) for values in (ours, theirs))
    found = _welch(one, other) if min(one.size, other.size) > 1 else _Mean(math.nan, 0.0, math.nan)
    return _beyond(found, margin)


def crossed_apart_difference(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Difference:
    """The same as `apart_difference`, as if test samples were drawn anew as well; they are the same on both machines.

    Of the gains a (seeds s, samples i) and b, with column means A_i and B_i and residual mean squares r,

        variance = s_a^2 / n_a + s_b^2 / n_b + max(var(A - B) - r_a / n_a - r_b / n_b, 0) / samples

    where s^2 are variances over seeds of the means over samples. The last term is what samples vary beyond what seeds
    explain, paired over samples, as MS_sample - MS_rest is in `crossed_difference`. Degrees of freedom are those of
    seeds alone, which is at most as many as there are; where seeds have no spread, the fewest that they can be.

    Args:
        ours: gains in right answers, -1, 0 or 1 (or means over the views of an object), (seeds, samples).
        theirs: the same of the other machine, (seeds, samples).
        confidence: e.g. 0.95.

    Returns:
        the difference as a proportion, with limits from -2 to 2, as gains have; else as for `apart_difference`.

    Raises:
        ValueError: the numbers of samples differ, or are zero, or a value is not finite.
    """
    one, other = (finite(values) for values in (ours, theirs))
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1] or one.shape[1] == 0:
        raise ValueError(f"expected (seeds, samples) twice with as many samples, got {one.shape} and {other.shape}")
    n = min(len(one), len(other))
    if n < 2:
        return no_difference(n, ONE_VALUE, float(one.mean() - other.mean()) if n else math.nan)
    found = _welch(one.mean(axis=1), other.mean(axis=1))
    apart = one.mean(axis=0) - other.mean(axis=0)
    rest = _rest(one) / len(one) + _rest(other) / len(other)
    samples = max(float(apart.var(ddof=1)) - rest, 0.0) / apart.size if apart.size > 1 else 0.0
    error = math.sqrt(found.error**2 + (samples if samples > ROUNDING else 0.0))
    freedom = found.freedom if found.error else n - 1
    known = _difference(_Mean(found.mean, error, freedom), n, OVER_MACHINES_AND_SAMPLES, confidence)
    return replace(known, low=max(known.low, -WIDEST), high=min(known.high, WIDEST))


def _rest(gains: NDArray[np.float64]) -> float:
    """The residual mean square of a two-way table (seeds, samples) without replication."""
    rest = gains - gains.mean(axis=1, keepdims=True) - gains.mean(axis=0) + gains.mean()
    return float(np.square(rest).sum() / ((len(gains) - 1) * max(gains.shape[1] - 1, 1)))


def _welch(one: NDArray[np.float64], other: NDArray[np.float64]) -> _Mean:
    parts = [float(values.var(ddof=1)) / values.size for values in (one, other)]
    total = sum(parts)
    mean = float(one.mean() - other.mean())
    if total < ROUNDING * max(1.0, mean**2):
        return _Mean(mean, 0.0, math.nan)
    freedom = total**2 / sum(part**2 / (values.size - 1) for part, values in zip(parts, (one, other), strict=True))
    return _Mean(mean, math.sqrt(total), freedom)


def _difference(found: _Mean, n: int, kind: str, confidence: float) -> Difference:
    if found.error == 0:
        p_value = 1.0 if found.mean == 0 else math.nan
        return Difference(found.mean, found.mean, found.mean, n, CONSTANT, p_value)
    margin = float(special.stdtrit(found.freedom, upper_level(confidence))) * found.error
    p_value = float(2 * special.stdtr(found.freedom, -abs(found.mean) / found.error))
    return Difference(found.mean, found.mean - margin, found.mean + margin, n, kind, p_value)


def _beyond(found: _Mean, margin: float) -> float:
    if found.error == 0:
        return math.nan
    return float(special.stdtr(found.freedom, (abs(found.mean) - margin) / found.error))
