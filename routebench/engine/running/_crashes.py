"""Turns a crash, timeout or out-of-memory kill into a record."""

import signal
from dataclasses import dataclass, replace

from routebench.engine.isolation import STACK, signal_name, where
from routebench.engine.results import Store
from routebench.engine.running._cell import make_record
from routebench.engine.running._claim import Done, HeldElsewhere, claimed
from routebench.engine.running._config import RunConfig
from routebench.engine.suites import Cell
from routebench.protocols.base import Measurement

LETTING_GO = 2.0  # seconds that the system may take until a process that was killed holds no lock
KEPT_OUTPUT = 2000  # characters of what a run printed that stand in its record


@dataclass(frozen=True)
class Crash:
    """The reason why a process ended without a record.

    Args:
        status: `failed`, `timeout` or `oom`.
        reason: one line.
        output: the end of what it printed.
    """

    status: str
    reason: str
    output: str = ""


def death(code: int | None, memory: int, output: str) -> Crash:
    """The crash of a process that routebench did not stop.

    Args:
        code: its exit code; a signal's number, negated.
        memory: its memory when last seen, in bytes.
        output: the end of what it printed.
    """
    at = where(output)
    if code is not None and code < 0:
        told = f"{signal_name(-code)}{at}"
        if -code == signal.SIGKILL:
            told += f"; it was last seen with {gigabytes(memory)}, and the system kills processes when memory runs out"
        if code == -getattr(signal, "SIGBUS", 0):
            told += "; a file that it read, such as FILE of features:FILE, may have got shorter: write it again"
        return Crash("failed", f"the worker process died: {told}", output)
    return Crash("failed", f"the worker process ended itself with exit code {code}, as os._exit does{at}", output)


def excerpt(output: str) -> str:
    """The end of an output; of a long stack, the innermost frames and the text before it."""
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


def record_crash(
    cell: Cell, crash: Crash, store: Store, config: RunConfig, seconds: float = 0.0
) -> Done | HeldElsewhere:
    """Writes the record of a run whose process is gone, unless another process executes it or has its result."""
    with claimed(cell, store, patience=LETTING_GO) as found:
        if found is not None:
            return found
        origin = {**config.origin, "seconds": seconds}
        made = make_record(cell, crash.status, crash.reason, Measurement([]), origin)
        record = replace(made, output=excerpt(crash.output))
        store.write_record(record, {})
        return Done(record)
