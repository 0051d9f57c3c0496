"""The settings by which a call executes runs, and its listener."""

import contextlib
import ctypes
import math
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
from routebench.errors import printable

Told = TypeVar("Told")
LONGEST = 200
"""Characters in which a run says what it does."""
PATIENCE = 0.1
"""Seconds between looks at other processes."""


@dataclass(frozen=True)
class RunConfig:
    """The settings by which a call executes runs.

    Args:
        device: `cpu`, `cuda`, one of several GPUs, such as `cuda:3`, or `mps`.
        backend: the implementation of routing, one of `routebench.kernels.BACKENDS`.
        jobs: runs at a time.
        threads: torch threads per run.
        plugins: the user's plug-ins, as named; every record has the hash of their content.
        origin: provenance for every record.
        isolate: whether each run has its own process, even one at a time.
        time_limit: seconds that a run may take; None for no limit. A limit implies a process per run.
        memory_limit: bytes of resident memory that a run may take; None and a limit mean the same as for time.
        executor: `local`, or `ray` for the machines of a cluster.
        address: address of the cluster's head.
        gpus: GPUs per run on a cluster; a fraction if runs share one.
        preload: modules to import once for all processes.
        devices: GPUs to spread runs over; empty for `device` alone.
        compile: whether networks that train are compiled by `torch.compile`.
        package: stamp of routebench's files when runs were planned, as `package_stamp` gives it.
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
    compile: bool = False
    package: str = ""

    @property
    def in_processes(self) -> bool:
        """Tells whether runs are executed in other processes than this one."""
        return self.isolate or self.jobs > 1 or self.time_limit is not None or self.memory_limit is not None

    def on_free_device(self, busy: Iterable[str]) -> "RunConfig":
        """The settings for one run, on the GPU with the fewest active runs.

        Args:
            busy: the device of each active run.
        """
        cells = Counter(busy)
        return replace(self, device=min(self.devices or (self.device,), key=cells.__getitem__))


@dataclass(frozen=True)
class Stage:
    """The progress of an active run.

    Args:
        share: share done, 0 to 1; what a protocol says beyond is cut.
        doing: the activity in words, such as `epoch 3 of 6, loss 0.12`; empty if unknown.
    """

    share: float = 0.0
    doing: str = ""

    def __post_init__(self) -> None:
        share = float(self.share)
        vars(self).update(share=0.0 if math.isnan(share) else min(max(share, 0.0), 1.0))
        vars(self).update(doing=printable(self.doing[:LONGEST]))


@dataclass
class Listener:
    """Callbacks of a call; the command line shows progress with them.

    Args:
        started, finished: called with a run, and with its record.
        advanced: called with the stages of active runs, by key.
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
        torch.set_deterministic_debug_mode("warn")
        torch.backends.cudnn.benchmark = False


@contextlib.contextmanager
def torch_as_before() -> Iterator[None]:
    """Restores what `prepare_torch` sets, except `keep_freed_memory`."""
    threads, determinism = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    benchmark = torch.backends.cudnn.benchmark
    try:
        with kernels.using("auto"):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(determinism)
        torch.backends.cudnn.benchmark = benchmark


def keep_freed_memory() -> None:
    """Lets glibc keep freed blocks of up to 1 GB instead of returning them to the system.

    Training steps free and allocate the same tensors again and again. Without this, page faults took 17 to 27 % of a
    step of `capsnet-small` on one measured core. Without glibc it does nothing.
    """
    trim_threshold, mmap_threshold = -1, -3  # names of <malloc.h>
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_threshold, 1 << 30) or libc.mallopt(mmap_threshold, 1 << 25)  # the most that old ones take
        libc.mallopt(trim_threshold, 1 << 30)
