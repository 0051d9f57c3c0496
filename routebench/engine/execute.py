"""Runs the cells of a plan that have no result yet, in this process or in several."""

import contextlib
import ctypes
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from loky import ProcessPoolExecutor
from loky.process_executor import BrokenProcessPool

from routebench import kernels
from routebench.engine.cell import make_record, run_cell
from routebench.engine.plan import Cell
from routebench.engine.store import Store, write_text
from routebench.protocols.base import Measurement
from routebench.registry import load_plugin

Record = dict[str, Any]
PATIENCE = 0.3
"""Seconds between looks at what other processes do."""


@dataclass(frozen=True)
class Setting:
    """How cells are run.

    Args:
        device: `cpu` or `cuda`.
        backend: of routing, one of `routebench.kernels.BACKENDS`.
        jobs: processes at a time; 1 runs cells in this one.
        threads: of torch, per process.
        plugins: files that every process imports.
        origin: provenance that stands in every record.
    """

    device: str
    jobs: int
    threads: int
    plugins: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "auto"


@dataclass
class Listener:
    """What is told of a run; the command line makes a progress display of it.

    Args:
        started, finished: called with a cell, and with its record.
        advanced: called with the shares (0 to 1) that running cells have done, by key.
    """

    started: Callable[[Cell], None] = lambda _: None
    advanced: Callable[[Mapping[str, float]], None] = lambda _: None
    finished: Callable[[Cell, Record], None] = lambda *_: None


def execute(cells: Sequence[Cell], store: Store, setting: Setting, listener: Listener) -> list[Record]:
    """Runs cells and returns their records, in the order in which they finished.

    A cell that another process is running is waited for, and not run again.
    """
    runner = _run_here if setting.jobs == 1 else _run_in_processes
    return list(runner(list(cells), store, setting, listener))


def prepare_torch(setting: Setting) -> None:
    """Thread count, back end and determinism, as the records say."""
    torch.set_num_threads(setting.threads)
    kernels.use(setting.backend)
    keep_freed_memory()
    if setting.device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is not deterministic
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False


def keep_freed_memory() -> None:
    """Has glibc keep blocks of up to 32 MB that are freed, where it would give them back to the system.

    A training step frees and takes the same tensors again and again; without this, page faults took 17 to 27 % of a
    step of `capsnet-small` where it was measured, on one core. Elsewhere than with glibc, nothing is done.
    """
    trim_threshold, mmap_threshold = -1, -3  # names of <malloc.h>
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 1 << 25)  # the most that glibc takes
        libc.mallopt(trim_threshold, 1 << 29)


def _run_here(cells: list[Cell], store: Store, setting: Setting, listener: Listener) -> Iterator[Record]:
    prepare_torch(setting)
    waiting = cells
    while waiting:
        held = []
        for cell in waiting:
            listener.started(cell)
            note = _ShareNote(store, cell, listener)
            record = _run_unless_held(cell, store, setting, note)
            if record is None:
                held.append(cell)
            else:
                listener.finished(cell, record)
                yield record
        waiting = held
        if held:
            time.sleep(PATIENCE)


def _run_in_processes(cells: list[Cell], store: Store, setting: Setting, listener: Listener) -> Iterator[Record]:
    waiting, suspects = cells, list[Cell]()
    while waiting or suspects:
        # A worker that dies takes the pool with it. What was running then is run again, one at a time.
        alone = bool(suspects)
        batch = [suspects.pop(0)] if alone else waiting
        waiting = waiting if alone else []
        for cell, record in _pool_pass(batch, store, setting, listener, 1 if alone else setting.jobs):
            if record is None:
                waiting.append(cell)
            elif record.get("status") != "died":
                listener.finished(cell, record)
                yield record
            elif alone:
                yield _record_death(cell, store, setting, listener, record["reason"])
            else:
                (suspects if record["running"] else waiting).append(cell)
        if waiting and not suspects:
            time.sleep(PATIENCE)


def _pool_pass(
    cells: list[Cell], store: Store, setting: Setting, listener: Listener, workers: int
) -> Iterator[tuple[Cell, Record | None]]:
    """Every cell once, with its record; None if another process holds it, status `died` if the pool broke."""
    pool = ProcessPoolExecutor(max_workers=workers, initializer=_start_worker, initargs=(setting, os.getpid()))
    futures: dict[Future[Record | None], Cell] = {pool.submit(_work, cell, store.path, setting): cell for cell in cells}
    try:
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=PATIENCE, return_when=FIRST_COMPLETED)
            listener.advanced(_shares(store, [futures[future] for future in waiting]))
            for future in done:
                cell = futures[future]
                try:
                    yield cell, future.result()
                except BrokenProcessPool as error:
                    running = _ShareNote(store, cell).file.exists()
                    yield cell, {"status": "died", "reason": " ".join(str(error).split()), "running": running}
    finally:
        pool.shutdown(wait=True, kill_workers=True)
        for cell in cells:
            _ShareNote(store, cell).file.unlink(missing_ok=True)


def _record_death(cell: Cell, store: Store, setting: Setting, listener: Listener, reason: str) -> Record:
    codes = re.search(r"exit codes of the workers are \{(.*?)\}", reason)
    told = f"the worker process died ({codes[1]})" if codes else f"the worker process died: {reason}"
    record = make_record(cell, "failed", told, Measurement([]), setting.origin)
    store.write_record(record, {})
    listener.finished(cell, record)
    return record


def _start_worker(setting: Setting, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what an interrupt means
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    prepare_torch(setting)
    for plugin in setting.plugins:
        load_plugin(plugin)


def _die_with(parent: int) -> None:
    """Ends this process soon after its parent, even one that was killed, so that no orphan holds locks."""
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)


def _work(cell: Cell, path: Path, setting: Setting) -> Record | None:
    store = Store(path)
    note = _ShareNote(store, cell)
    try:
        return _run_unless_held(cell, store, setting, note)
    finally:
        note.file.unlink(missing_ok=True)


def _run_unless_held(cell: Cell, store: Store, setting: Setting, note: "_ShareNote") -> Record | None:
    lock = store.try_lock("cell", cell.key)
    if lock is None:
        return None
    with contextlib.closing(_Held(lock)):
        known = store.record(cell.key)
        if known is not None and known["status"] == "ok":  # another process finished it in the meantime
            return known
        note.tell(0.0)
        return run_cell(cell, store, torch.device(setting.device), setting.origin, note.tell)


class _Held:
    def __init__(self, lock: Any):
        self.lock = lock

    def close(self) -> None:
        self.lock.release()


class _ShareNote:
    """How much of a cell is done, told at most once a second: to a listener, or to other processes by a small file."""

    def __init__(self, store: Store, cell: Cell, listener: Listener | None = None):
        self.file = store.path / "locks" / f"cell-{cell.key}.share"
        self.key = cell.key
        self.listener = listener
        self.last = float("-inf")

    def tell(self, share: float) -> None:
        if time.monotonic() - self.last < 1:
            return
        self.last = time.monotonic()
        if self.listener is not None:
            self.listener.advanced({self.key: share})
        else:
            write_text(self.file, str(share))


def _shares(store: Store, cells: Sequence[Cell]) -> dict[str, float]:
    shares = {}
    for cell in cells:
        with contextlib.suppress(OSError, ValueError):
            shares[cell.key] = float(_ShareNote(store, cell).file.read_text(encoding="utf-8"))
    return shares
