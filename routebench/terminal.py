"""Prints a command's answer, in words or as JSON, and notes on its way, in letters that a terminal can show."""

import codecs
import io
import json
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click

from routebench.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 200
"""Characters in a line of a table that is not printed to a terminal."""
STAND_INS = {"−": "-", "–": "-", "×": "x", "±": "+/-", "≥": ">=", "≤": "<=", "→": "->", "…": "...", "·": "*", "’": "'"}
"""Replacements for the signs that tables and messages are written with."""
LOUD = ("matplotlib", "torch.utils")
"""Loggers of libraries that tell of folders and tools which nobody asked for."""
REMARKS = ("CUDA initialization", "Can't initialize NVML", "Failed to initialize NumPy")
"""Beginnings of warnings by which torch tells what a machine lacks; `routebench doctor` says that."""


@dataclass
class Voice:
    """The manner in which a command speaks.

    Args:
        json: the answer is JSON; all else that is printed goes to standard error.
        quiet: notes are left out.
        verbose: an error is told with the calls behind it.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    out: TextIO | None = None
    """Standard output, where that of the command is another."""


def voice() -> Voice:
    """The manner in which the command of this moment speaks; the default one outside of commands."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Voice)) or Voice()


def tell(text: str) -> None:
    """Prints a line of the answer in words; nothing where it is wanted as JSON."""
    if not voice().json:
        click.echo(printable(text))


def note(text: str, *, err: bool = False) -> None:
    """Prints how far a command is, or what to do next, which `-q` leaves out.

    Args:
        text: the line.
        err: whether it goes to standard error.
    """
    if not voice().quiet:
        click.echo(printable(text), err=err)


def answer(content: Callable[[], Any]) -> None:
    """Prints the answer as JSON where that is wanted.

    Args:
        content: gives tables, lists, texts and numbers; it is not called otherwise.
    """
    if voice().json:
        click.echo(as_json(content()), file=voice().out)


def as_json(content: Any) -> str:
    """The content as JSON in ASCII, whatever the terminal shows: null for what is no number, text for a path.

    Args:
        content: tables and lists of texts, numbers, and what can be written as text.
    """
    return json.dumps(_for_json(content), indent=2, allow_nan=False)


def _for_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _for_json(one) for key, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_for_json(one) for one in value]
    known = value.item() if hasattr(value, "item") else value  # a number of numpy
    if known is None or isinstance(known, bool | int):
        return known
    if isinstance(known, float):
        return known if math.isfinite(known) else None
    return None if type(known).__name__ in ("NAType", "NaTType") else str(known)


def console_of_notes() -> "Console":
    """The console that shows how far a command is."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, quiet=voice().quiet)


def prepare() -> None:
    """Makes this process print only what any terminal can show, and no remarks of other libraries."""
    codecs.register_error("routebench", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="routebench")
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    for text in REMARKS:
        warnings.filterwarnings("ignore", text, UserWarning)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """The replacement for letters that an encoding lacks: a similar sign, or the letter's number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(STAND_INS.get(one, ascii(one)[1:-1]) for one in lacking), error.end
