"""Compares a method with every published one, across machines. `docs/uncertainty.md` has the formulas."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from routebench import statistics
from routebench.analysis import (
    BASELINE,
    MARGIN,
    MISSING,
    Estimate,
    Method,
    Runs,
    Verdict,
    at_stake,
    believed,
    corrected,
    unflattered,
)
from routebench.analysis.comparison import comparison_of, contenders_of, rank
from routebench.analysis.contenders import (
    Contender,
    difference_between,
    falling,
    p_beyond_between,
    tested_as,
    with_other_images,
)
from routebench.engine.results import Identity, Store, distinct
from routebench.engine.suites import older_parts
from routebench.errors import UserError
from routebench.ranking._boards import Board, PublishedBoard
from routebench.statistics import ALPHA

NOTHING = "–"
SHOWN_APART = 0.01
"""The p below which machines differ: one honest place in a hundred is refused, and differences cancel anyhow."""
NAMED = (BASELINE, "cnn")
"""Baselines that a method is compared with before anything was trained."""


class Machines(StrEnum):
    """The relation of two machines, by the baseline that was trained on both."""

    SAME = "same"
    """It gave the same answers to every test image with every seed."""
    ALIKE = "alike"
    """No difference of its accuracy is shown."""
    APART = "apart"
    """Its accuracy differs: nothing is ranked."""


@dataclass(frozen=True)
class Row:
    """A configuration on the board.

    Args:
        method: its method and T.
        mean: test accuracy in per cent, over its seeds.
        gain: points above uniform routing, on the machine that it was trained on.
        cost: training time, as a multiple of uniform routing's on that machine; NaN where unknown.
        rank: its published rank, or that of the new method, in words.
        apart: the new method minus this one, in points, with p corrected within its family; unknown for its own rows.
        verdict: what that shows, from the side of the new method; None for its own rows.
        images: the same difference, as if test images were drawn anew as well; unknown where answers are missing.
        is_mine: whether it is the new method, with whatever T.
        parameters: the number of weights; NaN where unknown.
        older: its parts that have another version today, with the versions then and now.
    """

    method: Method
    mean: Estimate
    gain: Estimate
    cost: float
    rank: str
    apart: Estimate = field(default_factory=Estimate)
    verdict: Verdict | None = None
    images: Estimate = field(default_factory=Estimate)
    is_mine: bool = False
    parameters: float = math.nan
    older: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """The board with the new method on it.

    Args:
        board: the board.
        rows: best mean first; the new method with each T.
        mine: the new method with the T of its best tuning score, which is ranked; None without a result.
        machines: how the machines relate.
        between: the baseline here minus the published one, in points.
        ranks: the lowest and the highest place that the method may have; None where nothing is ranked.
        named: its differences to the baselines named beforehand, with p corrected over these.
        seeds: the seeds of `mine` that have a result.
        planned: the seeds that were planned.
        origin: where the published results come from.
        reasons: why runs of the method, or of uniform routing beside it, have no result, a line each.
        baselines_lost: so many seeds of uniform routing ended without a result, here and in the published results.
    """

    board: Board
    rows: tuple[Row, ...]
    mine: Method | None
    machines: Machines
    between: Estimate
    ranks: tuple[int, int] | None
    named: Mapping[Method, tuple[Estimate, Verdict]]
    seeds: int
    planned: int
    origin: str = ""
    reasons: tuple[str, ...] = ()
    baselines_lost: tuple[int, int] = (0, 0)

    @property
    def place(self) -> str:
        """`3 to 9 of 14`, or a dash."""
        if self.ranks is None:
            return NOTHING
        return f"{_in_words(self.ranks)} of {sum(row.verdict is not None for row in self.rows) + 1}"


@dataclass(frozen=True)
class _Sides:
    """The new method and its baseline here, and the published runs with theirs.

    Where both machines are the same to the last bit, `joined` holds the runs of both, which are paired by seed.
    """

    own: Runs
    mine: Contender
    base: Contender
    other: Runs
    other_base: Contender
    joined: Runs | None

    def apart(self, theirs: Contender) -> Estimate:
        """The new method minus a published one, in points; p is not corrected."""
        if self.joined is not None:
            return difference_between(self.joined, self.mine, theirs)
        if theirs.method == self.other_base.method:
            return _unaided(difference_between(self.own, self.mine, self.base), self.base)
        ours, others = self._gains(theirs)
        found = Estimate.of(statistics.apart_difference(ours, others)).within(-100.0, 100.0)
        found = _unaided(unflattered(found, self.mine.method, theirs.method), self.mine, self.base, self.other_base)
        if min(ours.size, others.size) < 2:
            return found
        return believed(found, float(np.median(ours) - np.median(others)), *self._falling(theirs))

    def p_beyond(self, theirs: Contender) -> float:
        """The p of a difference of `MARGIN` points or more, either way; NaN where there is no test."""
        if self.joined is not None:
            return p_beyond_between(self.joined, self.mine, theirs, MARGIN)
        if theirs.method == self.other_base.method:
            return p_beyond_between(self.own, self.mine, self.base, MARGIN)
        falls = any(at_stake(*self._falling(theirs), ahead=ahead) for ahead in (True, False))
        if falls or any(one.method.lost for one in (self.mine, self.base, theirs, self.other_base)):
            return math.nan
        return statistics.apart_equivalence_p(*self._gains(theirs), MARGIN)

    def images(self, theirs: Contender) -> Estimate:
        """The same as `apart`, as if test images were drawn anew; unknown where answers are missing."""
        if self.joined is not None:
            return with_other_images(self.joined, self.mine, theirs)
        plain = self.apart(theirs)
        if theirs.method == self.other_base.method:
            return tested_as(with_other_images(self.own, self.mine, self.base), plain)
        ours = _answers(self.own, self.mine, self.base)
        others = _answers(self.other, theirs, self.other_base)
        if ours is None or others is None or ours.shape[1] != others.shape[1]:
            return Estimate()
        found = Estimate.of(statistics.crossed_apart_difference(ours, others), 100).within(-100.0, 100.0)
        return tested_as(found, plain)

    def _gains(self, theirs: Contender) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (
            statistics.shared_differences(self.mine.accuracies, self.base.accuracies),
            statistics.shared_differences(theirs.accuracies, self.other_base.accuracies),
        )

    def _falling(self, theirs: Contender) -> tuple[Any, Any]:
        nothing = statistics.Collapses(), statistics.Collapses()
        ours = falling(self.own).get((self.mine.method.label, self.mine.method.model), nothing)
        return ours, falling(self.other).get((theirs.method.label, theirs.method.model), nothing)


def _unaided(found: Estimate, *sides: Contender) -> Estimate:
    """A difference without limits and test where it favours the new method, and one of these lost seeds.

    A gain is over the seeds that both sides of it have. Where uniform routing lost seeds, they may be those where the
    method gains least, and on the sender's machine nobody can see whether it failed.
    """
    aided = found.known and found.mean >= 0 and any(one.method.lost for one in sides)
    return found.untested(MISSING) if aided else found


def _joined(own: Runs, other: Runs, label: str) -> Runs:
    """The runs of both machines as of one, the baseline's once."""
    mine = own.planned[own.planned["label"] == label]
    results = own.results[own.results["cell"].isin(mine["cell"])]
    return replace(
        other,
        planned=pd.concat([other.planned, mine], ignore_index=True),
        results=pd.concat([other.results, results], ignore_index=True),
        correct=lambda cell: other.correct(cell) if (kept := own.correct(cell)) is None else kept,
    )


