"""Estimates the noise floor: how far two measurements of unchanged code differ.

With several seeds, the noise follows from the spread over seeds. With one seed, test images can show that two networks
differ, but not that the methods do: training again gives another network of the same method. The noise of retraining
must then come from elsewhere than from the changes that are judged. Otherwise a regression would set its own floor.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
from scipy import special

from routebench.comparing._series import FloatArray, Group, PairedSeries
from routebench.statistics import moderated_variances

T = TypeVar("T")
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
Side = Literal["change", "base", "head"]
Sides = tuple[Side, ...]
CHANGES: Sides = ("change",)
BOTH: Sides = ("base", "head")
BASE: Sides = ("base",)
FEWEST_METHODS = 3  # for a spread over methods


OWN = 0.05
"""A change has to be significant at this level by its own row's spread alone, however much less the others vary.

In simulations of unchanged methods, with spreads of any mix, at most one comparison in twenty had a regression with it
(`tests/simulations/gate_noise.py`). Where spreads are equal, it costs a thirtieth of the power.
"""
PAIRED = 0.1
"""Share of the level for changes seed by seed, where these agree they do so by far; and for BASE's spread alone."""
RESOLVED = 1 / 6
"""Variance of the difference of two rounded values, in squared steps. Changes that agree vary at least so much."""


@dataclass(frozen=True)
class Spread:
    """The spread of the mean change of a row from seed to seed.

    Args:
        variance: the variance of the change with one seed.
        degrees: degrees of freedom; 0 where nothing tells.
        count: independent changes that the mean is over.
    """

    variance: float
    degrees: float
    count: int

    def limit(self, level: float) -> float:
        """The size that the mean change exceeds with that probability, to either side; infinite without a spread."""
        if not self.degrees > 0:
            return math.inf
        return float(special.stdtrit(self.degrees, 1 - level / 2)) * math.sqrt(self.variance / self.count)


