"""Runs cells on the machines of a Ray cluster, from a results folder that all of them see."""

import hashlib
import logging
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from routebench.engine.origin import provenance
from routebench.engine.results import Record, Store
from routebench.engine.running._config import PATIENCE, Listener, Setting, prepare_torch
from routebench.engine.running._ends import End, record_end
from routebench.engine.running._processes import run_in_processes
from routebench.engine.running._queue import Queue
from routebench.engine.running._work import Note, shares
from routebench.engine.suites import Cell
from routebench.errors import UserError

CONNECTING = 5.0  # seconds that a cluster's head may take to answer
RETRIES = 3  # of a cell whose machine was lost


class Cluster:
    """A connection to a running Ray cluster.

    Args:
        address: of its head, such as `auto` for the cluster that this machine belongs to.

    Raises:
        UserError: Ray is not installed, or no cluster answers.
    """

    def __init__(self, address: str):
        try:
            import ray
        except ImportError:
            raise UserError("--executor ray: Ray is not installed; pip install 'routebench[ray]'") from None
        self.ray: Any = ray
        _expect_somebody(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _nobody(address, str(error)) from error

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.ray.shutdown()

    def total(self, resource: str) -> float:
        """How many the cluster has of `CPU` or `GPU`."""
        return float(self.ray.cluster_resources().get(resource, 0.0))

    def check(self, store: Store) -> None:
        """Makes sure that every machine sees the results folder and has this version of routebench.

        Raises:
            UserError: one does not.
        """
        token = store.path.resolve() / "locks" / f"visible-{uuid.uuid4().hex}"
        token.touch()
        try:
            for node in self.ray.nodes():
                if node["Alive"]:
                    self._check_node(node, str(token))
        finally:
            token.unlink()

    def _check_node(self, node: dict[str, Any], token: str) -> None:
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = self.ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=place)(_look)
        name = node["NodeManagerAddress"]
        try:
            is_visible, code = self.ray.get(task.remote(token))
        except self.ray.exceptions.RayError as error:
            told = " ".join(str(error).split())[-200:]
            raise UserError(f"--executor ray: machine {name} cannot run routebench: {told}") from error
        if not is_visible:
            raise UserError(f"--executor ray: machine {name} does not see the results folder; put it where all see it")
        if code != code_hash():
            raise UserError(f"--executor ray: machine {name} has another routebench; install the same on every machine")

    def run(self, queue: Queue, store: Store, setting: Setting, listener: Listener) -> Iterator[tuple[Cell, Record]]:
        """Takes cells from the queue, `setting.jobs` at a time, and gives them with their records as they finish.

        A cell whose machine, or whose process of Ray, is lost is run again elsewhere, and goes on from its checkpoint.
        """
        submit = self.ray.remote(num_cpus=setting.threads, num_gpus=setting.gpus, max_retries=0)(_run_cell).remote
        running: dict[Any, Cell] = {}
        held: list[Cell] = []
        lost: Counter[str] = Counter()
        try:
            while True:
                while len(running) < setting.jobs and (cell := queue.take()) is not None:
                    running[submit(cell, str(store.path.resolve()), setting)] = cell
                    listener.started(cell)
                if not running:
                    if not held:
                        return
                    time.sleep(PATIENCE)
                    queue.put_back(held)
                    held = []
                    continue
                done, _ = self.ray.wait(list(running), timeout=PATIENCE)
                for reference in done:
                    cell = running.pop(reference)
                    record = self._record(reference, cell, store, setting, lost)
                    if record is None:
                        held.append(cell)
                    else:
                        yield cell, record
                listener.advanced(shares(store, list(running.values())))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)

    def _record(self, reference: Any, cell: Cell, store: Store, setting: Setting, lost: Counter[str]) -> Record | None:
        """What a task found; None if the cell has to be run again."""
        errors = self.ray.exceptions
        try:
            found: Record | None = self.ray.get(reference)
        except errors.RayTaskError as error:
            raise error.as_instanceof_cause() from error
        except errors.OutOfMemoryError:
            told = "its machine ran out of memory, and Ray stopped it"
            return record_end(cell, End("oom", told), store, setting, 0.0)
        except errors.RayError as error:
            Note(store, cell.key).remove()
            lost[cell.key] += 1
            if lost[cell.key] <= RETRIES:
                return None
            told = f"its machine was lost {lost[cell.key]} times, last by {type(error).__name__}"
            return record_end(cell, End("failed", told), store, setting, 0.0)
        return found


def _expect_somebody(address: str) -> None:
    """Raises UserError where nobody listens: Ray itself would try for minutes, and then end this process."""
    known = Path("/tmp/ray/ray_current_cluster")  # noqa: S108  # where `ray start` writes it
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or (known.read_text(encoding="utf-8") if known.is_file() else "")
    host, _, port = address.strip().removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise _nobody(address or "auto", "no cluster that this machine belongs to")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECTING).close()
    except OSError as error:
        raise _nobody(address, str(error)) from error


def _nobody(address: str, told: str) -> UserError:
    return UserError(
        f"--executor ray: expected a running cluster at {address!r}, got {' '.join(told.split())[:160]!r}; start one "
        "with `ray start --head`, or name its head with --address"
    )


def code_hash() -> str:
    """Of every file of routebench on this machine."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(file for suffix in ("py", "cpp") for file in package.rglob(f"*.{suffix}")):
        digest.update(f"{file.relative_to(package)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _look(token: str) -> tuple[bool, str]:
    """On another machine: whether a file is there, and which code."""
    return Path(token).exists(), code_hash()


def _run_cell(cell: Cell, path: str, setting: Setting) -> Record | None:
    """On another machine: one cell, in a process of its own there, so that limits and crashes are as on one machine."""
    prepare_torch(setting)  # before provenance tells of it
    origin = {**provenance(setting.device, str(setting.origin["command"])), **setting.origin}
    here = replace(setting, origin=origin, isolate=True, jobs=1)
    queue = Queue([cell])
    for _, record in run_in_processes(queue, Store(path), here, Listener(), await_held=False):
        return record
    return None
