"""The folder in which routebench keeps what it can make again."""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import platformdirs

from routebench.atomic import write_bytes
from routebench.errors import UserError

MOST = 8
"""Files that `keep` leaves of one kind: one for each state of the code, the newest."""

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


def kept(kind: str, name: str) -> Any:
    """The content that `keep` wrote. None if there is none, or if it is damaged.

    Args:
        kind, name: as for `keep`.
    """
    content = kept_bytes(kind, f"{name}.json")
    return None if content is None else json.loads(content)


def keep(kind: str, name: str, content: Any) -> None:
    """Keeps what can be made again as JSON, in place of the oldest of its kind; does nothing where that is impossible.

    Args:
        kind: the folder below `cache_folder`.
        name: names the state of the code, and whatever else the content depends on.
        content: what JSON holds.
    """
    keep_bytes(kind, f"{name}.json", json.dumps(content).encode())


def kept_bytes(kind: str, file: str) -> bytes | None:
    """The bytes that `keep_bytes` wrote. None if there are none, or if they are damaged.

    Args:
        kind, file: as for `keep_bytes`.
    """
    with contextlib.suppress(OSError, UserError):
        checksum, _, content = (cache_folder() / kind / file).read_bytes().partition(b"\n")
        if checksum == _checksum(content):
            return content
    return None


def keep_bytes(kind: str, file: str, content: bytes) -> None:
    """Keeps bytes that can be made again, as `keep` does.

    Args:
        kind: the folder below `cache_folder`.
        file: the name of a file in it, with a suffix.
        content: what is kept.
    """
    with contextlib.suppress(OSError, UserError):
        place = cache_folder() / kind / file
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, _checksum(content) + b"\n" + content)
        known = place.parent.glob(f"*{place.suffix}")
        for old in sorted(known, key=lambda one: one.stat().st_mtime)[:-MOST]:
            old.unlink()


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
