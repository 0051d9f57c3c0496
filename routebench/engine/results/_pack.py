"""A packed results folder: one file for all records and plans, and one for all raw outputs.

A pack holds every file byte for byte, so that checksums hold. It is read through a copy, unpacked once into the user's
cache folder.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from routebench.atomic import expect_place, told_when_full, write_text
from routebench.cache import CHOOSE_A_FOLDER, cache_folder
from routebench.engine.results._record import SCHEMA
from routebench.errors import UserError

RECORDS, ARRAYS = "records.parquet", "arrays.parquet"
HELD = {RECORDS: ("plans", "records"), ARRAYS: ("arrays",)}
"""The parts of a results folder in each file of a pack. Trained networks, locks and indices are left out."""
ENDINGS = {"plans": ".json", "records": ".json", "arrays": ".safetensors"}
LEVEL = 19  # of zstd: written once, read often


def is_packed(folder: Path) -> bool:
    """Whether a folder is a pack."""
    return (folder / RECORDS).is_file()


def pack(results: Path, folder: Path) -> int:
    """Writes a results folder's plans, records and raw outputs into a pack, atomically.

    Args:
        results: a results folder.
        folder: of the pack, which must not hold a pack or results yet.

    Returns:
        the number of files in it.

    Raises:
        UserError: `folder` holds results or cannot be written, or a file of `results` cannot be read completely.
        StoreFull: the disk is full.
    """
    _expect_free(folder)
    count = 0
    with told_when_full(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".packing-", dir=folder) as made:
            for name, parts in HELD.items():
                held = {file.relative_to(results).as_posix(): file.read_bytes() for file in _files(results, parts)}
                count += len(held)
                _write(Path(made) / name, held)
            for name in (ARRAYS, RECORDS):  # the records last: with them the folder counts as a pack
                os.replace(Path(made) / name, folder / name)
    return count


def unpack(packed: Path, folder: Path) -> int:
    """Unpacks the files of a pack into a results folder, to which runs can be added; returns their number.

    Raises:
        UserError: `packed` is incomplete, or `folder` holds results or cannot be written.
    """
    if not is_packed(packed):
        raise UserError(f"expected a packed results folder, with {RECORDS} in it, got {str(packed)!r}")
    _expect_free(folder)
    files = [file for held in HELD for file in _content(packed / held)]  # all, before any is written
    with told_when_full(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as made:
            for part in ENDINGS:
                (Path(made) / part).mkdir()
            for name, content in files:
                (Path(made) / name).write_bytes(content)
            write_text(Path(made) / "schema.json", json.dumps({"schema": SCHEMA}))
            for name in ("schema.json", *reversed(ENDINGS)):  # the plans last: without them nothing counts as planned
                os.replace(Path(made) / name, folder / name)
    return len(files)


def files_of(folder: Path) -> Path:
    """The folder with a results folder's files: itself, or for a pack a copy, made on first use.

    Raises:
        UserError: the pack is damaged, or no cache folder is writable.
    """
    if not is_packed(folder):
        return folder
    sums = hashlib.sha256(b"".join(_sum(folder / name) for name in HELD if (folder / name).is_file()))
    copy = cache_folder() / "unpacked" / sums.hexdigest()[:16]
    if not copy.is_dir():
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=copy.parent) as made:
                unpack(folder, Path(made) / "whole")
                with contextlib.suppress(OSError):  # another process was quicker
                    os.replace(Path(made) / "whole", copy)
        except OSError as error:
            raise UserError(
                f"{str(folder)!r} is unpacked into {str(copy.parent)!r}, which cannot be written ({error.strerror}); "
                f"{CHOOSE_A_FOLDER}"
            ) from error
    return copy


def _expect_free(folder: Path) -> None:
    expect_place(folder, "the folder", folder=True)
    held = [name for name in (*HELD, *ENDINGS) if (folder / name).exists()]
    if held:
        raise UserError(f"{str(folder)!r} holds results already ({held[0]}); name another folder with -o")


def _files(results: Path, parts: Iterable[str]) -> Iterator[Path]:
    """The files of some parts, by name."""
    for part in parts:
        yield from sorted((results / part).glob(f"[!.]*{ENDINGS[part]}"))


def _write(file: Path, held: Mapping[str, bytes]) -> None:
    """Writes files' names and bytes as a table, and verifies it by reading.

    Raises:
        UserError: the table read differs from the table written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"file": pa.array(held, pa.string()), "content": pa.array(held.values(), pa.large_binary())})
    parquet.write_table(table, file, compression="zstd", compression_level=LEVEL, use_dictionary=False)
    if dict(_content(file)) != held:
        raise UserError(f"{str(file)!r} could not be written: the disk gives back other bytes than it got")


def _content(file: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files in one file of a pack.

    Raises:
        UserError: it is damaged, or names a file that no results folder has.
    """
    from pyarrow import ArrowException, parquet

    try:
        for batch in parquet.ParquetFile(file).iter_batches(64, columns=["file", "content"]):
            for name, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield _expect_inside(file, name), content
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(f"expected a file of a packed results folder, got {str(file)!r}: {error}") from error


def _expect_inside(file: Path, name: str) -> str:
    """Checks that a name is one of a results folder's files: a pack may come from anybody."""
    part, _, own = name.partition("/")
    if part not in HELD.get(file.name, ()) or not re.fullmatch(rf"\w[\w.+=-]*{re.escape(ENDINGS[part])}", own):
        raise UserError(f"{str(file)!r} names a file {name!r:.80}, which no results folder has; it is not read")
    return name


def _sum(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()
