"""Family-wise error control: adjusted p-values and rank groups."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routebench.statistics._intervals import ALPHA


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjusted p-values; rejecting those below alpha keeps the family-wise error rate at alpha.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6 (1979): the i-th
    smallest of m is multiplied by m - i + 1, made monotone, and cut at 1. A NaN is an impossible test: it stays NaN and
    does not count in m.

    Args:
        p_values: (m,), each in [0, 1] or NaN.

    Raises:
        ValueError: a value lies outside [0, 1].
    """
    # statsmodels' multipletests counts a NaN into m, and collects garbage each time: 30 ms for six lines.
    raw = np.atleast_1d(np.asarray(p_values, dtype=np.float64))
    made = np.flatnonzero(~np.isnan(raw))
    if np.any((raw[made] < 0) | (raw[made] > 1)):
        raise ValueError("expected p-values in [0, 1]")
    adjusted = np.full(raw.shape, np.nan)
    order = made[np.argsort(raw[made], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * factors), 1.0)
    return adjusted


def rank_groups(
    best_first: Sequence[str], p_value: Callable[[str, str], float], alpha: float = ALPHA
) -> dict[str, int]:
    """Groups of methods that do not differ significantly from the best of their group; 1 is the best group.

    The first name leads group 1; a name whose paired test against the leader has a Holm-adjusted p below alpha falls
    out. The best of those leads group 2, and so on. Holm's family is every pair of names, not only the pairs with a
    leader, because the same data chose the leader: with the smaller family, a dozen equal methods were split in 10 to
    15 % of simulations instead of 5 %. An impossible test (NaN) separates nothing.

    Args:
        best_first: names, best mean first.
        p_value: the raw p-value of 'these two do not differ'; symmetric.
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
