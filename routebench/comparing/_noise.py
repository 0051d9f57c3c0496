"""Estimates the noise floor: how far two measurements of unchanged code differ.

With several seeds, the noise follows from the spread over seeds. With one seed, test images can show that two networks
differ, but not that the methods do: training again gives another network of the same method. The noise of retraining
must then come from elsewhere than from the changes that are judged. Otherwise a regression would set its own floor.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from routebench.comparing._series import FloatArray, Group, PairedSeries

SPREAD = 0.8
"""Standard deviation of accuracy over seeds, in points, that is assumed where none can be estimated.

In `tests/packs/accuracy-quick`, 11 of 13 settings with three seeds have at most this. Pooled they have 0.57; the
largest is 0.95. The value must suit noisy methods, too. In simulations of unchanged methods with a true spread of 0.8,
one comparison in eight failed with 0.6, and one in twenty with 0.8.
"""
FEWEST = 5  # degrees of freedom of a spread
SEEN = 1.0
"""Points. Up to this size a change counts as noise, even if the other networks are identical."""
COVERED = 0.95  # of differences between measurements of unchanged code lie below the noise floor
FEWEST_METHODS = 3  # for a spread over methods


@dataclass
class Noise:
    """The noise of two folders, estimated from all their series.

    Args:
        series: every comparable one.
    """

    series: Sequence[PairedSeries]

    def over_seeds(self, series: Sequence[PairedSeries]) -> float:
        """The size that changes of unchanged code stay below in 95 of 100 comparisons, from their spread over seeds.

        The 95 % hold for all rows of a level together. Otherwise one of seven methods would exceed the floor in every
        third comparison. Changes are taken seed by seed. Their variance is pooled over the group's series for a single
        series, over its methods for a method, and over these series for all methods. 0 if predictions are identical.
        """
        seeds = min(len(one.seeds) for one in series)
        if seeds < 2:
            return _floor_of_one_seed(series, self._of(series[0].group), len(self._like(series)))
        alike, single = self._like(series), [[one] for one in self._of(series[0].group)]
        # Few seeds can agree by chance: means of several settings vary at least as single ones that are independent.
        spreads = ((alike, 1), (single, len(series)))
        return max(_floor(spread_over_seeds(own), len(alike), seeds * many) for own, many in spreads)

    def over_settings(self, series: Sequence[PairedSeries]) -> tuple[int, float, int, float] | None:
        """The number of changes in these series, their standard deviation, its degrees of freedom, and a floor.

        The deviation is from the median of each method, pooled over the group. The floor is the 95 % quantile of its
        absolute values. If methods have too few series, and these series are of three methods or more, the deviation is
        that of the methods' means. None if neither can be had.
        """
        left: list[float] = []
        degrees = 0
        for of_method in _by_method(self._of(series[0].group)):
            changes = _changes(of_method)
            left += np.abs(changes - np.median(changes)).tolist()
            degrees += changes.size - 1
        count = _changes(series).size
        if degrees >= FEWEST and count > 1:
            deviation = math.sqrt(sum(value**2 for value in left) / degrees)
            return count, deviation, degrees, float(np.quantile(left, COVERED))
        means = [float(_changes(of_method).mean()) for of_method in _by_method(series)]
        if degrees < FEWEST and len(means) >= FEWEST_METHODS:
            return len(means), float(np.std(means, ddof=1)), len(means) - 1, 0.0
        return None

    def _of(self, group: Group) -> list[PairedSeries]:
        return [one for one in self.series if one.group == group and not one.obstacle]

    def _like(self, series: Sequence[PairedSeries]) -> list[list[PairedSeries]]:
        """The groups over which variance is pooled: single series, all series of each method, or these alone."""
        own = self._of(series[0].group)
        if len(series) == 1:
            return [[one] for one in own]
        if len({one.method for one in series}) == 1:
            return _by_method(own)
        return [list(series)]


def spread_over_seeds(pooled: Iterable[Sequence[PairedSeries]]) -> tuple[float, int]:
    """Standard deviation over seeds of the mean change of a group of series, pooled over groups; degrees of freedom."""
    squares, degrees = 0.0, 0
    for series in pooled:
        shared = sorted(set.intersection(*(set(one.seeds) for one in series)))
        if len(shared) > 1:
            changes = np.array([np.mean([one.change(seed) for one in series]) for seed in shared])
            squares += float(((changes - changes.mean()) ** 2).sum())
            degrees += changes.size - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (math.nan, 0)


def _floor(spread: tuple[float, int], rows: int, count: int) -> float:
    """The size that means over `count` changes stay below in 95 of 100 comparisons; 0 without a spread.

    `rows` is the number of rows of this level. Another level has as many, so the correction is for twice that number.
    """
    deviation, degrees = spread
    level = (1 + COVERED ** (1 / (2 * rows))) / 2
    return float(special.stdtrit(degrees, level)) * deviation / math.sqrt(count) if degrees else 0.0


def _changes(series: Iterable[PairedSeries]) -> FloatArray:
    """One change per measurement; one per network, if a trained network is tested in several settings."""
    by_network: dict[object, list[float]] = {}
    for place, one in enumerate(series):
        for seed in one.seeds:
            network = (place, seed) if one.group.relative else one.cells[seed].base.key
            by_network.setdefault(network, []).append(one.change(seed))
    return np.array([np.mean(values) for values in by_network.values()])


def _by_method(series: Iterable[PairedSeries]) -> list[list[PairedSeries]]:
    methods: dict[str, list[PairedSeries]] = {}
    for one in series:
        methods.setdefault(one.method, []).append(one)
    return list(methods.values())


def _floor_of_one_seed(series: Sequence[PairedSeries], group: Sequence[PairedSeries], rows: int) -> float:
    """The size in points that changes by retraining alone stay below, in 95 of 100 comparisons of so many rows.

    1. If at least half of the group's predictions are identical bit by bit, training is reproducible: `SEEN`.
    2. Else, if BASE has several seeds, it follows from their spread. HEAD does not enter.
    3. Else it follows from `SPREAD`, or from the smaller half of the group's changes if these say more. So up to half
       of the methods can get worse without raising the floor.
    4. For all methods together, without BASE's seeds, it is at least t times the spread over methods. So one method
       alone cannot make all of them worse.

    Args:
        series: those whose mean change is judged.
        group: all comparable series of the metric.
        rows: how many means like this one are judged.
    """
    if _reproducible(group):
        return SEEN
    level, many = (1 + COVERED ** (1 / rows)) / 2, math.sqrt(len(series))
    base_spread, degrees = _over_base_seeds(group)
    if degrees >= FEWEST:
        return float(special.stdtrit(degrees, level)) * math.sqrt(2) * base_spread / many
    usual, quantile = math.sqrt(2) * SPREAD, float(special.ndtri(level))
    if len({one.method for one in series}) == 1:
        return quantile * max(usual, _smaller_half(group)) / many
    spread = float(np.std([_change(one) for one in series], ddof=1))
    return max(quantile * usual, float(special.stdtrit(len(series) - 1, level)) * spread) / many


def _change(series: PairedSeries) -> float:
    return series.change(series.seeds[0])


def _reproducible(group: Sequence[PairedSeries]) -> bool:
    same = sum(all(np.array_equal(*both) for both in one.right.values()) for one in group if one.right)
    return 2 * same >= len(group)


def _over_base_seeds(group: Sequence[PairedSeries]) -> tuple[float, int]:
    """Standard deviation over BASE's seeds, pooled over series, and its degrees of freedom."""
    values = [np.array(list(one.base_means.values())) for one in group]
    degrees = sum(own.size - 1 for own in values)
    return math.sqrt(sum(float(((own - own.mean()) ** 2).sum()) for own in values) / max(1, degrees)), degrees


def _smaller_half(group: Sequence[PairedSeries]) -> float:
    """Standard deviation, estimated from the largest change in the smaller half of the changes."""
    sizes = np.sort([abs(_change(one)) for one in group])
    half = sizes.size // 2
    if half == 0:
        return 0.0
    return float(sizes[half - 1]) / float(special.ndtri((1 + half / (sizes.size + 1)) / 2))
