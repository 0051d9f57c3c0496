"""One process per cell: whoever runs it holds its lock. What can come of a cell that was started."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from routebench.engine.results import Record, Store
from routebench.engine.suites import Cell


@dataclass(frozen=True)
class Done:
    """The cell has a record, of this run or of another process."""

    record: Record


@dataclass(frozen=True)
class HeldElsewhere:
    """Another process runs the cell now."""


@dataclass(frozen=True)
class TryAgain:
    """The cell's process or machine was lost, and not by the cell's doing."""


End = Done | HeldElsewhere | TryAgain


@contextlib.contextmanager
def claimed(cell: Cell, store: Store, patience: float = 0.0) -> Iterator[Done | HeldElsewhere | None]:
    """Locks a cell, then looks again what is there.

    Args:
        cell: to be run, or to be recorded.
        store: with the lock and the records.
        patience: seconds to wait for the lock.

    Yields:
        None, with the lock held: the cell is the caller's to run. Otherwise who has it, or its result.
    """
    lock = store.try_lock("cell", cell.key, patience)
    if lock is None:
        yield HeldElsewhere()
        return
    try:
        known = store.record(cell.key)
        yield Done(known) if known is not None and known.status == "ok" else None
    finally:
        lock.release()
