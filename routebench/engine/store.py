"""A results folder: one file per finished cell, put in place in one step, so that no crash loses what is finished."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors.numpy import load_file
from safetensors.torch import save_file

from routebench.errors import UserError

SCHEMA = 1
"""Raised when records of an earlier version can no longer be read."""
COORDINATES = (
    "suite", "protocol", "options", "method", "method_params", "iterations", "role", "model", "model_params", "data",
    "seed",
)  # fmt: skip
"""What names a cell in the user's eyes; code and data fingerprints are not in it."""


class Store:
    """A results folder.

    Args:
        path: of the folder; it is created by `prepare`.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.warnings: list[str] = []
        """Plain sentences about what was found damaged."""

    def prepare(self) -> None:
        """Creates the folder if need be, and makes sure that it can be written and read.

        Raises:
            UserError: it cannot be written, or holds another schema version.
        """
        self.check_schema()
        try:
            for part in ("plans", "records", "arrays", "fits", "locks"):
                (self.path / part).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path / "records"):
                pass
        except OSError as error:
            raise UserError(
                f"results folder {str(self.path)!r} cannot be written ({error.strerror}); choose another with --results"
            ) from error
        schema = self.path / "schema.json"
        if not schema.exists():
            write_text(schema, json.dumps({"schema": SCHEMA}))

    def check_schema(self) -> None:
        """Raises UserError if the folder was written with another schema version."""
        schema = self.path / "schema.json"
        if not schema.exists():
            return
        try:
            found = json.loads(schema.read_text(encoding="utf-8"))["schema"]
        except (ValueError, KeyError, TypeError):
            self.set_aside(schema)  # `prepare` writes it anew; every record says its version as well
            return
        if found != SCHEMA:
            raise self._other_schema(found)

    def _other_schema(self, found: Any) -> UserError:
        return UserError(
            f"results folder {str(self.path)!r} has schema version {found}, this routebench reads version "
            f"{SCHEMA}; use another folder with --results, or the routebench that wrote it"
        )

    def write_plan(self, name: str, content: Mapping[str, Any]) -> Path:
        """Writes a plan, unless it is the one that was written last."""
        file = self.path / "plans" / f"{name}.json"
        write_text(file, json.dumps(content, indent=1))
        return file

    def write_record(self, record: Mapping[str, Any], arrays: Mapping[str, torch.Tensor]) -> None:
        """Writes a finished cell: its arrays first, then its record, each in one step."""
        if arrays:
            file = self.path / "arrays" / f"{record['cell']}.safetensors"
            write_tensors(file, arrays)
        write_text(self.path / "records" / f"{record['cell']}.json", json.dumps(record, indent=1))

    def record(self, key: str) -> dict[str, Any] | None:
        """A cell's record; None if there is none. A file that cannot be read is set aside."""
        return self._read(self.path / "records" / f"{key}.json")

    def records(self) -> Iterator[dict[str, Any]]:
        """All records, in the order of their keys."""
        self.check_schema()
        for file in sorted((self.path / "records").glob("*.json")):
            record = self._read(file)
            if record is not None:
                yield record

    def arrays(self, key: str) -> dict[str, NDArray[Any]]:
        """A cell's raw outputs by name, such as `correct`, 1 or 0 per test image; empty if it has none."""
        file = self.path / "arrays" / f"{key}.safetensors"
        return dict(load_file(file)) if file.is_file() else {}

    def lock(self, kind: str, key: str) -> FileLock:
        """A lock that the operating system releases when its holder dies."""
        return FileLock(self.path / "locks" / f"{kind}-{key}.lock")

    def try_lock(self, kind: str, key: str) -> FileLock | None:
        """The lock, held; None if another process holds it."""
        lock = self.lock(kind, key)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    def plans(self) -> list[dict[str, Any]]:
        """All plans, the oldest first."""
        self.check_schema()
        found = [self._read(file) for file in (self.path / "plans").glob("*.json")]
        return sorted((plan for plan in found if plan is not None), key=lambda plan: (plan["created"], plan["plan"]))

    def planned(self) -> pd.DataFrame:
        """One row per planned cell with its status. Of cells that a user cannot tell apart, the newest plan's counts.

        Columns: plan, suite, preset, cell, label, method, method_params, role, iterations, model, data, seed, status
        (`not run` if there is no record) and reason.
        """
        newest: dict[str, dict[str, Any]] = {}
        for plan in self.plans():
            for cell in plan["cells"]:
                known = cell["identity"]
                where = json.dumps([plan["preset"], *(known.get(key) for key in COORDINATES)], sort_keys=True)
                newest.pop(where, None)  # keep the newest plan's order
                newest[where] = {"plan": plan, "cell": cell}
        rows = [self._planned_row(entry["plan"], entry["cell"]) for entry in newest.values()]
        table = pd.DataFrame(rows, columns=list(PLANNED))
        return table.astype({"iterations": "Int64"})

    def set_aside(self, file: Path) -> None:
        """Moves a file that cannot be read to `damaged/`, and says so in `warnings`."""
        damaged = self.path / "damaged"
        name = file.relative_to(self.path)
        try:
            damaged.mkdir(exist_ok=True)
            os.replace(file, damaged / f"{file.name}.{time.time_ns()}")
        except FileNotFoundError:
            return  # another process was quicker
        except OSError:  # a folder that may only be read
            self.warnings.append(f"{name} could not be read, nor moved to damaged/; it is left out")
            return
        self.warnings.append(f"{name} could not be read; it was moved to damaged/")

    def _read(self, file: Path) -> dict[str, Any] | None:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, UnicodeDecodeError):
            content = None
        whole = RECORD if file.parent.name == "records" else PLAN
        if not isinstance(content, dict) or not isinstance(found := content.get("schema"), int):
            self.set_aside(file)
            return None
        if found != SCHEMA:
            raise self._other_schema(found)
        if not whole <= content.keys():
            self.set_aside(file)
            return None
        return content

    def _planned_row(self, plan: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
        record = self.record(cell["cell"])
        known = cell["identity"]
        return {
            "plan": plan["plan"],
            "suite": known["suite"],
            "preset": plan["preset"],
            "cell": cell["cell"],
            "label": cell["label"],
            "method": known["method"],
            "method_params": cell["params"],
            "role": known["role"],
            "iterations": known["iterations"],
            "model": known["model"],
            "data": known["data"],
            "seed": known["seed"],
            "status": record["status"] if record else "not run",
            "reason": record["reason"] if record else "",
        }


RECORD = {"cell", "label", "params", "status", "reason", "identity", "metrics", "arrays", "provenance"}
PLAN = {"plan", "created", "preset", "cells"}
"""Keys without which a file is damaged."""

PLANNED = (
    "plan", "suite", "preset", "cell", "label", "method", "method_params", "role", "iterations", "model", "data",
    "seed", "status", "reason",
)  # fmt: skip

COLUMNS = (
    "suite", "suite_version", "protocol", "cell", "status", "reason", "label", "method", "method_params", "role",
    "iterations", "test_iterations", "epoch", "model", "data", "seed", "metric", "split", "value", "unit",
    "higher_is_better", "device", "commit", "dirty", "seconds",
)  # fmt: skip


def load_arrays(path: Path | str, cell: str) -> dict[str, NDArray[Any]]:
    """The raw outputs of one cell of a results folder, such as `correct` (1 or 0) and `predicted` per test image.

    Args:
        path: of the folder.
        cell: a value of the column `cell` of `load_results`.

    Raises:
        UserError: the folder holds no arrays for this cell.
    """
    found = Store(path).arrays(cell)
    if not found:
        raise UserError(f"results folder {str(path)!r} holds no arrays of a cell {cell!r}")
    return found


def load_results(path: Path | str) -> pd.DataFrame:
    """Everything that a results folder holds, one row per metric value.

    A cell without a result has one row, with its status, its reason and no value. `iterations` are those that routing
    was trained with, `test_iterations` those it was tested with; both are missing where a method has none. Coordinates
    of a protocol's own, such as `batch`, are columns at the end.

    Raises:
        UserError: there is no such folder, or it has another schema version.
    """
    path = Path(path)
    if not path.is_dir():
        raise UserError(f"expected a results folder, got {str(path)!r}; run `python -m routebench suite NAME` first")
    rows = [row for record in Store(path).records() for row in _rows(record)]
    own = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    table = pd.DataFrame(rows, columns=[*COLUMNS, *own])
    table[own] = table[own].convert_dtypes()  # whole numbers stay whole where other rows have none
    whole = dict.fromkeys(("iterations", "test_iterations", "epoch"), "Int64")
    return table.astype({**whole, "value": "float64"})


def _rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    known, origin = record["identity"], record["provenance"]
    common = {
        **{key: known[key] for key in ("suite", "suite_version", "protocol", "method", "role", "iterations")},
        **{key: known[key] for key in ("model", "data", "seed")},
        **{key: record[key] for key in ("cell", "status", "reason", "label")},
        "method_params": record["params"],
        "device": origin.get("device", ""),
        "commit": origin.get("commit", ""),
        "dirty": origin.get("dirty", False),
        "seconds": origin.get("seconds"),
    }
    metrics: Sequence[Mapping[str, Any]] = record["metrics"] or [{"metric": None, "split": "", "value": None}]
    return [{**metric.get("where", {}), **common, **_fixed(metric)} for metric in metrics]


def _fixed(metric: Mapping[str, Any]) -> dict[str, Any]:
    """What every metric has."""
    return {key: value for key, value in metric.items() if key != "where"}


def write_text(file: Path, text: str) -> None:
    """Writes a file in one step: a reader, or a crash, finds the old one or the new one, whole."""
    _replace(file, lambda unfinished: unfinished.write_text(text, encoding="utf-8"))


def write_tensors(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Likewise, for tensors, in safetensors."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    _replace(file, lambda unfinished: save_file(plain, unfinished))


def _replace(file: Path, write: Any) -> None:
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        write(unfinished)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
