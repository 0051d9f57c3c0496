"""Tunes and trains a method, and uniform routing beside it, as a board's methods were."""

import math
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from routebench.analysis import BASELINE, Estimate, Runs, open_folder
from routebench.analysis.contenders import contenders_of, difference_between
from routebench.catalogue import facts_of_data
from routebench.engine.origin import recorded_as
from routebench.engine.results import Store
from routebench.engine.running import Call, Counts, Listener, PlannedRun, prepare
from routebench.engine.suites import METHOD, ChosenPoint, ChosenSettings, load_suite
from routebench.engine.tuning import choose
from routebench.errors import UserError
from routebench.notation import parse
from routebench.options import Execution, RankOptions, SuiteOptions, TuneOptions, options_of
from routebench.quantities import plural, spoken
from routebench.ranking._boards import Board, PublishedBoard
from routebench.ranking._standing import expect_same

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
        asked: the options: files that register it, the folder of its results, and how runs are executed.
    """

    board: Board
    method: str
    asked: RankOptions = field(default_factory=RankOptions)

    @property
    def page(self) -> str:
        """The name of the page by default."""
        return f"rank.{_as_file(self.method)}.{'.'.join(self.board.part)}.html"

    def command(self, name: str, suite: str, preset: str, *others: str) -> list[str]:
        """The command that does one stage alone, for `reproduce`.

        Args:
            name: `suite` or `tune`.
            suite, preset: what it runs.
            others: further options.
        """
        plugins = [word for plugin in self.asked.plugins for word in ("--plugin", plugin)]
        head = ["python", "-m", "routebench", name, suite, "--preset", preset]
        return [*head, *plugins, "--method", self.method, *others]

    def seeds_of(self, settings: Path, seeds: int) -> list[str]:
        """The command that trains the first so many seeds with chosen settings.

        Args:
            settings: the file of the settings.
            seeds: the number of seeds.
        """
        board = self.board
        return self.command("suite", board.suite, board.preset, "--settings", str(settings), "--seeds", str(seeds))

    def trials(self, **others: Any) -> Call:
        """The planned call that tunes the method.

        Args:
            others: further options, and `dry_run`.
        """
        board = self.board
        return self._prepared(TuneOptions, self.method, suite=board.tuning, preset=board.tuned_on, **others)

    def runs(self, settings: Path | None, seeds: int, iterations: int | None = None, **others: Any) -> Call:
        """The planned call that trains the method, and uniform routing beside it.

        Args:
            settings: the file of chosen settings; None for those of the preset.
            seeds: how many, from 0 on.
            iterations: T, which runs beside T = 1; None for all.
            others: further options, and `dry_run`.
        """
        spec = parse(self.method)
        at = spec if iterations is None else replace(spec, params={**spec.params, "iterations": iterations})
        board = self.board
        return self._prepared(
            SuiteOptions,
            str(at),
            suite=board.suite,
            preset=board.preset,
            settings=settings,
            seeds=range(seeds),
            **others,
        )

    def _prepared(self, kind: type[SuiteOptions], method: str, *, dry_run: bool = False, **others: Any) -> Call:
        how = {name: getattr(self.asked, name) for name in options_of(Execution)}
        options = kind(methods=(method,), **{**how, "budget": None, **others})
        return prepare(options, dry_run=dry_run, baselines=(BASELINE,))


@dataclass(frozen=True)
class Measured:
    """The measurements of a method.

    Args:
        label: its name in tables.
        best: its settings with the T of its best tuning score; None before all trials were made.
        store: the folder of its results.
        counts: numbers of trials and runs.
        settings: the file of its settings; None before all trials were made.
    """

    label: str
    best: ChosenPoint | None
    store: Store
    counts: Counts
    settings: Path | None = None


def measure(wanted: Wanted, tell: Teller) -> Measured:
    """Tunes and trains what has no result yet. Interrupted, the same call goes on.

    Args:
        wanted: the method, its board, and how runs are executed.
        tell: tells how far it is.

    Raises:
        UserError: it cannot be planned, or the results folder cannot be written.
    """
    board = wanted.board
    ends = math.inf if (budget := wanted.asked.budget) is None else time.monotonic() + budget
    call = wanted.trials(budget=_left(ends))
    label, counts = label_of(call, wanted), Counts()
    with recorded_as(wanted.command("tune", board.tuning, board.tuned_on)):
        for trials in call:  # all, then repeats of the best where the suite has them
            counts += _run(trials, tell)
    found = Measured(label, None, call.store, counts)
    if counts.left:
        return found
    settings = choose(trials.plan, call.store)
    tuning = Path(board.tuning).stem if board.tuning.endswith(".toml") else board.tuning
    file = call.store.path / f"{_as_file(wanted.method)}.{tuning}.{board.tuned_on}.settings.json"
    settings.write(file)
    best = best_of(settings, label, board)
    tell.say(f"tuned: {best.title} has the highest score of a fold of the training images, {best.score:.2f} %")
    for seeds in dict.fromkeys((min(FIRST, board.seeds), board.seeds)):
        is_first = seeds < board.seeds
        until = {} if is_first else {"until": wanted.asked.until}
        if is_first:  # all seeds are planned before a result of the first is seen
            with recorded_as(wanted.seeds_of(file, board.seeds)):
                for planned in wanted.runs(file, board.seeds):
                    planned.write_plan()
        call = wanted.runs(file, seeds, best.iterations if is_first else None, budget=_left(ends), **until)
        with recorded_as(wanted.seeds_of(file, seeds)):
            own = sum((_run(planned, tell) for planned in call), Counts())
        counts += own
        found = Measured(label, best, call.store, counts, file)
        if counts.left:
            return found
        if is_first and own.run:
            tell.say(_first_look(found, board))
    return found


def expect_comparable(wanted: Wanted, known: PublishedBoard) -> Call:
    """Checks before anything is trained that uniform routing is planned as it was for the published results.

    Its settings have to be those of the preset: chosen anew, they are others.

    Args:
        wanted: the method and its board.
        known: the published results.

    Returns:
        the plan of all runs, with the settings of the preset.

    Raises:
        UserError: it is not.
    """
    call = wanted.runs(None, wanted.board.seeds, dry_run=True)
    ((runs, *_),) = call.plans
    base = next((cell.identity for cell in runs.cells if cell.label == BASELINE), None)
    if base is not None:
        expect_same(known, base)
    ((trials, *_),) = wanted.trials(dry_run=True).plans
    kept = [one.method for one in trials.kept.choices] if trials.kept else []
    if BASELINE not in (*kept, parse(wanted.method).name):  # who asks for uniform routing itself hears of that
        raise UserError(
            f"{wanted.board.title}: expected a preset whose `settings` were chosen with the trials that the suite's "
            f"[tuning] names, for {BASELINE} routing too, got none: it would be tuned anew, and could not be compared "
            "with published results; `tune` chooses them"
        )
    return call


def best_of(settings: ChosenSettings, label: str, board: Board) -> ChosenPoint:
    """The choice with the highest score of a method's choices for each T; of equal ones that of the smallest T.

    Args:
        settings: the settings of all configurations.
        label: the method's name in tables.
        board: the board; of the T that were tuned, it may run only some.

    Raises:
        UserError: none is a choice for a T that the board runs.
    """
    run = (None, *load_suite(board.suite).preset(board.preset).iterations)
    every = [one for one in settings.choices if one.method == label]
    own = [one for one in every if one.iterations in run]
    if not own:
        found = ", ".join(f"T = {one.iterations}" for one in every) or "none"
        raise UserError(
            f"{label}: expected settings for T = {', '.join(map(str, run[1:]))} or without T, as {board.title} runs, "
            f"got {found}; `rank` chooses them"
        )
    return max(own, key=lambda one: (one.score, -(one.iterations or 0)))


def part_of(store: Store, board: Board) -> Runs | None:
    """A folder's runs of a board's suite, preset, data set and network; None where none was planned.

    Args:
        store: the results folder.
        board: the board.
    """
    return board.among(open_folder(store.path).parts)


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


def _first_look(measured: Measured, board: Board) -> str:
    """The gain over uniform routing of the first seeds, with its honest interval."""
    runs, steps = part_of(measured.store, board), measured.best.iterations if measured.best else None
    known = {(one.method.label, one.method.iterations): one for one in contenders_of(runs)} if runs else {}
    mine, base = known.get((measured.label, steps)), known.get((BASELINE, None))
    found = difference_between(runs, mine, base) if runs and mine and base else Estimate()
    if not found.known:
        return "first look: no seed has a result yet; the reasons stand above"
    return (
        f"first look: {found:+.1} points over uniform routing with {found.n} of {plural(board.seeds, 'seed')}; Ctrl-C "
        "stops here, and the same command goes on"
    )


def _as_file(method: str) -> str:
    """The method as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", method).strip("-")