def standing_of(known: PublishedBoard, own: Runs, store: Store, label: str, iterations: int | None) -> Standing:
    """The board with a new method on it.

    Args:
        known: the published results.
        own: the new method and uniform routing, trained on this machine.
        store: the folder that they lie in.
        label: the method's name in tables.
        iterations: the T of its best tuning score; None for a method without T.

    Returns:
        the board. Nothing is ranked where the machines differ, or the method has no result.

    Raises:
        UserError: uniform routing was trained otherwise here than in the published results.
    """
    contenders = {one.method: one for one in contenders_of(own)}
    mine = [one for method, one in contenders.items() if method.label == label]
    ranked = next((one for one in mine if one.method.iterations == iterations), None)
    base, other_base = (_base(found) for found in (contenders.values(), contenders_of(known.runs)))
    if base is not None and other_base is not None:
        own_base = next((found for key in base.cells.values() if (found := store.record(key)) is not None), None)
        if own_base is not None:
            expect_same(known, own_base.identity)
    machines, between = _machines(own, known.runs, base, other_base)
    sides = None
    if base and other_base and ranked and ranked.accuracies and base.accuracies:
        joined = _joined(own, known.runs, label) if machines is Machines.SAME else None
        sides = _Sides(own, ranked, base, known.runs, other_base, joined)
    theirs = [one for one in comparison_of(known.runs).contenders.values() if one.accuracies]
    comparable = machines is not Machines.APART
    apart, verdicts = _compared(sides, theirs) if sides and comparable else ({}, {})
    named = _named(sides, theirs if comparable else [sides.other_base]) if sides else {}
    place = _place(apart) if apart else None
    shown = {method: (found, verdicts[method]) for method, found in apart.items()} | named
    rows = [
        *_own_rows(own, mine, base, ranked, named, place, _older_in(store, known.board)),
        *_published_rows(known, sides if comparable else None, theirs, shown),
    ]
    return Standing(
        board=known.board,
        rows=tuple(sorted(rows, key=lambda row: -row.mean.mean if row.mean.known else math.inf)),
        mine=ranked.method if ranked else None,
        machines=machines,
        between=between,
        ranks=place,
        named=named,
        seeds=len(ranked.accuracies) if ranked else 0,
        planned=ranked.planned if ranked else 0,
        origin=known.origin,
        reasons=_reasons(own, label),
        baselines_lost=(_lost(base), _lost(other_base)),
    )


