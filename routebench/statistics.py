"""Intervals, paired tests and rank groups: what may be said about methods measured with a few seeds.

Pure functions of numbers. A NaN is a failed measurement and is refused: whoever calls drops failed runs first and shows
how many there were. Too few values give NaN limits and a `kind` that says why, never an error, because a report
must be able to show what is there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

CONFIDENCE = 0.95
OVER_SEEDS = "t over seeds"
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
        n: how many values stand behind it: seeds, or test samples where `kind` is `OVER_SAMPLES`.
        kind: what varies in the interval, in words; one of this module's constants.
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
    """The mean of paired differences with limits, and the p-value of 'there is none' (NaN where untestable)."""

    p_value: float


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The mean over seeds with Student's t interval, `mean +- t(n - 1) s / sqrt(n)`.

    Source: Student, The probable error of a mean, Biometrika 6 (1908). Equal values give an interval of width zero,
    as the formula says, and the kind `CONSTANT`, because their spread is unknown rather than absent.

    Raises:
        ValueError: a value is not finite.
    """
    sample = _finite(values)
    if sample.size == 0:
        return Interval(math.nan, math.nan, math.nan, 0, NO_VALUE)
    mean = float(sample.mean())
    if sample.size == 1:
        return Interval(mean, math.nan, math.nan, 1, ONE_VALUE)
    if np.ptp(sample) == 0:
        return Interval(mean, mean, mean, sample.size, CONSTANT)
    margin = float(special.stdtrit(sample.size - 1, (1 + confidence) / 2) * _standard_error(sample))
    return Interval(mean, mean - margin, mean + margin, sample.size, OVER_SEEDS)


def wilson_interval(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for a proportion, in [0, 1]; `mean` is the plain proportion.

    Source: Wilson, Probable inference, JASA 22 (1927). It describes one trained network on other test samples of
    the same kind, not what another seed would give.

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
    sample = _finite(percents)
    if sample.size != 1 or not test_samples:
        return mean_interval(sample, confidence)
    found = wilson_interval(round(sample[0] / 100 * test_samples), test_samples, confidence)
    return Interval(float(sample[0]), 100 * found.low, 100 * found.high, test_samples, OVER_SAMPLES)


def paired_difference(
    ours: Mapping[int, float], theirs: Mapping[int, float], confidence: float = CONFIDENCE
) -> Difference:
    """The mean of `ours - theirs` over the seeds that both have, with the paired t interval and two-sided p-value.

    Source: Student 1908 on the differences. Sharing a seed means sharing data order and, as far as the shapes allow,
    initial weights, so that what the seed does to both cancels. Differences that are all the same leave nothing to
    estimate their spread from: p is 1 where they are zero and NaN, that is untestable, where they are not.

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
        confidence: e.g. 0.95.
    """
    differences = _finite([ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))])
    found = mean_interval(differences, confidence)
    if found.kind == OVER_SEEDS:
        p_value = float(2 * special.stdtr(found.n - 1, -abs(found.mean) / _standard_error(differences)))
    else:
        p_value = 1.0 if found.kind == CONSTANT and found.mean == 0 else math.nan
    return Difference(found.mean, found.low, found.high, found.n, found.kind, p_value)


