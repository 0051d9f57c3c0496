"""What the user sees while cells run: a bar with the time left on a terminal, one line per finished cell elsewhere."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from routebench.engine.execute import Listener
from routebench.engine.plan import Cell


class Display:
    """Follows a run.

    Args:
        console: where it is shown.
        cells: that are to be run.
        earlier: seconds that finished cells of the same kind took, by `kind`.
        jobs: that run at a time.
    """

    def __init__(self, console: Console, cells: Sequence[Cell], earlier: Mapping[str, list[float]], jobs: int):
        self.console, self.jobs = console, jobs
        self.left = {cell.key: cell for cell in cells}
        self.total = len(cells)
        self.seconds = {name: list(values) for name, values in earlier.items()}
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
        """Seconds that the remaining cells will take, by what their kind, or any cell, has taken; None if unknown."""
        every = [value for values in self.seconds.values() for value in values]
        if not every:
            running = sum(self.shares.values())
            return None if running < 0.05 else (time.monotonic() - self.began) * (len(self.left) - running) / running
        overall = sum(every) / len(every)
        expected = 0.0
        for key, cell in self.left.items():
            known = self.seconds.get(kind(cell.identity), [])
            mean = sum(known) / len(known) if known else overall
            expected += mean * (1 - self.shares.get(key, 0.0))
        return expected / min(self.jobs, max(len(self.left), 1))

    def _started(self, cell: Cell) -> None:
        self.bar.update(self.task, description=str(cell))

    def _advanced(self, shares: Mapping[str, float]) -> None:
        self.shares = {key: share for key, share in shares.items() if key in self.left}
        self._show()

    def _finished(self, cell: Cell, record: Mapping[str, Any]) -> None:
        self.left.pop(cell.key, None)
        seconds = float(record["provenance"].get("seconds") or 0.0)
        self.seconds.setdefault(kind(cell.identity), []).append(seconds)
        remaining = self.time_left()
        ahead = f", {spoken(remaining)} left" if remaining is not None and self.left else ""
        number = f"[{self.total - len(self.left)}/{self.total}]"
        told = f"{number} {cell}: {_outcome(record)} in {seconds:.0f} s{ahead}"
        self.console.print(told, markup=False, highlight=False, soft_wrap=True)
        self._show()

    def _show(self) -> None:
        remaining = self.time_left()
        done = self.total - len(self.left)
        left = "" if remaining is None else f"{spoken(remaining)} left"
        self.bar.update(self.task, completed=done + sum(self.shares.values()), done=done, left=left)


def kind(identity: Mapping[str, Any]) -> str:
    """Cells of one kind take about the same time."""
    return (
        f"{identity['method']} {identity['iterations']} {identity['model']} {identity['data']} {identity['training']}"
    )


def spoken(seconds: float) -> str:
    """`about 40 s`, `about 3 min`, `about 2 h 10 min`."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes // 60} h {minutes % 60} min"


def _outcome(record: Mapping[str, Any]) -> str:
    if record["status"] != "ok":
        return f"{record['status']}: {record['reason']}"
    own = [
        metric
        for metric in record["metrics"]
        if metric["metric"] == "accuracy" and metric["test_iterations"] == record["identity"]["iterations"]
    ]
    return f"{own[0]['value']:.2f} {own[0]['unit']}" if own else "ok"
