"""Decides which run starts next, and when to stop starting."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from routebench.engine.results import Record
from routebench.engine.running._times import Times
from routebench.engine.suites import METHOD, Cell

TAIL = 4
"""Last runs of each place that start with the longest, where several run at a time: all places then end together.

By their measured times, 17 published suites would use 88 % of eight devices' time in the mean, and 77 % without this
(`python -m reports.gpu.devices RESULTS`).
"""


class Queue:
    """The runs in the order of execution, until the time budget is used up.

    A run that is not expected to end within the budget is skipped for one that is. Runs of unknown duration start while
    any budget is left. Started runs always finish.

    Args:
        cells: in order.
        times: predicts how long a run takes; learns from finished runs.
        budget: seconds from now; None for no limit.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        times: Times | None = None,
        budget: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.left = list(cells)
        """Runs that were not started."""
        self.times = Times() if times is None else times
        self._clock = clock
        self._until = None if budget is None else clock() + budget

    def take(self, jobs: int = 1) -> Cell | None:
        """The next run; None if none is left, or none fits the remaining budget.

        Args:
            jobs: runs at a time.
        """
        if jobs > 1 and len(self.left) <= TAIL * jobs:
            self.left.sort(key=self._expected, reverse=True)
        for place, cell in enumerate(self.left):
            if self._fits(cell):
                return self.left.pop(place)
        return None

    def within_budget(self, jobs: int) -> list[Cell]:
        """The runs expected to start, `jobs` at a time, by known durations."""
        if self._until is None:
            return list(self.left)
        begun, free = [], [0.0] * jobs
        allowed = self._until - self._clock()
        for cell in self.left:
            place, takes = free.index(min(free)), self._expected(cell)
            if free[place] + takes <= allowed:
                free[place] += takes
                begun.append(cell)
        return begun

    def learn(self, record: Record) -> None:
        """Records how long a finished run took."""
        if record.status == "ok" and (seconds := record.provenance.get("seconds")) is not None:
            self.times.add(record.identity, float(seconds))

    def put_back(self, cells: Sequence[Cell]) -> None:
        """Returns runs that were taken but could not start now."""
        self.left += cells

    def _fits(self, cell: Cell) -> bool:
        if self._until is None:
            return True
        remaining = self._until - self._clock()
        return remaining > 0 and self._expected(cell) <= remaining

    def _expected(self, cell: Cell) -> float:
        """Seconds; 0 where nothing like it has finished."""
        return self.times.expected(cell.identity) or 0.0


def most_informative_first(cells: Iterable[Cell]) -> list[Cell]:
    """Orders runs so that every method is run once before any is run twice: a call that ends early has results of all.

    First come each method and baseline with its default T, seed after seed, because comparisons rest on means over
    seeds; then the other T. Otherwise the order is kept. Trials of settings alternate between all configurations,
    whatever their T.
    """
    known = list(cells)
    headline = _headline_iterations(known)

    def rank(cell: Cell) -> tuple[bool, int, bool]:
        aside = not cell.identity.is_trial and cell.identity.iterations != headline[_series(cell)]
        return aside, cell.identity.seed, cell.identity.role != METHOD

    return sorted(known, key=rank)


def _series(cell: Cell) -> tuple[str, str, str]:
    return cell.label, cell.identity.model, cell.identity.data


def _headline_iterations(cells: Iterable[Cell]) -> dict[tuple[str, str, str], int | None]:
    """The default T of each method, or the nearest planned one."""
    planned: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        planned.setdefault(_series(cell), []).append(cell)
    chosen: dict[tuple[str, str, str], int | None] = {}
    for series, own in planned.items():
        grid = [cell.identity.iterations for cell in own if cell.identity.iterations is not None]
        chosen[series] = min(grid, key=partial(_distance, own[0].default_iterations)) if grid else None
    return chosen


def _distance(wanted: int, steps: int) -> tuple[int, int]:
    return abs(steps - wanted), steps
