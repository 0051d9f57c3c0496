"""Runs the cells of a plan that have no result yet, in this process or in several."""

import time
from collections.abc import Callable, Iterator

from routebench.engine.plan import Cell
from routebench.engine.queue import Queue
from routebench.engine.setting import PATIENCE, Listener, Record, Setting, prepare_torch
from routebench.engine.store import Store
from routebench.engine.work import run_unless_held
from routebench.engine.workers import run_in_processes


def execute(queue: Queue, store: Store, setting: Setting, listener: Listener) -> list[Record]:
    """Runs cells and returns their records, in the order in which they finished.

    A cell that another process is running is waited for, and not run again. What the queue's budget does not allow
    stays in the queue.
    """
    run = run_in_processes if setting.in_processes else _run_here
    records = []
    for cell, record in run(queue, store, setting, listener):
        queue.learn(record)
        listener.finished(cell, record)
        records.append(record)
    return records


def _run_here(queue: Queue, store: Store, setting: Setting, listener: Listener) -> Iterator[tuple[Cell, Record]]:
    prepare_torch(setting)
    held: list[Cell] = []
    while True:
        while (cell := queue.take()) is not None:
            listener.started(cell)
            record = run_unless_held(cell, store, setting, _teller(cell, listener))
            if record is None:
                held.append(cell)
            else:
                yield cell, record
        if not held:
            return
        time.sleep(PATIENCE)
        queue.put_back(held)
        held = []


def _teller(cell: Cell, listener: Listener) -> Callable[[float], None]:
    """Passes the share of a cell that is done on to the listener, at most once a second."""
    last = float("-inf")

    def tell(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            listener.advanced({cell.key: share})

    return tell
