"""Two methods with several seeds on the same test samples: inference about other seeds and other samples."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from routebench.statistics._by_sample import by_view, matched, paired_samples, paired_samples_of_seeds
from routebench.statistics._intervals import CONFIDENCE, NO_VALUE, Difference, no_difference, upper_level
from routebench.statistics._rounding import settled

OVER_BOTH = "t over seeds and test samples"
BOTH_CONSTANT = "t over seeds and test samples (all equal)"


def crossed_difference(
    ours: ArrayLike, theirs: ArrayLike, confidence: float = CONFIDENCE, *, views: int = 1, first: int | None = None
) -> Difference:
    """The difference of two accuracies, with seeds and test samples both random.

    Of the differences d (seeds s, samples i), with the mean squares of a two-way table without replication

        variance = (MS_seed + max(MS_sample - MS_rest, 0)) / (seeds n)

    and t as usual, on seeds - 1 degrees of freedom. It is the analysis of reader studies, with seeds for readers and
    test samples for cases. Hillis (2007) uses (sum / MS_seed)^2 (seeds - 1) degrees of freedom, which is at least as
    many. With 3 seeds his rejected 5 to 8 % of true null hypotheses at the level 5 %, and 0.4 to 1.3 % at the level 0.1
    % that Holm needs. Ours keep the level, but give wide intervals where mostly samples vary.

    Sources: Dorfman, Berbaum and Metz, Receiver operating characteristic rating analysis: generalization to the
    population of readers and patients, Investigative Radiology 27 (1992); Hillis, A comparison of denominator degrees
    of freedom methods for multiple observer ROC analysis, Statistics in Medicine 26 (2007).

    Args:
        ours: correct or not, (seeds, n).
        theirs: correct or not with the same seeds on the same samples in the same order, (seeds, n).
        confidence: e.g. 0.95.
        views: so many samples in a row show the same object; objects are then drawn, and not samples. A model that
            knows an object's class from one side knows it from most, so that its views are one answer rather than many.
        first: so many rows are the first of two stages, as in `two_stage_difference`: where there are more, MS_seed and
            its degrees of freedom are of these rows alone, unless these have no spread. None for one stage.

    Returns:
        the difference as a proportion, with limits from -1 to 1, its n the seeds. One seed gives `paired_samples`, of
            several views `paired_samples_of_seeds` with views for seeds, and its kind says so. Without any spread p is
            1 if there is no difference, else NaN (untestable).

    Raises:
        ValueError: the two have different shapes, or samples are no multiple of the views.
    """
    one, other = matched(ours, theirs, dimensions=2)
    seeds = one.shape[0]
    if one.size == 0:
        return no_difference(kind=NO_VALUE)
    if seeds == 1 and views == 1:
        return paired_samples(one[0], other[0], confidence)
    if seeds == 1:
        return paired_samples_of_seeds(by_view(one, views), by_view(other, views), confidence)
    differences = _by_object(one, other, views)
    mean = float(differences.mean())
    error, freedom = _error(differences, first)
    if error == 0:
        return Difference(mean, mean, mean, seeds, BOTH_CONSTANT, 1.0 if mean == 0 else math.nan)
    margin = float(special.stdtrit(freedom, upper_level(confidence))) * error
    p_value = float(2 * special.stdtr(freedom, -abs(mean) / error))
    return Difference(mean, max(mean - margin, -1.0), min(mean + margin, 1.0), seeds, OVER_BOTH, p_value)


def crossed_equivalence_p(
    ours: ArrayLike, theirs: ArrayLike, margin: float, *, views: int = 1, first: int | None = None
) -> float:
    """The p-value of 'the true difference is at least `margin`, in either direction', over seeds and test samples.

    Two one-sided tests, as in `equivalence_p`, with the standard error and the degrees of freedom of
    `crossed_difference`; the larger p counts.

    Args:
        ours: correct or not, (seeds, n).
        theirs: correct or not with the same seeds on the same samples in the same order, (seeds, n).
        margin: the smallest difference that matters, as a proportion, above zero.
        views, first: as for `crossed_difference`.

    Returns:
        p; NaN with fewer than two seeds or without any spread.

    Raises:
        ValueError: the two have different shapes, or the margin is not above zero.
    """
    if not margin > 0:
        raise ValueError(f"expected a margin above zero, got {margin}")
    one, other = matched(ours, theirs, dimensions=2)
    if one.shape[0] < 2 or one.size == 0:
        return math.nan
    differences = _by_object(one, other, views)
    error, freedom = _error(differences, first)
    if error == 0:
        return math.nan
    return float(special.stdtr(freedom, (abs(float(differences.mean())) - margin) / error))


def _by_object(one: NDArray[np.bool_], other: NDArray[np.bool_], views: int) -> NDArray[np.float64]:
    """Ours minus theirs, (seeds, objects), each the mean over its views."""
    seeds, n = one.shape
    apart = by_view(one, views).astype(np.float64) - by_view(other, views)
    return np.asarray(apart.reshape(seeds, views, n // views).mean(axis=1))


def _error(differences: NDArray[np.float64], first: int | None) -> tuple[float, int]:
    """Standard error of the mean of (seeds, n), 0 without spread, and its degrees of freedom."""
    seeds, n = differences.shape
    between_seeds, beyond_rest = _mean_squares(differences)
    freedom = seeds - 1
    if first is not None and 2 <= first < seeds:
        early = settled(differences[:first].mean(axis=1), 1.0)
        if np.ptp(early) > 0:
            between_seeds, freedom = n * float(early.var(ddof=1)), first - 1
    pooled = between_seeds + beyond_rest
    return (0.0 if pooled < 1e-15 else math.sqrt(pooled / (seeds * n))), freedom  # 1e-15 is rounding of equal values


def _mean_squares(differences: NDArray[np.float64]) -> tuple[float, float]:
    """MS_seed, and the excess of MS_sample over MS_rest (at least zero)."""
    seeds, n = differences.shape
    of_seed, of_sample, mean = differences.mean(axis=1), differences.mean(axis=0), differences.mean()
    between_seeds = n * float(of_seed.var(ddof=1))
    if n == 1:
        return between_seeds, 0.0
    between_samples = seeds * float(of_sample.var(ddof=1))
    rest = differences - of_seed[:, None] - of_sample + mean
    return between_seeds, max(between_samples - float((rest**2).sum()) / ((seeds - 1) * (n - 1)), 0.0)
