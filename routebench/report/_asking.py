"""Runs an analysis, which may be the user's; the page shows its error and keeps the rest."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from routebench.analysis._result import Analysis

Found = TypeVar("Found")


@dataclass(frozen=True)
class Broken:
    """An analysis that raised.

    Args:
        name: that it is registered under.
        error: its type and message, on one line.
        place: file and line.
    """

    name: str
    error: str
    place: str

    def __str__(self) -> str:
        return f"the analysis {self.name!r} raised {self.error} ({self.place}); nothing of it is shown"


def ask(analysis: Callable[[Any], Any], name: str, given: Any) -> Analysis | Broken | None:
    """Runs an analysis; returns its result or its error.

    Args:
        analysis: the function.
        name: that it is registered under.
        given: runs, or a tuple of them.
    """
    return guarded(name, lambda: checked(analysis(given)), analysis)


def checked(answer: Any) -> Analysis | None:
    """Checks what an analysis returned.

    Raises:
        TypeError: it is no type that an analysis may return.
    """
    if answer is None or isinstance(answer, Analysis):
        return answer
    raise TypeError(f"expected an Analysis or None from an analysis, got {type(answer).__name__}")


def guarded(name: str, work: Callable[[], Found], analysis: Callable[[Any], Any]) -> Found | Broken:
    """Does a piece of work for an analysis; returns its result or its error."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  # whatever a user's own code raises
        told = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        return Broken(name, told, _place(error, analysis))


def _place(error: Exception, analysis: Callable[[Any], Any]) -> str:
    """The place where it was raised: the last line in the analysis's own file, else the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(getattr(analysis, "__code__", None), "co_filename", "")
    own = [frame for frame in frames if frame.filename == file]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"  # its folder is nobody's business
