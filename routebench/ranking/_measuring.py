"""Tunes and trains a method, and uniform routing beside it, as a board's methods were."""

import math
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from routebench.analysis import BASELINE, Estimate, Runs, open_folder
from routebench.analysis.contenders import contenders_of, difference_between
from routebench.engine.origin import recorded_as
from routebench.engine.results import Store
from routebench.engine.running import Call, Counts, Listener, PlannedRun, SuiteOptions, prepare
from routebench.engine.suites import METHOD, Cell, ChosenPoint, ChosenSettings
from routebench.engine.tuning import choose
from routebench.errors import UserError
from routebench.quantities import spoken
from routebench.ranking._boards import Board, PublishedBoard

FIRST = 3
"""The seeds after which the first look is told."""


@runtime_checkable
class Teller(Protocol):
    """Tells how far the work is."""

    def say(self, text: str) -> None:
        """Tells one line."""

    def follow(self, planned: PlannedRun) -> AbstractContextManager[Listener]:
        """Follows the runs of one stage."""


@dataclass(frozen=True)
class Wanted:
    """A method that is to be ranked, and how its runs are executed.

    Args:
        board: the board that it joins.
        method: `NAME` or `NAME[key=value,...]`.
        plugins: files that register it.
        results: the folder of its results.
        jobs, device, isolate, time_limit, memory_limit, until: as for `routebench.run_suite`.
        budget: seconds for all; None for no limit.
    """

    board: Board
    method: str
    plugins: tuple[str, ...] = ()
    results: Path = Path("results")
    jobs: int | None = None
    device: str = "auto"
    isolate: bool | None = None
    time_limit: float | None = None
    memory_limit: int | None = None
    budget: float | None = None
    until: float | None = None

    def command(self, name: str, preset: str, *others: str) -> list[str]:
        """The command that does one stage alone, for `reproduce`.

        Args:
            name: `suite` or `tune`.
            preset: the preset that it runs.
            others: further options.
        """
        plugins = [word for plugin in self.plugins for word in ("--plugin", plugin)]
        head = ["python", "-m", "routebench", name, self.board.suite, "--preset", preset]
        return [*head, *plugins, "--method", self.method, *others]

    def options(self, **others: Any) -> SuiteOptions:
        """The options of a call of the suite."""
        return SuiteOptions(
            suite=self.board.suite, methods=(self.method,), plugins=self.plugins, results=self.results, jobs=self.jobs,
            device=self.device, isolate=self.isolate, time_limit=self.time_limit, memory_limit=self.memory_limit,
            **others,
        )  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The measurements of a method.

    Args:
        label: its name in tables.
        iterations: the T of its best tuning score; None for a method without T, or before it was tuned.
        store: the folder of its results.
        counts: numbers of trials and runs.
        settings: the file of its settings; None before it was tuned.
    """

    label: str
    iterations: int | None
    store: Store
    counts: Counts
    settings: Path | None = None

    @property
    def is_whole(self) -> bool:
        """Tells whether the budget left nothing."""
        return self.settings is not None and not self.counts.left


def measure(wanted: Wanted, tell: Teller) -> Measured:
    """Tunes and trains what has no result yet. Interrupted, the same call goes on.

    Args:
        wanted: the method, its board, and how runs are executed.
        tell: tells how far it is.

    Raises:
        UserError: it cannot be planned, or the results folder cannot be written.
    """
    ends = math.inf if wanted.budget is None else time.monotonic() + wanted.budget
    call = prepare(wanted.options(preset=wanted.board.tuned_on, tuning=True, budget=_left(ends)))
    label = label_of(call, wanted)
    counts = Counts()
    with recorded_as(wanted.command("tune", wanted.board.tuned_on)):
        for trials in call:  # all, then repeats of the best where the suite has them
            counts += _run(trials, tell)
    nothing = Measured(label, None, call.store, counts)
    if counts.left:
        return nothing
    settings = choose(trials.plan, call.store)
    file = call.store.path / f"{_as_file(wanted.method)}.{wanted.board.part[0]}.{wanted.board.tuned_on}.settings.json"
    settings.write(file)
    best = best_of(one for one in settings.choices if one.method == label)
    found = replace(nothing, iterations=best.iterations, settings=file)
    tell.say(f"tuned: {best.title} has the highest score of a fold of the training images, {best.score:.2f} %")
    for seeds in dict.fromkeys((min(FIRST, wanted.board.seeds), wanted.board.seeds)):
        is_first = seeds < wanted.board.seeds
        options = wanted.options(
            preset=wanted.board.preset, settings=file, seeds=range(seeds), budget=_left(ends),
            until=None if is_first else wanted.until,
        )  # fmt: skip
        call = only(prepare(options), label, best.iterations if is_first else None)
        typed = wanted.command("suite", wanted.board.preset, "--settings", str(file), "--seeds", str(seeds))
        with recorded_as(typed):
            own = sum((_run(planned, tell) for planned in call), Counts())
        counts += own
        found = replace(found, counts=counts)
        if counts.left:
            return found
        if is_first and own.run:
            tell.say(_first_look(call.store, wanted.board, found))
    return found


def best_of(choices: Iterable[ChosenPoint]) -> ChosenPoint:
    """The choice with the highest score of a method's choices for each T; of equal ones that of the smallest T.

    Args:
        choices: one for each T.
    """
    return max(choices, key=lambda one: (one.score, -(one.iterations or 0)))


def part_of(store: Store, board: Board) -> Runs | None:
    """A folder's runs of a board's suite and preset; None where none was planned."""
    return next((one for one in open_folder(store.path).parts if (one.suite, one.preset) == board.part), None)


def _left(ends: float) -> float | None:
    """Seconds of the budget that are left, at least one; None for no limit."""
    return None if ends == math.inf else max(1.0, ends - time.monotonic())


def label_of(call: Call, wanted: Wanted) -> str:
    """The method's name in tables.

    Args:
        call: a call of the suite that runs it.
        wanted: the method, as it was asked for.

    Raises:
        UserError: it is a baseline, or cannot be made.
    """
    (plan, *_), *_ = call.plans
    own = [cell for cell in plan.cells if cell.identity.role == METHOD]
    if not own:
        raise UserError(f"{wanted.method}: expected a routing method of your own, got one that every board has already")
    if broken := next((cell.broken for cell in own if cell.broken), ""):
        raise UserError(f"{wanted.method}: {broken}")
    return own[0].label


def _run(planned: PlannedRun, tell: Teller) -> Counts:
    """Executes the runs of one stage."""
    planned.write_plan()
    with tell.follow(planned) as listener:
        return planned.run(listener)


def only(call: Call, label: str, iterations: int | None) -> Call:
    """The call with the runs of the method, with one T if it is given, and of uniform routing alone.

    Args:
        call: a call of the suite.
        label: the method's name in tables.
        iterations: T; None for all.
    """

    def wanted(cell: Cell) -> bool:
        return cell.label == BASELINE or (
            cell.label == label and (iterations is None or cell.identity.iterations == iterations)
        )

    plans = []
    for plan, status, config in call.plans:
        cached, failed, missing = ([*filter(wanted, of)] for of in (status.cached, status.failed, status.missing))
        own = replace(plan, cells=tuple(filter(wanted, plan.cells)))
        plans.append((own, replace(status, cached=cached, failed=failed, missing=missing), config))
    return replace(call, plans=plans)


def _first_look(store: Store, board: Board, measured: Measured) -> str:
    """The gain over uniform routing of the first seeds, with its honest interval."""
    runs = part_of(store, board)
    known = {(one.method.label, one.method.iterations): one for one in contenders_of(runs)} if runs else {}
    mine, base = known.get((measured.label, measured.iterations)), known.get((BASELINE, None))
    found = difference_between(runs, mine, base) if runs and mine and base else Estimate()
    if not found.known:
        return "first look: no seed has a result yet; the reasons stand above"
    return (
        f"first look: {found:+.1} points over uniform routing with {found.n} of {board.seeds} seeds; Ctrl-C stops "
        "here, and the same command goes on"
    )


def _as_file(method: str) -> str:
    """The method as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", method).strip("-")


