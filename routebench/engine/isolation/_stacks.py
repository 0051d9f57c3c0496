"""Where a process is, or was when it died: what faulthandler writes, asked for and read. Imports no torch."""

import contextlib
import os
import re
import signal
import sysconfig
import time
import traceback
from textwrap import shorten

from routebench.errors import UserError, message_of, printable

LONGEST = 400  # characters of a message
PATIENCE = 0.3  # seconds in which a process that is to be stopped writes where it is
LIBRARIES = ("<", *(path for name, path in sysconfig.get_paths().items() if name.endswith("lib") or name == "stdlib"))
"""Where errors pass through but are seldom made: the standard library, installed packages, code without a file."""
STACK = "most recent call first"  # faulthandler begins with the innermost frame
FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+) in (?P<function>\S+)')
"""A line that faulthandler writes."""


def ask_where(process: int) -> None:
    """Has a process that registered faulthandler for SIGUSR1 write where it is, and waits until it has."""
    if hasattr(signal, "SIGUSR1"):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGUSR1)
            time.sleep(PATIENCE)


def where(output: str) -> str:
    """` at FILE:LINE (FUNCTION)`, of the innermost frame outside libraries that faulthandler wrote last, or nothing."""
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


def one_line(error: BaseException) -> str:
    """The error's type and message, and the last line of code outside libraries that it passed through."""
    text = shorten(printable(message_of(error)), width=LONGEST, placeholder=" ...") or "no message"
    if isinstance(error, UserError):
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(LIBRARIES)]
    at = f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{at}"