def paired_samples(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Difference:
    """The difference of two accuracies on the same test samples, as a proportion, with McNemar's exact p-value.

    With b samples that only we have right and c that only they have: difference (b - c) / n; two-sided p from
    b ~ Binomial(b + c, 1/2), 1 where b + c = 0; interval of Wald with half a sample added to each cell of the table.

    Sources: McNemar, Psychometrika 12 (1947), in its exact form; Agresti and Min, Simple improved confidence
    intervals for comparing matched proportions, Statistics in Medicine 24 (2005).

    Args:
        ours: correct or not, (n,).
        theirs: correct or not on the same samples in the same order, (n,).
        confidence: e.g. 0.95.

    Raises:
        ValueError: the two have different lengths.
    """
    one, other = np.asarray(ours, dtype=bool), np.asarray(theirs, dtype=bool)
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"expected two vectors over the same samples, got shapes {one.shape} and {other.shape}")
    if one.size == 0:
        return Difference(math.nan, math.nan, math.nan, 0, NO_VALUE, math.nan)
    only_ours, only_theirs, n = int((one & ~other).sum()), int((other & ~one).sum()), one.size
    discordant = only_ours + only_theirs
    p_value = float(stats.binomtest(only_ours, discordant).pvalue) if discordant else 1.0
    b, c, total = only_ours + 0.5, only_theirs + 0.5, n + 2
    margin = stats.norm.ppf((1 + confidence) / 2) * math.sqrt(b + c - (b - c) ** 2 / total) / total
    centre = (b - c) / total
    return Difference((only_ours - only_theirs) / n, centre - margin, centre + margin, n, OVER_SAMPLES, p_value)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjusted p-values: below alpha all together with at most alpha chance of any false one.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6 (1979): the i-th
    smallest of m is multiplied by m - i + 1, made monotone, and cut at 1. A NaN is a test that could not be made:
    it stays NaN and does not count into m.

    Args:
        p_values: (m,), each in [0, 1] or NaN.

    Raises:
        ValueError: a value lies outside [0, 1].
    """
    raw = np.atleast_1d(np.asarray(p_values, dtype=np.float64))
    adjusted = np.full(raw.shape, np.nan)
    made = np.flatnonzero(~np.isnan(raw))
    if np.any((raw[made] < 0) | (raw[made] > 1)):
        raise ValueError("expected p-values in [0, 1]")
    order = made[np.argsort(raw[made], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * factors), 1.0)
    return adjusted


def smallest_detectable_difference(deviation: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The true mean difference that a two-sided paired t-test with n pairs finds with probability `power`.

    Solves `P(|T| > t(1 - alpha/2, n - 1)) = power` for the noncentrality d sqrt(n) / s of T numerically.
    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), chapter 2.

    Args:
        deviation: s, the standard deviation of the paired differences, in their unit.
        n: how many pairs (seeds).
        alpha: level of the test.
        power: chance to find it.

    Returns:
        d in the unit of `deviation`; NaN where n < 2 or the deviation is zero or NaN, because then nothing is known
        about the spread.
    """
    if n < 2 or not deviation > 0:
        return math.nan
    degrees = n - 1
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))

    def shortfall(noncentrality: float) -> float:
        # The lower tail by symmetry, P(T < -t | d) = P(T > t | -d): scipy's own is NaN where it underflows.
        tails = stats.nct.sf(critical, degrees, [noncentrality, -noncentrality])
        return float(np.sum(tails)) - power

    return float(optimize.brentq(shortfall, 0.0, 4 * critical + 10)) * deviation / math.sqrt(n)


def rank_groups(best_first: Sequence[str], p_value: Callable[[str, str], float], alpha: float = 0.05) -> dict[str, int]:
    """Groups of methods that the data cannot tell from the best of their group; 1 is the best group.

    The first name leads group 1; a name whose paired test against the leader has a Holm-adjusted p below alpha falls
    out. The best of those leads group 2, and so on. Holm's family is every pair of names, not only the pairs
    with a leader, because who leads was read off the same data: with the smaller family, a dozen equal methods fell
    apart in 10 to 15 simulations of 100 instead of 5. A test that could not be made (NaN) separates nothing.

    Args:
        best_first: names, best mean first.
        p_value: the p-value of 'these two do not differ', raw; symmetric.
        alpha: family-wise level.
    """
    pairs = [(one, other) for place, one in enumerate(best_first) for other in best_first[place + 1 :]]
    adjusted = dict(zip(pairs, holm([p_value(*pair) for pair in pairs]), strict=True)) if pairs else {}
    groups: dict[str, int] = {}
    waiting, group = list(best_first), 0
    while waiting:
        group += 1
        leader, *others = waiting
        waiting = [name for name in others if adjusted[leader, name] < alpha]
        groups |= {name: group for name in [leader, *others] if name not in waiting}
    return groups


def _standard_error(sample: NDArray[np.float64]) -> float:
    return float(sample.std(ddof=1)) / math.sqrt(sample.size)


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    sample = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(sample).all():
        raise ValueError("expected finite values; drop failed runs first and show how many there were")
    return sample
