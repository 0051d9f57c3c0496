"""The origin of a name: routebench itself, an installed package, a plug-in, or a program that uses routebench."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from routebench.errors import UserError, message_of

SHIPPED = "routebench"
"""The origin of what routebench brings itself."""

OF_MODULE = "module "
"""The beginning of the origin of what a program or a notebook registers itself."""

PROGRAM = "this program"
"""The origin of measures that a program or a notebook declares itself."""

PACKAGE = Path(__file__).parents[1]


class _Load:
    """One loading of a plug-in, a package or what ships; it is no other's, even of the same.

    Args:
        origin: what is loaded, in words for messages.
    """

    def __init__(self, origin: str):
        self.origin = origin


_loading: ContextVar[_Load | None] = ContextVar("loading", default=None)


@contextmanager
def loading(origin: str) -> Iterator[None]:
    """Attributes everything registered meanwhile to `origin`, unless it lies in a module of routebench."""
    token = _loading.set(_Load(origin))
    try:
        yield
    finally:
        _loading.reset(token)


def origin_of(entry: Callable[..., Any]) -> str:
    """The origin of an object that is registered now, in words for messages."""
    module = getattr(entry, "__module__", type(entry).__module__)
    if module.startswith(f"{SHIPPED}."):
        return SHIPPED
    load = _loading.get()
    return load.origin if load else f"{OF_MODULE}{module}"


def origin_now() -> str:
    """The origin of what is declared now: the one that is being loaded, else the program."""
    load = _loading.get()
    return load.origin if load else PROGRAM


@dataclass(frozen=True)
class Registration:
    """The place of a registration: the line of a module, a script or a notebook's cell that runs meanwhile.

    Args:
        code: the code that runs, compiled once for each import, reload and run of a cell; None outside of any.
        line: number of the line in it.
        load: what is being loaded; None for a program's own.
    """

    code: CodeType | None
    line: int
    load: _Load | None

    @classmethod
    def now(cls) -> "Registration":
        """The place of whoever calls."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        return cls(frame and frame.f_code, frame.f_lineno if frame else 0, _loading.get())

    def is_again(self, first: "Registration") -> bool:
        """Tells whether this is another registration than the first one, and yet of the same load.

        The same line again may be a cell that is run again, or a file that one load imports under two names.
        """
        if self.code is None or first.code is None:
            return False
        same_code, same_load = self.code is first.code, self.load is not None and self.load is first.load
        return (same_code and same_load) or ((same_code or same_load) and str(self) != str(first))

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).name if self.code else ''}:{self.line}"


def same_definition(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Tells whether both are the same lines of one file, imported twice, as a notebook or a worker process does."""
    return one is other or _place_of(one) == _place_of(other)


def _place_of(entry: Callable[..., Any]) -> tuple[str, object]:
    file = getattr(sys.modules.get(entry.__module__), "__file__", None)
    module = entry.__module__ if file is None else str(Path(file).resolve())
    return module, getattr(entry, "__qualname__", entry)


def shipped(folder: str) -> Path:
    """The folder `suites` or `analyses`: inside an installed wheel, beside the package in a checkout."""
    installed = PACKAGE / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder


def installed_points(*groups: str) -> list[EntryPoint]:
    """The entry points of some groups that installed packages bring, as they were at the first question."""
    known = _points(tuple(sys.path))
    return [point for group in groups for point in known.select(group=group)]


@cache
def _points(path: tuple[str, ...]) -> Any:  # noqa: ARG001  # the path is what this is kept by
    """All entry points of packages on a path, to select from: of another type in Python 3.11 than later."""
    return entry_points()


def origin_of_point(point: EntryPoint) -> str:
    """The package that brings an entry point, in words for messages."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"package of {point.value}"


def in_one_line(error: Exception) -> str:
    """An error of foreign code in one line; a UserError is its own message."""
    text = " ".join(message_of(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
