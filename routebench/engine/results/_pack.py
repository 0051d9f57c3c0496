"""A packed results folder: one file for all records and plans, one for all raw outputs, on request one for networks.

A pack holds every file byte for byte, so that checksums hold. It is read through a copy, unpacked once into the user's
cache folder.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from routebench.atomic import (
    PACKED,
    PARTS,
    SETTINGS,
    clear_leftovers,
    expect_place,
    filled,
    told_when_full,
    unfinished,
    write_bytes,
    write_text,
)
from routebench.cache import CHOOSE_A_FOLDER, cache_folder
from routebench.engine.results._index import stamp
from routebench.engine.results._record import SCHEMA
from routebench.errors import UserError
from routebench.received import PACK, TENSORS, expect_folders, from_json, open_plain, permitted, read_plain

RECORDS, ARRAYS, NETWORKS = PACKED
HELD = {RECORDS: ("plans", "records"), ARRAYS: ("arrays",), NETWORKS: ("fits",)}
"""The parts of a results folder in each file of a pack, the last of which may be absent. Locks and indices are left
out."""
ENDINGS = {"plans": ".json", "records": ".json", "arrays": ".safetensors"}
LEVEL = 12  # of zstd; 19 takes thirty times as long for a tenth less of a published pack
TOGETHER = 1 << 26
"""Bytes that are packed at once; a part's last files may be fewer."""
UNPACKED = 1 << 30
"""Bytes that a file of a pack may always hold."""
TIMES = 200
"""The most that a larger file holds, in times its own size; records shrink to a thirtieth, answers to a tenth."""
BLOCK = 4096
"""Bytes that a file takes at least on a disk."""
LONGEST = 200
"""Letters in the name of a file."""
_OF_FIT = re.compile(r"[0-9a-f]{16}/(?!checkpoint)\w[\w.+=@ -]*\.(json|safetensors)")
"""A file of a trained network; a checkpoint is of training that has not ended."""
_SCHEMA = re.compile(rb'\{\s*"schema":\s*(\d{1,9})\b')
"""The beginning of a record or a plan."""
COPIED = "copied.json"
"""The stamps of the files of a copy, by which damage to it is seen."""


def is_packed(folder: Path) -> bool:
    """Tells whether a folder is a pack."""
    return os.path.lexists(folder / RECORDS)


def pack(results: Path, folder: Path, *, networks: bool = False) -> int:
    """Writes a results folder's plans, records and raw outputs into a pack, atomically.

    Args:
        results: a results folder.
        folder: the folder of the pack, which must not hold a pack or results yet.
        networks: whether trained networks are in it, too.

    Returns:
        the number of files in it.

    Raises:
        UserError: `folder` holds results or cannot be written, or a file of `results` cannot be read completely.
        StoreFull: the disk is full.
    """
    _expect_free(folder)
    count, settings = 0, _settings_for(folder, results)
    with told_when_full(folder), filled(folder, RECORDS) as made:  # with records, the folder counts as a pack
        for name in (name for name in HELD if networks or name != NETWORKS):
            count += _write(made / name, _held_in(results, HELD[name]))
        _write_settings(settings, made)
    return count


def unpack(packed: Path, folder: Path) -> int:
    """Unpacks the files of a pack into a results folder, to which runs can be added; returns their number.

    Args:
        packed: the folder of the pack.
        folder: the results folder.

    Raises:
        UserError: `packed` is incomplete, or `folder` holds results or cannot be written.
    """
    return _unpack(packed, folder, with_settings=True)


def _unpack(packed: Path, folder: Path, *, with_settings: bool) -> int:
    if not is_packed(permitted(packed)):
        raise UserError(f"expected a packed results folder, with {RECORDS} in it, got {str(packed)!r}")
    _expect_free(folder)
    count, schemas = 0, {SCHEMA}
    settings = _settings_for(folder, packed) if with_settings else {}
    with told_when_full(folder), filled(folder, "plans") as made:  # without plans, nothing is planned
        for part in ENDINGS:
            (made / part).mkdir()
        held = [name for name in HELD if name != NETWORKS or os.path.lexists(packed / name)]
        for name, content in (file for one in held for file in _content(packed / one)):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(content)
            schemas |= {int(found[1])} if (found := _SCHEMA.match(content)) else set()
            count += 1
        write_text(made / "schema.json", json.dumps({"schema": min(schemas)}))
        _write_settings(settings, made)
    return count


