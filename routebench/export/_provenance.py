"""The provenance of exported numbers, as lines of a comment and as data."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routebench.analysis._runs import Runs
from routebench.analysis.folder import Folder
from routebench.engine.results import Record
from routebench.received import from_json, open_plain
from routebench.report import Origins, lines_of, origins_of

METADATA = b"routebench"
"""The key of a parquet file's schema metadata under which the provenance stands, as JSON."""


@dataclass(frozen=True)
class Provenance:
    """Provenance of exported runs, from their records.

    Args:
        command: the command that wrote the export.
        shared: what is the same for every run.
        cells: run key to what is its own.
    """

    command: str
    shared: Mapping[str, Any]
    cells: Mapping[str, Mapping[str, Any]]

    def of(self, cell: str) -> dict[str, Any]:
        """Everything known of one run."""
        return {**self.shared, **self.cells[cell]}

    def as_json(self) -> str:
        """One line of ASCII."""
        return json.dumps({"command": self.command, "shared": self.shared, "cells": self.cells})


def provenance_of(records: Iterable[Record], command: str) -> Provenance:
    """Collects the provenance of records, with fingerprint, versions and source of their identity."""
    cells = {record.cell: _facts(record) for record in records}
    known = list(cells.values())
    first = known[0] if known else {}
    shared = {
        key: value for key, value in first.items() if all(key in facts and facts[key] == value for facts in known)
    }
    own = {
        cell: {key: value for key, value in facts.items() if key not in shared} for cell, facts in cells.items()
    }  # fmt: skip
    return Provenance(command, shared, own)


def provenance_of_parquet(file: Path | str) -> Provenance:
    """Reads back what `export --format parquet` wrote beside the rows.

    Raises:
        KeyError: the file was not written by routebench.
    """
    from pyarrow import parquet

    with open_plain(file, named=True) as opened:
        return Provenance(**from_json(parquet.read_schema(opened).metadata[METADATA]))


def _facts(record: Record) -> dict[str, Any]:
    known = record.identity
    identity = {"data_fingerprint": known.data_fingerprint, "parts": known.versions or {}, "source": known.source or ""}
    return {**record.provenance, **identity}


def part_lines(runs: Runs, plan: Mapping[str, Any], origins: Origins, command: str) -> list[str]:
    """The comment above a table: suite, data, code, machine, and both commands.

    Args:
        runs: the part that the table shows.
        plan: its plan.
        origins: as `origins_of_part` gives them.
        command: that writes the export.
    """
    return [*lines_of(runs, plan, origins), f"exported by: {' '.join(command.split())}"]


def origins_of_part(folder: Folder, runs: Runs) -> Origins:
    """The provenance of a part, from its plan and its records."""
    right = (runs.correct(str(cell)) for cell in runs.planned["cell"])
    test_samples = next((int(array.size) for array in right if array is not None), None)
    return origins_of(runs, folder.plans[runs.name], folder.records(runs), test_samples)
