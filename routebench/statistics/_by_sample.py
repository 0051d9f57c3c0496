"""Two methods on the same test samples, right or wrong on each: inference about other samples, for these networks."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, optimize, special, stats
from statsmodels.stats.contingency_tables import mcnemar

from routebench.statistics._intervals import (
    CONFIDENCE,
    NO_VALUE,
    OVER_SAMPLES,
    Difference,
    Interval,
    no_difference,
    upper_level,
)

OVER_SAMPLES_ONLY = "over test samples (these networks)"
BY_SAMPLE = (OVER_SAMPLES, OVER_SAMPLES_ONLY)
"""Kinds of differences that say nothing about other seeds; the second if some samples belong together."""
NO_DISCORDANT = "no sample that only one has right"


def paired_samples(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Difference:
    """The difference of two accuracies on the same test samples, as a proportion, with McNemar's exact p-value.

    With b samples that only ours has right and c that only theirs has: difference (b - c) / n; two-sided p from b ~
    Binomial(b + c, 1/2), 1 where b + c = 0; interval of Wald with half a sample added to each cell of the table, and
    on the side of zero as far as p says (`_margin`): it excludes zero exactly where p is below 1 - confidence.

    Sources: McNemar, Psychometrika 12 (1947), in its exact form; Agresti and Min, Simple improved confidence
    intervals for comparing matched proportions, Statistics in Medicine 24 (2005).

    Args:
        ours: correct or not, (n,).
        theirs: correct or not on the same samples in the same order, (n,).
        confidence: e.g. 0.95.

    Raises:
        ValueError: the two have different lengths.
    """
    one, other = matched(ours, theirs, dimensions=1)
    if one.size == 0:
        return no_difference()
    both, only_ours, only_theirs, neither = _counts(one, other)
    n = one.size
    p_value = float(mcnemar([[both, only_ours], [only_theirs, neither]], exact=True).pvalue)
    b, c, total = only_ours + 0.5, only_theirs + 0.5, n + 2
    centre = (b - c) / total
    wald = stats.norm.ppf(upper_level(confidence)) * math.sqrt(b + c - (b - c) ** 2 / total) / total
    margin = _margin(wald, centre, only_ours - only_theirs, p_value < 1 - confidence)
    low, high = max(centre - margin, -1.0), min(centre + margin, 1.0)
    return Difference((only_ours - only_theirs) / n, low, high, n, OVER_SAMPLES, p_value)


def discordant_odds(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """The discordant odds b / c, samples that only ours or only theirs has right, with the exact conditional interval.

    Source: Fay, Two-sided exact tests and matching confidence intervals for discrete data, R Journal 2 (2010): the
    limits of Clopper and Pearson (Biometrika 26, 1934) for b / (b + c), as odds.

    Args:
        ours: correct or not, (n,).
        theirs: correct or not on the same samples in the same order, (n,).
        confidence: e.g. 0.95.

    Returns:
        odds, 1 for equal methods, infinite where c = 0; NaN where b + c = 0. Its n is b + c.
    """
    _, only_ours, only_theirs, _ = _counts(*matched(ours, theirs, dimensions=1))
    n = only_ours + only_theirs
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0, NO_DISCORDANT)
    limits = stats.binomtest(only_ours, n).proportion_ci(confidence, method="exact")
    shares = (only_ours / n, float(limits.low), float(limits.high))
    mean, low, high = (share / (1 - share) if share < 1 else math.inf for share in shares)
    return Interval(mean, low, high, n, OVER_SAMPLES)


def paired_samples_of_seeds(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Difference:
    """McNemar's exact test for several seeds on the same test samples; it holds for these networks only.

    A sample's score is the number of seeds with which only ours has it right, minus that of theirs. Under the null
    hypothesis each sample's score has a random sign, the same for all its seeds, because a sample that is hard for a
    method is hard with every seed. Treating samples of different seeds as independent would find far too many
    differences. One seed gives McNemar's test. The interval is Wald's for the mean score, with half a sample won and
    half a sample lost added, and on the side of zero as far as p says (`_margin`).

    Sources: Obuchowski, On the comparison of correlated proportions for clustered data, Statistics in Medicine 17
    (1998); Durkalski, Palesch, Lipsitz and Rust, Analysis of clustered matched-pair data, Statistics in Medicine 22
    (2003), whose statistic is this sum over its standard deviation under the signs.

    Args:
        ours: correct or not, (seeds, n).
        theirs: correct or not on the same samples in the same order, (seeds, n).
        confidence: e.g. 0.95.

    Returns:
        the difference as a proportion; all NaN without samples.

    Raises:
        ValueError: the two have different shapes.
    """
    one, other = matched(ours, theirs, dimensions=2)
    seeds, n = one.shape
    if one.size == 0:
        return no_difference(kind=NO_VALUE)
    scores = one.sum(axis=0, dtype=np.int64) - other.sum(axis=0, dtype=np.int64)
    share = scores / seeds
    total = n + 2
    centre = float(share.sum()) / total
    spread = float((share**2).sum() + 1) / total - centre**2
    p_value = signed_sum_p(scores)
    wald = stats.norm.ppf(upper_level(confidence)) * math.sqrt(spread / total)
    margin = _margin(wald, centre, int(scores.sum()), p_value < 1 - confidence)
    low, high = max(centre - margin, -1.0), min(centre + margin, 1.0)
    return Difference(float(share.mean()), low, high, n, OVER_SAMPLES_ONLY, p_value)


def _margin(wald: float, centre: float, won: int, rejected: bool) -> float:
    """Half the width of an interval that excludes zero exactly where the exact test rejects zero.

    Wald's margin, but where it disagrees with the test: with few discordant samples, or near the level. It then ends
    one sample beyond zero, or before zero where the test rejects. Of one seed, over all tables of up to 1,000 samples,
    the test never rejects zero inside Wald's 95 % interval; so it only widens there, and covers no less.

    Args:
        wald: its margin.
        centre: the centre of the interval.
        won: samples won minus samples lost, of which the centre is a share.
        rejected: whether the test rejects zero.
    """
    if won == 0:
        return wald
    one = abs(centre / won)
    return min(wald, abs(centre) - one) if rejected else max(wald, abs(centre) + one)


def by_view(right: NDArray[np.bool_], views: int) -> NDArray[np.bool_]:
    """Answers (seeds, n) as (seeds x views, objects), where so many samples in a row are views of one object.

    Args:
        right: whether each answer is right, (seed, sample).
        views: number of samples in a row that show one object.

    Raises:
        ValueError: n is no multiple of the views.
    """
    seeds, n = right.shape
    if views < 1 or n % views:
        raise ValueError(f"expected {views} views of each object, got {n} samples")
    return right.reshape(seeds, n // views, views).swapaxes(1, 2).reshape(seeds * views, n // views)


def matched(ours: ArrayLike, theirs: ArrayLike, dimensions: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Converts both to arrays of one shape.

    Raises:
        ValueError: they have different shapes, another number of dimensions, or values other than 0 and 1.
    """
    one, other = _right(ours), _right(theirs)
    if one.shape != other.shape or one.ndim != dimensions:
        shape = "two vectors over" if dimensions == 1 else "two arrays (seeds, n) over"
        raise ValueError(f"expected {shape} the same samples, got shapes {one.shape} and {other.shape}")
    return one, other


