"""Two folders compared: every change with its verdict, what HEAD lost, and what could not have been seen."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from routebench.analysis import Verdict
from routebench.analysis.wording import listed, plural
from routebench.comparing._folders import CellPair, Pairs, Quantity, Side, Spot, notes_of, pair_up, read_side
from routebench.comparing._noise import Noise
from routebench.comparing._series import (
    ABSOLUTE,
    Group,
    PairedSeries,
    SpotValues,
    once_timed,
    series_of,
    values_of,
)
from routebench.comparing._verdicts import ALL, METHOD, SETTING, Change, Wishes, judge
from routebench.declared import as_recorded
from routebench.errors import UserError, unknown
from routebench.units import TIMED, is_of_machine

UNDEFINED = {"precision": "recall"}
"""Metrics that are undefined where another one of the same place is 0: what is never answered has no precision."""


@dataclass(frozen=True)
class LostMetric:
    """A metric of a run that HEAD brought to its end without a number for it.

    Args:
        pair: the run.
        metric: the metric whose values are lost.
        found: what HEAD has instead, in words.
    """

    pair: CellPair
    metric: str
    found: str

    def in_words(self) -> str:
        """`dynamic T=3 seed 0: accuracy: nan`."""
        return f"{self.pair.base.name}: {self.metric}: {self.found}"


@dataclass(frozen=True)
class Sensitivity:
    """The smallest changes that the judged rows of one metric detect.

    Args:
        group: the metric.
        rows: how many were judged.
        could_see: by level, the median of the smallest changes that would have been found 8 times in 10, of rows that
            changed if any did; none of a level where nothing is known.
        kinds: the kinds of evidence, keys of `QUESTIONS`.
        identical: whether BASE and HEAD have the same values throughout.
        unseen: the row of each method whose change could have gone unseen though it has to be seen; the worst first.
    """

    group: Group
    rows: int
    could_see: dict[str, float]
    kinds: tuple[str, ...]
    identical: bool
    unseen: tuple[Change, ...] = ()

    @property
    def undecided(self) -> bool:
        """Tells whether that leaves the gate undecided: for times, and for whatever the user says must be seen."""
        return any(row.stated or row.evidence.kind == "rounds" for row in self.unseen)


@dataclass(frozen=True)
class Unjudged:
    """A metric, or some settings of it, without the verdict that it should have.

    Args:
        group: the metric.
        of: names of its settings; empty where it is all of them.
    """

    group: Group
    of: tuple[str, ...] = ()

    def in_words(self) -> str:
        """`training_time of uniform`."""
        return f"{self.group.name} of {listed(list(self.of))}" if self.of else self.group.name


@dataclass(frozen=True)
class FolderComparison:
    """Two folders compared.

    Args:
        base, head: the folders.
        pairs: their runs.
        lost: what has a number in BASE only.
        changes: all rows.
        unjudged: settings of metrics with a direction, without any verdict, though their runs could be compared.
        alpha: chance of any false verdict.
        notes: sentences on what was left out, and why.
    """

    base: Side
    head: Side
    pairs: Pairs
    lost: tuple[LostMetric, ...]
    changes: tuple[Change, ...]
    unjudged: tuple[Unjudged, ...]
    alpha: float
    notes: tuple[str, ...] = ()

    def with_verdict(self, *verdicts: Verdict) -> list[Change]:
        """Rows with one of some verdicts, pooled ones first."""
        order = (ALL, METHOD, SETTING)
        rows = [change for change in self.changes if change.verdict in verdicts]
        return sorted(rows, key=lambda change: order.index(change.level))

    @property
    def sensitivities(self) -> list[Sensitivity]:
        """The sensitivity of each metric with a judged row."""
        groups: dict[Group, list[Change]] = {}
        for change in self.changes:
            if change.judged and change.evidence.kind:
                groups.setdefault(change.group, []).append(change)
        return [_sensitivity(group, rows) for group, rows in groups.items()]

    @property
    def blind(self) -> list[Sensitivity]:
        """Metrics in which the gate could have missed a change that it has to detect."""
        return [one for one in self.sensitivities if one.unseen]

    @property
    def damaged(self) -> list[str]:
        """The damage on either side, of which nobody knows what it would have changed, one line each."""
        sides = (("BASE", self.base), ("HEAD", self.head))
        return [f"{name}: {warning}" for name, side in sides for warning in side.damaged]

    @property
    def exit_code(self) -> int:
        """The gate's: 1 worse or newly broken, 4 undecided or too noisy, 3 runs lack or are damaged, else 0."""
        if self.pairs.broken or self.lost or self.with_verdict(Verdict.REGRESSION):
            return 1
        blind = any(one.undecided for one in self.blind)
        if blind or self.with_verdict(Verdict.UNDECIDED) or not any(change.judged for change in self.changes):
            return 4
        if self.pairs.missing or self.pairs.uncompared or self.damaged:
            return 3
        return 4 if self.unjudged else 0


