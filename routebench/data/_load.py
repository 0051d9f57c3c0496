"""Data sets by name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from routebench.data.dataset import Dataset
from routebench.data.official import no_downloads
from routebench.data.seal import expect_unsealed, unsealed
from routebench.data.unused import ARRAYS, ARRAYS_ADVICE
from routebench.errors import FilesMissing, UserError
from routebench.registry import datasets

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
    expect_unsealed(name)
    declared = getattr(datasets[name], "declared", None) if _declaring and name in datasets else None
    asked = (name, os.environ.get("ROUTEBENCH_DATA"), Path.cwd())
    with unsealed():
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


def _expect_no_path(name: str) -> None:
    """Raises UserError for the path of a file of arrays, or of a folder, in place of a name."""
    if name in datasets:
        return
    if Path(name).suffix.lower() in ARRAYS:
        raise UserError(f"expected the name of a data set, got the file {name!r}; {ARRAYS_ADVICE}")
    if name and Path(name).is_dir():
        raise UserError(f"unknown data set {name!r}; it is a folder: folder:{name} reads the images in it")


@lru_cache(maxsize=4)
def _loaded(name: str, _root: str | None, _folder: Path, _stand_ins: bool) -> Dataset:
    """Cached by all that a name's meaning depends on.

    That is `_root`, the folder that relative paths start from, and whether the size of a set may stand in for it.
    """
    kind, colon, path = name.partition(":")
    if colon and f"{kind}:PATH" in datasets:
        data = datasets[f"{kind}:PATH"](path)
    else:
        _expect_no_path(name)
        data = datasets[name]()
    if not isinstance(data, Dataset):
        raise UserError(f"data set {name!r}: expected its loader to return a routebench.data.Dataset, got {data!r:.80}")
    return data