def settings_in(folder: Path) -> dict[str, bytes]:
    """Chosen settings by name, which lie in a results folder itself, or beside a pack: commands read them as files.

    Raises:
        UserError: one cannot be read.
    """
    found: dict[str, bytes] = {}
    for file in sorted(folder.glob(f"[!.]*{SETTINGS}")):
        try:
            found[file.name], _ = read_plain(permitted(file))
        except OSError as error:
            told = f"expected a file of settings, got {str(file)!r}: {error.strerror}; take it away"
            raise UserError(told) from error
    return found


def _settings_for(folder: Path, source: Path) -> dict[str, bytes]:
    """The settings of `source`, for a folder.

    Raises:
        UserError: one cannot be read, or the folder has others of a name.
    """
    found = settings_in(source)
    for name, content in found.items():
        if os.path.lexists(folder / name) and settings_in(folder).get(name) != content:
            raise UserError(f"{str(folder)!r} has another {name} than {str(source)!r}; name another folder with -o")
    return found


def _write_settings(settings: Mapping[str, bytes], folder: Path) -> None:
    for name, content in settings.items():
        write_bytes(folder / name, content)


def files_of(folder: Path) -> Path:
    """The folder with a results folder's files: itself, or for a pack a copy, made on first use.

    Raises:
        UserError: a part of the folder is a link, no folder or may not be read, the pack is damaged, or no cache folder
            is writable.
    """
    expect_folders(folder, PARTS, "results folder")
    for part in (*ENDINGS, "damaged"):
        permitted(folder / part)  # `glob` finds nothing in what may not be looked at
    if not is_packed(folder):
        return folder
    sums = hashlib.sha256(b"".join(map(_sum, _held(folder))))
    copy = cache_folder() / "unpacked" / sums.hexdigest()[:32]
    if not _is_whole(copy):
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(copy.parent.with_suffix(".lock")):
                if not _is_whole(copy):  # another process was not quicker
                    _copy(folder, copy)
        except OSError as error:
            raise UserError(
                f"{str(folder)!r} is unpacked into {str(copy.parent)!r}, which cannot be written ({error.strerror}); "
                f"{CHOOSE_A_FOLDER}"
            ) from error
    return copy


def _copy(packed: Path, copy: Path) -> None:
    """Makes the copy of a pack, in place of one that is damaged."""
    with unfinished(copy) as made:
        whole = made / "whole"
        _unpack(packed, whole, with_settings=False)  # these are no part of the pack: they may come and go beside it
        write_text(whole / COPIED, json.dumps(_stamps(whole)))
        with contextlib.suppress(FileNotFoundError):
            os.replace(copy, made / "before")
        os.replace(whole, copy)


def _is_whole(copy: Path) -> bool:
    """Tells whether the files of a copy are those that were written, and none is missing."""
    try:
        expected = from_json(read_plain(copy / COPIED)[0])
        return bool(expected == _stamps(copy))
    except (OSError, ValueError, RecursionError):
        return False


def _stamps(copy: Path) -> dict[str, list[int]]:
    """The stamp of each file, by its place in a copy."""
    fits = [] if not (copy / "fits").is_dir() else [f"fits/{key}" for key in _names(copy / "fits")]
    names = ["schema.json", *(f"{part}/{name}" for part in (*ENDINGS, *fits) for name in _names(copy / part))]
    return {name: [*stamp((copy / name).lstat())] for name in names}


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _held(folder: Path) -> list[Path]:
    """The files of a pack that are there."""
    return [folder / name for name in HELD if os.path.lexists(folder / name)]


def _expect_free(folder: Path) -> None:
    expect_place(folder, "the folder", folder=True)
    clear_leftovers(folder)
    held = [name for name in (*HELD, *ENDINGS, "fits") if (folder / name).exists()]
    if held:
        raise UserError(f"{str(folder)!r} holds results already ({held[0]}); name another folder with -o")


def _held_in(results: Path, parts: Iterable[str]) -> Iterator[dict[str, bytes]]:
    """The files of some parts, by name, as many at once as `TOGETHER` says."""
    held: dict[str, bytes] = {}
    left = TOGETHER
    for file in (file for part in parts for file in _files(results, part)):
        content, _ = read_plain(file, TENSORS)
        held[file.relative_to(results).as_posix()] = content
        left -= len(content)
        if left < 0:
            yield held
            held, left = {}, TOGETHER
    yield held


