"""Who brings a name: routebench itself, an installed package, a plug-in, or a program that uses routebench."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

SHIPPED = "routebench"
"""The origin of what routebench brings itself."""

PACKAGE = Path(__file__).parents[1]

_loading: ContextVar[str | None] = ContextVar("loading", default=None)


@contextmanager
def loading(origin: str) -> Iterator[None]:
    """What is registered meanwhile comes from `origin`, unless it lies in a module of routebench."""
    token = _loading.set(origin)
    try:
        yield
    finally:
        _loading.reset(token)


def origin_of(entry: Callable[..., Any]) -> str:
    """Where an object comes from that is registered now, in words for messages."""
    module = entry.__module__
    if module.startswith(f"{SHIPPED}."):
        return SHIPPED
    return _loading.get() or f"module {module}"


def same_definition(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether both are the same lines of the same file, imported twice, as a notebook or a worker process does."""
    return one is other or _place_of(one) == _place_of(other)


def _place_of(entry: Callable[..., Any]) -> tuple[str, object]:
    file = getattr(sys.modules.get(entry.__module__), "__file__", None)
    module = entry.__module__ if file is None else str(Path(file).resolve())
    return module, getattr(entry, "__qualname__", entry)


def shipped(folder: str) -> Path:
    """The folder `suites` or `analyses`: inside an installed wheel, beside the package in a checkout."""
    installed = PACKAGE / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder
