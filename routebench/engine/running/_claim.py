"""One process per cell: the process that runs a cell holds its lock. Possible ends of a started cell."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from routebench.engine.results import RECORD, Record, Store, StoreFull, parsed
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
    """The cell's process or machine was lost, for a reason outside the cell."""


End = Done | HeldElsewhere | TryAgain
Told = tuple[Literal["done", "held", "full"], Any]
"""How a process says that its cell ended: `done` with the record as a table, `full` with the reason."""


def told_of(end: End) -> Told:
    """The end of a cell, as its process says it."""
    return ("done", end.record.as_dict()) if isinstance(end, Done) else ("held", None)


def end_of(told: Told, cell: Cell) -> End | None:
    """The end of a cell whose process says so; None if that is not the cell's record.

    Raises:
        StoreFull: the process met a full disk.
    """
    word, content = told
    if word == "full":
        raise StoreFull(str(content))
    if word == "held":
        return HeldElsewhere()
    try:
        known = parsed(json.dumps(content).encode())
    except (ValueError, RecursionError):
        return None
    return Done(Record.read(known)) if RECORD(known) and known["cell"] == cell.key else None


@contextlib.contextmanager
def claimed(cell: Cell, store: Store, patience: float = 0.0) -> Iterator[Done | HeldElsewhere | None]:
    """Locks a cell, then looks up its result again.

    Args:
        cell: to be run, or to be recorded.
        store: with the lock and the records.
        patience: seconds to wait for the lock.

    Yields:
        None with the lock held if the caller shall run the cell, else its holder or its result.
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
