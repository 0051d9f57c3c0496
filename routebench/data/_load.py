"""Data sets by name."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from routebench.data.dataset import Dataset
from routebench.data.official import no_downloads
from routebench.errors import FilesMissing, UserError
from routebench.registry import datasets

FOLD = "fold:"
"""How names begin of data sets that have no test image of another; see `routebench.data.folds`."""
_ALLOWED = re.compile(rf"(take:\d+:)?{FOLD}")
_seals: list[object] = []
"""One for each `sealed_test_images` that is open. It holds for all threads of this process."""
_declaring: list[set[str]] = []
"""One for each `declared_where_missing` that is open: the names of data sets whose size stood in."""


def load(name: str) -> Dataset:
    """The data set `name`, read once per process.

    Args:
        name: a registered name, or `folder:PATH` for a folder of images: what follows the colon goes to the loader
            that is registered as `folder:PATH`.

    Raises:
        UserError: no such data set (the nearest names are given), or it cannot be read, or test images are sealed.
        FilesMissing: its files are not there.
    """
    if _seals and not _ALLOWED.match(name):
        raise UserError(
            f"data set {name!r}: its test images are sealed while settings are tuned, a plug-in is imported, or a "
            "network runs, which sees no images but those that it is given"
        )
    declared = getattr(datasets[name], "declared", None) if _declaring and name in datasets else None
    asked = (name, os.environ.get("ROUTEBENCH_DATA"), Path.cwd())
    with _unsealed():
        if declared is None:
            return _loaded(*asked, bool(_declaring))
        try:
            with _truthful():
                return _loaded(*asked, False)
        except FilesMissing:
            _declaring[-1].add(name)
            found: Dataset = declared(name)
            return found


@contextmanager
def declared_where_missing() -> Iterator[set[str]]:
    """Lets `load` give a data set of the declared size, without a picture, where files are missing; downloads nothing.

    Yields:
        names of data sets, which grow as this happens.
    """
    names: set[str] = set()
    with no_downloads():
        _declaring.append(names)
        try:
            yield names
        finally:
            _declaring.pop()


@contextmanager
def _truthful() -> Iterator[None]:
    """Lets a loader that makes a set of others have no stand-in for these: it is then to have one itself."""
    held = _declaring[:]
    _declaring.clear()
    try:
        yield
    finally:
        _declaring.extend(held)


@contextmanager
def sealed_test_images() -> Iterator[None]:
    """Lets `load` give nothing but folds of training images.

    It guards against code that looks at test images because it knows no better. Code that reads files itself is not
    held back.
    """
    seal = object()
    _seals.append(seal)
    try:
        yield
    finally:
        _seals.remove(seal)


@contextmanager
def _unsealed() -> Iterator[None]:
    """Lets a loader read the set that it takes some images of."""
    held = _seals[:]
    _seals.clear()
    try:
        yield
    finally:
        _seals.extend(held)


@lru_cache(maxsize=4)
def _loaded(name: str, _root: str | None, _folder: Path, _stand_ins: bool) -> Dataset:
    """Cached by all that a name's meaning depends on.

    That is `_root`, the folder that relative paths start from, and whether the size of a set may stand in for it.
    """
    kind, colon, path = name.partition(":")
    data = datasets[f"{kind}:PATH"](path) if colon and f"{kind}:PATH" in datasets else datasets[name]()
    if not isinstance(data, Dataset):
        raise UserError(f"data set {name!r}: expected its loader to return a routebench.data.Dataset, got {data!r:.80}")
    return data
