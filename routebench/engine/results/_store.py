"""A results folder: one file per finished run, written atomically, so that no crash loses a finished run."""

import contextlib
import json
import logging
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from numpy.typing import NDArray

from routebench.atomic import clear_leftovers, expect_place, made_folder, told_when_full, write_tensors, write_text
from routebench.engine.results import _checksum as checksum
from routebench.engine.results import _plan_table as plans
from routebench.engine.results._answers import CORRECT, right_of
from routebench.engine.results._checks import expect_key, is_key
from routebench.engine.results._fit_files import gone_from_fits, notes_of
from routebench.engine.results._folder import CHANGED, LOST, UNREADABLE, Reader, other_schema
from routebench.engine.results._pack import RECORDS, files_of, is_packed
from routebench.engine.results._plan_table import PlanTable
from routebench.engine.results._record import SCHEMA, Many, Record
from routebench.engine.results._record_table import Records
from routebench.errors import UserError, printable, unknown
from routebench.given import checked
from routebench.quantities import few, plural
from routebench.received import expect_plain, from_json, permitted, read_plain

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch

PAUSE = 0.5
"""Seconds within which another process that re-measures a run writes its record after its arrays."""
PARTS = ("plans", "records", "arrays", "fits", "locks")


class Store:
    """A results folder.

    Args:
        path: path of the folder; it is created by `prepare`.

    Raises:
        UserError: the folder is a pack that is damaged.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.warnings: list[str] = []
        """Sentences about files that do not count, damaged or not. Who opens a store tells them, or calls `tell`."""
        self._notes: set[str] = set()
        """Those that tell of no damage."""
        self._told: set[str] = set()
        self.files = files_of(self.path)
        """The folder of the files: `path`, or for a pack its copy."""
        self._reader = Reader(self.files, self.warnings)
        self._many = Many()

    def tell(self) -> None:
        """Logs the warnings that it has not logged before."""
        for warning in self.warnings:
            if warning not in self._told:
                logging.getLogger("routebench").warning("warning: %s: %s", self.path, warning)
                self._told.add(warning)

    def tell_gone(self) -> None:
        """Warns of plans, and of planned records and arrays, that are in `damaged/` and have no successor."""
        tables = self._reader.plans()
        cells = {cell for table in tables for cell in table.facts["cell"].items()} - plans.superseded(tables)
        self._reader.tell_gone(cells)

    def tell_lost(self) -> None:
        """Warns as `tell_gone`, and of results without raw outputs whose place no newer plan has taken."""
        self.tell_gone()
        self._reader.tell_lacking(*(self._reader.lacking() - self.superseded()))

    def prepare(self) -> None:
        """Creates the folder if needed, checks that it is writable, and removes leftovers of killed processes.

        Raises:
            UserError: it is not writable, is packed, or holds another schema version.
        """
        self.check_schema()
        self.expect_place()
        try:
            with made_folder(*(self.path / part for part in PARTS)):
                for part in ("records", "arrays"):
                    tempfile.TemporaryFile(dir=self.path / part).close()
                for folder in (self.path, *(self.path / part for part in (*PARTS, "index"))):
                    clear_leftovers(folder)
                self._clear_fits()
                if not (schema := self.path / "schema.json").exists():
                    write_text(schema, json.dumps({"schema": SCHEMA}))
        except OSError as error:
            raise UserError(
                f"results folder {str(self.path)!r} cannot be written ({error.strerror}); choose another with --results"
            ) from error

    def expect_place(self) -> None:
        """Checks that runs can be added, as far as is known before one is.

        Raises:
            UserError: the folder is packed, or a file, or may only be read.
        """
        if is_packed(self.path):
            raise UserError(
                f"results folder {str(self.path)!r} is packed, so no run can be added; "
                f"`routebench publish {shlex.quote(str(self.path))} --unpack -o FOLDER` makes one to add to"
            )
        expect_place(self.path, "results", "--results", folder=True)

    def _clear_fits(self) -> None:
        """Removes unfinished files of fits that no process trains."""
        for folder in {file.parent for file in (self.path / "fits").glob("*/*.tmp") if _is_fit(file.parent)}:
            lock = self.try_lock("fit", folder.name)
            if lock is not None:
                with lock:
                    for file in folder.glob("*.tmp"):
                        file.unlink(missing_ok=True)
                lock.release()

    def check_schema(self) -> None:
        """Raises UserError if the folder was written with another schema version."""
        schema = self.files / "schema.json"
        try:
            found = from_json(read_plain(schema)[0])["schema"]
        except FileNotFoundError:
            return
        except PermissionError as error:  # it may be whole
            self._reader.warn(f"schema.json cannot be read ({error.strerror})")
            return
        except (ValueError, KeyError, TypeError, OSError):
            self.set_aside(schema)  # `prepare` writes it anew; every record says its version as well
            return
        if found != SCHEMA:
            raise other_schema(self.path, found)

    def write_plan(self, name: str, content: Mapping[str, Any]) -> Path:
        """Writes a plan, newer than all others whatever the clock says.

        Args:
            name: its name, which is that of its file.
            content: its content, as JSON holds it.

        Returns:
            the path of its file.
        """
        file = self.path / "plans" / f"{name}.json"
        with told_when_full(file.parent), self.lock("plans", "sequence"):
            newest = max((head.get("sequence", 0) for head in self.plan_heads()), default=0)
            write_text(file, checksum.sealed({**content, "sequence": newest + 1}))
        return file

    def write_record(self, record: Record, arrays: Mapping[str, "torch.Tensor"]) -> None:
        """Writes a finished run: first its arrays, then its record with their checksums, each atomically.

        Args:
            record: the record, without checksums.
            arrays: raw outputs by name; empty for none.

        Raises:
            StoreFull: the disk is full.
        """
        beside, file = self._file("arrays", record.cell), self._file("records", record.cell)
        if arrays:
            sums = {f"arrays/{beside.name}": write_tensors(beside, arrays)}
            record = replace(record, files={**(record.files or {}), **sums})
        try:
            write_text(file, checksum.sealed(record.as_dict()))
        except BaseException:
            if arrays and not file.exists():  # no record names them
                beside.unlink(missing_ok=True)
            raise

    def record(self, key: str) -> Record | None:
        """A run's record; None if none counts. A file that cannot be read is set aside."""
        found = self._read(self._file("records", key))
        if found is not None and not self._counts(found):
            self._reader.tell_lacking(key)
            return None
        return found

    def expect_permitted(self, key: str) -> None:
        """Raises UserError if a file of a run may not be read: it may be whole, and a new one would take its place."""
        for part in ("records", "arrays"):
            permitted(self._file(part, key))

    def records(self) -> Records:
        """All records that count, by column. In a large folder, only changed files are read."""
        self.check_schema()
        return self._reader.records()

    def _read(self, file: Path) -> Record | None:
        """The record in a file, whether it counts or not."""
        found = self._reader.read(file, self._many.check)
        return None if found is None else self._many.read(found[0])

    def _counts(self, record: Record) -> bool:
        """Tells whether all files that a record names exist: without raw outputs, tests would give other results."""
        if record.status != "ok" or not record.arrays:
            return True
        return self._reader.arrays_are_whole(self._file("arrays", record.cell))

    def results(self) -> "pd.DataFrame":
        """All results, as `load_results` gives them."""
        return self.records().table()

    def current_results(self) -> "pd.DataFrame":
        """The table `results` without rows whose place a newer call of the suite has given to others."""
        results, superseded = self.results(), self.superseded()
        return results[~results["cell"].isin(superseded)].reset_index(drop=True) if superseded else results

    def arrays(self, key: str) -> dict[str, NDArray[Any]]:
        """A run's raw outputs by name, such as `correct`, 1 or 0 per test image; empty if it has none.

        A file that cannot be read, or has changed, is set aside, and the run counts as not executed.
        """
        return self._arrays_of(key, self._read(self._file("records", key)))

    def _arrays_of(self, key: str, record: Record | None) -> dict[str, NDArray[Any]]:
        from safetensors.numpy import load_file

        file = self._file("arrays", key)
        if not self._reader.arrays_are_whole(file):
            return {}
        known = file.stat()
        for pause in (0.0, PAUSE):
            if pause:  # another process may be writing the record of new arrays
                time.sleep(pause)
                record = self._read(self._file("records", key))
            expected = "" if record is None else (record.files or {}).get(f"arrays/{key}.safetensors", "")
            if expected in ("", checksum.of_file(file)):
                return dict(load_file(file))
        self._reader.set_aside(file, known, CHANGED)
        return {}

    def correct(self, key: str) -> "NDArray[np.bool_] | None":
        """(n_test,) whether a run has each test image right; None if it was not kept.

        Answers that contradict the run's record are told, and count as not kept.
        """
        found = self._read(self._file("records", key)) if self._reader.may_have_arrays(key) else None
        return None if found is None or not found.arrays else self._right(found, self._arrays_of(key, found))

    def _right(self, record: Record, arrays: Mapping[str, NDArray[Any]]) -> "NDArray[np.bool_] | None":
        found, fault = right_of(record, arrays)
        if fault:
            self.tell_fault(record.cell, CORRECT, fault)
        return found

    def tell_fault(self, key: str, name: str, fault: str) -> None:
        """Warns of an array among a run's raw outputs that is left out.

        Args:
            key: key of the run.
            name: name of the array.
            fault: the fault, in words.
        """
        self._reader.warn(f"arrays/{key}.safetensors is damaged: {name}: {fault}; it is left out")

    def verify(self) -> tuple[int, int]:
        """Verifies every file that a record or a fit names. Changed files are set aside, and missing ones told.

        Returns:
            number of records read, and number of files unchanged since their run was measured.
        """
        count = intact = 0
        self.tell_gone()
        gone = [*gone_from_fits(self._reader)]
        self.check_schema()
        records = map(self._read, sorted((self.files / "records").glob("*.json")))  # whatever an index holds
        superseded = self.superseded()
        for record in (one for one in records if one is not None):
            if not self._counts(record):
                self._reader.tell_lacking(*({record.cell} - superseded))
                continue
            count += 1
            arrays = self._arrays_of(record.cell, record) if record.arrays else {}
            if record.arrays:
                self._right(record, arrays)
            for name, known in (record.files or {}).items():
                file = self.files / name
                if name.startswith("arrays/"):
                    intact += bool(arrays)
                elif not _is_fit(file.parent):  # a link, which is told
                    continue
                elif found := checksum.of_file(file):
                    intact += found == known
                    if found != known:
                        self._note(f"{name}: trained again, or changed, since {record.cell} was measured")
                elif self._reader.is_gone(file) and not is_packed(self.path):  # which may hold no networks
                    gone.append(name)
        if unnamed := sorted(self._reader.unnamed()):
            told = f"records/{unnamed[0]}.json" + (f" and {len(unnamed) - 1} more" if len(unnamed) > 1 else "")
            self._note(f"{told}: no plan names its run, which counts nowhere until a suite plans it")
        if gone := sorted({*gone}):
            told = f"{gone[0]} is" if len(gone) == 1 else f"{gone[0]} and {len(gone) - 1} more files of networks are"
            self._note(f"{told} not there; what needs a network trains it again")
        return count, intact

    @property
    def damaged(self) -> list[str]:
        """The warnings so far of damaged plans, records and raw outputs; a lost network can be trained again."""
        return [warning for warning in self.warnings if warning not in self._notes]

    def _note(self, sentence: str) -> None:
        """Adds a sentence that tells of no damage to `warnings`, once."""
        self._reader.warn(sentence)
        self._notes.add(printable(sentence))

    def _plans_told(self) -> list[PlanTable]:
        """All plans, the oldest first; tells of runs that do not count, for they are on other data."""
        found = self._reader.plans()
        for sentence in plans.on_other_data(found):
            self._note(sentence)
        return found

    def _file(self, part: str, key: str) -> Path:
        """The file of a run in `records` or `arrays`."""
        return self.files / part / f"{expect_key(key)}{'.json' if part == 'records' else '.safetensors'}"

    def is_whole(self, record: Record) -> bool:
        """Tells whether a run's raw outputs are as they were written. What is damaged is set aside."""
        if record.status == "ok" and record.arrays and not self._arrays_of(record.cell, record):
            self._reader.tell_lacking(record.cell)
            return False
        return True

    def missing(self, keys: Iterable[str]) -> list[str]:
        """The keys of those among some runs that have no record that counts."""
        known = self._reader.outcomes()
        return [key for key in keys if known.get(key, (plans.NOT_RUN, ""))[0] == plans.NOT_RUN]

    def lock(self, kind: str, key: str) -> FileLock:
        """A lock that the operating system releases when its holder dies.

        Its empty file stays: if it were removed while another process is about to lock it, two would hold it.

        Args:
            kind: `cell` or `fit`, which have keys; `plans`.
            key: key of the run or fit, or a name for `plans`.
        """
        if kind != "plans":
            expect_key(key)
        file = self.path / "locks" / f"{kind}-{key}.lock"
        with contextlib.suppress(FileNotFoundError):
            expect_plain(file)  # locking empties a file, also one that a link leads to
        return FileLock(file)

    def try_lock(self, kind: str, key: str, patience: float = 0.0) -> FileLock | None:
        """The lock, held; None if another process still holds it after some seconds.

        Args:
            kind, key: as for `lock`.
            patience: seconds to wait.
        """
        lock = self.lock(kind, key)
        try:
            with told_when_full(self.path / "locks"):
                lock.acquire(timeout=patience)
        except Timeout:
            return None
        return lock

    def plans(self) -> list[PlanTable]:
        """All plans, the oldest first."""
        self.check_schema()
        return self._reader.plans()

    def plan_heads(self) -> list[dict[str, Any]]:
        """All plans without their runs, the oldest first."""
        return [plan.head for plan in self.plans()]

    def first_planned(self) -> dict[str, str]:
        """The time at which each run was planned first, by key."""
        return plans.first_planned(self.plans())

    def told(self) -> dict[str, dict[str, Any]]:
        """The facts of data sets that plans tell, by the set's name in plans: of those that do not ship."""
        return {head["told"]["data"]: head["told"] for head in self.plan_heads() if "told" in head}

    def planned(self) -> "pd.DataFrame":
        """One row per planned run with its status. Of runs that users cannot distinguish, the newest plan's counts.

        Columns: plan, suite, preset, cell, label, method, method_params, role, iterations, model, data, seed, status
        (`not run` if there is no record) and reason. The newest plans come last.
        """
        self.check_schema()
        found = plans.planned(self._plans_told(), self._reader.outcomes())
        self._reader.tell_gone({*found["cell"]})
        self._reader.tell_lacking(*found.loc[found["reason"] == LOST, "cell"])  # not those that no plan needs any more
        return found

    def superseded(self) -> set[str]:
        """Runs of earlier code, options or training, whose place newer plans have given to others."""
        return plans.superseded(self._plans_told())

    def earlier(self) -> "pd.DataFrame":
        """The rows of `planned` that the results of superseded runs would have, one per run, suite, preset and data."""
        if not (gone := self.superseded()):
            return plans.planned((), {})
        found = plans.planned(self._plans_told(), self._reader.outcomes(), counts=False)
        found = found[found["cell"].isin(gone) & (found["status"] == "ok")]
        return found.drop_duplicates(["preset", "cell"]).reset_index(drop=True)

    def replaced(self) -> str:
        """A sentence on results whose place the newest plan gives to others; empty if there are none."""
        found = plans.replaced(self.plans())
        lost = [key for key in found if (record := self.record(key)) is not None and record.status == "ok"]
        if not lost:
            return ""
        named = few(list(dict.fromkeys(found[key] for key in lost)))
        told = f"{plural(len(lost), 'result')} of {named}, of other code, options or training"
        return f"not counted from now on, as these runs take their place: {told}"

    def forget(self, label: str, *, only_count: bool = False) -> dict[str, int]:
        """Removes a method from all plans, and its records with their arrays.

        Args:
            label: the method's name, as in tables.
            only_count: remove nothing.

        Returns:
            number of its runs by status.

        Raises:
            UserError: the folder is packed, holds no such method, or a run of it is being measured.
        """
        if is_packed(self.path):
            raise UserError(f"results folder {str(self.path)!r} is packed: nothing can be taken out of it")
        known = [
            (file, self._reader.read(file, plans.is_plan)) for file in sorted((self.path / "plans").glob("*.json"))
        ]
        held = [(file, content[0]) for file, content in known if content is not None]
        labels = {cell["label"] for _, content in held for cell in content["cells"]}
        self.tell_gone()
        if label not in labels:
            raise unknown("method", label, labels)
        gone = {cell["cell"] for _, content in held for cell in content["cells"] if cell["label"] == label}
        outcomes = self._reader.outcomes()
        counts = Counter(outcomes.get(key, (plans.NOT_RUN, ""))[0] for key in gone)
        if only_count:
            return dict(counts)
        locks = [self.try_lock("cell", key) for key in sorted(gone)]
        try:
            if None in locks:
                raise UserError(f"{label} is being measured in {str(self.path)!r}; stop that run first")
            for key in gone:  # before the plans, without which the same command would not know them
                for part in ("records", "arrays"):
                    self._file(part, key).unlink(missing_ok=True)
            for file, content in held:
                left = plans.without(content, gone)
                if left["cells"] and left["plan"] != content["plan"]:
                    write_text(file.with_name(f"{left['plan']}.json"), checksum.sealed(left))
                if left["plan"] != content["plan"]:
                    file.unlink()
        finally:
            for lock in filter(None, locks):
                lock.release()
        return dict(counts)

    def fit_notes(self, key: str) -> dict[str, Any] | None:
        """The notes on a fit, as `notes_of` gives them."""
        return notes_of(self._reader, key)

    def set_aside(self, file: Path, why: str = UNREADABLE) -> None:
        """Moves a damaged file to `damaged/`, with a warning.

        Args:
            file: its path.
            why: the reason, for the warning.
        """
        self._reader.set_aside(file, why=why)