def compare_folders(base: Path, head: Path, wishes: Wishes) -> FolderComparison:
    """Compares two results folders.

    Args:
        base, head: results folders or packs.
        wishes: what is compared, and how much of a change counts.

    Raises:
        UserError: a folder is missing or empty, they have nothing in common, or a metric or method is unknown.
    """
    ours, theirs = read_side(base), read_side(head)
    pairs = pair_up(ours, theirs)
    series, notes = series_of(pairs.measured, ours, theirs)
    lost = lost_metrics(pairs)
    chosen = _chosen(series, wishes, pairs, {loss.metric for loss in lost})
    judged = judge(chosen, Noise(series), wishes)
    lost = tuple(one for one in lost if _is_wished(wishes, one.metric, one.pair))
    pairs = pairs.of_methods(wishes.methods)
    told = notes_of(ours.of_methods(wishes.methods), theirs.of_methods(wishes.methods))
    unjudged = tuple(_unjudged(judged, {*wishes.tolerances, *wishes.must_see}))
    return FolderComparison(ours, theirs, pairs, lost, tuple(judged), unjudged, wishes.alpha, (*told, *notes))


def _unjudged(changes: Iterable[Change], asked: Container[str]) -> Iterator[Unjudged]:
    """Metrics without a verdict that should have one, in all of their settings or in some.

    Seconds that nothing repeats should only if they are `asked` for, by a tolerance or a size that must be seen. Where
    no run is compared the runs tell it. One value on each side, which nothing tests, is left to its size.
    """
    groups: dict[Group, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    for group, rows in groups.items():
        decided = [row for row in rows if row.judged or row.verdict == Verdict.UNDECIDED]
        known = {id(one) for row in decided for one in row.series}
        lacking = [row for row in rows if row.level == SETTING and _lacks(row, known, asked)]
        if not decided and lacking:
            yield Unjudged(group)
        elif untold := [row for row in lacking if row.verdict == Verdict.UNCOMPARED or group.unit in TIMED]:
            yield Unjudged(group, tuple(row.name for row in untold))


def _lacks(row: Change, known: Container[int], asked: Container[str]) -> bool:
    """Tells whether a setting has no verdict that it should have."""
    (series,) = row.series
    by_wish = row.group.metric not in asked and once_timed([series])
    hidden = all(pair.obstacle for pair in series.cells.values())
    return not (row.group.higher_is_better is None or by_wish or hidden or id(series) in known)


def _chosen(series: Sequence[PairedSeries], wishes: Wishes, pairs: Pairs, lost: set[str]) -> list[PairedSeries]:
    """The series asked for, without what tells of the measurement itself.

    Raises:
        UserError: a wish names what was not measured.
    """
    metrics = {one.group.metric for one in series if not as_recorded(one.group.metric, one.group.unit).beside} | lost
    if series:
        refuse_unknown([*wishes.tolerances, *wishes.must_see], metrics)
        _refuse_without_direction(series, wishes)
    for metric in wishes.metrics:
        if series and metric not in metrics:
            raise unknown("metric", metric, metrics)
    planned = (*pairs.measured, *pairs.broken, *pairs.missing)
    legal = {name for pair in planned for name in pair.address.names(pair.base.label)}
    for method in wishes.methods:
        if method not in legal:
            raise unknown("method", method, {one.method for one in series} | {pair.base.label for pair in planned})
    return [
        one
        for one in series
        if one.group.metric in metrics and _is_wished(wishes, one.group.metric, next(iter(one.cells.values())))
    ]


def _is_wished(wishes: Wishes, metric: str, pair: CellPair) -> bool:
    """Tells whether a metric of a run was asked for."""
    is_method = not wishes.methods or pair.address.names(pair.base.label) & set(wishes.methods)
    return bool(is_method) and (not wishes.metrics or metric in wishes.metrics)


def _refuse_without_direction(series: Sequence[PairedSeries], wishes: Wishes) -> None:
    judged = {one.group.metric for one in series if one.group.higher_is_better is not None}
    for option, wish in (("--tolerance", wishes.tolerances), ("--must-see", wishes.must_see)):
        for metric in wish:
            if metric not in judged:
                raise UserError(
                    f"{option} {metric}: neither direction of it is better, so it is never judged; leave it out"
                )


def refuse_unknown(tolerances: Iterable[str], metrics: Iterable[str]) -> None:
    """Raises UserError for a metric that was not measured."""
    known = set(metrics)
    for metric in tolerances:
        if metric not in known:
            raise unknown("metric", metric, known)


def lost_metrics(pairs: Pairs) -> tuple[LostMetric, ...]:
    """Lists the metrics that BASE has and HEAD lacks, by run. Only finite metrics with a direction count.

    Runs that are not compared, and what belongs to the machine where the machines differ, are no loss. A metric
    without direction is shown and never judged, and the machine's own speeds are none of the code's.

    Args:
        pairs: the runs of two folders.
    """
    return tuple(loss for pair in pairs.measured if not pair.obstacle for loss in _of(pair))


def _of(pair: CellPair) -> Iterator[LostMetric]:
    lost: dict[str, list[str]] = {}
    theirs: dict[Spot, list[Any]] = {}
    for mark, value in zip(pair.head.marks, pair.head.values, strict=True):
        if mark.epoch is None:
            theirs.setdefault(mark.spot, []).append(value)
    for spot, ours in values_of(pair.base).items():
        instead = _instead(ours, theirs.get(spot, []))
        if instead and _counts(ours.mark, pair) and not _is_undefined(spot, theirs):
            lost.setdefault(spot[0], []).append(instead)
    for name, values in lost.items():
        count = "" if len(values) == 1 else f" ({plural(len(values), 'setting')})"
        yield LostMetric(pair, name, ", ".join(dict.fromkeys(values)) + count)


def _is_undefined(spot: Spot, theirs: Mapping[Spot, list[Any]]) -> bool:
    """Tells whether HEAD cannot have the metric there, by its own numbers."""
    decides = theirs.get((UNDEFINED.get(spot[0], ""), *spot[1:]), [])
    return bool(decides) and all(value == 0 for value in decides)


def _counts(mark: Quantity, pair: CellPair) -> bool:
    """Tells whether it would have been judged."""
    uncounted = as_recorded(mark.spot[0], mark.unit).beside or (pair.machines and is_of_machine(mark.unit))
    return mark.higher_is_better is not None and not uncounted


def _instead(base: SpotValues, head: list[Any]) -> str:
    """The words for what HEAD has in place of a number; empty if HEAD has it, or BASE lacks it too."""
    if not all(map(math.isfinite, base.numbers)):
        return ""
    if not head:
        return "gone"
    for value in head:
        if value is None or not math.isfinite(value):
            return "no value" if value is None else str(value)
    if base.mark.unit not in ABSOLUTE and base.mark.higher_is_better:
        return _nothing(base.numbers, head)
    return ""


def _nothing(base: list[float], head: list[float]) -> str:
    """`0` if a value that should be large fell from above 0 to 0, so that there is no ratio."""
    return "0" if min(base) > 0 and min(head) <= 0 else ""


def _sensitivity(group: Group, rows: list[Change]) -> Sensitivity:
    could_see = {}
    changed = [row for row in rows if row.verdict != Verdict.SAME] or rows
    for level in (ALL, METHOD, SETTING):
        sizes = [row.could_see for row in changed if row.level == level and not math.isnan(row.could_see)]
        if sizes:
            could_see[level] = float(np.median(sizes))
    kinds = tuple(dict.fromkeys(row.evidence.kind for row in rows))
    identical = all(row.base == row.head for row in rows)
    return Sensitivity(group, len(rows), could_see, kinds, identical, () if identical else tuple(_unseen(changed)))


def _unseen(rows: list[Change]) -> list[Change]:
    """Rows that leave the gate blind.

    Of a time, which one method alone may take more of, and of what the user says must be seen, it has to be seen for
    each method. Of anything else it is enough that the most sensitive row could have seen it.
    """
    if rows[0].stated or rows[0].evidence.kind == "rounds":
        several = {row.method for row in rows if row.level == METHOD}
        shown = [row for row in rows if row.level == METHOD or (row.level == SETTING and row.method not in several)]
        unseen = [row for row in shown if row.blind and row.verdict not in (Verdict.REGRESSION, Verdict.IMPROVEMENT)]
    else:
        unseen = [min(rows, key=_size)] if all(row.blind for row in rows) else []
    return sorted(unseen, key=_size, reverse=True)


def _size(row: Change) -> float:
    return math.inf if math.isnan(row.could_see) else row.could_see
