"""Where routebench keeps what it can make again."""

import os
from pathlib import Path

from routebench.errors import UserError

CHOOSE_A_FOLDER = "set ROUTEBENCH_CACHE to a folder that you can write to"


def cache_folder() -> Path:
    """The folder of compiled kernels and unpacked results: ROUTEBENCH_CACHE, else in the user's cache folder.

    Raises:
        UserError: the user has no home folder.
    """
    if given := os.environ.get("ROUTEBENCH_CACHE"):
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "routebench"
    except RuntimeError as error:  # no HOME, and a user whom the system does not know, as in a container
        why = "you have no home folder for compiled kernels and unpacked results"
        raise UserError(f"{why}; {CHOOSE_A_FOLDER}") from error
