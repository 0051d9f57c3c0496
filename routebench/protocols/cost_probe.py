"""Peak memory of a piece of work on a processor, measured in a process of its own.

A process that has run for a while keeps freed memory, and its peak says nothing about the next call. So one helper
process imports torch and does nothing else; each measurement is made by a fork of it, which ends afterwards. The helper
ends with the process that started it. Linux tells the peak of a process and lets it be reset; elsewhere the probe says
that it cannot measure.

(`ru_maxrss` would not do: it starts with the peak of the process that the helper was started from.)
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from routebench.errors import UserError
from routebench.registry import load_plugin, models, routing

MODULE = "routebench.protocols.cost_probe"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # what proc(5) asks to be written
LONGEST = 300  # characters of a message

Prepare = Callable[[int], Callable[[], object]]
"""From a batch size to work that is ready to be done."""


class ProbeError(UserError):
    """Memory could not be measured; one line says why."""


def peak_memory(
    maker: str, arguments: Mapping[str, Any], batch: int, *, threads: int, plugins: Sequence[str] = ()
) -> int:
    """Bytes of resident memory that work takes at its peak, above what the process held before.

    Before, the same work is done with a batch of 1, so that libraries are loaded and lasting state is there.

    Args:
        maker: `module:function` that makes a `Prepare` from the arguments.
        arguments: as JSON knows them.
        batch: of the work.
        threads: of torch.
        plugins: files to import first.

    Raises:
        ProbeError: the work failed, its process was killed, or this system cannot tell the peak.
    """
    call = {"maker": maker, "arguments": arguments, "batch": batch, "threads": threads, "plugins": list(plugins)}
    answer = _helper().ask(call)
    if "error" in answer:
        raise ProbeError(answer["error"])
    return int(answer["bytes"])


class _Helper:
    """The process that forks for each measurement."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        atexit.register(self.close)

    def ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer: `bytes` or `error`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(call) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        if answer:
            return dict(json.loads(answer))
        _helper.cache_clear()  # the next call starts another
        return {"error": f"the process that measures memory ended with code {self.close()}"}

    def close(self) -> int:
        """Ends it, and returns its exit code."""
        atexit.unregister(self.close)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.kill()
        return self.process.wait()


@cache
def _helper() -> _Helper:
    if not (STATUS.exists() and os.access(CLEAR, os.W_OK)):
        raise ProbeError(f"peak memory can only be measured on Linux, where {CLEAR} can be written")
    return _Helper()


def serve() -> None:
    """Answers calls, one a line, until the other end is closed."""
    _die_with_parent()
    for line in sys.stdin:
        sys.stdout.write(_measure_in_fork(json.loads(line)) + "\n")
        sys.stdout.flush()


def _measure_in_fork(call: Mapping[str, Any]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _die_with_parent()
        os.write(writing, json.dumps(_measure(call)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found = answer.read()
    _, state = os.waitpid(child, 0)
    return found or json.dumps({"error": f"the process was killed by signal {os.WTERMSIG(state)}, likely for memory"})


def _measure(call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        torch.set_num_threads(call["threads"])
        for plugin in call["plugins"]:
            load_plugin(plugin)
        module, _, name = call["maker"].partition(":")
        prepare: Prepare = getattr(importlib.import_module(module), name)(**call["arguments"])
        prepare(1)()
        work = prepare(call["batch"])
        gc.collect()
        _give_back_freed_memory()
        CLEAR.write_text(RESET_PEAK)
        before = _resident("VmRSS")
        work()
        return {"bytes": max(0, _resident("VmHWM") - before)}
    except Exception as error:  # noqa: BLE001  # the other process has to be told
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"error": told[:LONGEST]}


def _resident(what: str) -> int:
    """VmRSS, resident memory now, or VmHWM, its peak, in bytes."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
    return 1024 * int(lines[what].removesuffix("kB"))


def _give_back_freed_memory() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _die_with_parent() -> None:
    death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").prctl(death_signal, signal.SIGKILL)


def _import_all() -> None:
    """Before the first fork, so that no fork has to: what is registered, and what torch imports with an optimiser."""
    assert len(models) and len(routing)
    torch.optim.Adam([torch.zeros(1)])


if __name__ == "__main__":
    _import_all()
    serve()
