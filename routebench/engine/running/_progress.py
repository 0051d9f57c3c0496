"""Shows the progress of a call: to a callback, or on a terminal as a bar and a line per active run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from routebench.engine.results import Record
from routebench.engine.running._config import Listener, Stage, once_a_second
from routebench.engine.running._suite import PlannedRun
from routebench.engine.suites import Cell
from routebench.errors import printable
from routebench.quantities import spoken

SILENCE = 300.0
"""Seconds without a line, after which a file gets one."""


@dataclass(frozen=True)
class Progress:
    """Progress of a suite. Its text is the command line's line for a finished run.

    Args:
        suite: its name.
        done, total: numbers of runs.
        share: share of all runs done, 0 to 1, active ones in part.
        seconds_left: seconds expected for the remaining runs; None if unknown.
        finished: the run that has just finished and its outcome; empty between two runs.
        record: what was stored of that run; None between two runs.
        preset: the name of the suite's preset.
    """

    suite: str
    done: int
    total: int
    share: float
    seconds_left: float | None
    finished: str = ""
    record: Record | None = None
    preset: str = ""

    def __str__(self) -> str:
        is_ahead = self.seconds_left is not None and self.done < self.total
        ahead = f", {spoken(self.seconds_left or 0.0)} left" if is_ahead else ""
        return f"[{self.done}/{self.total}] {self.finished or format(self.share, '.0%')}{ahead}"


class Follower:
    """Follows a call, and reports its progress.

    Args:
        planned: the suite that is executed.
    """

    def __init__(self, planned: PlannedRun):
        self.suite, self.times, self.jobs = planned.suite, planned.queue.times, planned.config.jobs
        self.preset = planned.plan.preset.name
        self.left = {cell.key: cell for cell in planned.queue.left}
        self.total = len(self.left)
        self.stages: Mapping[str, Stage] = {}
        self.began = time.monotonic()

    def advanced(self, stages: Mapping[str, Stage]) -> Progress:
        """Records the stages of active runs, by key."""
        self.stages = {key: stage for key, stage in stages.items() if key in self.left}
        return self.progress()

    def finished(self, cell: Cell, record: Record) -> Progress:
        """Takes note of a finished run.

        Args:
            cell: the run.
            record: its record.
        """
        self.left.pop(cell.key, None)
        self.stages = {key: stage for key, stage in self.stages.items() if key in self.left}
        seconds = float(record.provenance.get("seconds") or 0.0)
        return self.progress(f"{cell}: {_outcome(record, seconds)}", record)

    def progress(self, finished: str = "", record: Record | None = None) -> Progress:
        """Progress of the call now.

        Args:
            finished: a line on the run that has just finished; empty for none.
            record: the record of that run.
        """
        done = self.total - len(self.left)
        share = (done + self._running()) / max(self.total, 1)
        return Progress(self.suite, done, self.total, share, self.time_left(), finished, record, self.preset)

    def time_left(self) -> float | None:
        """Expected seconds for the remaining runs, from runs of their kind; None if unknown."""
        if not self.times:
            running = self._running()
            return None if running < 0.05 else (time.monotonic() - self.began) * (len(self.left) - running) / running
        expected = 0.0
        for key, cell in self.left.items():
            mean = self.times.expected(cell.identity)
            if mean is None:
                return None
            expected += mean * (1 - self.stages.get(key, Stage()).share)
        return expected / min(self.jobs, max(len(self.left), 1))

    def _running(self) -> float:
        """Work done by active runs, in runs."""
        return sum(stage.share for stage in self.stages.values())


def follow(follower: Follower, tell: Callable[[Progress], None]) -> Listener:
    """A listener that reports every finished run, and once a second the progress of the others.

    Args:
        follower: knows the runs of the call.
        tell: takes each progress.
    """
    advance = once_a_second(tell)
    return Listener(
        advanced=lambda stages: advance(follower.advanced(stages)),
        finished=lambda cell, record: tell(follower.finished(cell, record)),
    )


class Display:
    """Shows the progress of a call: a line per finished run, and on a terminal a bar and a line per active run.

    In a file, which has no bar, a line says how far the call is where five minutes passed without one.

    Args:
        console: the console that shows it.
        follower: follower of the call.
    """

    def __init__(self, console: Console, follower: Follower):
        self.console, self.follower = console, follower
        self.bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}", markup=False),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.all = self.bar.add_task("all runs", total=max(follower.total, 1), told=self._done(follower.progress()))
        self.cells: dict[str, TaskID] = {}
        self.last_line = time.monotonic()

    def __enter__(self) -> Listener:
        self.bar.start()
        return Listener(started=self._start, advanced=self._advance, finished=self._finish)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def _start(self, cell: Cell) -> None:
        if cell.key not in self.cells:
            self.cells[cell.key] = self.bar.add_task(f"  {printable(str(cell))}", total=1.0, told="starting")

    def _advance(self, stages: Mapping[str, Stage]) -> None:
        for key in self.cells.keys() & stages.keys():
            self.bar.update(self.cells[key], completed=stages[key].share, told=stages[key].doing or "starting")
        now = self.follower.advanced(stages)
        if not self.console.is_terminal and time.monotonic() - self.last_line >= SILENCE:
            self._print(str(now))
        self._show(now)

    def _finish(self, cell: Cell, record: Record) -> None:
        if cell.key in self.cells:
            self.bar.remove_task(self.cells.pop(cell.key))
        now = self.follower.finished(cell, record)
        style = None if record.status == "ok" else "red"
        self._print(str(now), style)
        self._show(now)

    def _print(self, line: str, style: str | None = None) -> None:
        self.console.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)
        self.last_line = time.monotonic()

    def _show(self, now: Progress) -> None:
        self.bar.update(self.all, completed=now.share * max(now.total, 1), told=self._done(now))

    def _done(self, now: Progress) -> str:
        left = "" if now.seconds_left is None or now.done == now.total else f", {spoken(now.seconds_left)} left"
        return f"{now.done} of {now.total} done{left}"


def _outcome(record: Record, seconds: float) -> str:
    if record.status != "ok":
        return f"{record.status} after {seconds:.0f} s: {record.reason}"
    found = "ok" if record.accuracy is None else f"{record.accuracy:.2f} %"
    return f"{found} in {seconds:.0f} s"
