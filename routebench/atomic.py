"""Files that are written whole or not at all, whatever happens to the process, the machine or the disk."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from routebench.errors import FULL, UserError
from routebench.received import expect_plain, from_json, kind_of, read_plain

if sys.platform != "win32":  # there, leftovers are known by their age alone
    import fcntl

if TYPE_CHECKING:
    import torch

FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
"""A folder, or the disk that it is on, that can only be read."""
NOT_OURS = {"a link", "a pipe", "a socket", "a device"}
"""The kinds of thing in whose place no file is written unless the user named it."""
PACKED = ("records.parquet", "arrays.parquet", "networks.parquet")
"""The files of a packed results folder; with the first of them a folder counts as one."""
PARTS = ("plans", "records", "arrays", "fits", "locks", "index", "damaged")
"""The folders in a results folder."""
OWN = {*PACKED, "schema.json", "submission.json"}
"""Files that lie in a results folder, a pack or a submission itself, and are read from there."""
SETTINGS = ".settings.json"
"""The end of the names of chosen settings, which lie in a results folder itself."""
LONGEST = 200
"""Bytes of a name in that of what is unfinished; names of files have 255 at most."""
UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.[0-9a-f]{8}\.tmp$")
"""The end of the name of what is unfinished."""
OPEN = re.compile(r"/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd")
"""A folder of the open files of a process, without links; on Linux with the number of the process."""
LINKS = 40
"""The most links that systems follow, one after another."""
MOVED = ".moved"
"""The file in an unfinished folder that names what is moved out of it, with numbers by which it is known again."""
OLD = 24 * 3600
"""Seconds after which an unfinished file of another machine is a leftover."""


class StoreFull(UserError):
    """The disk takes no more, or lets nothing be written. What was written before is whole; nothing is half-written."""

    exit_code = 3  # the rest is kept
    reason = "the disk is full"


def write_text(file: Path, text: str, *, lasting: bool = True) -> None:
    """Writes a file in one step: a reader, or a crash, finds the old one or the new one, whole. No link is followed.

    Args:
        file: its path.
        text: its content. What UTF-8 cannot hold, as in names of files, becomes `printable`.
        lasting: whether it waits until the disk has the file, so that a loss of power does not undo it.

    Raises:
        StoreFull: the disk, or the user's share of it, is full, or can only be read. The old file stays.
    """
    _replace(file, encoded(text), lasting=lasting)


def encoded(text: str) -> bytes:
    r"""Text as UTF-8. The bytes of names that are none stand as `\udcff` does on a terminal."""
    return text.encode(errors="backslashreplace")


def write_tensors(file: Path, tensors: Mapping[str, "torch.Tensor"]) -> str:
    """Writes tensors as safetensors, in one step; returns the SHA-256 of what was written.

    Args:
        file: its path.
        tensors: by name, on any device.

    Raises:
        StoreFull: as for `write_text`.
    """
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(plain)
    _replace(file, content)
    return hashlib.sha256(content).hexdigest()


def write_bytes(file: Path, content: bytes) -> None:
    """Writes bytes in one step, as `write_text` does text.

    Args:
        file: its path.
        content: what is written.

    Raises:
        StoreFull: as for `write_text`.
    """
    _replace(file, content)


def write_output(
    file: Path, content: str | bytes, what: str, *, named: bool = True, keeps_settings: bool = False
) -> None:
    """Writes a file that the user asked for, in one step, with the folders that it needs.

    Args:
        file: its path. A link stays, and what it leads to is written. Pipes and devices are written to.
        content: text is written as UTF-8.
        what: what it is, for the message.
        named: whether the user named the place; in any other, a link, a pipe or a device is refused.
        keeps_settings: whether it holds chosen settings, which a results folder has by names of theirs.

    Raises:
        UserError: it cannot be written there. The old file stays.
    """
    written = encoded(content) if isinstance(content, str) else content
    with told_unwritten(file, what):
        expect_place(file, what, named=named)
        if is_stream(file):
            sys.stdout.flush()
            printed_to = _printed_to(file)
            with file.open("wb") if printed_to is None else os.fdopen(os.dup(printed_to), "wb") as opened:
                opened.write(written)
            return
        target = Path(os.path.realpath(file))
        if target.name.endswith(SETTINGS) and _is_results(target.parent) and not keeps_settings:
            raise UserError(_refused(what, file, "a results folder has chosen settings by such names", "-o"))
        with made_folder(target.parent):
            clear_unfinished(target)
            _replace(target, written)


@contextlib.contextmanager
def told_unwritten(path: Path, what: str) -> Iterator[None]:
    """Tells in one line that the system does not let the user's output be written.

    Args:
        path: its path.
        what: what it is, for the message.

    Raises:
        UserError: in place of errors of the system.
    """
    try:
        yield
    except (OSError, StoreFull) as error:
        reason = error.strerror if isinstance(error, OSError) else error.reason
        raise UserError(f"{what} cannot be written to {str(path)!r}: {reason}; choose with -o") from error


def is_stream(file: Path) -> bool:
    """Tells whether it is a pipe, a device or an open file, beside which nothing else is to be written."""
    return _printed_to(file) is not None or (file.exists() and not (file.is_file() or file.is_dir()))


def _printed_to(file: Path) -> int | None:
    """The number of an open file, if it is named as such: it may hold more already, and what opened it may add to it.

    It is standard output, standard error, or another that this process was given.
    """
    named = os.path.abspath(file)  # noqa: PTH100  # links are what it is about
    with contextlib.suppress(OSError):
        if (own := _open_file(named)) is not None and os.get_inheritable(own):  # none that Python has opened
            return own
        if named.startswith(("/dev/", "/proc/")):
            known = file.stat()
            return next((number for number in (1, 2) if os.path.samestat(known, os.fstat(number))), None)
    return None


def _open_file(named: str) -> int | None:
    """The number of this process's open file that a path names, or the path that a link leads to."""
    for _ in range(LINKS):
        folder, name = os.path.split(named)
        found = OPEN.fullmatch(os.path.realpath(folder))
        if found and found[1] in (None, str(os.getpid())) and re.fullmatch(r"\d{1,9}", name, re.ASCII):
            return int(name)
        if not os.path.islink(named):  # noqa: PTH114
            break
        named = os.path.join(folder, os.readlink(named))  # noqa: PTH115, PTH118
    return None