@dataclass
class Noise:
    """The noise of two folders, estimated from all their series.

    Each row has a spread of its own. Few seeds estimate it badly, so it is drawn towards those of the metric's other
    rows of that level, as far as these are alike (`statistics.moderated_variances`).

    Args:
        series: every comparable one.
    """

    series: Sequence[PairedSeries]
    _found: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def over_seeds(self, series: Sequence[PairedSeries]) -> float:
        """The size that changes of unchanged code stay below in 95 of 100 comparisons, from their spread over seeds.

        The 95 % hold for all rows that images judge, of all metrics together. The spread is that of changes seed by
        seed, at `PAIRED` of the level, or that of each side over its own seeds, at the rest. The first is smaller where
        a seed does the same on both sides; the second has twice the degrees of freedom. 0 if nothing changed.
        """
        own = self._of(series[0].group)
        one_seed = min(len(one.seeds) for one in series) < 2
        if one_seed and (_reproducible(own) or not self._known(series[0].group)):
            return _floor_of_one_seed(series, own, len(self._like(series)))
        if not _moved(series):
            return 0.0
        level = 1 - COVERED ** (1 / (2 * self._judged(series)))
        shares = {CHANGES: PAIRED, BOTH: 1 - PAIRED}
        return min(self._limit(series, share * level, sides=sides) for sides, share in shares.items())

    def of_base(self, series: Sequence[PairedSeries]) -> float:
        """The size that changes of unchanged code stay below by BASE's spread over seeds alone; infinite if unknown.

        HEAD takes no part in it: a method that collapses with one seed of three must not hide that by its own spread.
        It holds at `PAIRED` of the level of all rows together, as `over_seeds` does of those that images judge.
        """
        if self._degrees(series[0].group, BASE) < FEWEST:
            return math.inf
        moved = self._once("all moved", lambda: sum(_moved([one]) for one in self.series if not one.obstacle))
        level = 1 - COVERED ** (1 / (2 * max(1, moved)))
        return self._limit(series, PAIRED * level, sides=BASE)

    def is_guess(self, series: Sequence[PairedSeries]) -> bool:
        """Tells whether seeds are too few for a spread: one, or two with fewer than `FEWEST` degrees of freedom."""
        seeds = min(len(one.seeds) for one in series)
        return seeds < 2 or (seeds == 2 and not self._known(series[0].group))

    def of_equal_changes(self, series: Sequence[PairedSeries]) -> tuple[Spread, Spread] | None:
        """The spread of a row whose changes are the same with every seed by chance: moderated, and its own.

        It is that of each side over its seeds. None where changes of no like row vary: then it is not by chance.
        """
        if not any(own.variance > 0 for _, own in self._spreads(series, spread_over_seeds, sides=CHANGES)):
            return None
        return self._spreads(series, spread_over_seeds, sides=BOTH)[self._place(series)]

    def is_steady(self, series: Sequence[PairedSeries]) -> bool:
        """Tells whether no seed varies the metric, of any method: then any other value is a change."""
        group = series[0].group
        return self._once(("steady", group), lambda: all(one.steady for one in self._of(group)))

    def over_settings(self, series: Sequence[PairedSeries]) -> tuple[Spread, float] | None:
        """The spread of one change among the settings of a method, each with one seed, and a floor.

        Of one method, it is drawn towards those of the others. The floor is the size that 95 % of single changes stay
        below. If methods have too few series, and these series are of three methods or more, the spread is that of the
        methods' means, without a floor. None if neither can be had.
        """
        methods = _by_method(self._of(series[0].group))
        rows, own = [_among(row) for row in methods], _by_method(series)
        count = _changes(series).size
        if sum(row.degrees for row in rows) >= FEWEST and count > 1:
            places = [place for place, row in enumerate(methods) if row[0].method in {one[0].method for one in own}]
            single = len(places) == 1
            drawn = _moderated(rows) if single else rows
            spread = _mean_spread([drawn[place] for place in places], count)
            floor = replace(spread, count=1).limit(1 - COVERED)
            return spread, max(floor, rows[places[0]].limit(OWN)) if single else floor
        means = np.array([float(_changes(of_method).mean()) for of_method in own])
        if sum(row.degrees for row in rows) < FEWEST and len(means) >= FEWEST_METHODS:
            return Spread(float(means.var(ddof=1)), len(means) - 1, len(means)), 0.0
        return None

    def _limit(self, series: Sequence[PairedSeries], level: float, *, sides: Sides) -> float:
        """The larger limit: by the moderated spread of the row, or by its own at `OWN`."""
        # Few seeds can agree by chance: means of several settings vary at least as single ones that are independent.
        kinds = (spread_over_seeds,) if len(series) == 1 else (spread_over_seeds, _spread_of_singles)
        found = (self._spreads(series, spread, sides=sides)[self._place(series)] for spread in kinds)
        return max(max(moderated.limit(level), own.limit(OWN)) for moderated, own in found)

    def _spreads(
        self, series: Sequence[PairedSeries], spread: Callable[..., Spread], *, sides: Sides
    ) -> list[tuple[Spread, Spread]]:
        """Moderated and own, of this row and those like it."""

        def find() -> list[tuple[Spread, Spread]]:
            own = [spread(row, sides=sides) for row in self._like(series)]
            return list(zip(_moderated(own), own, strict=True))

        return self._once((spread, sides, *_level(series)), find)

    def _once(self, key: Any, find: Callable[[], T]) -> T:
        """The result for a key, found once; it is the same for all rows like one."""
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]
        return found

    def _known(self, group: Group) -> bool:
        """Tells whether seeds tell a spread: those of both sides, or of BASE alone where HEAD has one."""
        return self._degrees(group, BOTH) >= FEWEST

    def _degrees(self, group: Group, sides: Sides) -> float:
        """The degrees of freedom of all series of a group together."""
        own = self._of(group)
        return self._once(
            ("degrees", group, sides), lambda: sum(spread_over_seeds([one], sides=sides).degrees for one in own)
        )

    def _of(self, group: Group) -> list[PairedSeries]:
        return self._once(group, lambda: [one for one in self.series if one.group == group and not one.obstacle])

    def _like(self, series: Sequence[PairedSeries]) -> list[list[PairedSeries]]:
        """The rows whose spreads are compared: single series, all series of each method, or these alone."""
        own = self._of(series[0].group)
        if len(series) == 1:
            return [[one] for one in own]
        return _by_method(own) if len({one.method for one in series}) == 1 else [list(series)]

    def _place(self, series: Sequence[PairedSeries]) -> int:
        return next(place for place, row in enumerate(self._like(series)) if any(one is series[0] for one in row))

    def _judged(self, series: Sequence[PairedSeries]) -> int:
        """The number of rows of this level, of all metrics, that images judge and could find changed."""

        def find() -> list[PairedSeries]:
            return [one for one in self.series if one.right and not one.obstacle and _moved([one])]

        moved = self._once("moved", find)
        if len(series) == 1:
            return max(1, len(moved))
        one_method = len({one.method for one in series}) == 1
        return max(1, len({(one.group, one.method if one_method else "") for one in moved}))


def _level(series: Sequence[PairedSeries]) -> tuple[object, ...]:
    """The same for rows like one: single series, methods, or these series of several methods."""
    methods = len({one.method for one in series})
    alone = tuple(map(id, series)) if methods > 1 else ()
    return series[0].group, len(series) == 1, *alone


