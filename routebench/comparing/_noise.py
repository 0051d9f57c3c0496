"""How far two measurements of one and the same thing lie apart: noise is measured, not assumed.

Where each network was trained with one seed only, two networks on the same test images can be told apart by these
images, but not the methods behind them: training again on another machine, or with sums in another order, gives another
network of the same method. How far apart such networks lie has to come from elsewhere than from the changes that are
judged, or a regression would be its own noise floor.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from routebench.comparing._series import FloatArray, Group, PairedSeries

SPREAD = 0.8
"""Standard deviation over seeds of an accuracy, in points, where nothing tells.

Of the 13 settings of three seeds in `reports/accuracy-quick` 11 have at most this; pooled they have 0.57, and the
largest is 0.95. One value has to do for the noisier methods, too: with 0.6 one in eight simulated comparisons of
unchanged methods failed where the true spread was 0.8, with 0.8 one in twenty.
"""
FEWEST = 5  # degrees of freedom of a spread
SEEN = 1.0
"""Points that the gate promises to see: up to here a change is noise where the other networks are the same."""
COVERED = 0.95  # of measurements of one thing lie closer together than the noise floor
FEWEST_METHODS = 3  # of which a spread over methods is taken


@dataclass
class Noise:
    """What all series of two folders say about noise.

    Args:
        series: every comparable one.
    """

    series: Sequence[PairedSeries]

    def over_seeds(self, series: Sequence[PairedSeries]) -> float:
        """The change that trainings of unchanged code make in 95 of 100 comparisons, from its spread over seeds.

        It holds for all rows of a level together, or one of seven methods would exceed it in every third comparison.
        Within a method (one series, or all of a method, or all methods) the change is taken seed by seed, and its
        variance pooled over the group's series, methods, or just these. 0 where predictions are the same.
        """
        seeds = min(len(one.seeds) for one in series)
        if seeds < 2:
            return _floor_of_one_seed(series, self._of(series[0].group), len(self._like(series)))
        alike, single = self._like(series), [[one] for one in self._of(series[0].group)]
        # Few seeds can agree by chance: means of several settings vary at least as single ones that are independent.
        spreads = ((alike, 1), (single, len(series)))
        return max(_floor(spread_over_seeds(own), len(alike), seeds * many) for own, many in spreads)

    def over_settings(self, series: Sequence[PairedSeries]) -> tuple[int, float, int, float] | None:
        """How many changes these series make, their deviation, its degrees of freedom, and a floor; None if unknown.

        The deviation is that of changes from their method's median, pooled over the group, the floor 95 % of their
        sizes. Where methods have too few, and these series are of three or more, it is that of the methods' means.
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
        """What is pooled like these: single series, all series of each method, or these alone."""
        own = self._of(series[0].group)
        if len(series) == 1:
            return [[one] for one in own]
        if len({one.method for one in series}) == 1:
            return _by_method(own)
        return [list(series)]


def spread_over_seeds(pooled: Iterable[Sequence[PairedSeries]]) -> tuple[float, int]:
    """Standard deviation over seeds of the mean change of series, pooled over several such, and its degrees."""
    squares, degrees = 0.0, 0
    for series in pooled:
        shared = sorted(set.intersection(*(set(one.seeds) for one in series)))
        if len(shared) > 1:
            changes = np.array([np.mean([one.change(seed) for one in series]) for seed in shared])
            squares += float(((changes - changes.mean()) ** 2).sum())
            degrees += changes.size - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (math.nan, 0)


def _floor(spread: tuple[float, int], rows: int, count: int) -> float:
    """What means over so many stay below in 95 of 100 comparisons, of so many rows and as many of other levels.

    0 where there is no spread.
    """
    deviation, degrees = spread
    level = (1 + COVERED ** (1 / (2 * rows))) / 2
    return float(special.stdtrit(degrees, level)) * deviation / math.sqrt(count) if degrees else 0.0


def _changes(series: Iterable[PairedSeries]) -> FloatArray:
    """Of each measurement; of each network, where one that was trained is tested in several settings."""
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
    """The change in points that training unchanged methods again makes, in 95 of 100 comparisons of so many rows.

    1. Where at least half of the group predict the same bit by bit, training is reproducible, and what differs was
       changed: `SEEN`.
    2. Else from the spread over seeds: BASE's, if it has several (then nothing of HEAD enters); otherwise `SPREAD`, or
       what the smaller half of the group's changes say if that is more. Up to half of the methods can get worse without
       moving it.
    3. All methods together, where BASE's seeds tell nothing: at least t times the spread over methods, so that one
       method cannot make all of them worse, and what all have in common is no noise.

    Args:
        series: of which the mean change is judged.
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
    return same >= max(1, len(group) // 2)


def _over_base_seeds(group: Sequence[PairedSeries]) -> tuple[float, int]:
    """Standard deviation over BASE's seeds, pooled over series, and its degrees of freedom."""
    values = [np.array(list(one.base_means.values())) for one in group]
    degrees = sum(own.size - 1 for own in values)
    return math.sqrt(sum(float(((own - own.mean()) ** 2).sum()) for own in values) / max(1, degrees)), degrees


def _smaller_half(group: Sequence[PairedSeries]) -> float:
    """Standard deviation estimated from the largest change of the smaller half."""
    sizes = np.sort([abs(_change(one)) for one in group])
    half = sizes.size // 2
    if half == 0:
        return 0.0
    return float(sizes[half - 1]) / float(special.ndtri((1 + half / (sizes.size + 1)) / 2))
