"""Makes the slim form of a published comparison that travels with the package."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from routebench.analysis import open_folder
from routebench.atomic import write_text
from routebench.engine.results import Record, Store, pack
from routebench.errors import UserError
from routebench.ranking._boards import ACCURACY, PACKED, SUMS, Board

KEPT = (ACCURACY, "fit_seconds", "parameters")
"""The metrics that a board keeps; of losses, the last one, by which equal functions are seen."""
LOSSES = ("loss", "train_loss")


def ship(results: Path, board: Board, folder: Path) -> int:
    """Writes the records and answers that a board needs, without curves and all else, as a pack with checksums.

    Args:
        results: the published pack.
        board: the comparison in it.
        folder: that of the slim pack; it must not be there yet.

    Returns:
        the number of runs.

    Raises:
        UserError: the pack holds no such comparison, or a part of it is missing.
    """
    found = open_folder(results)
    parts = [one for one in found.parts if (one.suite, one.preset) == board.part]
    if len(parts) != 1:
        raise UserError(f"{str(results)!r}: expected one comparison of {board.title}, got {len(parts)}")
    cells = {*parts[0].planned["cell"]}
    with tempfile.TemporaryDirectory() as made:
        slim = Store(Path(made))
        slim.prepare()
        for key in sorted(cells):
            record = found.store.record(key)
            answers = found.store.correct(key) if board.measure == ACCURACY else None
            if record is None or (board.measure == ACCURACY and answers is None):
                raise UserError(f"{str(results)!r}: expected a result of {key} with its answers, got none")
            correct = {} if answers is None else {"correct": torch.from_numpy(answers.astype("uint8"))}
            slim.write_record(_slim(record, board), correct)
        for plan in found.store.plans():
            own = [cell.as_dict() for cell in plan.cells if cell.cell in cells]
            if own:
                slim.write_plan(str(plan.head["plan"]), {**plan.head, "cells": own})
        pack(Path(made), folder)
    told = {"pack": results.name, "board": board.name, "from": sums_of(results), "files": sums_of(folder)}
    write_text(folder / SUMS, json.dumps(told, indent=1) + "\n")
    return len(cells)


def _slim(record: Record, board: Board) -> Record:
    """The record with the metrics that a board needs."""
    by_name = {name: [one for one in record.metrics if one["metric"] == name] for name in LOSSES}
    losses = by_name["train_loss"] or by_name["loss"]
    kept = [one for one in record.metrics if one["metric"] in (*KEPT, board.measure) and _is_kept(one, record, board)]
    files = {name: known for name, known in (record.files or {}).items() if not name.startswith("arrays/")}
    arrays = record.arrays if board.measure == ACCURACY else None
    return replace(record, metrics=(*kept, *losses[-1:]), files=files or None, arrays=arrays)


def _is_kept(metric: Mapping[str, Any], record: Record, board: Board) -> bool:
    if metric["metric"] != ACCURACY:
        return bool(metric["metric"] != board.measure or board.where.items() <= metric["where"].items())
    return bool(metric["split"] == "test" and metric["test_iterations"] == record.identity.iterations)


def sums_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a pack.

    Args:
        folder: the pack.
    """
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in PACKED}
