"""A plug-in with the worst that a measurement can do to its process; `as` says what. For tests."""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from routebench import protocols, routing
from routebench.engine.isolation import _process
from routebench.protocols import Context, FitRequest, Measurement, Metric, Protocol

MEASURED = Measurement([Metric("accuracy", "test", 50.0, "%", True)])


def crash() -> None:
    """Reads where nothing is."""
    ctypes.string_at(0)


def abort() -> None:
    """As a failed assertion in C++ does."""
    os.abort()


def hang() -> None:
    """In Python, deaf to requests to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _below(60)  # a stack longer than what a record keeps of the output


def _below(depth: int) -> None:
    """Calls itself, and sleeps."""
    while not depth:
        time.sleep(1)
    _below(depth - 1)


def freeze() -> None:
    """In C, without letting the interpreter go."""
    while True:
        ctypes.PyDLL(None).sleep(1000)


def leak() -> None:
    """200 MB every 20 ms, touched."""
    kept = []
    while True:
        kept.append(torch.ones(200_000_000 // 4))
        time.sleep(0.02)


def chatter() -> None:
    """30 MB of text."""
    for _ in range(300):
        sys.stdout.write("x" * 100_000 + "\n")


def leave() -> None:
    """Without a word."""
    os._exit(0)


def resign() -> None:
    """Politely."""
    sys.exit(7)


def interrupt() -> None:
    """As if the user had."""
    raise KeyboardInterrupt


def litter(file: str) -> None:
    """Starts a process, forgets it, and dies."""
    Path(file).write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def fork() -> None:
    """In C, where nobody hears of it; both processes have the locks. Then dies."""
    if ctypes.CDLL(None).fork() == 0:
        while True:
            time.sleep(1000)
    ctypes.string_at(0)


def patch() -> None:
    """Replaces what every method trains with."""
    torch.optim.Adam.step = lambda self: None


def deface() -> None:
    """Changes what its process shares with whatever comes after."""
    os.chdir("/")
    torch.set_default_dtype(torch.float64)
    os.close(1)


def mumble() -> None:
    """Says to the first process what is no message."""
    _say(b"garbage\n")


def bait() -> None:
    """Says to the first process what would end it where it is unpickled."""
    _say(pickle.dumps(("answer", _Runs())) + b"\n")


def stutter() -> None:
    """Begins to say something to the first process, and never ends."""
    _say(b"\x00\x10\x00\x00abc")


def drone() -> None:
    """Says to the first process how far it is, again and again."""
    while True:
        _say(b'["stage", {"Stage": {"share": 1e308, "doing": "x"}}]\n', seconds=0.0)


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (7,)


def _say(text: bytes, seconds: float = 1000.0) -> None:
    for sender in _process._main:
        os.write(sender.fileno(), text)
    time.sleep(seconds)


DEEDS = {
    deed.__name__: deed
    for deed in (
        crash,
        abort,
        hang,
        freeze,
        leak,
        chatter,
        leave,
        resign,
        interrupt,
        litter,
        fork,
        patch,
        deface,
        mumble,
        bait,
        stutter,
        drone,
    )
}


@protocols.register("worst")
class Worst(Protocol):
    """Does what the method is named after, then measures."""

    options: ClassVar = {"litter": str}

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        deed = DEEDS.get(str(request.method), lambda: None)
        deed(options["litter"]) if deed is litter else deed()
        assert torch.get_default_dtype() == torch.float32
        return MEASURED


class Nothing(routing.RoutingMethod):
    """Uniform coupling."""

    gives_activations = False

    def route(self, votes, activations):
        return routing.Routed(votes.sweep().first)


for name in DEEDS:
    routing.register(name)(type(name.title(), (Nothing,), {"__module__": __name__}))
