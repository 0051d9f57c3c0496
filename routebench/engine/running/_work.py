"""One cell in whichever process runs it: held by a lock, its progress told by a small file."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from routebench.engine.results import Record, Store, StoreFull, write_text
from routebench.engine.running._cell import run_cell
from routebench.engine.running._config import Setting
from routebench.engine.suites import Cell


def run_unless_held(cell: Cell, store: Store, setting: Setting, tell: Callable[[float], None]) -> Record | None:
    """The cell's record; None if another process runs it now.

    Args:
        cell: what to measure.
        store: where its record goes; a result that another process has put there meanwhile is taken.
        setting: how it is run.
        tell: is called with the share of the cell that is done, 0 to 1.
    """
    lock = store.try_lock("cell", cell.key)
    if lock is None:
        return None
    try:
        known = store.record(cell.key)
        if known is not None and known.status == "ok":
            return known
        tell(0.0)
        device, origin = torch.device(setting.device), setting.origin
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # kernels start on the current one
            origin = {**origin, "gpu": torch.cuda.get_device_name(device)}
        return run_cell(cell, store, device, origin, tell, alone=setting.in_processes)
    finally:
        lock.release()


@dataclass(frozen=True)
class Told:
    """What a worker process says of itself: its number in the system, and the share (0 to 1) that is done."""

    process: int
    share: float


class Note:
    """The file by which a worker process tells how far it is, at most once a second."""

    def __init__(self, store: Store, key: str):
        self.file = store.path / "locks" / f"cell-{key}.share"
        self.output = store.path / "locks" / f"cell-{key}.output"
        """What the cell prints."""
        self._last = float("-inf")

    def tell(self, share: float) -> None:
        """Writes the share, and this process's number."""
        if time.monotonic() - self._last >= 1:
            self._last = time.monotonic()
            with contextlib.suppress(OSError, StoreFull):  # a full disk must not end a cell that only tells of itself
                write_text(self.file, json.dumps({"process": os.getpid(), "share": share}))

    def read(self) -> Told | None:
        """What was told last; None if nothing was."""
        try:
            return Told(**json.loads(self.file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def remove(self) -> None:
        """Takes both files away, if the folder lets it."""
        for file in (self.file, self.output):
            with contextlib.suppress(OSError):
                file.unlink()


def shares(store: Store, cells: Sequence[Cell]) -> Mapping[str, float]:
    """What running cells tell, by key."""
    told = {cell.key: Note(store, cell.key).read() for cell in cells}
    return {key: one.share for key, one in told.items() if one is not None}


def tail(file: Path, length: int) -> str:
    """The last characters of a file that may be long, or not there."""
    try:
        with file.open("rb") as content:
            content.seek(max(0, file.stat().st_size - 4 * length))
            return content.read().decode("utf-8", errors="replace")[-length:]
    except OSError:
        return ""
