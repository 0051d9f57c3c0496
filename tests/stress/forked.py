"""Command lines in forks of one process that has imported everything, each with limits of time and memory."""

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from routebench import cli
from routebench.analysis import folder as _read_first  # noqa: F401  # what every command would import anew
from routebench.report import write_report as _written_first  # noqa: F401

HANGS = -1
"""In place of an exit code."""


class Ended(NamedTuple):
    """How a command ended: exit code, output, errors."""

    code: int
    out: str
    error: str

    @property
    def is_told(self) -> bool:
        """Whether it ended in time, by itself, and not with a fault of routebench's own."""
        return 0 <= self.code < 70 and "Traceback" not in self.out + self.error


def call(*words, cwd=".", seconds=60, gigabytes=8) -> Ended:
    """`python -m routebench` with these words."""
    torch.set_num_threads(1)  # a fork of a process with more would wait for threads that it has not
    with tempfile.TemporaryDirectory() as name:
        texts = [Path(name) / each for each in ("out", "error")]
        child = os.fork()
        if not child:
            _run(words, cwd, texts, gigabytes)
        until, code = time.monotonic() + seconds, None
        while code is None and time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
            time.sleep(0 if done else 0.02)
        if code is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            code = HANGS
        return Ended(code, *(text.read_text(errors="replace") for text in texts))


def _run(words, cwd, texts, gigabytes):
    os.setsid()
    for number, text in zip((1, 2), texts, strict=True):
        os.dup2(os.open(text, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", buffering=1) for number in (1, 2))
    os.chdir(cwd)
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30,) * 2)
    sys.argv = ["routebench", *map(str, words)]
    code = 99
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  # as Python tells it
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
