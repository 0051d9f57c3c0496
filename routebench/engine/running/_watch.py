"""Watches a cell that runs in another process: time, memory, and how much it prints."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

import psutil

from routebench.engine.isolation import ask_where, signal_group, where
from routebench.engine.results import Store
from routebench.engine.running._config import Setting
from routebench.engine.running._ends import End, death, gigabytes
from routebench.engine.running._work import Note, tail
from routebench.engine.suites import Cell

MOST_OUTPUT = 1 << 20  # bytes that a cell may have printed before the earlier part is dropped
READ_OUTPUT = 40_000  # characters of it that are read
LONGEST_GAP = 5.0  # seconds between two looks, of which there are ten a second; a process that was stopped has longer
ON_ITS_WAY = 2.0  # seconds that a result may take from a process that has ended


@dataclass
class Watch:
    """One running cell.

    Args:
        cell: that runs.
        store: where its process tells of itself.
        setting: with the limits.
    """

    cell: Cell
    store: Store
    setting: Setting
    seconds: float = 0.0
    """That the process has had for the cell; not those for which it, or this process, was stopped."""
    process: int | None = None
    """Its number in the system, once it is known."""
    memory: int = 0
    ended: End | None = None
    _looked: float | None = None
    _gone_since: float | None = None
    _children: dict[int, psutil.Process] = field(default_factory=dict)

    @property
    def note(self) -> Note:
        """What the process tells of itself."""
        return Note(self.store, self.cell.key)

    def look(self) -> End | None:
        """Why the process has to be stopped now; None if it may go on."""
        told = self.note.read()
        if told is None or not self._is_own(told.process):
            return None
        self.process = told.process
        self._count(told.process)
        with contextlib.suppress(OSError):
            if self.note.output.stat().st_size > MOST_OUTPUT:
                os.truncate(self.note.output, 0)
        self.memory = self._memory(told.process) or self.memory  # a process that has ended has none
        limit, allowed = self.setting.time_limit, self.setting.memory_limit
        if self._is_gone(told.process):
            self.ended = self.died(0)  # the pool takes an exit code of 0 for a process that has done its work
        elif allowed is not None and self.memory > allowed:
            at = self._last_words(told.process)
            told_memory = f"took {gigabytes(self.memory)} of the {gigabytes(allowed)} that --memory-limit allows"
            self.ended = End("oom", f"{told_memory} and was stopped{at}", self.output())
        elif limit is not None and self.seconds > limit:
            at = self._last_words(told.process)
            self.ended = End("timeout", f"ran past {limit:g} s and was stopped{at}", self.output())
        return self.ended

    def died(self, code: int | None) -> End:
        """The end of a process that nobody stopped."""
        return death(code, self.memory, self.output())

    def output(self) -> str:
        """The last that the cell printed, without faulthandler's list of all that was imported."""
        lines = tail(self.note.output, READ_OUTPUT).splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("Extension modules:"))

    def end_group(self) -> None:
        """Ends what a process that is gone has left behind, also what was never seen: it may hold the cell's lock."""
        self.signal(signal.SIGKILL)
        self.clear()

    def signal(self, number: int) -> None:
        """Sends a signal to the process and to what it has started."""
        told = self.note.read()
        if self.process is None and told is not None and self._is_own(told.process):
            self.process = told.process
        signal_group(self.process, number)

    def clear(self) -> None:
        """Ends what the process has started and left behind, and removes its files."""
        for child in self._children.values():
            with contextlib.suppress(psutil.Error):
                child.kill()  # psutil knows a process that got the number of another
        self.note.remove()

    def _count(self, number: int) -> None:
        """Adds the time since the last look, unless somebody has stopped the process or this one meanwhile."""
        now = time.monotonic()
        gap = now - (now if self._looked is None else self._looked)
        self._looked = now
        if gap < LONGEST_GAP and not self._is_stopped(number):
            self.seconds += gap

    @staticmethod
    def _is_stopped(number: int) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(number).status() == psutil.STATUS_STOPPED
        return False

    def _is_own(self, number: int) -> bool:
        """Whether it is this process's, and not one that another suite runs the same cell in."""
        if number == self.process or not psutil.pid_exists(number):
            return True
        with contextlib.suppress(psutil.Error):
            return os.getpid() in {one.pid for one in psutil.Process(number).parents()}
        return True

    def _is_gone(self, number: int) -> bool:
        """Whether the process has ended, and not just now: what it found may still be on its way."""
        with contextlib.suppress(psutil.Error):
            if psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
                self._gone_since = None
                return False
        self._gone_since = self._gone_since or time.monotonic()
        return time.monotonic() - self._gone_since > ON_ITS_WAY

    def _memory(self, number: int) -> int:
        """Bytes of resident memory of a process and of all that it has started."""
        total = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(number)
            self._children |= {child.pid: child for child in process.children(recursive=True)}
            for one in (process, *self._children.values()):
                with contextlib.suppress(psutil.Error):
                    total += one.memory_info().rss
        return total

    def _last_words(self, number: int) -> str:
        """Has the process write where it is, and reads it."""
        ask_where(number)
        return where(self.output())
