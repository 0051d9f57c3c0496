"""Status of every planned run: cached, failed or missing; and the listing of a dry run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from routebench.engine.results import Store
from routebench.engine.running._queue import Queue, most_informative_first
from routebench.engine.running._times import Times
from routebench.engine.suites import Cell, Plan
from routebench.errors import UserError
from routebench.quantities import plural, short, spoken
from routebench.registry import protocols


@dataclass(frozen=True)
class PlanStatus:
    """The status of a plan's runs in a results folder.

    Args:
        cached: runs that have a result.
        failed: runs that failed last time; they are executed again.
        missing: runs without a record.
        times: durations of finished runs.
        reasons: reasons why failed runs have no result, by key.
    """

    cached: list[Cell] = field(default_factory=list)
    failed: list[Cell] = field(default_factory=list)
    missing: list[Cell] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def to_do(self) -> list[Cell]:
        """The runs to execute: missing before failed ones, and among each the most informative first."""
        return [*most_informative_first(self.missing), *most_informative_first(self.failed)]


def status_of(plan: Plan, store: Store, only: Sequence[str] = ()) -> PlanStatus:
    """Looks up every run of a plan.

    Args:
        plan: the plan that is wanted.
        store: the results folder.
        only: keys, or prefixes of keys, of the runs to look at; empty for all.

    Raises:
        UserError: the plan has no run with such a key, or the files of one may not be read.
    """
    found = PlanStatus()
    for key in only:
        if not any(cell.key.startswith(key) for cell in plan.cells):
            raise UserError(f"--run {key}: this plan has no such run; --dry-run lists those that it has")
    for cell in plan.cells:
        if only and not cell.key.startswith(tuple(only)):
            continue
        record = store.record(cell.key)
        if record is None:
            store.expect_permitted(cell.key)
            found.missing.append(cell)
        elif record.status == "ok":
            found.cached.append(cell)
            if seconds := record.provenance.get("seconds"):
                found.times.add(cell.identity, float(seconds))
        else:
            found.failed.append(cell)
            found.reasons[cell.key] = f"{record.status}: {record.reason}"
    return found


def listing(plan: Plan, known: PlanStatus, queue: Queue, jobs: int) -> Iterator[str]:
    """A line per run in the order of execution, with the expected seconds of each.

    Args:
        plan: the plan with the runs.
        known: their status.
        queue: the runs to do.
        jobs: runs at a time.
    """
    for cell in known.cached:
        yield f" cached  {cell.key}          {cell}"
    to_do = list(queue.left)
    for cell in to_do:
        seconds, reason = queue.times.expected(cell.identity), known.reasons.get(cell.key)
        takes = f"{'?' if seconds is None else short(seconds):>7}"
        state, why = ("failed", f"  ({reason})") if reason else (" to do", "")
        yield f" {state}  {cell.key} {takes}  {cell}{why}"
    counts = f"{len(known.cached)} cached, {len(known.failed)} failed, {len(known.missing)} to do"
    how = ", estimated from training steps; tests come on top" if to_do and queue.times.is_foretold else ""
    ahead = time_ahead(queue, jobs, tried=True)
    yield f"{plural(len(plan.cells), 'run')}: {counts}{ahead}{how}"
    begun = queue.within_budget(jobs)
    if len(begun) < len(to_do):
        yield f"the budget is expected to allow {len(begun)} of them, the first of the list that fit"


def plan_as_plain(plan: Plan, known: PlanStatus, queue: Queue, jobs: int) -> dict[str, Any]:
    """The content of `listing`, for a program: seconds are None where nobody knows.

    Args:
        plan: the plan with the runs.
        known: their status.
        queue: the runs to do.
        jobs: runs at a time.
    """
    states = [("cached", known.cached), ("failed", known.failed), ("to do", known.missing)]
    state = {cell.key: name for name, cells in states for cell in cells}
    runs = [
        {
            "key": cell.key,
            "state": state[cell.key],
            "reason": known.reasons.get(cell.key, ""),
            "seconds": None if state[cell.key] == "cached" else queue.times.expected(cell.identity),
            "method": cell.label,
            **{name: getattr(cell.identity, name) for name in ("iterations", "model", "data", "seed")},
        }
        for cell in (*known.cached, *queue.left)
    ]
    total = queue.times.total([cell.identity for cell in queue.left], jobs) if queue.left else 0.0
    return {"suite": plan.suite.name, "preset": plan.preset.name, "jobs": jobs, "seconds": total, "runs": runs}


def time_ahead(queue: Queue, jobs: int, *, tried: bool = False) -> str:
    """`; about 3 min, 2 at a time`; empty if nothing is to be done.

    Args:
        queue: the runs to do.
        jobs: runs at a time.
        tried: whether a dry run has tried to foretell what is unknown; else the text names `--dry-run` where it can.
    """
    if not queue.left:
        return ""
    total, together = queue.times.total([cell.identity for cell in queue.left], jobs), f"{jobs} at a time"
    if total is not None:
        return f"; {spoken(total)}, {together}"
    can = not tried and any(map(is_foretold, queue.left))
    return f"; {together}, {'--dry-run estimates how long' if can else 'duration unknown'}"


def is_foretold(cell: Cell) -> bool:
    """Tells whether a dry run measures a training step of it: no code of others runs there; some runs train nothing."""
    return not cell.plugins and not cell.broken and getattr(protocols[cell.identity.protocol], "trains", True)
