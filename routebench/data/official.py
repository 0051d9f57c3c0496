"""Finds, downloads and verifies the files of a data set as its authors published them."""

import gzip
import hashlib
import os
import shutil
import socket
import sys
import tarfile
import textwrap
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from routebench.atomic import alone, made_folder, unfinished
from routebench.cache import cache_folder
from routebench.data.seal import expect_unsealed
from routebench.data.torchvision_import import import_torchvision
from routebench.data.unused import near, near_missing
from routebench.errors import FilesMissing, UserError
from routebench.received import permitted

PATIENCE = 30  # seconds without an answer from a server
LARGEST = 200_000_000  # bytes; the largest official file, unpacked, has 182 million
DOWNLOAD_FAILURES = (OSError, RuntimeError, ImportError, HTTPException, EOFError, tarfile.TarError, zlib.error)


@dataclass(frozen=True)
class Published:
    """A published data set and where it lies, in torchvision's layout.

    Args:
        name: the name that users call it by.
        torchvision_name: the class of `torchvision.datasets` that downloads it.
        folder: folder of its files, below the root.
        files: the MD5 of each file, unpacked. A file may also lie there packed, as `<file>.gz`.
        downloads: the arguments with which torchvision's class fetches everything.
        archive: the file in the root that torchvision would download and unpack.
        also_in: a folder where an operating system's package puts the files.
        package: how to install that package.
    """

    name: str
    torchvision_name: str
    folder: str
    files: Mapping[str, str]
    downloads: tuple[Mapping[str, Any], ...] = field(default=({},))
    archive: str = ""
    also_in: Path | None = None
    package: str = ""


def data_root() -> Path:
    """The folder of published data sets: `ROUTEBENCH_DATA`, else `data` in the cache folder.

    Raises:
        UserError: `ROUTEBENCH_DATA` names no folder, or is not set for a user without a home folder.
    """
    chosen = os.environ.get("ROUTEBENCH_DATA")
    if not chosen:
        return cache_folder() / "data"
    try:
        root = Path(chosen).expanduser()
    except RuntimeError as error:
        raise UserError(f"ROUTEBENCH_DATA: expected a folder, got {chosen!r}; you have no home folder") from error
    if not permitted(root, "ROUTEBENCH_DATA").is_dir():
        told = f"{chosen!r}, which is none{near(root.name, root.parent)}"
        raise FilesMissing(f"ROUTEBENCH_DATA: expected a folder, got {told}; create or correct it")
    return root


def absent(published: Published) -> list[str]:
    """The files that would have to be downloaded; nothing is.

    Args:
        published: the data set.

    Returns:
        the names of missing files; empty where all are there.

    Raises:
        UserError: `ROUTEBENCH_DATA` names no folder, or is not set for a user without a home folder.
    """
    return _missing(published, data_root())


_offline: list[object] = []
"""One for each `no_downloads` that is open. It holds for all threads of this process."""


@contextmanager
def no_downloads() -> Iterator[None]:
    """Lets `official_files` download nothing."""
    mark = object()
    _offline.append(mark)
    try:
        yield
    finally:
        _offline.remove(mark)


def expect_downloads(name: str, missing: str) -> None:
    """Refuses to fetch or make files where nothing may be: while a plan is only looked at.

    Args:
        name: name of the data set.
        missing: what is not there, in words.

    Raises:
        FilesMissing: nothing may be downloaded now.
    """
    if _offline:
        raise FilesMissing(f"{name}: {missing}")


def official_files(published: Published) -> dict[str, bytes]:
    """The verified contents of every file, downloaded first where one is missing.

    Raises:
        UserError: a file is missing and cannot be downloaded, cannot be read, or is not the official one.
        FilesMissing: a file is missing and nothing may be downloaded.
    """
    expect_unsealed(published.name)
    root = data_root()
    if missing := _missing(published, root):
        if _offline:
            lies = near_missing(missing[0], root / published.folder, root, published.files)
            raise FilesMissing(f"{published.name}: {', '.join(missing)} not found in {root / published.folder}{lies}")
        _download(published, root)
    return {file: _verified(published, file, root) for file in published.files}


def _found(published: Published, file: str, root: Path) -> Path | None:
    folders = [root / published.folder] + ([published.also_in] if published.also_in else [])
    places = [place for folder in folders for place in (folder / file, folder / f"{file}.gz")]
    return next((place for place in places if permitted(place, published.name).is_file()), None)


def _missing(published: Published, root: Path) -> list[str]:
    return [file for file in published.files if _found(published, file, root) is None]


def _verified(published: Published, file: str, root: Path) -> bytes:
    place = _found(published, file, root)
    if place is None:
        raise UserError(f"{published.name}: {file} vanished from {root / published.folder} while it was being read")
    expected = published.files[file]
    try:
        with gzip.open(place) if place.suffix == ".gz" else place.open("rb") as opened:
            content = opened.read(LARGEST + 1)  # no more: a few packed bytes can hold any number
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{published.name}: {place} is damaged ({error}); delete it to have it downloaded") from error
    except OSError as error:
        raise UserError(f"{published.name}: cannot read {place} ({error.strerror}); make it readable") from error
    if len(content) > LARGEST:
        told = f"it holds more than {LARGEST / 1e6:.0f} MB; delete it to have it downloaded"
        raise UserError(f"{published.name}: {place} is not the official file: {told}")
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        other = next((name for name, md5 in published.files.items() if md5 == found), "")
        which = f", which is {other}" if other else ""
        raise UserError(
            f"{published.name}: {place} is not the official file: expected md5 {expected}, got {found}{which} "
            f"({len(content):,} bytes); delete it to have it downloaded"
        )
    return content


def _download(published: Published, root: Path) -> None:
    """Puts what is missing in place, file by file, each complete: a kill leaves no half file under a real name.

    A download that fails leaves nothing behind.
    """
    folder = root / published.folder
    lock = root / f".{published.name}.lock"
    try:
        with made_folder(folder), alone(lock), unfinished(root / published.name) as fresh:
            if not _missing(published, root):  # another process was faster
                return
            if published.archive and (root / published.archive).is_file():
                shutil.copy(root / published.archive, fresh)
            with _patience(), redirect_stdout(sys.stderr):
                fetch = getattr(import_torchvision().datasets, published.torchvision_name)
                for arguments in published.downloads:
                    fetch(fresh, download=True, **arguments)
            for file in _missing(published, root):
                (fresh / published.folder / file).replace(folder / file)
    except DOWNLOAD_FAILURES as error:
        reason = textwrap.shorten(" ".join(str(error).split()) or type(error).__name__, 200)
        missing = ", ".join(absent := _missing(published, root))
        lies = near_missing(absent[0], folder, root, published.files) if absent else ""
        raise UserError(
            f"{published.name}: {missing} not found in {folder}{lies}, and downloading failed ({reason}); "
            f"set ROUTEBENCH_DATA to a folder that holds {Path(published.folder) / next(iter(published.files))} "
            f"and the other official files{published.package and f', or {published.package}'}"
        ) from error


@contextmanager
def _patience() -> Iterator[None]:
    """Makes a silent server a failure: torchvision itself would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