def expect_page(page: Path, what: str, *, named: bool = True) -> None:
    """Checks, as `expect_place` does, that a page can be written to a path; its name has to end as that of a page.

    Args:
        page: the path.
        what: what it is, for the message.
        named: whether the user named the place.

    Raises:
        UserError: it cannot, or the name of a file ends in anything else than .html or .htm.
    """
    expect_place(page, what, named=named)
    if page.suffix.lower() not in (".html", ".htm") and not is_stream(page):
        raise UserError(_refused(what, page, "expected a name that ends in .html", "-o"))


def expect_place(path: Path, what: str, option: str = "-o", *, folder: bool = False, named: bool = True) -> None:
    """Checks that a file, or a folder, can be written at a path as far as is known before it is tried.

    Args:
        path: the path. Folders on the way may be missing.
        what: what is to be written, for the message.
        option: the option that chooses another path.
        folder: whether it is a folder.
        named: whether the user named the place. A link in another may lead to files of the user's own.

    Raises:
        UserError: a folder or a file stands in the way, or may only be read, or results are kept there.
    """
    found = kind_of(path.lstat()) if os.path.lexists(path) and not named else ""
    if found in NOT_OURS:
        raise UserError(_refused(what, path, f"it is {found}", option))
    if is_stream(path) and not folder:  # which has no path of its own, where /dev/stdout leads to a pipe
        return
    target = Path(os.path.realpath(path))
    nearest = next(each for each in (target, *target.parents) if os.path.lexists(each))  # the root is there
    why = _kept_there(target)
    if not why and folder and path.is_symlink() and nearest != target:
        why = "it is a link to nothing"
    if not why and nearest == target and not folder:
        why = "it is a folder" if target.is_dir() else "it is a link to itself" if target.is_symlink() else ""
        nearest = target.parent
    if not why and not nearest.is_dir():
        why = f"{_near(nearest, path)!r} is {kind_of(nearest.lstat())}"
    if not why and not os.access(nearest, os.W_OK | os.X_OK):
        why = f"the folder {_near(nearest, path)!r} may only be read"
    if why:
        raise UserError(_refused(what, path, why, option))


def _refused(what: str, path: Path, why: str, option: str) -> str:
    return f"{what} cannot be written to {str(path)!r}: {why}; choose another with {option}"


def _kept_there(target: Path) -> str:
    """The reason why nothing else is written to a path: results are kept there. Empty if they are not."""
    for each in (target, *target.parents):
        if each.name in PARTS and _is_results(each.parent):
            return f"the results folder {str(each.parent)!r} keeps its own files in {each.name}/"
    if target.name in OWN and _is_results(target.parent):
        return f"the results folder {str(target.parent)!r} has a file of its own by this name"
    return ""


