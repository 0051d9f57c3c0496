"""What the user sees while cells run: a bar with the time left on a terminal, one line per finished cell elsewhere."""

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from routebench.engine.results import Record
from routebench.engine.running._config import Listener
from routebench.engine.running._times import Times
from routebench.engine.suites import Cell
from routebench.errors import printable
from routebench.quantities import spoken


class Display:
    """Follows a run.

    Args:
        console: where it is shown.
        cells: that are to be run.
        times: how long cells take; others add to it while cells finish.
        jobs: that run at a time.
    """

    def __init__(self, console: Console, cells: Sequence[Cell], times: Times, jobs: int):
        self.console, self.jobs = console, jobs
        self.left = {cell.key: cell for cell in cells}
        self.total = len(cells)
        self.times = times
        self.shares: Mapping[str, float] = {}
        self.began = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}/{task.total:.0f} cells"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("running", total=max(self.total, 1), done=0, left="")

    def __enter__(self) -> Listener:
        self.bar.start()
        return Listener(started=self._started, advanced=self._advanced, finished=self._finished)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def time_left(self) -> float | None:
        """Seconds that the remaining cells will take, by what cells of their kind have taken; None if unknown."""
        if not self.times:
            running = sum(self.shares.values())
            return None if running < 0.05 else (time.monotonic() - self.began) * (len(self.left) - running) / running
        expected = 0.0
        for key, cell in self.left.items():
            mean = self.times.expected(cell.identity)
            if mean is None:
                return None
            expected += mean * (1 - self.shares.get(key, 0.0))
        return expected / min(self.jobs, max(len(self.left), 1))

    def _started(self, cell: Cell) -> None:
        self.bar.update(self.task, description=str(cell))

    def _advanced(self, shares: Mapping[str, float]) -> None:
        self.shares = {key: share for key, share in shares.items() if key in self.left}
        self._show()

    def _finished(self, cell: Cell, record: Record) -> None:
        self.left.pop(cell.key, None)
        seconds = float(record.provenance.get("seconds") or 0.0)
        remaining = self.time_left()
        ahead = f", {spoken(remaining)} left" if remaining is not None and self.left else ""
        number = f"[{self.total - len(self.left)}/{self.total}]"
        told = f"{number} {cell}: {_outcome(record)} in {seconds:.0f} s{ahead}"
        self.console.print(printable(told), markup=False, highlight=False, soft_wrap=True)
        self._show()

    def _show(self) -> None:
        remaining = self.time_left()
        done = self.total - len(self.left)
        left = "" if remaining is None else f"{spoken(remaining)} left"
        self.bar.update(self.task, completed=done + sum(self.shares.values()), done=done, left=left)


def _outcome(record: Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    own = [
        metric
        for metric in record.metrics
        if metric["metric"] == "accuracy" and metric["test_iterations"] == record.identity.iterations
    ]
    return f"{own[0]['value']:.2f} {own[0]['unit']}" if own else "ok"
