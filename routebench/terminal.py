"""Keeps remarks of other libraries off the terminal, and replaces letters that it cannot show."""

import codecs
import io
import logging
import sys
import warnings

STAND_INS = {"−": "-", "–": "-", "×": "x", "±": "+/-", "≥": ">=", "≤": "<=", "→": "->", "…": "...", "·": "*", "’": "'"}
"""Replacements for the signs that tables and messages are written with."""
LOUD = ("matplotlib", "torch.utils")
"""Loggers of libraries that tell of folders and tools which nobody asked for."""
REMARKS = ("CUDA initialization", "Can't initialize NVML", "Failed to initialize NumPy")
"""Beginnings of warnings by which torch tells what a machine lacks; `routebench doctor` says that."""


def prepare() -> None:
    """Makes this process print only what any terminal can show, and no remarks of other libraries."""
    codecs.register_error("routebench", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="routebench")
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    for text in REMARKS:
        warnings.filterwarnings("ignore", text, UserWarning)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """The replacement for letters that an encoding lacks: a similar sign, or the letter's number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(STAND_INS.get(one, ascii(one)[1:-1]) for one in lacking), error.end
