"""Opens files that may come from anybody: regular ones, no links, never waiting, up to a size.

A folder that was sent may hold a pipe, on which a reader waits for ever; a device, which has no end; a link to a file
of the reader's own; a file of many gigabytes that takes no room on the sender's disk.
"""

import errno
import json
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

from routebench.errors import UserError, shown

TEXT = 256 << 20
"""Bytes of the largest file of text that is read."""
TENSORS = 4 << 30
"""Bytes of the largest file of arrays or weights that is read."""
PACK = 16 << 30
"""Bytes of the largest file of a pack that is read."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_KINDS = (
    (stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip


class NotPlain(OSError):
    """Something else than a file has a file's name, or the file is too large.

    Args:
        file: its path.
        why: the reason in words, such as `it is a pipe`.
    """

    def __init__(self, file: Path | str, why: str):
        super().__init__(0, why, str(file))

    def __str__(self) -> str:
        return str(self.strerror)


def kind_of(known: os.stat_result) -> str:
    """`a link`, `a folder`, `a pipe`, `a socket`, `a device` or `a file`."""
    return next((kind for is_kind, kind in _KINDS if is_kind(known.st_mode)), "a file")


def permitted(path: Path, what: str = "") -> Path:
    """A path that a user named, whether or not there is anything; of a folder or a file, one that may be read.

    Of what may not be looked at, `Path.exists` says no, or raises, by the version of Python.

    Args:
        path: the path.
        what: what it was named for, as the error begins.

    Raises:
        UserError: the system does not let this user look at it.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
            os.stat(f"{path}{os.sep}.")  # noqa: PTH116  # pathlib leaves the point out
        elif stat.S_ISREG(mode):
            path.open("rb").close()
    except PermissionError as error:
        named = what and f"{what}: "
        raise UserError(f"{named}cannot read {shown(path)} ({error.strerror}); make it readable") from error
    except (OSError, ValueError):
        pass  # of which the caller tells
    return path


def expect_plain(file: Path | str, most: int = TENSORS, *, named: bool = False) -> os.stat_result:
    """The stamp of a regular file, for libraries that open a path themselves.

    Args:
        file: its path.
        most: bytes that it may have.
        named: whether the user named this very path, in which a link is followed.

    Raises:
        NotPlain: it is something else, or larger.
        OSError: it is a folder, or missing, or the system refuses it.
    """
    known = Path(file).stat(follow_symlinks=named)
    _expect(file, known, most)
    return known


def open_plain(file: Path | str, most: int = TENSORS, *, named: bool = False) -> BufferedReader:
    """A regular file, opened to read; arguments and errors as for `expect_plain`.

    Args:
        file, most, named: as for `expect_plain`.
    """
    return os.fdopen(_open(file, most, named)[0], "rb")


def read_plain(file: Path | str, most: int = TEXT, *, named: bool = False) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file and its stamp; arguments and errors as for `expect_plain`.

    Args:
        file, most, named: as for `expect_plain`.
    """
    descriptor, known = _open(file, most, named)
    try:
        content = os.read(descriptor, known.st_size + 1)
        while len(content) != known.st_size and (more := os.read(descriptor, known.st_size + 1)):
            content += more  # it grew, or the system gives no more at once
            if len(content) > most:
                raise NotPlain(file, f"it grows, and at most {most:,} bytes are read")
    finally:
        os.close(descriptor)
    return content, known


def text_in(file: Path | str) -> str:
    """The text of a file that a user named, as far as it is one: empty for what cannot be read."""
    try:
        return read_plain(file, named=True)[0].decode(errors="replace")
    except OSError:
        return ""


def _open(file: Path | str, most: int, named: bool) -> tuple[int, os.stat_result]:
    """The descriptor of a regular file and its stamp."""
    expect_plain(file, most, named=named)  # opening a device may do something, so that it is not even opened
    descriptor = os.open(file, _FLAGS if named else _FLAGS | _NO_LINK)
    try:
        known = os.fstat(descriptor)
        _expect(file, known, most)  # another may have been put there meanwhile
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, known


def _expect(file: Path | str, known: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(known.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(known.st_mode):
        raise NotPlain(file, f"it is {kind_of(known)}, not a file")
    if known.st_size > most:
        raise NotPlain(file, f"it has {known.st_size:,} bytes, and at most {most:,} bytes are read")


class KeyTwice(ValueError):
    """A table of JSON has a key twice, of which readers take the one or the other.

    Args:
        key: the key.
    """

    def __init__(self, key: str):
        super().__init__(f"the key {key!r:.80} is there twice")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyTwice(next(key for key in keys if keys.count(key) > 1))
    return found


def from_json(text: bytes | str) -> Any:
    """Parses JSON that may come from anybody.

    Raises:
        KeyTwice: a table has a key twice.
        ValueError: it is no JSON, no UTF-8, or too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except RecursionError as error:
        raise ValueError("lists or tables are too deep") from error


def expect_folders(folder: Path, parts: Iterable[str], what: str) -> None:
    """Checks that those parts of a folder which are there are folders of its own.

    Args:
        folder: the user may have named it by a link.
        parts: their names.
        what: what it is, for the message.

    Raises:
        UserError: one is a link, which may lead to files of the reader's own, or no folder.
    """
    for part in parts:
        try:
            kind = kind_of(os.lstat(folder / part))
        except OSError:  # it is not there, or nothing can be reached there, as the reader will find
            continue
        if kind != "a folder":
            raise UserError(
                f"{what} {str(folder)!r}: expected {part}/ to be a folder in it, got {kind}; put its files there"
            )