def _is_results(folder: Path) -> bool:
    """Tells whether a folder holds results, packed or not."""
    known = (folder / "schema.json", folder / "plans", folder / "records")
    return os.path.lexists(folder / PACKED[0]) or sum(map(os.path.lexists, known)) > 1


def _near(found: Path, path: Path) -> str:
    """A folder or file on the way to a path, as the path names it."""
    named = (each for each in (path, *path.parents) if os.path.realpath(each) == str(found))
    return str(next(named, found))


@contextlib.contextmanager
def told_when_full(folder: Path) -> Iterator[None]:
    """Turns the errors of a disk that is full, or can only be read, into `StoreFull`.

    Args:
        folder: the folder that is written to, for the message; of an unfinished one, that which it lies in is named.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL | FORBIDDEN:
            raise
        way = "make room" if error.errno in FULL else "let it be written"
        place = next((each.parent for each in (*folder.parents[::-1], folder) if _is_unfinished(each)), folder)
        full = StoreFull(
            f"results folder: {str(place)!r} takes no more ({error.strerror}); "
            f"finished runs are kept: {way}, then run the same command again"
        )
        if error.errno in FORBIDDEN:
            full.reason = str(error.strerror)
        raise full from error


@contextlib.contextmanager
def alone(lock: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock, whose file goes away with it, also after an error.

    Args:
        lock: the lock's own file.
        waits: is called where another holds it, before this one waits.

    Raises:
        OSError: no such file can be made.
    """
    from filelock import FileLock, Timeout

    lock.open("ab").close()  # where that fails, `FileLock` may try for ever
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except Timeout:
        waits()
        held.acquire()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # of a system that removes no open file
            lock.unlink()
        held.release()


@contextlib.contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """A temporary folder beside a file or folder that is made in it and then moved; with it goes what was left there.

    Those of processes that were killed while they made the same go, too, as `clear_leftovers` knows them.

    Args:
        target: what is made. The folder that it is to lie in is there.

    Raises:
        OSError: no folder can be made.
    """
    clear_unfinished(target)
    descriptor, made = _begin_folder(target)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def taken_away(files: Collection[Path], made: Path) -> Iterator[None]:
    """Takes files away while that is replaced by which they are known; after an error, they are there again.

    Who is killed meanwhile leaves what names the others, so that the same command takes those away, too.

    Args:
        files: their paths. What is a folder now, or may not be moved, stays.
        made: an `unfinished` folder of the same disk, with which they go.

    Raises:
        OSError: one cannot be moved.
    """
    try:
        for file in files:
            if file.is_symlink() or not file.is_dir():
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    os.replace(file, made / file.name)
        yield
    except BaseException:
        for file in files:
            if os.path.lexists(made / file.name):
                os.replace(made / file.name, file)
        raise


@contextlib.contextmanager
def made_folder(*folders: Path) -> Iterator[None]:
    """Makes folders and those above them. After an error, those that are new and empty go again.

    Raises:
        OSError: one cannot be made.
    """
    every = {place for folder in folders for place in (folder, *folder.parents)}
    new = sorted((place for place in every if not os.path.lexists(place)), reverse=True)  # the innermost first
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in new:
            with contextlib.suppress(OSError):  # not empty, or not there
                place.rmdir()
        raise


@contextlib.contextmanager
def filled(folder: Path, last: str) -> Iterator[Path]:
    """A folder to write into. Its content appears in another: all at once where that is new, else piece by piece.

    A folder that is there stays what it is, such as the place where a disk is mounted. After an error, it has nothing
    new.

    Args:
        folder: the other folder.
        last: the name of the file or folder that is moved last, without which the others do not count.

    Raises:
        UserError: nothing can be made there.
        OSError: it cannot be moved, or the disk is full, or can only be read.
    """
    is_new = not folder.exists()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(made_folder(folder.parent))
            made = stack.enter_context(unfinished(folder if is_new else folder / last))
        except OSError as error:
            if error.errno in FULL | FORBIDDEN:
                raise
            raise UserError(_refused("the folder", folder, str(error.strerror), "-o")) from error
        if is_new:
            whole = made / "whole"
            whole.mkdir()
            yield whole
            whole.rename(folder)
            return
        yield made
        names = sorted(os.listdir(made), key=lambda name: (name == last, name))  # noqa: PTH208  # names
        new = [name for name in names if not os.path.lexists(folder / name)]
        write_text(made / MOVED, json.dumps({name: (made / name).lstat().st_ino for name in new}))
        try:
            for name in names:
                os.replace(made / name, folder / name)
        except BaseException:
            for name in new:
                if not os.path.lexists(made / name):
                    os.replace(folder / name, made / name)
            raise


