"""Watches a run in another process: its time, memory and output."""

import contextlib
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from routebench.engine.isolation import Isolated
from routebench.engine.running._config import RunConfig, Stage
from routebench.engine.running._crashes import Crash, death, gigabytes
from routebench.engine.suites import Cell

SHARE = 0.9
"""Share of the machine's memory that all runs together may take where no limit is given."""
CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files in which Linux says how much memory a container may take."""
MOST_OUTPUT = 1 << 20  # bytes that a run may have printed before the earlier part is dropped
LONGEST_GAP = 5.0  # seconds between two looks, of which there are ten a second; a process that was stopped has longer


@cache
def machine_memory() -> int:
    """Bytes of memory that this machine has, or the container that this process runs in."""
    known = [psutil.virtual_memory().total]
    for file in CONTAINER:
        with contextlib.suppress(OSError, ValueError):  # `max` is no number
            known.append(int(file.read_text(encoding="ascii")))
    return min(known)


@dataclass
class Monitor:
    """One active run.

    Args:
        cell: the run.
        process: the process that executes it.
        config: settings with the limits.
    """

    cell: Cell
    process: Isolated
    config: RunConfig
    has_started: bool = False
    stage: Stage = field(default_factory=Stage)
    """Stage of the run."""
    seconds: float = 0.0
    """Seconds that the process had for the run, without those for which it, or this process, was suspended."""
    memory: int = 0
    """Bytes of the process and its children when last seen."""
    _looked: float | None = None
    _children: dict[int, psutil.Process] = field(default_factory=dict)

    def exceeded(self) -> Crash | None:
        """The limit that the run exceeded; None if it may go on."""
        if not self.has_started:
            return None
        self._count()
        self.process.shorten_output(MOST_OUTPUT)
        self.memory = self._memory() or self.memory  # a process that has ended has none
        limit, allowed = self.config.time_limit, self.config.memory_limit
        if allowed is not None and self.memory > allowed:
            told = f"took {gigabytes(self.memory)} of the {gigabytes(allowed)} that --memory-limit allows"
            return self._stopped("oom", told)
        if limit is not None and self.seconds > limit:
            return self._stopped("timeout", f"ran past {limit:g} s")
        return None

    def crowds_out(self, together: int) -> Crash | None:
        """The end of the largest run where all of them take more of the machine than `SHARE`; None if they do not.

        Args:
            together: bytes that all active runs take.
        """
        whole = machine_memory()
        if self.config.memory_limit is not None or together <= SHARE * whole:
            return None
        told = (
            f"took {gigabytes(self.memory)}, the most of runs that took {gigabytes(together)} together of the "
            f"machine's {gigabytes(whole)}, which is more than {SHARE:.0%} (--memory-limit sets a limit for each)"
        )
        return self._stopped("oom", told)

    def died(self, code: int | None) -> Crash:
        """The crash of a process that routebench did not stop, by its exit code."""
        return death(code, self.memory, self.process.written())

    def close(self) -> None:
        """Ends the process and its children, including those that left its group."""
        self.process.close()
        for child in self._children.values():
            with contextlib.suppress(psutil.Error):
                child.kill()  # psutil knows a process that got the number of another
        with contextlib.suppress(OSError):  # it is gone, or the process put something else there
            self.process.output.unlink()

    def _stopped(self, status: str, told: str) -> Crash:
        at = self.process.where()
        return Crash(status, f"{told} and was stopped{at}", self.process.written())

    def _count(self) -> None:
        """Adds the time since the last look, unless the process or this one was suspended."""
        now = time.monotonic()
        gap = now - (now if self._looked is None else self._looked)
        self._looked = now
        if gap < LONGEST_GAP and not self._is_stopped():
            self.seconds += gap

    def _is_stopped(self) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.number).status() == psutil.STATUS_STOPPED
        return False

    def _memory(self) -> int:
        """Bytes of resident memory of the process and its children."""
        total = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.process.number)
            self._children |= {child.pid: child for child in process.children(recursive=True)}
            for one in (process, *self._children.values()):
                with contextlib.suppress(psutil.Error):
                    total += one.memory_info().rss
        return total
