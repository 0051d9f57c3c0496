"""What training once more may change, where each network was trained with one seed only.

Two networks on the same test images can be told apart by these images, but not the methods behind them: training again
on another machine, or with sums in another order, gives another network of the same method. How far apart such networks
lie has to come from elsewhere than from the changes that are judged, or a regression would be its own noise floor.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from routebench.comparing.settings import Setting

SPREAD = 0.8
"""Standard deviation over seeds of an accuracy, in points, where nothing tells.

Of the 13 settings of three seeds in `reports/accuracy-quick` 11 have at most this; pooled they have 0.57, and the
largest is 0.95. One value has to do for the noisier methods, too: with 0.6 one in eight simulated comparisons of
unchanged methods failed where the true spread was 0.8, with 0.8 one in twenty.
"""
FEWEST = 5  # degrees of freedom of a spread over BASE's seeds
SEEN = 1.0
"""Points that the gate promises to see: up to here a change is noise where the other networks are the same."""
COVERED = 0.95  # of measurements of one thing lie closer together than the noise floor


def floor(settings: Sequence[Setting], group: Sequence[Setting], rows: int) -> float:
    """The change in points that training unchanged methods again makes, in 95 of 100 comparisons of so many rows.

    1. Where at least half of the group predict the same bit by bit, training is reproducible, and what differs was
       changed: `SEEN`.
    2. Else from the spread over seeds: BASE's, if it has several (then nothing of HEAD enters); otherwise `SPREAD`, or
       what the smaller half of the group's changes say if that is more. Up to half of the methods can get worse without
       moving it.
    3. All methods together, where BASE's seeds tell nothing: at least t times the spread over methods, so that one
       method cannot make all of them worse, and what all have in common is no noise.

    Args:
        settings: of which the mean change is judged.
        group: all comparable settings of the metric.
        rows: how many means like this one are judged.
    """
    if _reproducible(group):
        return SEEN
    level, many = (1 + COVERED ** (1 / rows)) / 2, math.sqrt(len(settings))
    known, degrees = _over_base_seeds(group)
    if degrees >= FEWEST:
        return float(special.stdtrit(degrees, level)) * math.sqrt(2) * known / many
    usual, quantile = math.sqrt(2) * SPREAD, float(special.ndtri(level))
    if len({setting.method for setting in settings}) == 1:
        return quantile * max(usual, _smaller_half(group)) / many
    spread = float(np.std([_change(setting) for setting in settings], ddof=1))
    return max(quantile * usual, float(special.stdtrit(len(settings) - 1, level)) * spread) / many


def _change(setting: Setting) -> float:
    return setting.change(setting.seeds[0])


def _reproducible(group: Sequence[Setting]) -> bool:
    same = sum(all(np.array_equal(*both) for both in setting.right.values()) for setting in group if setting.right)
    return same >= max(1, len(group) // 2)


def _over_base_seeds(group: Sequence[Setting]) -> tuple[float, int]:
    """Standard deviation over BASE's seeds, pooled over settings, and its degrees of freedom."""
    values = [np.array(list(setting.base_means.values())) for setting in group]
    degrees = sum(own.size - 1 for own in values)
    return math.sqrt(sum(float(((own - own.mean()) ** 2).sum()) for own in values) / max(1, degrees)), degrees


def _smaller_half(group: Sequence[Setting]) -> float:
    """The standard deviation of which the median of the smaller half, up to its largest, is what was found."""
    sizes = np.sort([abs(_change(setting)) for setting in group])
    half = sizes.size // 2
    if half == 0:
        return 0.0
    return float(sizes[half - 1]) / float(special.ndtri((1 + half / (sizes.size + 1)) / 2))
