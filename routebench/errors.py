"""What goes wrong in a user's hands, said in one line."""

import difflib
import unicodedata
from collections.abc import Iterable


class UserError(Exception):
    """Bad input: one line that says what was expected, what came and what to do."""

    exit_code = 2
    """Of the command line."""

    def __str__(self) -> str:
        return printable(super().__str__())


class PluginError(UserError):
    """A plug-in raised while it was imported. A suite records it as a failure and goes on with its other methods."""


class Diverged(Exception):
    """Training produced a loss that is not finite.

    Args:
        step: the optimiser step, counted from 0, at which it happened.
    """

    def __init__(self, step: int):
        super().__init__(f"the loss was not finite at step {step}")
        self.step = step

    def __reduce__(self) -> tuple[type["Diverged"], tuple[int]]:
        return Diverged, (self.step,)


def message_of(error: BaseException) -> str:
    """The error's message, also where asking for it raises another error."""
    try:
        return str(error)
    except BaseException as another:  # noqa: BLE001  # whatever it is, the first one is to be told
        return f"its message cannot be had: __str__ raised {type(another).__name__}"


def printable(text: str) -> str:
    r"""The text with `\x1b` and the like in place of what no eye sees: it steers terminals, or cannot be written.

    These are control characters but for tab and new line, lone surrogates, and what turns or hides letters. Letters of
    all languages stay.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_seen(one) else one.encode("unicode_escape").decode() for one in text)


def _is_seen(one: str) -> bool:
    return one.isprintable() or one in "\n\t" or unicodedata.category(one) == "Zs"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or, where nothing is near, `; known: a, b, c`."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(repr(near) for near in close)}?"
    return f"; known: {', '.join(known)}" if known else "; none are known"


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that nothing answers to, with the nearest known names."""
    return UserError(f"unknown {kind} {name!r}{nearest(name, known)}")