def spread_over_seeds(row: Sequence[PairedSeries], *, sides: Sides) -> Spread:
    """The spread of a row's mean over the seeds of its series.

    Args:
        row: its series. Where they have other seeds than each other, it is the most that their own spreads allow: that
            of series that vary together, with as many seeds as the fewest.
        sides: what spreads: `CHANGES` seed by seed, or sides over their seeds, whose spreads are taken as equal.
    """
    count = min(len(one.seeds) for one in row)
    if any(set(one.seeds) != set(row[0].seeds) for one in row):
        return _spread_together([spread_over_seeds([one], sides=sides) for one in row], count)
    values = [_by_seed(row, side) for side in sides]
    same = sides == CHANGES and all(_is_identical(one) for one in row)
    variance, degrees = _pooled(values)
    variance *= 1 if sides == CHANGES else 2  # of a difference between two sides
    least = 0.0 if same or not degrees else _step(row[0]) ** 2 * RESOLVED / len(row)
    return Spread(max(variance, least), 0 if same else degrees, count)


def _spread_of_singles(row: Sequence[PairedSeries], *, sides: Sides) -> Spread:
    """The same, if the series of the row are independent of each other."""
    parts = [spread_over_seeds([one], sides=sides) for one in row]
    return _mean_spread(parts, min(len(one.seeds) for one in row) * len(row))


def _spread_together(parts: Sequence[Spread], count: int) -> Spread:
    """The mean of variances of series that vary together: several tell no more of them than the one that tells most."""
    known = [part for part in parts if part.degrees > 0]
    variance = sum(part.variance for part in known) / max(1, len(known))
    return Spread(variance, max((part.degrees for part in known), default=0), count)


def _mean_spread(parts: Sequence[Spread], count: int) -> Spread:
    """The mean of independent variances, with Satterthwaite's degrees of freedom."""
    known = [part for part in parts if part.degrees > 0]
    total, parted = sum(part.variance for part in known), sum(part.variance**2 / part.degrees for part in known)
    if parted == 0:
        return Spread(0.0, sum(part.degrees for part in known), count)
    return Spread(total / len(known), total**2 / parted, count)


def _moderated(rows: Sequence[Spread]) -> list[Spread]:
    variances, degrees = moderated_variances([row.variance for row in rows], [row.degrees for row in rows])
    found = zip(rows, variances.tolist(), degrees.tolist(), strict=True)
    return [replace(row, variance=variance, degrees=free) for row, variance, free in found]


def _by_seed(row: Sequence[PairedSeries], side: Side) -> FloatArray:
    """The mean over a row's series, by seed: of changes, or of one side's values; BASE with all its seeds."""
    values = [_values(one, side) for one in row]
    shared = sorted(set.intersection(*(set(own) for own in values)))
    table = np.array([[own[seed] for own in values] for seed in shared]).reshape(-1, len(values))
    return np.asarray(table.mean(axis=1), np.float64)


def _values(series: PairedSeries, side: Side) -> dict[int, float]:
    if side == "change":
        return {seed: series.change(seed) for seed in series.seeds}
    if side == "base" and series.base_means and not series.group.relative:
        return series.base_means
    own = series.base if side == "base" else series.head
    return {seed: float((np.log(values) if series.group.relative else values).mean()) for seed, values in own.items()}


def _pooled(sides: Sequence[FloatArray]) -> tuple[float, int]:
    """The variance of the values of each side, taken as equal for all of them, and its degrees of freedom."""
    degrees = sum(max(0, side.size - 1) for side in sides)
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides if side.size)
    return (squares / degrees, degrees) if degrees else (0.0, 0)


def _step(series: PairedSeries) -> float:
    """The smallest change that images can show; 0 where none are kept."""
    return 100 / next(iter(series.right.values())).shape[1] if series.right else 0.0


def _is_identical(series: PairedSeries) -> bool:
    """Tells whether all predictions are the same on both sides: then nothing tells what training again would change."""
    if series.right:
        return all(np.array_equal(*both) for both in series.right.values())
    return not _moved([series])


def _moved(series: Iterable[PairedSeries]) -> bool:
    return any(one.change(seed) != 0 for one in series for seed in one.seeds)


def _among(row: Sequence[PairedSeries]) -> Spread:
    """The spread of changes among the settings of a method."""
    changes = _changes(row)
    return Spread(float(changes.var(ddof=1)) if changes.size > 1 else 0.0, changes.size - 1, changes.size)


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
    2. Else it follows from `SPREAD`, or from the smaller half of the group's changes if these say more. So up to half
       of the methods can get worse without raising the floor.
    3. For all methods together, it is at least t times the spread over methods. So one method alone cannot make all of
       them worse.

    Args:
        series: those whose mean change is judged.
        group: all comparable series of the metric.
        rows: how many means like this one are judged.
    """
    if _reproducible(group):
        return SEEN
    level, many = (1 + COVERED ** (1 / rows)) / 2, math.sqrt(len(series))
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


def _smaller_half(group: Sequence[PairedSeries]) -> float:
    """Standard deviation, estimated from the largest change in the smaller half of the changes."""
    sizes = np.sort([abs(_change(one)) for one in group])
    half = sizes.size // 2
    if half == 0:
        return 0.0
    return float(sizes[half - 1]) / float(special.ndtri((1 + half / (sizes.size + 1)) / 2))