def _base(contenders: Iterable[Contender]) -> Contender | None:
    """Uniform routing in the suite's network."""
    return next((one for one in contenders if one.method.label == BASELINE), None)


def expect_same(known: PublishedBoard, ours: Identity) -> None:
    """Checks that uniform routing is the same configuration here and in the published results.

    Args:
        known: the published results.
        ours: a run of uniform routing here, planned or made.

    Raises:
        UserError: a setting, or the version of a part or of the suite, differs.
    """
    other = _base(contenders_of(known.runs))
    if other is None or not other.cells:
        return
    theirs = known.record(next(iter(other.cells.values()))).identity
    one, two = (_configuration(identity, known.board) for identity in (ours, theirs))
    if differing := sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key)):
        raise UserError(
            f"{known.board.title}: expected uniform routing as in the published results ({known.origin}), got another "
            f"{', '.join(differing)}, so that nothing can be compared; name results of this version with --beside"
        )


def _configuration(identity: Identity, board: Board) -> dict[str, Any]:
    """The facts that a run shares with those of other seeds, wherever its settings were chosen."""
    found = distinct(identity.as_dict())
    versions = {part: version for part, version in (found.get("versions") or {}).items() if board.reads(part)}
    return {key: value for key, value in found.items() if key not in ("seed", "tuning")} | {"versions": versions}


def _machines(
    own: Runs, other: Runs, base: Contender | None, other_base: Contender | None
) -> tuple[Machines, Estimate]:
    """The relation of the machines, and the baseline's accuracy here minus the published one."""
    if base is None or other_base is None or not base.accuracies:
        return Machines.ALIKE, Estimate()
    between = Estimate.of(statistics.apart_difference(base.values, other_base.values))
    shared = sorted(base.cells.keys() & other_base.cells.keys())
    answers = [(own.correct(base.cells[seed]), other.correct(other_base.cells[seed])) for seed in shared]
    equal = [one is not None and two is not None and np.array_equal(one, two) for one, two in answers]
    if equal and all(equal):
        return Machines.SAME, between
    return (Machines.APART if between.p < SHOWN_APART else Machines.ALIKE), between


def _compared(sides: _Sides, theirs: Sequence[Contender]) -> tuple[dict[Method, Estimate], dict[Method, Verdict]]:
    """The new method minus each published one, corrected over all, and what each shows."""
    methods = [one.method for one in theirs]
    found = corrected((sides.apart(one) for one in theirs), len(theirs))
    beyond = statistics.holm([sides.p_beyond(one) for one in theirs], len(theirs))
    verdicts = [Verdict.of(one.mean, one.p_holm, float(p)) for one, p in zip(found, beyond, strict=True)]
    return dict(zip(methods, found, strict=True)), dict(zip(methods, verdicts, strict=True))


def _place(apart: Mapping[Method, Estimate]) -> tuple[int, int]:
    """The places that the new method may have among all: 95 % for all comparisons with it together."""
    shown = [one.mean for one in apart.values() if one.p_holm < ALPHA]
    better, worse = sum(mean > 0 for mean in shown), sum(mean < 0 for mean in shown)
    return 1 + worse, 1 + len(apart) - better


def _in_words(place: tuple[int, int] | None) -> str:
    """`3 to 9`, `1`, or a dash."""
    if place is None:
        return NOTHING
    low, high = place
    return f"{low}" if low == high else f"{low} to {high}"


def _named(sides: _Sides, theirs: Sequence[Contender]) -> dict[Method, tuple[Estimate, Verdict]]:
    """Differences to the baselines that were named beforehand, corrected over these."""
    named = sorted((one for one in theirs if one.method.label in NAMED), key=lambda one: NAMED.index(one.method.label))
    apart, verdicts = _compared(sides, named)
    return {method: (apart[method], verdicts[method]) for method in apart}


