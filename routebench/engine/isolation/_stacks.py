"""Finds where a process is, or was when it died, with faulthandler. Imports no torch."""

import contextlib
import os
import re
import signal
import time

from routebench.errors import LIBRARIES

PATIENCE = 0.3  # seconds in which a process that is to be stopped writes where it is
STACK = "most recent call first"  # faulthandler begins with the innermost frame
FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+) in (?P<function>\S+)')
"""A line of faulthandler's output."""


def ask_where(process: int) -> None:
    """Makes a process with faulthandler on SIGUSR1 write its stack, and waits for it."""
    if hasattr(signal, "SIGUSR1"):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGUSR1)
            time.sleep(PATIENCE)


def where(output: str) -> str:
    """` at FILE:LINE (FUNCTION)`, the innermost frame outside libraries in faulthandler's last output, or empty."""
    last = output.rsplit(STACK, 1)
    if len(last) == 1:
        return ""
    for frame in FRAME.finditer(last[1]):
        if not frame["file"].startswith(LIBRARIES):
            return f" at {frame['file'].rsplit('/', 1)[-1]}:{frame['line']} ({frame['function']})"
    return ""


def signal_name(number: int) -> str:
    """`Segmentation fault (SIGSEGV)`."""
    return f"{signal.strsignal(number) or 'signal'} ({signal.Signals(number).name})"
