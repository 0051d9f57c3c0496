"""Two methods on the same test samples, right or wrong on each: what other samples would say of these networks."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from routebench.statistics.intervals import (
    CONFIDENCE,
    NO_VALUE,
    OVER_SAMPLES,
    Difference,
    Interval,
    no_difference,
)

OVER_SAMPLES_ONLY = "over test samples (these networks)"
NO_DISCORDANT = "no sample that only one has right"


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
    one, other = matched(ours, theirs, dimensions=1)
    if one.size == 0:
        return no_difference()
    both, only_ours, only_theirs, neither = _counts(one, other)
    n = one.size
    p_value = float(mcnemar([[both, only_ours], [only_theirs, neither]], exact=True).pvalue)
    b, c, total = only_ours + 0.5, only_theirs + 0.5, n + 2
    margin = stats.norm.ppf((1 + confidence) / 2) * math.sqrt(b + c - (b - c) ** 2 / total) / total
    centre = (b - c) / total
    return Difference((only_ours - only_theirs) / n, centre - margin, centre + margin, n, OVER_SAMPLES, p_value)


def discordant_odds(ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """How many times more samples only we have right than only they: b / c, with its exact conditional interval.

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
    """McNemar's exact test for several seeds on the same test samples; what it says holds for these networks only.

    A sample's score is by how many seeds more it is right with ours. The null distribution of the sum of the scores
    gives each sample's score a random sign, all its seeds together, because a sample that is hard for a method is hard
    with each seed: counting samples of different seeds as independent finds far too many differences. One seed gives
    McNemar's test. The interval is Wald's for the mean score, with half a sample won and half a sample lost added.

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
    margin = stats.norm.ppf((1 + confidence) / 2) * math.sqrt(spread / total)
    p_value = _signed_sum_p(scores)
    return Difference(float(share.mean()), centre - margin, centre + margin, n, OVER_SAMPLES_ONLY, p_value)


def matched(ours: ArrayLike, theirs: ArrayLike, dimensions: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Both as arrays of one shape.

    Raises:
        ValueError: they have different shapes, or not so many dimensions.
    """
    one, other = np.asarray(ours, dtype=bool), np.asarray(theirs, dtype=bool)
    if one.shape != other.shape or one.ndim != dimensions:
        shape = "two vectors over" if dimensions == 1 else "two arrays (seeds, n) over"
        raise ValueError(f"expected {shape} the same samples, got shapes {one.shape} and {other.shape}")
    return one, other


def _counts(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Samples right with both, only the one, only the other, neither."""
    return int((one & other).sum()), int((one & ~other).sum()), int((other & ~one).sum()), int((~one & ~other).sum())


def _signed_sum_p(scores: NDArray[np.int64]) -> float:
    """P(|sum of +-score| >= |sum of score|) for independent fair signs, by convolution. No library has it exact."""
    sizes, counts = np.unique(np.abs(scores[scores != 0]), return_counts=True)
    distribution = np.ones(1)  # of the sum plus its largest value, in steps of one
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        spaced = np.zeros(2 * size * count + 1)
        spaced[:: 2 * size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        distribution = np.convolve(distribution, spaced)
    reach = distribution.size // 2
    far = np.abs(np.arange(-reach, reach + 1)) >= abs(int(scores.sum()))
    return min(1.0, float(distribution[far].sum()))