@dataclass(frozen=True)
class Ahead:
    """The work that `measure` would do.

    Args:
        board: the board, in words.
        published: where its results come from.
        method: the method's name in tables.
        trials: the number of trials, of which `each` for every T.
        trials_done: the number of those that were done before.
        each: see `trials`.
        runs: the number of runs after them, of the method with each T and of uniform routing.
        runs_done: the number of those that were done before, where settings are not chosen anew.
        seeds: the number of seeds.
        seconds: time of training, for a method of median cost on the machine of the published results; None if unknown.
    """

    board: str
    published: str
    method: str
    trials: int
    trials_done: int
    each: int
    runs: int
    runs_done: int
    seeds: int
    seconds: float | None

    def lines(self) -> Iterator[str]:
        """The same in words."""
        yield f"{self.board}; published results: {self.published}"
        yield f"{plural(self.trials, 'trial')}, {self.each} for each T of {self.method}, {self.trials_done} done before"
        before = f"{self.runs_done} done before, where settings are not chosen anew"
        what = f"{plural(self.seeds, 'seed')} of {self.method} with each T, and of uniform routing"
        yield f"then {plural(self.runs, 'run')}: {what}, {before}"
        if self.seconds is not None:
            where = "for a method of median cost on the machine of the published results"
            yield f"{spoken(self.seconds)} of training, {where}"


