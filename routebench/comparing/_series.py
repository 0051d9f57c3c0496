"""A measurement that both folders have: one metric of one method in one setting, over its seeds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.analysis.wording import plural
from routebench.comparing._folders import Address, CellPair, MeasuredCell, Quantity, Side, Spot
from routebench.units import TIMES, is_of_machine

FloatArray = NDArray[np.float64]
PART = "part"
"""The coordinate that says what of a network was measured; what is slower in one part need not be in another."""
OTHER_ITERATIONS = "at other iterations"
ABSOLUTE = ("%", "points", "nat", "count", "")
"""Units compared by difference: values may be zero, and some negative. All others are compared by ratio."""
NO_RATIO = "a value is not positive, so that there is no ratio"
ROUNDING = 1e-12
"""Relative rounding error of a difference."""


@dataclass(frozen=True)
class Group:
    """One metric of one suite, preset, data set, split and part of the network: it is pooled and judged together."""

    suite: str
    preset: str
    data: str
    metric: str
    split: str
    unit: str
    higher_is_better: bool | None
    note: str = ""

    @property
    def name(self) -> str:
        """`accuracy`, `accuracy at other iterations` or `training_time in layers`."""
        split = f" ({self.split})" if self.split not in ("", "test") else ""
        return f"{self.metric}{split}{' ' if self.note else ''}{self.note}"

    @property
    def relative(self) -> bool:
        """Tells whether differences are ratios."""
        return self.unit not in ABSOLUTE


@dataclass
class PairedSeries:
    """One metric of one method with one number of iterations, at one point of a protocol's own coordinates.

    Args:
        group: the group that it is judged in.
        method: label, with the model where a method has several.
        iterations: T, None where a method has none.
        where: the other coordinates in words, such as `batch 32, part network`.
        base, head: seed to (repeats,) values.
        cells: seed to the pair that they come from.
        obstacle: why the two are not compared; empty if they are.
        right: seed to (2, n_test) whether BASE and HEAD have each test image right; empty where not kept.
        base_means: seed to mean for all of BASE's seeds, also those that HEAD does not have.
        told: the facts that a plan tells of the data set, if that does not ship; None where it tells none.
    """

    group: Group
    method: str
    iterations: int | None
    where: str
    base: dict[int, FloatArray] = field(default_factory=dict)
    head: dict[int, FloatArray] = field(default_factory=dict)
    cells: dict[int, CellPair] = field(default_factory=dict)
    obstacle: str = ""
    right: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    base_means: dict[int, float] = field(default_factory=dict)
    told: Mapping[str, Any] | None = None
    _changes: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """`dynamic T=3, batch 32`."""
        steps = "" if self.iterations is None else f" T={self.iterations}"
        return f"{self.method}{steps}{', ' if self.where else ''}{self.where}"

    @property
    def seeds(self) -> list[int]:
        """Seeds that both sides have."""
        return sorted(self.base)

    @property
    def repeats(self) -> int:
        """The number of measurements of one thing that each run has at least; 1 if it has no repeats."""
        return min(values.size for values in (*self.base.values(), *self.head.values()))

    def change(self, seed: int) -> float:
        """HEAD - BASE, means over repeats; the natural logarithm of HEAD / BASE where the group is relative.

        The change; 0 if it is within rounding.
        """
        if seed not in self._changes:
            self._changes[seed] = self._change(seed)
        return self._changes[seed]

    def _change(self, seed: int) -> float:
        base, head = self.base[seed], self.head[seed]
        if base.shape == head.shape and (base == head).all():  # zeros have no logarithm
            return 0.0
        if self.group.relative:
            base, head = np.log(base), np.log(head)
        before, after = mean(base), mean(head)
        change, scale = after - before, max(abs(before), abs(after))
        return 0.0 if abs(change) <= ROUNDING * max(scale, self.group.relative) else change

    @property
    def steady(self) -> bool:
        """Tells whether neither seeds nor repeats change the value on either side: then any other value is a change."""
        sides = [np.concatenate(list(values.values())) for values in (self.base, self.head)]
        return len(self.base) > 1 and all(np.ptp(side) <= ROUNDING * np.abs(side).max() for side in sides)


def mean(values: FloatArray) -> float:
    """The mean, without the detours of numpy for a single value."""
    return float(values[0] if values.size == 1 else values.mean())


def once_timed(series: Sequence[PairedSeries]) -> bool:
    """Tells whether these are times that nothing measured twice, so that they are judged only against a tolerance."""
    return series[0].group.unit in TIMES and all(one.repeats == 1 for one in series)


def series_of(pairs: Iterable[CellPair], base: Side, head: Side) -> tuple[list[PairedSeries], list[str]]:
    """Every measurement that both have, and sentences on what only one of them has.

    Points of training curves are left out: the last epoch's weights are what a metric on the test images tells about.
    """
    by_key: dict[tuple[object, ...], PairedSeries] = {}
    alone: dict[str, set[str]] = {"BASE": set(), "HEAD": set()}
    for pair in pairs:
        ours, theirs = values_of(pair.base), values_of(pair.head)
        alone["BASE"] |= {spot[0] for spot in ours.keys() - theirs.keys()}
        alone["HEAD"] |= {spot[0] for spot in theirs.keys() - ours.keys()}
        setting = _setting(pair.address)
        for spot in (spot for spot in ours if spot in theirs):
            series = by_key.get((setting, spot))
            if series is None:
                series = by_key[setting, spot] = _new_series(pair, ours[spot].mark, theirs[spot].mark)
            _add(series, pair, ours[spot], theirs[spot])
    _add_other_seeds(by_key, base)
    notes = [f"Metrics only in {who}: {', '.join(sorted(names))}." for who, names in alone.items() if names]
    for series in by_key.values():
        notes += _without_unknown_seeds(series)
        _finish(series, base, head)
    _tell_networks_apart(by_key.values())
    return list(by_key.values()), notes


@dataclass(slots=True)
class SpotValues:
    """The values of a run in one spot; several are repeats. The mark is that of the first."""

    mark: Quantity
    numbers: list[float]


def values_of(cell: MeasuredCell) -> dict[Spot, SpotValues]:
    """The values of a run by what they measure."""
    by_spot: dict[Spot, SpotValues] = {}
    for mark, value in zip(cell.marks, cell.values, strict=True):
        if mark.epoch is None and value is not None and mark.spot[0] != "absent":
            known = by_spot.get(mark.spot)
            if known is None:
                by_spot[mark.spot] = SpotValues(mark, [value])
            else:
                known.numbers.append(value)
    return by_spot


def _new_series(pair: CellPair, mark: Quantity, head: Quantity) -> PairedSeries:
    """A series without values. It has a direction if either side gives one; where they differ, `_add` says so."""
    address, (metric, split, tested, coordinates) = pair.address, mark.spot
    trained = address.iterations
    note = OTHER_ITERATIONS if tested not in (None, trained) else ""
    parts = [f"in {value}" for key, value in coordinates if key == PART]
    note_of_parts, named = " ".join([note, *parts]).strip(), (address.suite, address.preset, address.data)
    higher = head.higher_is_better if mark.higher_is_better is None else mark.higher_is_better
    group = Group(*named, metric, split, mark.unit, higher, note_of_parts)
    where = [f"{key} {value}" for key, value in coordinates if key != PART]
    where += [f"tested with T={tested}"] if note else []
    return PairedSeries(group, pair.base.label, trained, ", ".join(where))


def _add(series: PairedSeries, pair: CellPair, base: SpotValues, head: SpotValues) -> None:
    seed, unit, higher = pair.address.seed, base.mark.unit, base.mark.higher_is_better
    other = (head.mark.unit, head.mark.higher_is_better)
    if other != (unit, higher):
        series.obstacle = f"unit or direction differs: {unit!r}, {higher} in BASE, {other[0]!r}, {other[1]} in HEAD"
    of_machine = pair.machines and is_of_machine(unit)
    series.obstacle = series.obstacle or pair.obstacle or (f"other machine: {pair.machines}" if of_machine else "")
    series.base[seed] = np.array(base.numbers, dtype=np.float64)
    series.head[seed] = np.array(head.numbers, dtype=np.float64)
    series.cells[seed] = pair


def _setting(address: Address) -> tuple[object, ...]:
    """The key of one setting, over its seeds."""
    return tuple(value for name, value in vars(address).items() if name != "seed")


def _add_other_seeds(by_key: Mapping[tuple[object, ...], PairedSeries], base: Side) -> None:
    """Adds BASE's seeds that HEAD lacks, so that all of them estimate BASE's spread."""
    for address, cell in base.cells.items():
        setting = _setting(address)
        for spot, values in values_of(cell).items() if cell.status == "ok" else ():
            series = by_key.get((setting, spot))
            if series is not None:
                series.base_means[address.seed] = mean(np.array(values.numbers, dtype=np.float64))


def _without_unknown_seeds(series: PairedSeries) -> Iterator[str]:
    """Leaves out seeds for which BASE has no number, if others have one, and says so."""
    if np.isfinite(np.concatenate([*series.base.values()])).all():
        return
    unknown = [seed for seed in series.seeds if not np.isfinite(series.base[seed]).all()]
    if 0 < len(unknown) < len(series.seeds):
        for seed in unknown:
            del series.base[seed], series.head[seed], series.cells[seed]
        series.base_means = {seed: mean for seed, mean in series.base_means.items() if np.isfinite(mean)}
        yield (
            f"{series.group.name} of {series.name}: BASE has no number for {plural(len(unknown), 'seed')}, "
            "which the comparison leaves out."
        )


def _finish(series: PairedSeries, base: Side, head: Side) -> None:
    """Refuses values that no difference can be made of, and fetches the outcome per test image."""
    values = np.concatenate([*series.base.values(), *series.head.values()])
    if not np.isfinite(values).all():
        series.obstacle = series.obstacle or "a value is not finite"
    elif series.group.relative and any((pair <= 0).any() for pair in _unequal(series)):
        series.obstacle = series.obstacle or NO_RATIO
    if series.group.unit == "%" and not series.group.note and not series.obstacle:
        outcomes = {seed: _right(series, seed, base, head) for seed in series.seeds}
        kept = {seed: right for seed, right in outcomes.items() if right is not None}
        if len(kept) == len(outcomes) and len({right.shape for right in kept.values()}) == 1:
            series.right = kept
            series.told = {**base.told, **head.told}.get(series.group.data)


def _unequal(series: PairedSeries) -> Iterator[FloatArray]:
    """The values of both sides, of seeds where they differ."""
    for seed in series.seeds:
        base, head = series.base[seed], series.head[seed]
        if not np.array_equal(base, head):
            yield np.concatenate([base, head])


def _right(series: PairedSeries, seed: int, base: Side, head: Side) -> NDArray[np.bool_] | None:
    """Right or wrong per test image on both sides, if that is what the metric is the share of."""
    pair = series.cells[seed]
    ours, theirs = base.correct(pair.base), head.correct(pair.head)
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return None
    sides = ((ours, series.base[seed]), (theirs, series.head[seed]))
    if any(abs(100 * right.mean() - values.mean()) > 1e-3 for right, values in sides):  # of another metric
        return None
    return np.stack([ours, theirs])


def _tell_networks_apart(series: Iterable[PairedSeries]) -> None:
    """Puts the network into the name where one label stands for several networks of a group."""
    series = list(series)
    networks: dict[tuple[Group, str], set[str]] = {}
    names = [(one.group, one.method) for one in series]
    for one, name in zip(series, names, strict=True):
        networks.setdefault(name, set()).add(_network(one))
    for one, name in zip(series, names, strict=True):
        if len(networks[name]) > 1:
            one.method = f"{one.method} ({_network(one)})"


def _network(series: PairedSeries) -> str:
    return next(iter(series.cells.values())).address.network
