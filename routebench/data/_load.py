"""Data sets by name."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from routebench.data.dataset import Dataset
from routebench.errors import UserError
from routebench.registry import datasets

FOLD = "fold:"
"""How names begin of data sets that have no test image of another; see `routebench.data.folds`."""
_ALLOWED = re.compile(rf"(take:\d+:)?{FOLD}")
_seals: list[object] = []
"""One for each `sealed_test_images` that is open. It holds for all threads of this process."""


def load(name: str) -> Dataset:
    """The data set `name`, read once per process.

    Args:
        name: a registered name, or `folder:PATH` for a folder of images: what follows the colon goes to the loader
            that is registered as `folder:PATH`.

    Raises:
        UserError: no such data set (the nearest names are given), or it cannot be read, or test images are sealed.
    """
    if _seals and not _ALLOWED.match(name):
        raise UserError(
            f"data set {name!r}: its test images are sealed while settings are tuned; a trial sees parts of the "
            "training images alone, which its context gives it"
        )
    with _unsealed():
        return _loaded(name, os.environ.get("ROUTEBENCH_DATA"), Path.cwd())


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
def _loaded(name: str, _root: str | None, _folder: Path) -> Dataset:
    """Cached by all that a name's meaning depends on: `_root` and the folder that relative paths start from."""
    kind, colon, path = name.partition(":")
    data = datasets[f"{kind}:PATH"](path) if colon and f"{kind}:PATH" in datasets else datasets[name]()
    if not isinstance(data, Dataset):
        raise UserError(f"data set {name!r}: expected its loader to return a routebench.data.Dataset, got {data!r:.80}")
    return data
