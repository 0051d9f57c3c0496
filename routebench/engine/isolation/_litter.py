"""Leftovers of isolated processes: files in the temporary folder, and processes that left their group."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from routebench.received import open_plain

if sys.platform != "win32":
    import fcntl

LONGEST = 60
"""Characters of a temporary folder: names of sockets in it may have a hundred."""
TURNS, PAUSE = 20, 0.01
"""Number of looks for processes that started while others were ended, and seconds between."""
PROCESSES = Path("/proc")
PREFIX, LOCK = "routebench-", "lock"
"""The beginning of a temporary folder's name, and the file in it that its owner holds locked."""


class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary folder. Making one removes those whose owners were killed: nobody holds their locks any more."""

    def __init__(self) -> None:
        super().__init__(prefix=PREFIX)
        self._lock = (Path(self.name) / f".{LOCK}").open("wb")
        if sys.platform != "win32":
            _clear_left()
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            Path(self._lock.name).rename(Path(self.name) / LOCK)  # only now: what is not locked yet is not left

    def cleanup(self) -> None:
        """Removes it."""
        self._lock.close()
        super().cleanup()


def _clear_left() -> None:
    """Removes the temporary folders of this user whose locks nobody holds."""
    if sys.platform != "win32":
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # it is held, or not one of these
                if folder.lstat().st_uid == os.getuid():
                    with open_plain(folder / LOCK) as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(folder)


def beside(output: Path) -> Path:
    """The temporary folder of the process that writes to a file."""
    return output.with_name(f"{output.name}.tmp")


def into_own_folder(output: Path) -> None:
    """Gives this process, and those that it starts, a temporary folder of their own, which `clear` removes."""
    folder = beside(output)
    if len(str(folder)) > LONGEST:
        return
    compiled = f"{tempfile.gettempdir()}/torchinductor_{os.environ.get('USER', os.environ.get('LOGNAME', 'root'))}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", compiled)  # which later processes use again
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def clear(output: Path) -> None:
    """Ends the processes that an isolated one has left, and removes its temporary folder.

    They are known by what they inherited: the name of the folder, or the open file. Who gives up both is not found.
    """
    for _ in range(TURNS):
        left = list(_left_of(output))
        for number in left:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if not left:
            break
        time.sleep(PAUSE)
    shutil.rmtree(beside(output), ignore_errors=True)


def _left_of(output: Path) -> Iterator[int]:
    """The numbers of processes that carry the mark of an isolated one, where the system has /proc."""
    mark, file, own = f"TMPDIR={beside(output)}".encode(), str(output), os.getpid()
    for place in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if int(place.name) == own or place.stat().st_uid != os.getuid() or _is_dead(place):
                continue
            if mark in (place / "environ").read_bytes().split(b"\0") or file in map(
                os.readlink, (place / "fd").iterdir()
            ):
                yield int(place.name)


def _is_dead(place: Path) -> bool:
    return (place / "stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"Z"]