def settings_of(measured: Measured) -> Iterator[tuple[str, Any]]:
    """The chosen settings of the method's ranked configuration, by name."""
    if measured.settings is None:
        return
    known = ChosenSettings.read(measured.settings, "")
    for one in known.choices:
        if (one.method, one.iterations) == (measured.label, measured.iterations):
            yield from one.point.items()


def listed(wanted: Wanted, known: PublishedBoard) -> list[str]:
    """Lists what `measure` would run, a line each; runs nothing.

    Args:
        wanted: the method, its board, and how runs are executed.
        known: the published results, whose times say how long it may take.
    """
    board = wanted.board
    call = prepare(wanted.options(preset=board.tuned_on, tuning=True), dry_run=True)
    label, (trials, tuned, config) = label_of(call, wanted), call.plans[0]
    later = only(prepare(wanted.options(preset=board.preset, seeds=range(board.seeds)), dry_run=True), label, None)
    (runs, done, _), *_ = later.plans
    count = trials.suite.tuning.trials if trials.suite.tuning else 0
    before = f"{len(done.cached)} of them done before, where settings are not chosen anew"
    what = f"{board.seeds} seeds of {label} with each T, and of uniform routing"
    lines = [
        f"{board.title}; published results: {known.origin}",
        f"{len(trials.cells)} trials, {count} for each T of {label}, {len(tuned.cached)} of them done before",
        f"then {len(runs.cells)} runs: {what}, {before}",
    ]
    seconds = known.runs.values("fit_seconds")["value"]
    if len(seconds):
        total = float(seconds.median()) * (len(trials.cells) - len(tuned.cached) + len(runs.cells)) / config.jobs
        lines.append(f"{spoken(total)} on the machine of the published results, {config.jobs} at a time, for a method "
                     "of median cost")  # fmt: skip
    return lines