def ahead(wanted: Wanted, known: PublishedBoard) -> Ahead:
    """Says what `measure` would run; runs nothing.

    Args:
        wanted: the method, its board, and how runs are executed.
        known: the published results, whose times say how long it may take.

    Raises:
        UserError: as for `expect_comparable`.
    """
    board = wanted.board
    ((runs, done, _),) = expect_comparable(wanted, known).plans
    call = wanted.trials(dry_run=True)
    trials, tuned, config = call.plans[0]
    tuning, took = trials.suite.tuning, None
    seconds, images = known.runs.values("fit_seconds")["value"], (facts_of_data(trials.preset.data) or {}).get("train")
    if len(seconds) and images and tuning:
        part = min(tuning.take or images, images) * (1 - 1 / tuning.folds) / images  # of the images that a run has
        work = part * (len(trials.cells) - len(tuned.cached)) + len(runs.cells) - len(done.cached)
        took = float(seconds.median()) * work / config.jobs
    return Ahead(
        board=board.title,
        published=known.origin,
        method=label_of(call, wanted),
        trials=len(trials.cells),
        trials_done=len(tuned.cached),
        each=tuning.trials if tuning else 0,
        runs=len(runs.cells),
        runs_done=len(done.cached),
        seeds=board.seeds,
        seconds=took,
    )
