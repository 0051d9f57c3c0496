"""Reads a results folder, however damaged: what is whole is used, what is not is set aside."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from routebench.engine import index, plans, records
from routebench.engine.plans import PlanTable
from routebench.engine.records import Records, Stamp
from routebench.errors import UserError

SCHEMA = 1
"""Raised when records of an earlier version can no longer be read."""
SUMMARY = ("file", "status", "reason")
"""Of a record, what a status needs."""
OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not keep a reader waiting


def other_schema(folder: Path, found: Any) -> UserError:
    """The error for a folder that another version wrote."""
    return UserError(
        f"results folder {str(folder)!r} has schema version {found}, this routebench reads version "
        f"{SCHEMA}; use another folder with --results, or the routebench that wrote it"
    )


class Reader:
    """Reads the files of a results folder.

    Args:
        path: of the folder.
        warnings: gets a sentence for each file that is damaged.
    """

    def __init__(self, path: Path, warnings: list[str]):
        self.path = path
        self.warnings = warnings

    def read(
        self, file: Path | str, is_whole: Callable[[Mapping[str, Any]], bool]
    ) -> tuple[dict[str, Any], Stamp] | None:
        """A record or a plan, and its file's stamp; None if there is none. A file that cannot be read is set aside.

        Raises:
            UserError: it has another schema version.
        """
        known = None
        try:
            descriptor = os.open(file, OPEN)
            try:
                known = os.fstat(descriptor)
                text = _all_of(descriptor, known.st_size)
            finally:
                os.close(descriptor)
            content = _parsed(text)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError, IsADirectoryError):  # ValueError: no JSON, or no UTF-8
            content = None
        except OSError as error:  # it may be whole
            self._warn(f"{Path(file).relative_to(self.path)} cannot be read ({error.strerror}); it is left out")
            return None
        if isinstance(content, dict) and isinstance(found := content.get("schema"), int):
            if found != SCHEMA:
                raise other_schema(self.path, found)
            if is_whole(content) and known is not None:
                return content, index.stamp(known)
        self.set_aside(Path(file), known)
        return None

    def set_aside(self, file: Path, known: os.stat_result | None = None, advice: str = "") -> None:
        """Moves a file that cannot be read to `damaged/`, and says so in `warnings`.

        Args:
            file: in the folder.
            known: of the file that was read; one that another process has put there since then stays.
            advice: what the user can do.
        """
        damaged = self.path / "damaged"
        name = file.relative_to(self.path)
        target = damaged / f"{file.name}.{time.time_ns()}.{os.getpid()}"
        try:
            damaged.mkdir(exist_ok=True)
            os.replace(file, target)
            if known is not None and target.stat().st_ino != known.st_ino:
                os.replace(target, file)  # another process has put a new one there
                return
        except FileNotFoundError:
            return  # another process was quicker
        except OSError:  # a folder that may only be read
            self._warn(f"{name} could not be read, nor moved to damaged/; it is left out")
            return
        told = f"; {advice}" if advice else ""
        self._warn(f"{name} could not be read; it was moved to damaged/{told}")

    def _warn(self, sentence: str) -> None:
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def plans(self) -> list[PlanTable]:
        """All plans, the oldest first."""
        found = [self._plan(file) for file in (self.path / "plans").glob("*.json")]
        return sorted((table for table in found if table is not None), key=lambda table: plans.age(table.head))

    def _plan(self, file: Path) -> PlanTable | None:
        beside = self.path / "index" / f"plan.{file.stem}.safetensors"
        if beside.exists():
            saved = index.load(beside, ("head", *plans.FACTS), ("stamp", "places"))
            with contextlib.suppress(OSError):
                if saved is not None and tuple(saved.arrays["stamp"].tolist()) == index.stamp(file.stat()):
                    return PlanTable.read(saved)
        found = self.read(file, plans.is_plan)
        if found is None:
            return None
        table = PlanTable.of(found[0])
        if len(table.places) >= index.ENOUGH and index.settled(np.array([found[1]])).all():
            index.save(beside, table.saved(found[1]))
        return table

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Status and reason of every cell that has a record."""
        present = self._present()
        saved = index.load(self._index, SUMMARY, ["stamps"]) if len(present) >= index.ENOUGH else None
        if saved is None:
            return _outcomes(self.records())
        columns = [saved.columns[name].items() for name in SUMMARY]
        fresh, found = present, {}
        for name, status, reason, stamp in zip(*columns, map(tuple, saved.arrays["stamps"].tolist()), strict=True):
            if fresh.get(name) == stamp:
                del fresh[name]
                found[name[:-5]] = (status, reason)
        if len(fresh) >= index.ENOUGH:
            return _outcomes(self.records())
        return found | _outcomes(self._read_all(fresh))

    def records(self) -> Records:
        """All records, in any order."""
        present = self._present()
        saved = None
        if len(present) >= index.ENOUGH:
            saved = index.load(self._index, ("file", *records.FACTS, "metrics"), ("stamps", "counts", "values"))
        if saved is None:
            found = self._read_all(present)
            fresh = len(found.counts)
        else:
            known = Records.read(saved)
            files, stamps = known.facts["file"].items(), map(tuple, known.stamps.tolist())
            same = [present.get(name) == stamp for name, stamp in zip(files, stamps, strict=True)]
            kept = known if all(same) else known.at(np.array(same, dtype=bool))
            old = {name for name, is_same in zip(files, same, strict=True) if is_same}
            more = self._read_all(name for name in present if name not in old)
            fresh = len(more.counts)
            found = kept.followed_by(more) if fresh else kept
        settled = index.settled(found.stamps)
        if settled[len(settled) - fresh :].sum() >= index.ENOUGH:  # what was read now comes last
            index.save(self._index, found.at(settled).saved())
        return found

    @property
    def _index(self) -> Path:
        return self.path / "index" / "records.safetensors"

    def _present(self) -> dict[str, Stamp]:
        """The stamps of all files of records, by name."""
        found: dict[str, Stamp] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / "records") as entries:
            for entry in entries:
                name = entry.name
                if name[-5:] != ".json" or name[0] == ".":
                    continue
                try:
                    known = entry.stat()
                except FileNotFoundError:  # another process has just removed it
                    continue
                found[name] = (known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino)  # of `index.stamp`
        return found

    def _read_all(self, names: Iterable[str]) -> Records:
        growing = records.Growing()
        folder = str(self.path / "records")
        for name in sorted(names):
            found = self.read(f"{folder}/{name}", growing.take)
            if found is not None:
                growing.name(name, found[1])
        return growing.records()


def _outcomes(found: Records) -> dict[str, tuple[str, str]]:
    columns = [found.facts[name].items() for name in SUMMARY]
    return {name.removesuffix(".json"): (status, reason) for name, status, reason in zip(*columns, strict=True)}


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)  # several times as quick; it knows no NaN
    except orjson.JSONDecodeError:
        return json.loads(text.decode())


def _all_of(descriptor: int, size: int) -> bytes:
    text = os.read(descriptor, size + 1)
    while len(text) > size and (more := os.read(descriptor, size + 1)):  # it grew
        text += more
    return text