def _is_fit(folder: Path) -> bool:
    """Tells whether a folder is that of a fit, in the results folder itself."""
    return is_key(folder.name) and not folder.is_symlink()


@checked
def load_arrays(path: Path | str, cell: str) -> dict[str, NDArray[Any]]:
    """The raw outputs of one run of a results folder, such as `correct` (1 or 0) and `predicted` per test image.

    Args:
        path: path of the folder.
        cell: a value of the column `cell` of `load_results`.

    Raises:
        UserError: there is no such folder, or it holds no arrays for this run.
    """
    store = existing(path)
    found = store.arrays(cell)
    store.tell()
    if not found:
        raise UserError(f"results folder {str(path)!r} holds no arrays of a run {cell!r}")
    return found


@checked
def load_results(path: Path | str) -> "pd.DataFrame":
    """The results in a folder, one row per metric value.

    Results of earlier code, options or training are left out where a newer call of the suite has taken their place, and
    those on other data than the newest call's of the same name; their records stay in the folder.

    A run without a result has one row, with its status, its reason and no value. `iterations` is T in training,
    `test_iterations` T in testing; both are missing for methods without. Further coordinates of a protocol, such as
    `batch`, are columns at the end.

    What is damaged in the folder is logged as a warning of `routebench`, every time until it is measured again, and so
    is what is left out for its data.

    Raises:
        UserError: there is no such folder, nothing was measured in it, or it has another schema version.
    """
    store = existing(path)
    results = store.current_results()
    store.tell_lost()
    if results.empty:
        below = sorted(str(place.parent) for name in (RECORDS, "records") for place in Path(path).glob(f"*/{name}"))
        way = f"name a folder in it, such as {below[0]!r}" if below else "run `python -m routebench suite NAME` first"
        told = "".join(f"; {warning}" for warning in store.warnings)
        raise UserError(f"expected results, and nothing was measured in {str(path)!r} yet; {way}{told}")
    store.tell()
    return results


def existing(path: Path | str) -> Store:
    """The store of an existing folder.

    Raises:
        UserError: it does not exist, or is a file.
    """
    if not permitted(Path(path)).is_dir():
        why = "is a file" if Path(path).exists() else "does not exist"
        raise UserError(
            f"expected a results folder, and {str(path)!r} {why}; run `python -m routebench suite NAME` first"
        )
    return Store(path)
