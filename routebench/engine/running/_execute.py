"""Runs the cells of a plan that have no result yet, in this process or in several."""

import time
from collections.abc import Callable, Iterator

from routebench.engine.results import Record, Store
from routebench.engine.running._config import PATIENCE, Listener, Setting, prepare_torch
from routebench.engine.running._processes import run_in_processes
from routebench.engine.running._queue import Queue
from routebench.engine.running._ray import Cluster
from routebench.engine.running._work import run_unless_held
from routebench.engine.suites import Cell

Run = Callable[[Queue, Store, Setting, Listener], Iterator[tuple[Cell, Record]]]


def execute(queue: Queue, store: Store, setting: Setting, listener: Listener) -> list[Record]:
    """Runs cells and returns their records, in the order in which they finished.

    A cell that another process is running is waited for, and not run again. What the queue's budget does not allow
    stays in the queue.
    """
    records = []
    for cell, record in _runner(setting)(queue, store, setting, listener):
        queue.learn(record)
        store.warnings += [told for told in record.warnings or () if told not in store.warnings]
        listener.finished(cell, record)
        records.append(record)
    return records


def _runner(setting: Setting) -> Run:
    if setting.executor == "ray":
        return _run_on_ray
    return run_in_processes if setting.in_processes else _run_here


def _run_on_ray(queue: Queue, store: Store, setting: Setting, listener: Listener) -> Iterator[tuple[Cell, Record]]:
    with Cluster(setting.address) as cluster:
        cluster.check(store)
        yield from cluster.run(queue, store, setting, listener)


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