def _files(results: Path, part: str) -> list[Path]:
    """The files of a part of a results folder that a pack holds."""
    if part in ENDINGS:
        return sorted((results / part).glob(f"[!.]*{ENDINGS[part]}"))
    found = sorted(file for place in permitted(results / part).glob("*") for file in permitted(place).glob("*"))
    return [file for file in found if _OF_FIT.fullmatch(file.relative_to(results / part).as_posix())]


def _write(file: Path, groups: Iterable[Mapping[str, bytes]]) -> int:
    """Writes files' names and bytes as a table, and verifies it by reading; returns their number.

    Raises:
        UserError: the table read differs from the table written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema({"file": pa.string(), "content": pa.large_binary()})
    style = {"compression": "zstd", "compression_level": LEVEL, "use_dictionary": False}
    sums: dict[str, bytes] = {}
    # a file, because of a path pyarrow reads text in UTF-8
    with file.open("wb") as opened, parquet.ParquetWriter(opened, schema, **style) as writer:
        for held in groups:
            writer.write_table(pa.table([[*held], [*held.values()]], schema))
            sums |= {name: hashlib.sha256(content).digest() for name, content in held.items()}
    same = [sums.get(name) == hashlib.sha256(content).digest() for name, content in _content(file)]
    if len(same) != len(sums) or not all(same):
        raise UserError(f"{str(file)!r} could not be written: the disk gives back other bytes than it got")
    return len(sums)


def _content(file: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files in one file of a pack.

    Raises:
        UserError: it is damaged, or names a file that no results folder has.
    """
    from pyarrow import ArrowException, parquet

    try:
        with open_plain(file, PACK) as opened:
            table = parquet.ParquetFile(opened)
            _expect_columns(table.schema_arrow)
            left = max(UNPACKED, TIMES * os.fstat(opened.fileno()).st_size)
            _expect_room(left - _declared(table))  # as a packer says it, before anything is unpacked
            seen: set[str] = set()
            for batch in table.iter_batches(1, columns=["file", "content"], use_threads=False):
                name, content = (column[0].as_py() for column in batch.columns)
                _expect_new(name, content, seen)
                left -= max(len(content), BLOCK)
                _expect_room(left)
                seen.add(name)
                yield _expect_inside(file, name), content
    except (ArrowException, OSError, ValueError, MemoryError) as error:
        told = " ".join(str(error).split())
        raise UserError(f"expected a file of a packed results folder, got {str(file)!r}: {told}") from error


def _declared(table: Any) -> int:
    """Bytes that a file of a pack says it holds."""
    return sum(int(table.metadata.row_group(number).total_byte_size) for number in range(table.num_row_groups))


def _expect_columns(schema: Any) -> None:
    """Raises ValueError for a table that `_write` does not write."""
    import pyarrow as pa

    found = [*zip(schema.names, schema.types, strict=True)]
    if found != [("file", pa.string()), ("content", pa.large_binary())]:
        told = ", ".join(f"{name} ({kind})" for name, kind in found)
        raise ValueError(f"expected the columns file (string) and content (large_binary), got {told:.200}")


def _expect_new(name: str | None, content: bytes | None, seen: Container[str]) -> None:
    """Raises ValueError for a row without a name or content, or with the name of another."""
    if name is None or content is None:
        raise ValueError("a row of it has no name or no content")
    if name in seen:
        raise ValueError(f"it holds {name!r:.80} twice")


def _expect_room(left: int) -> None:
    """Raises ValueError once a file of a pack holds more than is unpacked."""
    if left < 0:
        raise ValueError(f"it holds more than {UNPACKED:,} bytes, and more than {TIMES} times its own size")


def _expect_inside(file: Path, name: str) -> str:
    """Checks that a name is one of a results folder's files: a pack may come from anybody."""
    part, _, own = name.partition("/")
    is_known = part in HELD.get(file.name, ()) and len(own.encode()) <= LONGEST
    known = _OF_FIT.pattern if part == "fits" else rf"\w[\w.+=@ -]*{re.escape(ENDINGS.get(part, ''))}"
    if not is_known or not re.fullmatch(known, own):
        raise UserError(f"{str(file)!r} names a file {name!r:.80}, which no results folder has; it is not read")
    return name


def _sum(file: Path) -> bytes:
    try:
        with open_plain(file, PACK) as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        told = f"expected a file of a packed results folder, got {str(file)!r}: {error.strerror}"
        raise UserError(told) from error