def expect_empty(folder: Path) -> None:
    """Checks that nothing lies in a folder to write into, if it is there; what killed commands left in it goes.

    Raises:
        UserError: something does.
    """
    if folder.exists():
        clear_leftovers(folder)
        if any(folder.iterdir()):
            raise UserError(f"{str(folder)!r} is not empty; name another folder with -o")


def clear_leftovers(folder: Path) -> None:
    """Removes the unfinished files of processes that were killed while they wrote into a folder.

    What they had moved out of these goes, too, unless all was. A file that is being written is locked, so that one of
    this machine which is not locked is a leftover. Locks of other machines may not be seen here: their files are
    leftovers once they are old.
    """
    for file in folder.glob(".*.tmp"):
        _clear(file)


def clear_unfinished(target: Path) -> None:
    """Removes the unfinished files and folders of killed processes that made one file or folder."""
    for left in target.parent.glob(f".{glob.escape(_begun(target))}.*.tmp"):
        _clear(left)


def _is_unfinished(left: Path) -> bool:
    """Tells whether a file or folder has such a name: one of the user's may begin and end like it."""
    return UNFINISHED.search(left.name) is not None


def _clear(left: Path) -> None:
    """Removes an unfinished file or folder, unless a process may still write it. The user's, of like names, stay."""
    if not _is_unfinished(left):
        return
    with contextlib.suppress(OSError):  # its writer, or another process, was quicker
        here = left.name.split(".")[-3:-2] == [_machine()]
        if here and sys.platform != "win32":
            _remove_unless_locked(left)
        elif time.time() - left.lstat().st_mtime > OLD:
            _remove(left)


def _remove(left: Path) -> None:
    if left.is_symlink() or not left.is_dir():
        left.unlink()
    else:
        _take_back(left)
        shutil.rmtree(left)


def _take_back(left: Path) -> None:
    """Takes back what a killed process had moved out of an unfinished folder, where some is still in it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nothing was moved
        moved = from_json(read_plain(left / MOVED)[0])
        if any(os.path.lexists(left / name) for name in moved):
            for name, number in moved.items():
                place = left.parent / name
                if Path(name).name == name and not os.path.lexists(left / name) and place.lstat().st_ino == number:
                    os.replace(place, left / name)


def _replace(file: Path, content: bytes, *, lasting: bool = True) -> None:
    with told_when_full(file.parent):
        descriptor, made = _begin(file)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
                opened.flush()
                if lasting:
                    os.fsync(descriptor)
                os.replace(made, file)  # while it is still locked
        except BaseException:
            made.unlink(missing_ok=True)
            raise
    if lasting:
        _fsync_folder(file.parent)


def _begin(file: Path) -> tuple[int, Path]:
    """A new locked file beside `file`."""
    while True:
        made = _unfinished_name(file)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return descriptor, made
        os.close(descriptor)  # `clear_leftovers` found it before it was locked


def _begin_folder(target: Path) -> tuple[int | None, Path]:
    """A new locked folder beside `target`; without a lock where no folder can be opened."""
    while True:
        made = _unfinished_name(target)
        made.mkdir()
        if sys.platform == "win32":
            return None, made
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(made, os.O_RDONLY)
            _lock(descriptor, wait=True)
            if made.is_dir():
                return descriptor, made
            os.close(descriptor)  # another process found it before it was locked


def _unfinished_name(target: Path) -> Path:
    """A new name of what is unfinished."""
    return target.parent / f".{_begun(target)}.{_machine()}.{secrets.token_hex(4)}.tmp"


def _begun(target: Path) -> str:
    """The beginning of the name of what is unfinished: that of the target, cut where no file could have the whole."""
    return os.fsdecode(os.fsencode(target.name)[:LONGEST])


def _remove_unless_locked(left: Path) -> None:
    is_folder = stat.S_ISDIR(left.lstat().st_mode)
    if not is_folder:
        expect_plain(left)
    descriptor = os.open(left, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        if _lock(descriptor, wait=False):
            _remove(left)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Locks an open file until it is closed; False if it cannot be locked."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another, or a file system without locks
        return False
    return True


def _fsync_folder(folder: Path) -> None:
    """Makes a rename outlast a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@cache
def _machine() -> str:
    """8 hex digits that another machine, or the same one after a restart, does not share; they name neither."""
    boot: Any = Path("/proc/sys/kernel/random/boot_id")
    known = boot.read_text(encoding="ascii") if boot.is_file() else platform.node()
    return hashlib.sha256(known.encode()).hexdigest()[:8]
