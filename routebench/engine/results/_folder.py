"""Reads a results folder, even a damaged one: uses intact files, and sets damaged ones aside."""

import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from routebench.engine.results import _checksum as checksum
from routebench.engine.results import _index as index
from routebench.engine.results import _plan_table as plans
from routebench.engine.results import _record_table as records
from routebench.engine.results._checks import beyond_range, cleaned, is_key, is_whole
from routebench.engine.results._columns import Column
from routebench.engine.results._index import Saved
from routebench.engine.results._plan_table import PlanTable
from routebench.engine.results._record import SCHEMA, contradiction
from routebench.engine.results._record_table import Records, Stamp
from routebench.errors import UserError, printable
from routebench.received import KeyTwice, NotPlain, expect_plain, from_json, open_plain, read_plain

UNREADABLE = "could not be read"
CHANGED = "is not what was written (its checksum does not hold)"
LOST = "its raw outputs are gone or damaged"
CLOSED = "its raw outputs cannot be read"
GONE = "its record was damaged"
ASIDE = re.compile(r"(?P<name>.+)\.\d+\.\d+")
"""The name of a file in `damaged/`: that which it had, the time, and the process that moved it."""


def other_schema(folder: Path, found: Any) -> UserError:
    """The error for a folder that another version wrote.

    Args:
        folder: the folder.
        found: the version that it has.
    """
    way = "use another folder with --results, or the routebench that wrote it"
    if is_whole(found) and found < SCHEMA:
        way = f"`routebench migrate {shlex.quote(str(folder))} -o FOLDER` takes its results over"
    return UserError(
        f"results folder {str(folder)!r} has schema version {found}, this routebench reads version {SCHEMA}; {way}"
    )


