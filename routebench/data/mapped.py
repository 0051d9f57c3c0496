"""Arrays that stay in their file. If somebody cuts the file short while they are read, one line says so."""

import ctypes
import faulthandler
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from routebench.errors import UserError, printable, shown

_needed: dict[Path, int] = {}
"""The bytes that files had when they were mapped."""
_handlers: list[Any] = []
"""The handler of this process, once there is one: it has to last as long as the process."""


def mapped(
    file: Path, kind: DTypeLike, mode: Literal["c", "r+"], shape: Sequence[int] | None = None, **layout: Any
) -> NDArray[Any]:
    """An array in a file, mapped into memory.

    A process ends when it reads what is no longer in the file. faulthandler then tells the place in the code, as in
    worker processes. Without it, one line names the file.

    Args:
        file, kind, mode, shape, layout: as for `np.memmap`.
    """
    found = np.memmap(file, kind, mode, shape=None if shape is None else tuple(shape), **layout)
    _needed[file.absolute()] = file.stat().st_size
    if hasattr(signal, "SIGBUS") and not _handlers and not faulthandler.is_enabled():
        _handlers.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(_end))  # one of Python's would be called too late
        ctypes.CDLL(None).signal(signal.SIGBUS, _handlers[0])
    return found


def _end(_: int) -> NoReturn:
    cut = [shown(file) for file, size in _needed.items() if file.exists() and file.stat().st_size < size]
    what = ", ".join(cut) or "a file that is mapped into memory"
    told = f"{what}: got shorter while it was read; write it again as a whole, then run the same command again"
    os.write(2, printable(f"\nError: {told}\n").encode(errors="backslashreplace"))
    os._exit(UserError.exit_code)
