"""Errors that a user can make, each told in one line."""

import contextlib
import difflib
import errno
import os
import sys
import sysconfig
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from textwrap import shorten
from types import FrameType

WITHOUT = "ROUTEBENCH_WITHOUT"
"""The variable that names shipped folders which this process is to do without, separated by commas."""
VERBOSE = "ROUTEBENCH_VERBOSE"
"""The variable by which the processes of runs know that the calls behind an error are wanted."""
LIBRARIES = ("<", *(path for name, path in sysconfig.get_paths().items() if name.endswith("lib") or name == "stdlib"))
"""Places where errors are seldom made: the standard library, installed packages, code without a file."""
PACKAGE = Path(__file__).parent
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""No space, no quota, a file larger than the system lets it be."""
MOST_TOLD = 400
"""Characters of a message that are told at most."""
LONG = 100
"""Characters of a path that a message shows at most."""
ROUTES = ("route", "iterate")
"""Parts of a routing method that a class of the user may define."""


class UserError(Exception):
    """Bad input: one line that says what was expected, what came and what to do."""

    exit_code = 2
    """The exit code of the command line."""

    def __str__(self) -> str:
        return printable(super().__str__())


class FilesMissing(UserError):
    """Files of a data set are not there."""


class PluginError(UserError):
    """A plug-in raised while it was imported. A suite records it as a failure and goes on with its other methods."""


class Diverged(Exception):
    """Training produced a loss that is not finite, or a network whose answers are not.

    Args:
        step: the optimizer step, counted from 0, at which the loss was; None if a step after which none was taken.
    """

    def __init__(self, step: int | None):
        super().__init__(
            "answers were not finite after a step" if step is None else f"the loss was not finite at step {step}"
        )
        self.step = step

    def __reduce__(self) -> tuple[type["Diverged"], tuple[int | None]]:
        return Diverged, (self.step,)


def message_of(error: BaseException) -> str:
    """The error's message, also where asking for it raises another error."""
    try:
        return str(error)
    except BaseException as another:  # noqa: BLE001  # whatever it is, the first one is to be told
        return f"its message cannot be had: __str__ raised {type(another).__name__}"


def show_calls(error: BaseException | str) -> None:
    """Prints the calls behind an error, or what a run has printed, to standard error, where that is wanted."""
    if os.environ.get(VERBOSE, "0") not in ("", "0"):
        told = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        sys.stderr.write(printable(told))


def place_of(error: BaseException) -> str:
    """`my_routing.py:23`: the innermost line of the user's code that an error passed through; else of routebench's.

    Where routebench refuses what a routing method returned, it is the line that defines the method's `route`.
    """
    steps = [step for step in traceback.walk_tb(error.__traceback__) if not _file_of(step[0]).startswith(LIBRARIES)]
    for frame, line in reversed(steps):
        if PACKAGE not in Path(_file_of(frame)).parents:
            return f"{Path(_file_of(frame)).name}:{line}"
        if refused := _route_of(frame.f_locals.get("self")):
            return refused
    return "".join(f"{Path(_file_of(frame)).name}:{line}" for frame, line in steps[-1:])


def one_line_of(text: str) -> str:
    """The text without line breaks, and with what steers a terminal written out."""
    return printable(" ".join(text.split()))


def one_line(error: BaseException) -> str:
    """The error's type and message, and the user's line that raised it."""
    text = shorten(printable(message_of(error)), width=MOST_TOLD, placeholder=" ...") or "no message"
    if isinstance(error, UserError):
        return text
    place = place_of(error)
    return f"{type(error).__name__}: {text}{f' ({place})' if place else ''}"


def _file_of(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _route_of(method: object) -> str:
    """The line where a class that is not routebench's defines its route; empty for any other object."""
    for base in type(method).__mro__:
        code = next((vars(base)[name].__code__ for name in ROUTES if name in vars(base)), None)
        if code is not None and PACKAGE not in Path(code.co_filename).parents:
            return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return ""


def printable(text: str) -> str:
    r"""The text with `\x1b` and the like in place of what no eye sees: it steers terminals, or cannot be written.

    These are control characters but for tab and new line, lone surrogates, and what turns or hides letters. Letters of
    all languages stay.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_seen(one) else one.encode("unicode_escape").decode() for one in text)


def shown(path: Path | str) -> str:
    """A path as one line shows it: `printable`, without tabs and new lines."""
    return printable(str(path)).replace("\n", "\\n").replace("\t", "\\t")


def _is_seen(one: str) -> bool:
    return one.isprintable() or one in "\n\t" or unicodedata.category(one) == "Zs"


def refusal(error: OSError) -> str:
    """The system's refusal in one line: the file, where it names one, and its reason."""
    reason = error.strerror or message_of(error) or type(error).__name__
    if error.filename is not None:
        file = str(error.filename)
        return f"{file if len(file) < LONG else f'{file[:LONG]}...'!r} cannot be used: {reason}"
    return f"output cannot be written: {reason}" if error.errno in FULL else f"the system refused: {reason}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or, where nothing is near, `; known: a, b, c`.

    Args:
        name: as given.
        known: the names that there are.
    """
    known = sorted({*known} - {name})  # a suite may list what nothing answers to
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(repr(near) for near in close)}?"
    return f"; known: {', '.join(known)}" if known else "; none are known"


def unknown(kind: str, name: str, known: Iterable[str], *, shipped: bool = False) -> UserError:
    """The error for a name that nothing answers to, with the nearest known names.

    Args:
        kind: the kind of thing that is named, in words.
        name: as given.
        known: the names that there are.
        shipped: whether all of them are routebench's, so that one of the user's own needs a plug-in.
    """
    if kind.endswith("method") and name.endswith(".py"):
        return UserError(f"expected the name of a method, got the file {name!r}; give it with --plugin {name}")
    with contextlib.suppress(OSError):  # a name may be longer than that of any file
        if kind.endswith("method") and Path(name).is_file():
            return UserError(f"expected the name of a method, or a Python file, got the file {name!r}")
    near = nearest(name, known)
    own = (
        " One of your own needs --plugin FILE.py" if near.endswith("?") else "; one of your own needs --plugin FILE.py"
    )
    return UserError(f"unknown {kind} {name!r}{near}{own if shipped else ''}{left_out()}")


def left_out() -> str:
    """A hint that a missing name may lie in a shipped folder that the user has left out; empty if none is."""
    told = os.environ.get(WITHOUT, "")
    return f" ({WITHOUT} leaves out {one_line_of(told)})" if told.strip() else ""