class Reader:
    """Reads the files of a results folder.

    Args:
        path: path of the folder.
        warnings: gets a sentence for each damaged file.
    """

    def __init__(self, path: Path, warnings: list[str]):
        self.path = path
        self.warnings = warnings
        self._known: Records | None = None
        self._plans: dict[Path, tuple[Stamp, PlanTable]] = {}
        self._lacking: dict[str, None] = {}
        self._closed: set[str] = set()
        """Runs whose raw outputs cannot be read, and files of networks that cannot, by their names."""
        self._moved: set[str] = set()
        self._told: dict[str, None] = {}

    def read(self, file: Path | str, check: Callable[[Mapping[str, Any]], bool]) -> tuple[dict[str, Any], Stamp] | None:
        """A record or a plan, and its file's stamp; None if there is none. A file that cannot be read is set aside.

        Raises:
            UserError: it has another schema version.
        """
        opened = self._opened(file)
        if opened is None:
            return None
        (text, content, known), why = opened, UNREADABLE
        if isinstance(content, dict) and is_whole(found := content.get("schema", 0)) and found > 0:
            if found != SCHEMA:
                raise other_schema(self.path, found)
            is_sealed = content.get(checksum.KEY) is not None
            if not checksum.unsealed(text, content):
                why = CHANGED
            elif told := beyond_range(content) or ("" if is_sealed else contradiction(content)):
                why = told
            elif _is_named_by(content, file) and check(content) and known is not None:
                return content, index.stamp(known)
        self.set_aside(Path(file), known, why)
        return None

    def table(self, file: Path, check: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
        """The content of a file that has no schema version; else as `read`."""
        opened = self._opened(file)
        if opened is None:
            return None
        (text, content, known), why = opened, UNREADABLE
        if isinstance(content, dict):
            if not checksum.unsealed(text, content):
                why = CHANGED
            elif check(content):
                return content
        self.set_aside(file, known, why)
        return None

    def _opened(self, file: Path | str) -> tuple[bytes, Any, os.stat_result | None] | None:
        """The text of a file, its content, and its stamp; None if there is none, or none that can be opened."""
        known = None
        try:
            text, known = read_plain(file)
            return text, parsed(text), known
        except FileNotFoundError:
            return None
        except KeyTwice as error:
            self.set_aside(Path(file), known, f"{UNREADABLE} ({error})")
            return None
        except (ValueError, RecursionError, IsADirectoryError):  # ValueError: no JSON, or no UTF-8
            return b"", None, known
        except OSError as error:  # it may be whole, or is no file of this folder
            self.warn(f"{Path(file).relative_to(self.path)} cannot be read ({error.strerror}); it is left out")
            return None

    def set_aside(self, file: Path, known: os.stat_result | None = None, why: str = UNREADABLE) -> None:
        """Moves a file that cannot be read to `damaged/`, and adds a sentence to `warnings`.

        Args:
            file: a file in the folder.
            known: stamp of the file that was read; a newer file of another process stays.
            why: the reason in words.
        """
        damaged = self.path / "damaged"
        name = file.relative_to(self.path)
        kept = file.name if name.parts[0] == "plans" else file.stem.replace(".", "-") + file.suffix  # a plan's has dots
        target = damaged / f"{kept}.{time.time_ns()}.{os.getpid()}"
        try:
            damaged.mkdir(exist_ok=True)
            os.replace(file, target)
            if known is not None and target.stat().st_ino != known.st_ino:
                os.replace(target, file)  # another process has put a new one there
                return
        except FileNotFoundError:
            return  # another process was quicker
        except OSError:  # a folder that may only be read
            self.warn(f"{name} {why}; it could not be moved to damaged/, and is left out")
            return
        self._moved.add(str(name))
        self.warn(f"{name} {why}; it was moved to damaged/")

    def warn(self, sentence: str) -> None:
        """Adds a sentence to `warnings`, once."""
        sentence = printable(sentence)
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def gone(self) -> dict[str, list[str]]:
        """The records, arrays and plans in `damaged/`, whoever moved them, in whose place there is none: names by part.

        The place of a plan is also taken by a newer plan of the same suite, preset and data, if every record of that
        suite is of a run that a plan names.
        """
        found: dict[str, list[str]] = {"records": [], "arrays": [], "plans": []}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            known = filter(None, map(ASIDE.fullmatch, sorted(os.listdir(self.path / "damaged"))))  # noqa: PTH208
            for name in dict.fromkeys(one["name"] for one in known):
                stem, ending = os.path.splitext(name)  # noqa: PTH122  # of a name
                part = "plans" if "." in stem else {".json": "records", ".safetensors": "arrays"}.get(ending, "")
                if part == "plans" or (part and is_key(stem)):
                    found[part].append(name)
        for part in ("records", "arrays"):
            found[part] = [name for name in found[part] if not (self.path / part / name).exists()]
        there = [file.stem for file in (self.path / "plans").glob("*.json")] if found["plans"] else []
        same = {name for name in found["plans"] if any(_is_same(one, name) for one in there)}
        newer = {name for name in found["plans"] if any(_replaces(one, name) for one in there)}
        unnamed = {*self.unnamed().values()} if newer - same else ()
        taken = same | {name for name in newer if not any(name.startswith(f"{suite}.") for suite in unnamed)}
        found["plans"] = [name for name in found["plans"] if name not in taken]
        return found

    def unnamed(self) -> dict[str, str]:
        """The suites of recorded runs that no plan names, by run: a plan that did is lost."""
        found = self._all_records()
        named = {cell for table in self.plans() for cell in table.facts["cell"].items()}
        known = zip(*(found.facts[name].items() for name in ("cell", "suite")), strict=True)
        return {str(cell): str(suite) for cell, suite in known if cell not in named}

    def tell_gone(self, cells: Container[str]) -> None:
        """Warns of what an earlier reader has moved to `damaged/`: plans, and records and arrays of these runs."""
        for part, names in self.gone().items():
            for name in names:
                file = f"{part}/{name}"
                if file not in self._moved and (part == "plans" or name.partition(".")[0] in cells):
                    self.warn(f"{file} was damaged; it lies in damaged/, and nothing has taken its place")

    def plans(self) -> list[PlanTable]:
        """All plans, the oldest first."""
        found = [self._plan(file) for file in (self.path / "plans").glob("*.json")]
        return sorted((table for table in found if table is not None), key=lambda table: plans.age(table.head))

    def _plan(self, file: Path) -> PlanTable | None:
        with contextlib.suppress(KeyError, OSError):
            known, table = self._plans[file]
            if known == index.stamp(file.lstat()):
                return table
        beside = self.path / "index" / f"plan.{file.stem}.safetensors"
        if os.path.exists(beside):  # noqa: PTH110  # no, of what may not be looked at: it is done without
            saved = index.load(beside, ("head", *plans.HEADS), ("stamp", *plans.NUMBERS))
            with contextlib.suppress(OSError):
                known = index.stamp(file.lstat())
                if saved is not None and tuple(saved.arrays["stamp"].tolist()) == known:
                    self._plans[file] = known, PlanTable.read(saved)
                    return self._plans[file][1]
        found = self.read(file, plans.is_plan)
        if found is None:
            return None
        table = PlanTable.of(found[0])
        if index.settled(np.array([found[1]])).all():
            self._plans[file] = found[1], table
            if len(table.places) >= index.ENOUGH:
                index.save(beside, table.saved(found[1]))
        return table

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Status and reason of every run with a record. Without whole raw outputs, a run counts as not executed."""
        found = self.records()
        columns = [found.facts[name].items() for name in ("cell", "status", "reason")]
        outcomes = {key: (status, reason) for key, status, reason in zip(*columns, strict=True)}
        gone = dict.fromkeys((name[:-5] for name in self.gone()["records"]), (plans.NOT_RUN, GONE))
        lost = {key: (plans.NOT_RUN, CLOSED if key in self._closed else LOST) for key in self._lacking}
        return gone | lost | outcomes

    def records(self) -> Records:
        """All valid records, in any order. A record without whole raw outputs does not count."""
        found = self._all_records()
        lacking = found.lacking(self._whole_arrays() if len(found) else ())
        self._lacking |= dict.fromkeys(found.facts["cell"].at(lacking).items())
        return found.at(~lacking)

    def may_have_arrays(self, key: str) -> bool:
        """Tells whether a run may have raw outputs: no, if its record had none when all were read."""
        return self._known is None or bool(self._known.head_of(key, "arrays", otherwise=True))

    def _all_records(self) -> Records:
        present = self._present("records", ".json")
        beside = self.path / "index" / "records.safetensors"
        saved = None
        if self._known is None and len(present) >= index.ENOUGH:
            saved = index.load(beside, (*records.HEADS, "metrics"), ("stamps", "counts", "values"))
        known = self._known or (records.Growing().records() if saved is None else Records.read(saved))
        stamps = zip(known.heads["file"].items(), map(tuple, known.stamps.tolist()), strict=True)
        kept = known.at(np.array([present.get(name) == stamp for name, stamp in stamps], dtype=bool))
        found = kept.followed_by(self._read_all(present.keys() - kept.heads["file"].items()))
        settled = index.settled(found.stamps)
        self._known = found.at(settled)
        if settled[len(kept) :].sum() >= index.ENOUGH:
            index.save(beside, self._known.saved())
        return found

    def arrays_are_whole(self, file: Path) -> bool:
        """Tells whether a file of arrays is complete; a damaged one is set aside."""
        from safetensors import SafetensorError, safe_open

        known = None
        try:
            known = expect_plain(file)
            with safe_open(file, framework="np"):  # which holds the sizes that its header says against the file's
                return True
        except FileNotFoundError:  # safetensors says so of whatever cannot be opened
            self.is_gone(file)
            return False
        except (PermissionError, NotPlain) as error:  # it may be whole, or is no file of this folder
            self._warn_of_closed(file, error)
            return False
        except (SafetensorError, OSError):
            self.set_aside(file, known)
            return False

    def is_gone(self, file: Path) -> bool:
        """Tells whether there is no such file. One that is there and cannot be read, such as a pipe, is told."""
        try:
            open_plain(file).close()
        except FileNotFoundError:
            return True
        except OSError as error:
            self._warn_of_closed(file, error)
        return False

    def _warn_of_closed(self, file: Path, error: OSError) -> None:
        self.warn(f"{file.relative_to(self.path)} cannot be read ({error.strerror})")
        self._closed.add(file.stem)

    def lacking(self) -> set[str]:
        """The results read that do not count without their raw outputs."""
        return {*self._lacking}

    def tell_lacking(self, *cells: str) -> None:
        """Warns once that results of some runs do not count; of what cannot be read, a warning says so already."""
        before, lost = _lacking(self._told), [cell for cell in cells if cell not in self._closed]
        self._told |= dict.fromkeys(lost)
        if before in self.warnings:
            self.warnings[self.warnings.index(before)] = _lacking(self._told)
        elif lost:
            self.warnings.append(_lacking(self._told))

    def _whole_arrays(self) -> Container[str]:
        """The runs whose file of arrays is complete. In a large folder, only reads changed files."""
        present, ending = self._present("arrays", ".safetensors"), len(".safetensors")
        beside, old = self.path / "index" / "arrays.safetensors", dict[str, Stamp]()
        if len(present) >= index.ENOUGH and (saved := index.load(beside, ["file"], ["stamps"])) is not None:
            known = map(tuple, saved.arrays["stamps"].tolist())
            old = dict(zip(saved.columns["file"].items(), known, strict=True))
        fresh = [name for name, stamp in present.items() if old.get(name) != stamp]
        broken = {name for name in fresh if not self.arrays_are_whole(self.path / "arrays" / name)}
        whole = {name: stamp for name, stamp in present.items() if name not in broken}
        if len(fresh) >= index.ENOUGH:
            stamps = np.array(list(whole.values()), dtype=np.int64).reshape(-1, 4)
            settled = index.settled(stamps)
            index.save(beside, Saved({"file": Column.of(whole).at(settled)}, {"stamps": stamps[settled]}))
        return {name[:-ending] for name in whole}

    def _present(self, part: str, ending: str) -> dict[str, Stamp]:
        """The stamps of all files of a part of the folder, by name."""
        found: dict[str, Stamp] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / part) as entries:
            for entry in entries:
                name = entry.name
                if not name.endswith(ending) or name[0] == ".":
                    continue
                try:
                    known = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # another process has just removed it
                    continue
                except OSError:  # a link in a circle; reading it says so
                    known = entry.stat(follow_symlinks=False)
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


def _is_same(plan: str, gone: str) -> bool:
    """Tells whether a plan has the runs of another, which its name ends with, and is not older."""
    return _replaces(plan, gone) and plan.rpartition(".")[2] == gone.removesuffix(".json").rpartition(".")[2]


def _replaces(plan: str, gone: str) -> bool:
    """Tells whether a plan is that which is gone, or a newer one of its suite, preset and data."""
    (one, then), (other, before) = (_kind_and_time(name) for name in (plan, gone.removesuffix(".json")))
    return one == other and then >= before


def _kind_and_time(plan: str) -> tuple[str, str]:
    kind, _, rest = plan.rpartition(".")[0].rpartition(".")
    return kind, rest


def _lacking(cells: Collection[str]) -> str:
    some = ", ".join(f"arrays/{cell}.safetensors" for cell in [*cells][:3])
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    counts = "its run counts as not run" if len(cells) == 1 else "their runs count as not run"
    return f"{some}{more}: gone or damaged, so that {counts}; the same suite command measures again"


def parsed(text: bytes) -> Any:
    """Parses JSON, and makes every string `printable`.

    A sealed text is what was written, in which no key is there twice, and is not looked at for that: it takes longer.

    Raises:
        KeyTwice: a table of a text without a checksum has a key twice.
        ValueError: it is no JSON, or no UTF-8.
        RecursionError: it is too deep.
    """
    try:
        content = orjson.loads(text)  # several times as quick; it knows no NaN
    except orjson.JSONDecodeError:
        content = from_json(text.decode())
    else:
        if not (isinstance(content, dict) and checksum.KEY in content):
            from_json(text)
    may_be_unseen = b"\\u" in text or not text.isascii() or b"\x7f" in text
    return cleaned(content) if may_be_unseen else content


def _is_named_by(content: Mapping[str, Any], file: Path | str) -> bool:
    """Tells whether a record's file has its run's name. A copy under another name is no second result."""
    return "cell" not in content or os.path.basename(file) == f"{content['cell']}.json"  # noqa: PTH119  # of a string
