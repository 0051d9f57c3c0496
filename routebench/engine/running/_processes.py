"""Executes runs in processes, so that a crash of one does not affect others."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from routebench.atomic import StoreFull
from routebench.engine.isolation import SAID_WHAT, Isolated, Scratch, send, uninterrupted, wait_for
from routebench.engine.results import Store
from routebench.engine.running._cell import run_claimed
from routebench.engine.running._claim import End, Told, TryAgain, end_of, told_of
from routebench.engine.running._config import PATIENCE, RunConfig, Stage, once_a_second, prepare_torch
from routebench.engine.running._crashes import Crash, record_crash
from routebench.engine.running._limits import Monitor
from routebench.engine.suites import Cell
from routebench.errors import UserError, show_calls
from routebench.kernels import compiler
from routebench.registry import VARIABLE

LOST_STARTS = 3  # in a row, before giving up
MOST_SAID = 100  # messages of a run that are read before its limits are looked at again


class Processes:
    """Executes each run in a new process of this machine. It takes 30 ms where processes are forked from a ready one.

    Args:
        store: the results folder.
        config: settings of the runs' execution.
    """

    def __init__(self, store: Store, config: RunConfig):
        self.store, self.config = store, config
        self.running: list[Monitor] = []
        self._lost = 0
        self._folder = Scratch()
        self._handles_stops = hasattr(signal, "SIGTSTP") and threading.current_thread() is threading.main_thread()
        self._stopped_before: Any = signal.signal(signal.SIGTSTP, self._stop) if self._handles_stops else None

    @property
    def room(self) -> int:
        """The number of runs that can be started now."""
        return self.config.jobs - len(self.running)

    def start(self, cell: Cell) -> None:
        """Starts a run in a new process, on the GPU with the fewest runs."""
        config = self.config.on_free_device(monitor.config.device for monitor in self.running)
        output = Path(self._folder.name) / cell.key
        with uninterrupted():
            process = Isolated(
                _work, cell, self.store.path.resolve(), config, output,
                output=output, preload=config.preload, kinds={"stage": Stage},
            )  # fmt: skip
            self.running.append(Monitor(cell, process, config))

    def finished(self) -> Iterator[tuple[Cell, End]]:
        """The runs that ended since the last call, after a short wait."""
        wait_for([monitor.process for monitor in self.running], PATIENCE)
        for monitor in list(self.running):
            end = self._end_of(monitor)
            if end is None:
                continue
            self.running.remove(monitor)
            show_calls(monitor.process.written())
            monitor.close()  # else a process that lives would hold the run's lock
            if isinstance(end, Crash):
                end = record_crash(monitor.cell, end, self.store, monitor.config, monitor.seconds)
            yield monitor.cell, end

    def stages(self) -> Mapping[str, Stage]:
        """The progress of each active run, by key."""
        return {monitor.cell.key: monitor.stage for monitor in self.running}

    def close(self) -> None:
        """Ends all processes."""
        if self._handles_stops:
            signal.signal(signal.SIGTSTP, self._stopped_before)
        for monitor in self.running:
            monitor.close()
        self.running = []
        self._folder.cleanup()

    def _end_of(self, monitor: Monitor) -> End | Crash | None:
        """The end of a run; None while it is active."""
        for _ in range(MOST_SAID):
            match monitor.process.said():
                case None:
                    break
                case "step", _:
                    monitor.has_started, self._lost = True, 0
                case "stage", stage:
                    monitor.stage = stage
                case "answer", told:
                    return end_of(told, monitor.cell) or Crash("failed", f"it {SAID_WHAT}")
                case "user error", told:
                    raise UserError(told)
                case "ended", told:
                    return Crash("failed", f"it {told}", monitor.process.written())
                case "died", code:
                    return monitor.died(code) if monitor.has_started else self._lose()
        return monitor.exceeded() or self._crowded(monitor)

    def _crowded(self, monitor: Monitor) -> Crash | None:
        """Stops the largest run if all together take too much of the machine."""
        is_largest = monitor.memory == max(one.memory for one in self.running)
        return monitor.crowds_out(sum(one.memory for one in self.running)) if is_largest else None

    def _lose(self) -> TryAgain:
        """Handles a process that died before it started the run."""
        self._lost += 1
        if self._lost == LOST_STARTS:
            raise RuntimeError("worker processes die before they begin; `python -m routebench doctor` may help")
        return TryAgain()

    def _stop(self, *_: object) -> None:
        """Handles Ctrl-Z: runs' processes have their own groups, and must be suspended with this one."""
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for monitor in self.running:
                monitor.process.signal(number)
            if number == signal.SIGSTOP:
                os.kill(os.getpid(), number)  # goes on from here


def _work(cell: Cell, path: Path, config: RunConfig, output: Path) -> Told:
    """Executes one run in a new process, with its output in a file."""
    os.environ.pop(VARIABLE, None)  # a run says which plug-ins it needs
    try:
        with _printing_to(output):
            prepare_torch(config)
            return told_of(run_claimed(cell, Store(path), config, once_a_second(lambda stage: send("stage", stage))))
    except StoreFull as full:
        return "full", str(full)


@contextlib.contextmanager
def _printing_to(file: Path) -> Iterator[None]:
    """Redirects all output, C++'s too, to a file. The user sees only that a kernel is being compiled."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    user = logging.StreamHandler(os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace"))
    compiler.TOLD.addHandler(user)
    output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for number in (1, 2):
            os.dup2(output, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(output)
        compiler.TOLD.removeHandler(user)
        user.stream.close()
