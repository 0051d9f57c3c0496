"""The folder in which routebench keeps what it can make again."""

import os
from pathlib import Path

import platformdirs

from routebench.errors import UserError

CHOOSE_A_FOLDER = "set ROUTEBENCH_CACHE to a folder that you can write to"


def cache_folder() -> Path:
    """The folder of what routebench can make again: ROUTEBENCH_CACHE, else in the user's cache folder.

    Raises:
        UserError: the user has no home folder.
    """
    if given := os.environ.get("ROUTEBENCH_CACHE"):
        return Path(given)
    try:
        folder = platformdirs.user_cache_path("routebench", appauthor=False)
        if folder.is_absolute():  # older platformdirs keep the `~` of a missing home
            return folder
    except RuntimeError:  # no HOME, and a user whom the system does not know, as in a container
        pass
    raise UserError(f"you have no home folder for what routebench keeps; {CHOOSE_A_FOLDER}")
