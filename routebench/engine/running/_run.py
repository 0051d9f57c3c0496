"""Executes the runs of a queue: in this process, in processes of this machine, or on a Ray cluster."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from routebench.engine.origin import command_line, plugin_hashes, provenance
from routebench.engine.results import Record, Store
from routebench.engine.running._cell import run_claimed
from routebench.engine.running._claim import Done, End, HeldElsewhere, TryAgain
from routebench.engine.running._config import PATIENCE, Listener, RunConfig, Stage, once_a_second, prepare_torch
from routebench.engine.running._processes import Processes
from routebench.engine.running._queue import Queue
from routebench.engine.running._ray import Cluster, OnRay
from routebench.engine.suites import Cell


@runtime_checkable
class Executor(Protocol):
    """Starts runs somewhere, and reports how they ended."""

    @property
    def room(self) -> int:
        """The number of runs that can be started now."""

    @property
    def running(self) -> Any:
        """The active runs; empty if there are none."""

    def start(self, cell: Cell) -> None:
        """Starts a run."""

    def finished(self) -> Iterator[tuple[Cell, End]]:
        """The runs that ended since the last call, after a short wait."""

    def stages(self) -> Mapping[str, Stage]:
        """The progress of each active run, by key."""

    def close(self) -> None:
        """Ends whatever is active."""


def run(executor: Executor, queue: Queue, listener: Listener) -> Iterator[Record]:
    """Executes runs until the queue is empty or its budget is used up, and yields their records as they finish.

    It waits for runs that another process executes, and does not repeat them. A run whose process or machine was lost
    goes back to the queue at once. Runs beyond the budget stay in the queue.
    """
    held: list[Cell] = []
    while True:
        while (room := executor.room) and (cell := queue.take(room + len(executor.running))) is not None:
            listener.started(cell)
            executor.start(cell)
        if not executor.running:
            if not held:
                return
            time.sleep(PATIENCE)
            queue.put_back(held)
            held = []
            continue
        for cell, end in executor.finished():
            match end:
                case Done(record):
                    queue.learn(record)
                    listener.finished(cell, record)
                    yield record
                case HeldElsewhere():
                    held.append(cell)
                case TryAgain():
                    queue.put_back([cell])
        listener.advanced(executor.stages())


class Here:
    """Executes one run after the other in this process.

    Args:
        store: the results folder.
        config: settings of the runs' execution.
        listener: gets progress during a run.
    """

    def __init__(self, store: Store, config: RunConfig, listener: Listener):
        self.store, self.config, self.listener = store, config, listener
        self.running: list[Cell] = []

    @property
    def room(self) -> int:
        """1 while no run is active."""
        return 1 - len(self.running)

    def start(self, cell: Cell) -> None:
        """Takes a run, which `finished` executes."""
        self.running.append(cell)

    def finished(self) -> Iterator[tuple[Cell, End]]:
        """Executes the run."""
        while self.running:
            cell = self.running.pop()
            yield cell, run_claimed(cell, self.store, self.config, once_a_second(self._teller(cell)))

    def _teller(self, cell: Cell) -> Callable[[Stage], None]:
        return lambda stage: self.listener.advanced({cell.key: stage})

    def stages(self) -> Mapping[str, Stage]:
        """The active runs: none between calls."""
        return {}

    def close(self) -> None:
        """The active runs: none between calls."""


def run_cells(queue: Queue, store: Store, config: RunConfig, listener: Listener) -> list[Record]:
    """Executes the runs of a queue as `config` says, and returns their records in the order of finishing.

    Where `config` tells no provenance, records have that of this call.

    Args:
        queue: the runs.
        store: the results folder.
        config: how they are executed.
        listener: hears how each run begins, goes on and ends.
    """
    config = config if config.origin else replace(config, origin=_origin(config))
    records = []
    with contextlib.ExitStack() as stack:
        executor = _executor(stack, store, config, listener)
        for record in run(stack.enter_context(contextlib.closing(executor)), queue, listener):
            store.warnings += [told for told in record.warnings or () if told not in store.warnings]
            records.append(record)
    return records


def _executor(stack: contextlib.ExitStack, store: Store, config: RunConfig, listener: Listener) -> Executor:
    """The executor that `config` asks for; the stack holds the connection to its cluster."""
    if config.executor == "ray":
        cluster = stack.enter_context(Cluster(config.address))
        cluster.check(store)
        return OnRay(cluster, store, config)
    if config.in_processes:
        return Processes(store, config)
    prepare_torch(config)
    return Here(store, config, listener)


def _origin(config: RunConfig) -> dict[str, Any]:
    """The provenance of this call."""
    limits = {"time_limit": config.time_limit, "memory_limit": config.memory_limit, "isolate": config.isolate}
    how: dict[str, Any] = {
        "backend": config.backend,
        "threads": config.threads,
        "jobs": config.jobs,
        "executor": config.executor,
    }
    how |= {"compiled": True} if config.compile else {}
    origin: dict[str, Any] = {"command": command_line(), **how, **limits}
    if config.executor == "local":  # on a cluster, the machine of a run tells of itself
        prepare_torch(config)  # before provenance tells of it
        return {**provenance(config.device, command_line(), config.plugins), **origin}
    return {**origin, "plugins": plugin_hashes(config.plugins)}
