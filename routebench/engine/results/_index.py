"""Caches the content of a results folder. The cache is derived data; in doubt it is discarded.

A results folder consists of its records and plans. An index beside them saves reading 100,000 files again. It holds
their content by column, and the size, times and inode of each file, which show whether the file has changed.
"""

import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.atomic import write_bytes
from routebench.engine.results._columns import Column
from routebench.errors import UserError
from routebench.received import expect_plain, from_json

VERSION = "9"
"""Incremented when the stored format changes; an index of another version is rebuilt."""
ENOUGH = 1000
"""Smallest number of files, or of runs of a plan, worth indexing."""
SETTLED = 2.0
"""Seconds that a file must be unchanged before indexing: clocks of file systems are coarse."""


def stamp(known: os.stat_result) -> tuple[int, int, int, int]:
    """Size, times and inode of a file. They change when it is written or replaced, even if a clock was set back."""
    return known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino


def settled(stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tells which files are unchanged for a while; [files, 4] to [files]. Never true of a file from the future."""
    return stamps[:, 1] < time.time_ns() - int(SETTLED * 1e9)


@dataclass
class Saved:
    """Columns and arrays as an index holds them."""

    columns: dict[str, Column]
    arrays: dict[str, NDArray[Any]]


def save(file: Path, saved: Saved) -> None:
    """Writes an index, if the folder is writable."""
    from safetensors.numpy import save as serialise

    arrays = dict(saved.arrays)
    for name, column in saved.columns.items():
        arrays[f"{name}/codes"] = column.codes
        arrays[f"{name}/values"] = np.frombuffer(json.dumps(column.kinds).encode(), dtype=np.uint8)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    sums = {name: str(_sum(array)) for name, array in arrays.items()}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, serialise(arrays, metadata={**sums, "index": VERSION}))
    except (OSError, UserError):  # a folder that may only be read, a full disk: it is done without
        return


def load(file: Path, columns: Iterable[str], arrays: Iterable[str]) -> Saved | None:
    """Reads parts of an index; None if it is missing, damaged or of another version."""
    from safetensors import SafetensorError, safe_open

    try:
        expect_plain(file)
        with safe_open(file, framework="np") as opened:
            sums = opened.metadata() or {}
            if sums.get("index") != VERSION:
                return None
            return Saved(
                {
                    name: Column(
                        from_json(_checked(opened, sums, f"{name}/values").tobytes()),
                        _checked(opened, sums, f"{name}/codes"),
                    )
                    for name in columns
                },
                {name: _checked(opened, sums, name) for name in arrays},
            )
    except (SafetensorError, OSError, ValueError, KeyError):
        return None


def _checked(opened: Any, sums: Mapping[str, str], name: str) -> NDArray[Any]:
    found: NDArray[Any] = opened.get_tensor(name)
    if str(_sum(found)) != sums[name]:
        raise ValueError(f"{name} is not what was written")
    return found


def _sum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)
