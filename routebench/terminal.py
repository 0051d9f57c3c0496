"""What reaches the terminal: no remark of another library, and a stand-in for a letter that it cannot show."""

import codecs
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

STAND_INS = {"−": "-", "–": "-", "×": "x", "±": "+/-", "≥": ">=", "≤": "<=", "→": "->", "…": "...", "·": "*", "’": "'"}
"""For the signs that tables and messages are written with."""
LOUD = ("matplotlib", "torch.utils")
"""Loggers of libraries that tell of folders and tools which nobody asked for."""
REMARKS = ("CUDA initialization", "Can't initialize NVML", "Failed to initialize NumPy")
"""Beginnings of warnings by which torch tells what a machine lacks; `routebench doctor` says that."""


def prepare() -> None:
    """Has this process print what any terminal can show, and nothing of other libraries before it begins."""
    codecs.register_error("routebench", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="routebench")
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    for text in REMARKS:
        warnings.filterwarnings("ignore", text, UserWarning)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """What is written for letters that an encoding lacks: a near one, or the letter's number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(STAND_INS.get(one, ascii(one)[1:-1]) for one in lacking), error.end


@contextmanager
def unheard() -> Iterator[None]:
    """Drops what is written to the standard error meanwhile, by other programs too."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