def _right(answers: ArrayLike) -> NDArray[np.bool_]:
    found = np.asarray(answers)
    if found.dtype != bool and not np.isin(found, (0, 1)).all():
        raise ValueError(f"expected 1 or 0 for each sample, right or wrong, got {found[~np.isin(found, (0, 1))][0]}")
    return found.astype(bool)


def _counts(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Samples right with both, only the one, only the other, neither."""
    return int((one & other).sum()), int((one & ~other).sum()), int((other & ~one).sum()), int((~one & ~other).sum())


def signed_sum_p(scores: NDArray[np.int64]) -> float:
    """P(|sum of +-score| >= |sum of score|) for independent fair signs. No library computes it exactly.

    Computes the distribution of the sum of the sizes with a plus by Fourier transform. That is fast, but loses
    probabilities below 1e-16 of the peak. So the signs are tilted, `exp(tilt x sum)` times as likely, which moves the
    peak to the observed sum; summing over the tail removes the tilt. At least 9 digits are right, for a p of 1e-300 as
    for 0.1.

    Source: Esscher, On the probability function in the collective theory of risk, Skand. Aktuarietidskrift 15 (1932).
    """
    sizes, counts = np.unique(np.abs(scores[scores != 0]), return_counts=True)
    found, reach = abs(int(scores.sum())), int(sizes @ counts)
    if found == 0:
        return 1.0
    if found == reach:
        return 2.0 ** (1 - int(counts.sum()))
    plus = (found + reach) // 2  # the sum of the sizes that have a plus
    tilt = _tilt(sizes, counts, plus)
    mass = _tilted(sizes, counts, plus, tilt)
    tail = float(mass @ np.exp(-tilt * np.arange(mass.size)))
    untilt = float(counts @ (np.logaddexp(0.0, tilt * sizes) - math.log(2))) - tilt * plus
    return min(1.0, 2 * tail * math.exp(untilt))


def _tilt(sizes: NDArray[np.int64], counts: NDArray[np.int64], plus: int) -> float:
    """The tilt at which the mean of the sum of sizes that have a plus is `plus`: half of all of them, or more."""
    weights = (sizes * counts).astype(np.float64)
    steepest = math.log(2 * float(weights.sum())) + 1  # less than one is left to the mean's highest value
    return float(optimize.brentq(lambda tilt: float(weights @ special.expit(tilt * sizes)) - plus, -1e-9, steepest))


def _tilted(sizes: NDArray[np.int64], counts: NDArray[np.int64], plus: int, tilt: float) -> NDArray[np.float64]:
    """P(sum of the sizes that have a plus = plus, plus + 1, ...), under the tilt.

    The transform is over 20 standard deviations and more to either side of `plus`, the mean, or over all sums if they
    are fewer: what lies beyond is below 1e-25 of all (Bernstein).
    """
    share = special.expit(tilt * sizes)
    reach = int(sizes @ counts)
    wide = 20 * math.sqrt(float((sizes**2 * counts) @ (share * (1 - share)))) + 60 * int(sizes.max())
    below, above = min(plus, math.ceil(wide)), min(reach - plus, math.ceil(wide))
    length = fft.next_fast_len(below + above + 1, real=True)
    angle = 2 * np.pi * np.arange(length // 2 + 1) / length
    spectrum = np.exp(1j * angle * plus)  # so that `plus` comes first
    for size, count, each in zip(sizes.tolist(), counts.tolist(), share.tolist(), strict=True):
        spectrum *= (1 - each + each * np.exp(-1j * angle * size)) ** count
    return np.maximum(fft.irfft(spectrum, length)[: above + 1], 0.0)
