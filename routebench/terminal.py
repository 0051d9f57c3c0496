"""Prints a command's answer, in words or as JSON, and notes on its way, in letters that a terminal can show."""

import codecs
import io
import json
import logging
import math
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
NARROWEST = 30
"""Letters that the last column of a table keeps, where a terminal has room for no more."""
INDENT = "    "
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


def room(indent: str = "") -> int | None:
    """The letters in a line of the terminal, less an indentation; None for output to a file or pipe: nothing is cut."""
    return shutil.get_terminal_size().columns - len(indent) if sys.stdout.isatty() else None


def folded(text: str, width: int | None) -> str:
    """A text whose longer lines are broken between words, and go on two letters further in.

    Args:
        text: the text, in any number of lines.
        width: letters that fit in a line; None where they may have any number.
    """
    return "\n".join(one for line in text.split("\n") for one in _fold(line, width))


def in_columns(
    rows: Iterable[Sequence[str]], width: int | None, *, titles: Sequence[str] = (), names: int = 1
) -> Iterator[str]:
    """The lines of a table, its columns below each other; those without any text are left out.

    Where that does not fit, the last column is folded; where it has no room either, each row is a paragraph.

    Args:
        rows: their texts.
        width: letters that fit in a line; None where they may have any number.
        titles: the heads of columns; none for a table without a head.
        names: number of columns, from the first, that name a row.
    """
    rows = [*rows]
    table = [tuple(titles), *rows] if titles else rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    kept = [place for place, most in enumerate(widths) if most]
    widths = [max(len(row[place]) for row in table) for place in kept]
    lines = [[row[place] for place in kept] for row in table] if kept else []
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    least = max([NARROWEST, *(len(word) for line in lines for word in line[-1].split())])
    if width is None or before + (widths or [0])[-1] <= width or width - before >= least:
        for line in lines:
            start = "".join(f"{cell:<{most}}  " for cell, most in zip(line[:-1], widths[:-1], strict=True))
            yield from _fold(f"{start}{line[-1]}".rstrip(), width, " " * before)
        return
    for row in rows:
        told = [f"{title.lower()} {cell}".strip() for title, cell in zip(titles or [""] * len(row), row, strict=True)]
        yield from _fold("  ".join(row[:names]), width)
        left = "; ".join(told[place] for place in kept if place >= names and row[place] not in ("", "–"))
        yield from _fold(f"{INDENT}{left}".rstrip(), width, INDENT)


def _fold(line: str, width: int | None, further: str | None = None) -> list[str]:
    """The line in pieces that fit, where words do; those behind the first are indented."""
    if width is None or len(line) <= width:
        return [line]
    own = " " * (len(line) - len(line.lstrip()) + 2) if further is None else further
    return textwrap.wrap(
        line, max(width, len(own) + 1), subsequent_indent=own, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False,
    )  # fmt: skip


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
