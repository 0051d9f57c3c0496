"""The expected best of several trials, for every tuning budget."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routebench.statistics._intervals import finite


def expected_best(scores: ArrayLike) -> NDArray[np.float64]:
    """[k], the expected highest of k trials drawn from these with replacement, for k = 1 to all of them.

    Source: Dodge, Gururangan, Card, Schwartz and Smith, Show your work, EMNLP-IJCNLP 2019, equations 3 to 7: with the
    scores v_1 <= ... <= v_n in order, `sum_i v_i ((i / n)^k - ((i - 1) / n)^k)`.

    Args:
        scores: the scores of the trials, higher is better.

    Raises:
        ValueError: a score is not finite.
    """
    ordered = np.sort(finite(scores))
    count = ordered.size
    budgets = np.arange(1, count + 1)
    reached = (np.arange(count + 1)[:, None] / max(count, 1)) ** budgets
    found: NDArray[np.float64] = ordered @ np.diff(reached, axis=0)
    return found


def stable_from(curves: ArrayLike) -> int:
    """The number of trials from which on the ranking of configurations no longer changes.

    Args:
        curves: [configurations, k], such as of `expected_best`.

    Returns:
        k, counted from 1. Of equal configurations, the first counts as ahead.

    Raises:
        ValueError: there is no configuration or no trial, or a value is not finite.
    """
    values = finite(curves)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"expected curves as (configurations, trials), one at least, got shape {values.shape}")
    orders = np.argsort(-values, axis=0, kind="stable")
    differs = (orders != orders[:, -1:]).any(axis=0)
    return int(np.flatnonzero(differs).max(initial=-1)) + 2
