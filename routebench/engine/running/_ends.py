"""How a cell ends that does not end by itself, in words."""

import signal
from dataclasses import dataclass, replace

from routebench.engine.isolation import STACK, signal_name, where
from routebench.engine.results import Record, Store
from routebench.engine.running._cell import make_record
from routebench.engine.running._config import Setting
from routebench.engine.suites import Cell
from routebench.protocols.base import Measurement

LETTING_GO = 2.0  # seconds that the system may take until a process that was killed holds no lock
KEPT_OUTPUT = 2000  # characters of what a cell printed that stand in its record


@dataclass(frozen=True)
class End:
    """Why a worker process is gone.

    Args:
        status: `failed`, `timeout` or `oom`.
        reason: one line.
        output: the last that it printed.
    """

    status: str
    reason: str
    output: str = ""


def death(code: int | None, memory: int, output: str) -> End:
    """Of a process that nobody stopped.

    Args:
        code: its exit code; a signal's number, negated.
        memory: bytes that it was last seen with.
        output: the last that it printed.
    """
    at = where(output)
    if code is not None and code < 0:
        told = f"{signal_name(-code)}{at}"
        if -code == signal.SIGKILL:
            told += f"; it was last seen with {gigabytes(memory)}, and the system kills processes when memory runs out"
        return End("failed", f"the worker process died: {told}", output)
    return End("failed", f"the worker process ended itself with exit code {code}, as os._exit does{at}", output)


def excerpt(output: str) -> str:
    """The last that was printed; of a long stack at its end, the innermost frames, and what was printed before it."""
    if len(output) <= KEPT_OUTPUT:
        return output
    stack = output.rfind(STACK)
    if stack < 0 or len(output) - stack < KEPT_OUTPUT // 2:
        return output[-KEPT_OUTPUT:]
    first = max(0, stack - KEPT_OUTPUT // 2)
    return output[first : first + KEPT_OUTPUT] + "...\n"


def gigabytes(size: int) -> str:
    """`1.25 GB`, of 10^9 bytes."""
    return f"{size / 1e9:.2f} GB"


def record_end(cell: Cell, end: End, store: Store, setting: Setting, seconds: float) -> Record | None:
    """Writes and returns the record of a cell whose process is gone; None if another process runs the cell now."""
    lock = store.try_lock("cell", cell.key, patience=LETTING_GO)
    if lock is None:
        return None
    try:
        known = store.record(cell.key)
        if known is not None and known.status == "ok":
            return known
        origin = {**setting.origin, "seconds": seconds}
        record = make_record(cell, end.status, end.reason, Measurement([]), origin)
        record = replace(record, output=excerpt(end.output))
        store.write_record(record, {})
        return record
    finally:
        lock.release()
