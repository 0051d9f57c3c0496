"""Data sets by name."""

import os
from functools import lru_cache
from pathlib import Path

from routebench.data.dataset import Dataset
from routebench.errors import UserError
from routebench.registry import datasets


def load(name: str) -> Dataset:
    """The data set `name`, read once per process.

    Args:
        name: a registered name, or `folder:PATH` for a folder of images: what follows the colon goes to the loader
            that is registered as `folder:PATH`.

    Raises:
        UserError: no such data set (the nearest names are given), or it cannot be read.
    """
    return _loaded(name, os.environ.get("ROUTEBENCH_DATA"), Path.cwd())


@lru_cache(maxsize=4)
def _loaded(name: str, _root: str | None, _folder: Path) -> Dataset:
    """Cached by all that a name's meaning depends on: `_root` and the folder that relative paths start from."""
    kind, colon, path = name.partition(":")
    data = datasets[f"{kind}:PATH"](path) if colon and f"{kind}:PATH" in datasets else datasets[name]()
    if not isinstance(data, Dataset):
        raise UserError(f"data set {name!r}: expected its loader to return a routebench.data.Dataset, got {data!r:.80}")
    return data
