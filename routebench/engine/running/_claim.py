"""One process per run: the process that executes a run holds its lock. Possible ends of a started run."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from routebench.engine.results import RECORD, Record, Store, StoreFull, parsed
from routebench.engine.suites import Cell


@dataclass(frozen=True)
class Done:
    """The run has a record, of this call or of another process."""

    record: Record


@dataclass(frozen=True)
class HeldElsewhere:
    """Another process executes the run now."""


@dataclass(frozen=True)
class TryAgain:
    """The run's process or machine was lost, for a reason outside the run."""


End = Done | HeldElsewhere | TryAgain
Told = tuple[Literal["done", "held", "full"], Any]
"""The message by which a process says that its run ended: `done` with the record as a table, `full` with the reason."""


def told_of(end: End) -> Told:
    """The end of a run, as its process says it."""
    return ("done", end.record.as_dict()) if isinstance(end, Done) else ("held", None)


def end_of(told: Told, cell: Cell) -> End | None:
    """The end of a run whose process says so; None if that is not the run's record.

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
    """Locks a run, then looks up its result again.

    Args:
        cell: the run to execute or to record.
        store: the folder with the lock and the records.
        patience: seconds to wait for the lock.

    Yields:
        None with the lock held if the caller shall execute the run, else its holder or its result.
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
