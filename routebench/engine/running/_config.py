"""The configuration of a run, and its listener."""

import contextlib
import ctypes
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from routebench import kernels
from routebench.engine.results import Record
from routebench.engine.suites import Cell

Told = TypeVar("Told")
PATIENCE = 0.1
"""Seconds between looks at what other processes do."""


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run.

    Args:
        device: `cpu`, `cuda` or one of several GPUs, such as `cuda:3`.
        backend: of routing, one of `routebench.kernels.BACKENDS`.
        jobs: cells at a time.
        threads: of torch, per cell.
        plugins: of the user, as they were named; their content stands in every record by its hash.
        origin: provenance that stands in every record.
        isolate: cells run in processes of their own, even where one runs at a time.
        time_limit: seconds that a cell may take; None for no limit. A limit means a process of its own.
        memory_limit: bytes of resident memory that a cell may take; likewise.
        executor: `local`, or `ray` for the machines of a cluster.
        address: of the cluster's head.
        gpus: that a cell takes on a cluster; a part of one where cells share it.
        preload: modules that are imported once for all processes.
        devices: GPUs that cells are spread over; empty for `device` alone.
    """

    device: str
    jobs: int
    threads: int
    plugins: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "auto"
    isolate: bool = False
    time_limit: float | None = None
    memory_limit: int | None = None
    executor: str = "local"
    address: str = "auto"
    gpus: float = 0.0
    preload: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    @property
    def in_processes(self) -> bool:
        """Whether cells run in other processes than this one."""
        return self.isolate or self.jobs > 1 or self.time_limit is not None or self.memory_limit is not None

    def on_free_device(self, busy: Iterable[str]) -> "RunConfig":
        """The same for one cell, on the GPU that the fewest of the cells under way are on.

        Args:
            busy: the device of each cell under way.
        """
        cells = Counter(busy)
        return replace(self, device=min(self.devices or (self.device,), key=cells.__getitem__))


@dataclass(frozen=True)
class Stage:
    """How far a running cell is.

    Args:
        share: that is done, 0 to 1.
        doing: in words, such as `epoch 3 of 6, loss 0.12`; empty where nothing is known.
    """

    share: float = 0.0
    doing: str = ""


@dataclass
class Listener:
    """Callbacks of a run; the command line shows progress with them.

    Args:
        started, finished: called with a cell, and with its record.
        advanced: called with the stages of running cells, by key.
    """

    started: Callable[[Cell], None] = lambda _: None
    advanced: Callable[[Mapping[str, Stage]], None] = lambda _: None
    finished: Callable[[Cell, Record], None] = lambda *_: None


def once_a_second(tell: Callable[[Told], None]) -> Callable[[Told], None]:
    """Wraps a function: drops calls within a second of the last one."""
    last = float("-inf")

    def seldom(told: Told) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            tell(told)

    return seldom


def prepare_torch(config: RunConfig) -> None:
    """Sets threads, back end and determinism of this process."""
    torch.set_num_threads(config.threads)
    kernels.use(config.backend)
    keep_freed_memory()
    if config.device.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is not deterministic
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False


@contextlib.contextmanager
def torch_as_before() -> Iterator[None]:
    """Puts back what `prepare_torch` has set meanwhile, but for `keep_freed_memory`."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    try:
        with kernels.using("auto"):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=only_warns)
        torch.backends.cudnn.benchmark = benchmark


def keep_freed_memory() -> None:
    """Lets glibc keep freed blocks of up to 32 MB, which it would give back to the system.

    A training step frees and takes the same tensors again and again; without this, page faults took 17 to 27 % of a
    step of `capsnet-small` where it was measured, on one core. Elsewhere than with glibc, nothing is done.
    """
    trim_threshold, mmap_threshold = -1, -3  # names of <malloc.h>
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 1 << 25)  # the most that glibc takes
        libc.mallopt(trim_threshold, 1 << 29)