def _own_rows(  # noqa: PLR0917  # what `standing_of` found, handed on once
    own: Runs,
    mine: Sequence[Contender],
    base: Contender | None,
    ranked: Contender | None,
    named: Mapping[Method, tuple[Estimate, Verdict]],
    place: tuple[int, int] | None,
    older_of: Callable[[Contender], Mapping[str, tuple[int, int]]],
) -> list[Row]:
    """The new method with each T. Gains of those that are not ranked are exploratory, and corrected together."""
    times = _times(own)
    others = [one for one in mine if one is not ranked]
    gains = corrected(_unaided(difference_between(own, one, base), base) if base else Estimate() for one in others)
    of = {one.method: gain for one, gain in zip(others, gains, strict=True)}
    if ranked is not None:
        of[ranked.method] = next((found for method, (found, _) in named.items() if method.is_base), Estimate())
    return [
        Row(
            one.method,
            Estimate.of(statistics.accuracy_interval(one.values, None)),
            of[one.method],
            _multiple(times, one, base),
            _in_words(place) if one is ranked else NOTHING,
            is_mine=True,
            parameters=_parameters(own, one),
            older=older_of(one),
        )
        for one in mine
    ]


def _older_in(store: Store, board: Board) -> Callable[[Contender], Mapping[str, tuple[int, int]]]:
    """Parts of a new method's runs that have another version today, as of a submission made with an earlier routebench.

    The method itself is not looked at: it need not be registered, and its code is in its keys.
    """

    def found(one: Contender) -> Mapping[str, tuple[int, int]]:
        made = next((record for key in one.cells.values() if (record := store.record(key)) is not None), None)
        older = {} if made is None else older_parts(replace(made.identity, routed=False))
        return {part: both for part, both in older.items() if board.reads(part)}

    return found


def published_rows(known: PublishedBoard) -> list[Row]:
    """The rows of a board as they were published.

    Args:
        known: the board.
    """
    theirs = [one for one in comparison_of(known.runs).contenders.values() if one.accuracies]
    return _published_rows(known, None, theirs, {})


def _published_rows(
    known: PublishedBoard,
    sides: _Sides | None,
    theirs: Sequence[Contender],
    shown: Mapping[Method, tuple[Estimate, Verdict]],
) -> list[Row]:
    found = comparison_of(known.runs)
    of = {row["method"]: row for row in found.measured.to_dict("records")}
    times, base = _times(known.runs), _base(contenders_of(known.runs))
    rows = []
    for one in theirs:
        identity = known.record(next(iter(one.cells.values()))).identity
        older = {part: both for part, both in older_parts(identity).items() if known.board.reads(part)}
        row, (apart, verdict) = of[one.method], shown.get(one.method, (Estimate(), None))
        rows.append(
            Row(
                one.method,
                row["mean"],
                row["gain"],
                _multiple(times, one, base),
                rank(row),
                apart,
                verdict,
                sides.images(one) if sides else Estimate(),
                parameters=row["parameters"],
                older=older,
            )
        )
    return rows


def _parameters(runs: Runs, one: Contender) -> float:
    """The number of weights of a method's network; NaN where it was not kept."""
    values = runs.values("parameters")
    own = values.loc[values["cell"].isin([*one.cells.values()]), "value"]
    return float(own.iloc[0]) if len(own) else math.nan


def _times(runs: Runs) -> dict[str, float]:
    """Seconds of training, by run."""
    values = runs.values("fit_seconds")
    return dict(zip(values["cell"], values["value"], strict=True))


def _multiple(times: Mapping[str, float], one: Contender, base: Contender | None) -> float:
    """Median training time as a multiple of the baseline's."""
    seconds = [[times[cell] for cell in side.cells.values() if cell in times] for side in (one, base or one)]
    if base is None or not all(seconds):
        return math.nan
    return float(np.median(seconds[0]) / np.median(seconds[1]))


def _answers(runs: Runs, one: Contender, base: Contender) -> NDArray[np.float64] | None:
    """Gains in right answers over the baseline, (seeds, objects); None where answers were not kept."""
    seeds = sorted(one.cells.keys() & base.cells.keys())
    kept = [(runs.correct(one.cells[seed]), runs.correct(base.cells[seed])) for seed in seeds]
    pairs = [(ours, theirs) for ours, theirs in kept if ours is not None and theirs is not None]
    if not pairs or len(pairs) < len(seeds) or len({array.size for pair in pairs for array in pair}) > 1:
        return None
    views = runs.views(pairs[0][0].size)
    if views is None:
        return None
    apart = np.stack([ours.astype(np.float64) - theirs for ours, theirs in pairs])
    return np.asarray(apart.reshape(len(pairs), -1, views).mean(axis=2))


def _lost(one: Contender | None) -> int:
    return len(one.method.lost) if one else 0


def _reasons(own: Runs, label: str) -> tuple[str, ...]:
    """The reasons why runs of the method, then of uniform routing, have no result."""
    failed = own.planned[~own.planned["status"].isin(["ok", "not run"])]
    return tuple(
        f"{Method.of(side, row.iterations)}, seed {row.seed}: {row.status}: {row.reason}"
        for side in dict.fromkeys((label, BASELINE))
        for row in failed[failed["label"] == side].itertuples()
    )
