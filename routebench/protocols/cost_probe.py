"""Peak memory of a piece of work on a processor: the bytes that torch's allocator gives out, counted.

Counted bytes are the same in every run of the same code. Resident memory of a process is not: it moves by megabytes
with what the process keeps of freed memory. What is taken without torch, such as a kernel's scratch, is not counted.

Work may take more than there is. So it runs in a process of its own: one helper process imports torch and does nothing
else; each measurement is made by a fork of it, which ends afterwards. The helper ends with the process that started it.
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
from itertools import accumulate
from operator import itemgetter
from typing import Any

import torch
from torch.autograd import profiler

from routebench.errors import UserError
from routebench.registry import load_plugin, models, routing

MODULE = "routebench.protocols.cost_probe"
SILENT = {"KINETO_LOG_LEVEL": "99"}  # or torch's profiler says on the error stream that it starts and stops
LONGEST = 300  # characters of a message

Prepare = Callable[[int], Callable[[], object]]
"""Makes, from a batch size, work that is ready to be done."""


class ProbeError(UserError):
    """Memory could not be measured; one line says why."""


def peak_memory(
    maker: str, arguments: Mapping[str, Any], batch: int, *, threads: int, plugins: Sequence[str] = ()
) -> int:
    """Bytes of tensors that work holds at its peak, above what was held before.

    Before, the same work is done with a batch of 1, so that lasting state is there.

    Args:
        maker: `module:function` that makes a `Prepare` from the arguments.
        arguments: as JSON knows them.
        batch: batch size of the work.
        threads: number of torch's threads.
        plugins: files to import first.

    Raises:
        ProbeError: the work failed, its process was killed, or this system has no forks.
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
            env={**os.environ, **SILENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        atexit.register(self.close)

    def ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The process's answer to a call: `bytes` or `error`.

        Args:
            call: the arguments of `peak_memory`, as JSON knows them.
        """
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
    if not hasattr(os, "fork"):
        raise ProbeError(f"memory is measured in a fork of a process, and there are none on {sys.platform}")
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
        with _allocations():  # or what is freed of it later would not be counted
            prepare(1)()
            work = prepare(call["batch"])
        gc.collect()
        with _allocations() as found:
            work()
        return {"bytes": _peak(found)}
    except Exception as error:  # noqa: BLE001  # the other process has to be told
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"error": told[:LONGEST]}


def _allocations() -> profiler.profile:
    """Notes what torch's allocator gives out and takes back."""
    return profiler.profile(profile_memory=True)


def _peak(found: profiler.profile) -> int:
    """The most bytes held at a time, above what was held at the beginning."""
    results: Any = found.kineto_results
    notes = [(event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"]
    changes = [int(size) for _, size in sorted(notes, key=itemgetter(0))]
    return max(accumulate(changes, initial=0))


def _die_with_parent() -> None:
    death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").prctl(death_signal, signal.SIGKILL)


def _import_all() -> None:
    """Imports what is registered, and what torch imports with an optimizer, before the first fork: no fork has to."""
    assert len(models) and len(routing)
    torch.optim.Adam([torch.zeros(1)])


if __name__ == "__main__":
    _import_all()
    serve()
