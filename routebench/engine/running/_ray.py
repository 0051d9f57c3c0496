"""Executes runs on the machines of a Ray cluster, which share a results folder."""

import contextlib
import hashlib
import json
import logging
import os
import socket
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from routebench.engine.isolation import SAID_WHAT, Unreadable, taken
from routebench.engine.origin import provenance
from routebench.engine.results import Store, StoreFull, write_text
from routebench.engine.running._claim import End, Told, TryAgain, end_of, told_of
from routebench.engine.running._config import PATIENCE, RunConfig, Stage, once_a_second, prepare_torch
from routebench.engine.running._crashes import Crash, record_crash
from routebench.engine.running._processes import Processes
from routebench.engine.suites import Cell
from routebench.errors import UserError
from routebench.received import from_json, read_plain

CONNECTING = 5.0  # seconds that a cluster's head may take to answer
RETRIES = 3  # of a run whose machine was lost
UNREADABLE = Crash("failed", f"its machine {SAID_WHAT}")


class Cluster:
    """A connection to a running Ray cluster.

    Args:
        address: address of its head, such as `auto` for the cluster that this machine belongs to.

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
        """The number that the cluster has of `CPU` or `GPU`."""
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


class OnRay:
    """Executes each run as a task of a Ray cluster, from a results folder that all its machines see.

    If a run's machine or Ray process is lost, the run continues elsewhere from its checkpoint.

    Args:
        cluster: a connected cluster.
        store: the results folder.
        config: settings of the runs' execution.
    """

    def __init__(self, cluster: Cluster, store: Store, config: RunConfig):
        self.store, self.config = store, config
        self.running: dict[Any, Cell] = {}
        self._lost: Counter[str] = Counter()
        self._ray = cluster.ray
        self._submit = self._ray.remote(num_cpus=config.threads, num_gpus=config.gpus, max_retries=0)(_run_cell).remote

    @property
    def room(self) -> int:
        """The number of runs that can be started now."""
        return self.config.jobs - len(self.running)

    def start(self, cell: Cell) -> None:
        """Submits a run."""
        self.running[self._submit(cell, str(self.store.path.resolve()), self.config)] = cell

    def finished(self) -> Iterator[tuple[Cell, End]]:
        """The runs that ended since the last call, after a short wait."""
        done, _ = self._ray.wait(list(self.running), timeout=PATIENCE)
        for reference in done:
            cell = self.running.pop(reference)
            yield cell, self._end_of(reference, cell)

    def stages(self) -> Mapping[str, Stage]:
        """The progress of each active run, by key."""
        told = {cell.key: Heartbeat(self.store, cell.key).read() for cell in self.running.values()}
        return {key: stage for key, stage in told.items() if stage is not None}

    def close(self) -> None:
        """Cancels what is active."""
        for reference in self.running:
            self._ray.cancel(reference, force=True)

    def _end_of(self, reference: Any, cell: Cell) -> End:
        errors = self._ray.exceptions
        try:
            told = self._ray.get(reference)  # Ray itself unpickles it: whoever belongs to the cluster is trusted
        except errors.RayTaskError as error:
            raise error.as_instanceof_cause() from error
        except errors.OutOfMemoryError:
            crash = Crash("oom", "its machine ran out of memory, and Ray stopped it")
        except errors.RayError as error:
            Heartbeat(self.store, cell.key).remove()
            self._lost[cell.key] += 1
            times = self._lost[cell.key]
            if times <= RETRIES:
                return TryAgain()
            crash = Crash("failed", f"its machine was lost {times} times, last by {type(error).__name__}")
        else:
            with contextlib.suppress(Unreadable, ValueError, TypeError, RecursionError):
                if end := end_of(taken(Told, from_json(told)), cell):
                    return end
            crash = UNREADABLE
        return record_crash(cell, crash, self.store, self.config)


class Heartbeat:
    """The file in the results folder by which a machine of the cluster reports a run's progress."""

    def __init__(self, store: Store, key: str):
        self.file = store.path / "locks" / f"cell-{key}.stage"

    def tell(self, stage: Stage) -> None:
        """Writes how far the run is."""
        with contextlib.suppress(OSError, StoreFull):  # a full disk must not end a run that only tells of itself
            write_text(self.file, json.dumps(asdict(stage)))

    def read(self) -> Stage | None:
        """The last stage written; None if there is none."""
        try:
            content = from_json(read_plain(self.file)[0])
            return taken(Stage, {Stage.__name__: content})  # type: ignore[no-any-return]  # of that type
        except (OSError, ValueError, RecursionError, Unreadable):
            return None

    def remove(self) -> None:
        """Removes the file, if the folder allows it."""
        with contextlib.suppress(OSError):
            self.file.unlink()


def _expect_somebody(address: str) -> None:
    """Raises UserError if no cluster answers: Ray itself would retry for minutes, then end this process."""
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
    """A hash of every file of routebench on this machine."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(file for suffix in ("py", "cpp") for file in package.rglob(f"*.{suffix}")):
        digest.update(f"{file.relative_to(package)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _look(token: str) -> tuple[bool, str]:
    """Tells, on another machine, whether a file exists, and the hash of the code."""
    return Path(token).exists(), code_hash()


def _run_cell(cell: Cell, path: str, config: RunConfig) -> str:
    """Executes, on another machine, one run in its own process, so that limits and crashes work as on one machine.

    Returns:
        its end as JSON.
    """
    prepare_torch(config)  # before provenance tells of it
    origin = {**provenance(config.device, str(config.origin["command"])), **config.origin}
    store = Store(path)
    heartbeat = Heartbeat(store, cell.key)
    tell = once_a_second(heartbeat.tell)
    with contextlib.closing(Processes(store, replace(config, origin=origin, isolate=True, jobs=1))) as executor:
        executor.start(cell)
        while True:
            try:
                for _, end in executor.finished():
                    heartbeat.remove()
                    return json.dumps(told_of(end))
            except StoreFull as full:
                return json.dumps(["full", str(full)])
            tell(executor.stages()[cell.key])
