"""Runs cells in processes, so that whatever one of them does, its neighbours go on."""

import contextlib
import faulthandler
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessPool

from routebench import terminal
from routebench.atomic import told_when_full
from routebench.engine.isolation import begin_group, clean_processes
from routebench.engine.results import Record, Store
from routebench.engine.running._config import PATIENCE, Listener, Setting, prepare_torch
from routebench.engine.running._ends import End, record_end
from routebench.engine.running._queue import Queue
from routebench.engine.running._watch import Watch
from routebench.engine.running._work import Note, run_unless_held, shares
from routebench.engine.suites import Cell
from routebench.kernels import compiler
from routebench.registry import VARIABLE

LOST_POOLS = 3  # in a row, without a finished cell between them, before giving up


def run_in_processes(
    queue: Queue, store: Store, setting: Setting, listener: Listener, *, await_held: bool = True
) -> Iterator[tuple[Cell, Record]]:
    """Takes cells from the queue, `setting.jobs` at a time, and gives them with their records as they finish.

    Cells that another process runs are waited for, or left out if `await_held` is false.
    """
    held: list[Cell] = []
    lost = 0
    crew = Crew(store, setting)
    try:
        while True:
            while len(crew.running) < setting.jobs and (cell := queue.take()) is not None:
                crew.start(cell)
                listener.started(cell)
            if not crew.running:
                if not held or not await_held:
                    return
                time.sleep(PATIENCE)
                queue.put_back(held)
                held = []
                continue
            for cell, record in crew.finished():
                if record is None:
                    held.append(cell)
                else:
                    lost = 0
                    yield cell, record
            listener.advanced(shares(store, [watch.cell for watch in crew.running.values()]))
            if crew.is_lost:
                lost += 1
                if lost == LOST_POOLS:
                    raise RuntimeError("worker processes die before they begin; `python -m routebench doctor` may help")
                queue.put_back(crew.recover())
    finally:
        crew.dismiss()


class Crew:
    """Worker processes, and the cells that they run. A pool of the library Pebble, which replaces a process that dies.

    Args:
        store: the results folder.
        setting: how cells are run.
    """

    def __init__(self, store: Store, setting: Setting):
        self.store, self.setting = store, setting
        self.running: dict[Future[Record | None], Watch] = {}
        self.is_lost = False
        self._stopped_before: Any = None
        self._pool = self._new_pool()

    def start(self, cell: Cell) -> None:
        """Has a process run a cell."""
        Note(self.store, cell.key).remove()  # what a process has left that was killed
        setting = self.setting.on_free_device(watch.setting.device for watch in self.running.values())
        future = self._pool.schedule(work, args=(cell, self.store.path.resolve(), setting))
        self.running[future] = Watch(cell, self.store, setting)

    def finished(self) -> Iterator[tuple[Cell, Record | None]]:
        """Cells that have ended since, with their records; None for a cell that another process runs."""
        done, _ = futures.wait(self.running, timeout=PATIENCE, return_when=FIRST_COMPLETED)
        for future, watch in self.running.items():
            if future not in done and watch.ended is None and watch.look() is not None:
                future.cancel()  # ends the process, and only that
        for future in done:
            watch = self.running[future]
            try:
                record = self._record(future, watch)
            except BrokenProcessPool:
                self.is_lost = True
                continue
            watch.clear()
            del self.running[future]
            yield watch.cell, record

    def recover(self) -> list[Cell]:
        """Starts new processes in place of a pool that broke, and gives the cells that it was to run."""
        cells = [watch.cell for watch in self.running.values()]
        self.dismiss()
        self._pool, self.is_lost = self._new_pool(), False
        return cells

    def dismiss(self) -> None:
        """Ends all processes."""
        if self._stopped_before is not None:
            signal.signal(signal.SIGTSTP, self._stopped_before)
        self._pool.stop()  # type: ignore[no-untyped-call]  # of the library
        self._pool.join()
        for watch in self.running.values():
            watch.clear()
        self.running = {}

    def _stop(self, *_: object) -> None:
        """For Ctrl-Z: the processes of cells are in groups of their own, and stop with this one all the same."""
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for watch in self.running.values():
                watch.signal(number)
            if number == signal.SIGSTOP:
                os.kill(os.getpid(), number)  # goes on from here

    def _record(self, future: Future[Record | None], watch: Watch) -> Record | None:
        try:
            return future.result()
        except ProcessExpired as error:
            watch.process = error.pid
            end = watch.ended or watch.died(error.exitcode)
        except CancelledError:
            end = watch.ended or watch.died(None)
        except KeyboardInterrupt:  # the cell's own: the process does not hear the user's
            end = End("failed", "it raised KeyboardInterrupt", watch.output())
            return record_end(watch.cell, end, self.store, self.setting, watch.seconds)
        watch.end_group()  # the process itself has ended: one that lives may hold the pool's lock
        return record_end(watch.cell, end, self.store, self.setting, watch.seconds)

    def _new_pool(self) -> ProcessPool:
        setting = self.setting
        if hasattr(signal, "SIGTSTP") and threading.current_thread() is threading.main_thread():
            self._stopped_before = signal.signal(signal.SIGTSTP, self._stop)
        return ProcessPool(
            max_workers=setting.jobs,
            max_tasks=1,  # every cell finds a clean process: it takes 30 ms where processes are forked from a ready one
            initializer=_start_worker,
            initargs=(setting,),
            context=clean_processes(setting.preload),
        )


def work(cell: Cell, path: Path, setting: Setting) -> Record | None:
    """What a worker process does: one cell, its output in a file. None if another process runs the cell now."""
    store = Store(path)
    note = Note(store, cell.key)
    with _printing_to(note.output):
        return run_unless_held(cell, store, setting, note.tell)


def _start_worker(setting: Setting) -> None:
    """Prepares a process. Pebble has it ignore interrupts: the main process decides what one means."""
    begin_group()
    terminal.prepare()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends at once, in the midst of C++ too
    faulthandler.enable(all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(OSError):  # Linux: if memory runs out, a worker is killed and not the main process
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.environ.pop(VARIABLE, None)  # a cell says which plug-ins it needs
    prepare_torch(setting)


def _end_with_parent() -> None:
    """Ends this process with the main one, even if that was killed, so that no orphan holds locks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _printing_to(file: Path) -> Iterator[None]:
    """Whatever is printed meanwhile, by C++ too, goes to a file; that a kernel is being compiled, to the user."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    user = logging.StreamHandler(os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace"))
    compiler.TOLD.addHandler(user)
    with told_when_full(file.parent):
        output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o644)
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
