"""One measurement in this process: time, and peak memory above what the process held before the call."""

import ctypes
import platform
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.utils.benchmark import Measurement, Timer

from reports.speed import cases
from routebench import kernels

SMALL_BATCH = 2


@dataclass(frozen=True)
class Setting:
    """How a measurement is made.

    Args:
        threads: of torch and of kernels.
        backend: the wish, see `routebench.kernels`.
        runs: fewest runs that are timed.
        seconds: shortest time for all runs together.
        tiny: sizes that show nothing but that the script works.
        memory_only: leave time out.
    """

    threads: int = 2
    backend: str = "auto"
    runs: int = 5
    seconds: float = 2.0
    tiny: bool = False
    memory_only: bool = False


def machine() -> dict[str, str]:
    """What a time depends on besides the code."""
    return {"processor": _processor(), "torch": torch.__version__}


def measure(case: cases.Case, implementation: str, setting: Setting, *, batch: int, iterations: int) -> dict[str, Any]:
    """Time in seconds, memory in bytes, and the back ends that made the sweeps.

    Libraries are loaded, and kernels compiled and checked, by a step of two images that comes first.
    """
    prepare(setting)
    sizes = {"iterations": iterations, "tiny": setting.tiny}
    with kernels.noting() as used:
        cases.make(case, implementation, batch=SMALL_BATCH, **sizes).step()
        work = cases.make(case, implementation, batch=batch, **sizes)
        memory, duration = _first_step(work)
    took = {} if setting.memory_only else _time(work, setting, max(setting.seconds, setting.runs * duration))
    used_by = " ".join(sorted(used)) or "no sweep"
    return {**took, **memory, "used": used_by}


def prepare(setting: Setting) -> None:
    """Threads, back end, and an error in place of the system's killer where memory does not suffice."""
    torch.set_num_threads(setting.threads)
    kernels.use(setting.backend)
    if (free := _available()) is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (free, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _first_step(work: cases.Work) -> tuple[dict[str, int], float]:
    held = _start_of_peak()
    start = perf_counter()
    work.step()
    duration = perf_counter() - start
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"extra": max(0, peak - held), "peak": peak}, duration


def _time(work: cases.Work, setting: Setting, seconds: float) -> dict[str, float]:
    timer = Timer("step()", globals={"step": work.step}, num_threads=setting.threads)
    found = [timer.blocked_autorange(min_run_time=seconds)]
    while sum(len(part.raw_times) for part in found) < setting.runs:
        found.append(timer.blocked_autorange(min_run_time=seconds / setting.runs))
    (merged,) = Measurement.merge(found)
    return {"seconds": merged.median, "iqr": merged.iqr, "runs": len(merged.times)}


def _start_of_peak() -> int:
    """Bytes held now, from which the peak is counted anew (on Linux; elsewhere, the peak may be an earlier one)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what is freed already must not serve the call for nothing
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what is held
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _available() -> int | None:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
