"""Two methods with the same seeds: tests of a difference, and of equivalence.

Results generalise to other seeds on the same test samples.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import special
from statsmodels.stats.weightstats import DescrStatsW

from routebench.statistics._intervals import (
    CONFIDENCE,
    CONSTANT,
    OVER_SEEDS,
    Difference,
    finite,
    mean_interval,
    standard_error,
    upper_level,
)
from routebench.statistics._rounding import settled


def shared_differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> NDArray[np.float64]:
    """`ours - theirs` for each shared seed, in order; values equal up to rounding become equal to the last bit.

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
    """
    seeds = sorted(set(ours) & set(theirs))
    one, other = finite([ours[seed] for seed in seeds]), finite([theirs[seed] for seed in seeds])
    return settled(one - other, float(np.abs([one, other]).max(initial=0.0)))


def paired_difference(
    ours: Mapping[int, float], theirs: Mapping[int, float], confidence: float = CONFIDENCE
) -> Difference:
    """The mean of `ours - theirs` over the seeds that both have, with the paired t interval and two-sided p-value.

    Source: Student, The probable error of a mean, Biometrika 6 (1908), on the differences. Runs of one seed share data
    order and, as far as shapes allow, initial weights, so that effects of the seed cancel. If all differences are
    equal, their spread is unknown: p is 1 if they are zero, else NaN (untestable).

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
        confidence: e.g. 0.95.
    """
    differences = shared_differences(ours, theirs)
    found = mean_interval(differences, confidence)
    if found.kind == OVER_SEEDS:
        p_value = float(2 * special.stdtr(found.n - 1, -abs(found.mean) / standard_error(differences)))
    else:
        p_value = 1.0 if found.kind == CONSTANT and found.mean == 0 else math.nan
    return Difference(found.mean, found.low, found.high, found.n, found.kind, p_value)


def paired_differences(
    values: NDArray[np.float64], confidence: float = CONFIDENCE, *, first: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """`paired_difference` for every two rows; `two_stage_difference` where `first` says so.

    Args:
        values: (methods, seeds), in the order of the seeds; NaN where a method lacks a seed.
        confidence: e.g. 0.95.
        first: (methods,) how many columns are the first of two stages, 0 for one stage; of two rows the larger counts.

    Returns:
        each (methods, methods), of row minus column over the seeds that both have: the mean, NaN without such seeds;
        half of its interval, 0 where all differences are equal and NaN with fewer than two; the number of seeds.
    """
    known = np.isfinite(values)
    kept = np.where(known, values, math.nan)
    differences, shared = kept[:, None] - kept[None], known[:, None] & known[None]
    stage = np.zeros(len(values), dtype=np.int64) if first is None else first
    stage = np.maximum(stage[:, None], stage[None])
    stage = np.where(stage > 0, stage, values.shape[1])
    counted = np.arange(values.shape[1]) < stage[..., None]
    _, early, early_n = _moments(differences, counted & shared)
    mean, squares, n = _moments(differences, shared)
    largest = np.nanmax(np.abs(kept), initial=0.0)
    staged = (early_n < n) & (early_n > 1) & (np.sqrt(early) > 1e-10 * largest)
    spread, used = np.where(staged, early, squares), np.where(staged, early_n, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        margins = special.stdtrit(used - 1, upper_level(confidence)) * np.sqrt(spread / (used - 1) / n)
    margins = np.where(n < 2, math.nan, np.where(np.sqrt(squares) <= 1e-10 * largest, 0.0, margins))
    return np.where(n > 0, mean, math.nan), margins, n


def _moments(
    differences: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """The mean of chosen seeds, their squared deviations from it, and their number, each (methods, methods)."""
    kept = np.where(chosen, differences, math.nan)
    n = chosen.sum(axis=2)
    mean = np.nansum(kept, axis=2) / np.maximum(n, 1)
    return mean, np.nansum((kept - mean[..., None]) ** 2, axis=2), n


def smallest_sign_flip_p(n: int) -> float:
    """The smallest two-sided p that n pairs can give in a sign-flip or Wilcoxon test, `2 / 2^n`: 0.25 for 3 seeds.

    Five pairs give 0.0625, so fewer than six are never significant at 5 %. NaN for n < 1.
    """
    return 2.0 ** (1 - n) if n > 0 else math.nan


def equivalence_p(ours: Mapping[int, float], theirs: Mapping[int, float], margin: float) -> float:
    """The p-value of 'the true difference is at least `margin`, in either direction'; a small p shows equivalence.

    Two one-sided t-tests; the larger p counts. Source: Schuirmann, A comparison of the two one-sided tests procedure
    and the power approach, J. Pharmacokinetics and Biopharmaceutics 15 (1987). A test that finds no difference shows no
    equivalence; this test does.

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
        margin: the smallest difference that matters, in that unit, above zero.

    Returns:
        p; NaN with fewer than two shared seeds or where all differences are equal, because their spread is unknown.

    Raises:
        ValueError: the margin is not above zero.
    """
    if not margin > 0:
        raise ValueError(f"expected a margin above zero, got {margin}")
    differences = shared_differences(ours, theirs)
    if differences.size < 2 or np.ptp(differences) == 0:
        return math.nan
    return float(DescrStatsW(differences).ttost_mean(-margin, margin)[0])
