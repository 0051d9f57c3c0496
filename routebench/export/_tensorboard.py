"""Writes stored runs as event files of TensorBoard: a folder for each run, with its numbers and its settings."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from routebench import atomic
from routebench.analysis.folder import Folder
from routebench.engine.results import Record
from routebench.errors import UserError, printable
from routebench.export._choice import Choice

EXTRA = "pip install 'routebench[tensorboard]'"


def write_tensorboard(folder: Folder, choice: Choice, output: Path) -> int:
    """Writes event files, all or none, and returns the number of runs; 0 where nothing was measured.

    Args:
        folder: opened; its warnings say afterwards what was found damaged.
        choice: which part of it.
        output: the folder to write, which must not be there yet.

    Raises:
        UserError: the package is not installed, the folder is there or cannot be written, or nothing fits the choice.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError(f"--to tensorboard: expected the package tensorboard, got none; {EXTRA}") from error
    atomic.expect_place(output, "the export", folder=True)
    if os.path.lexists(output):
        raise UserError(f"expected an output that is not there yet, got {str(output)!r}; name another with -o")
    choice.parts(folder)
    cells = {*choice.rows(folder.store, folder.store.results())["cell"]}
    records = [record for record in folder.store.records() if record.cell in cells]
    if not records:
        return 0
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic.told_when_full(output.parent),
        tempfile.TemporaryDirectory(prefix=".export-", dir=output.parent) as made,
    ):
        whole = Path(made) / "whole"
        for record in records:
            place = whole / record.identity.suite / _name(record)
            with SummaryWriter(str(place)) as writer:
                _write(record, writer, choice.metric)
        os.replace(whole, output)
    return len(records)


def _write(record: Record, writer: Any, metric: str | None) -> None:
    """Writes the numbers of a run, as of when it finished, by epoch where they have one; and its settings."""
    finished = str(record.provenance.get("finished") or "1970-01-01T00:00:00+00:00")
    when, last = datetime.fromisoformat(finished).timestamp(), dict[str, float]()
    for one in record.metrics:
        if metric in (None, one["metric"]):
            tag = _tag(one)
            last[tag] = one["value"]
            writer.add_scalar(tag, one["value"], one.get("epoch") or 0, walltime=when)
    told = record.status if record.status == "ok" else f"{record.status}: {record.reason}"
    writer.add_text("status", printable(told), walltime=when)
    writer.add_hparams(dict(_settings(record)), last, run_name=".", global_step=0)


def _settings(record: Record) -> Iterator[tuple[str, Any]]:
    """The names and settings of a run, as TensorBoard takes them: numbers, texts, yes and no."""
    known = record.identity
    named = {
        "method": record.label,
        "model": known.model,
        "data": known.data,
        "seed": known.seed,
        "T": known.iterations,
    }
    for name, value in {**known.training, **known.method_params, **known.model_params, **named}.items():
        if value is not None:
            yield name, value if isinstance(value, bool | int | float | str) else str(value)


def _tag(metric: Mapping[str, Any]) -> str:
    """The name of a number, such as `accuracy/test/T=2`."""
    steps = metric.get("test_iterations")
    words = [metric["metric"], metric.get("split") or "", "" if steps is None else f"T={steps}"]
    words += [f"{key}={value}" for key, value in (metric.get("where") or {}).items()]
    return "/".join(str(word) for word in words if word)


def _name(record: Record) -> str:
    """The name of a run's folder, which no other has."""
    known = record.identity
    steps = "" if known.iterations is None else f"-T={known.iterations}"
    words = f"{record.label}{steps}-{known.model}-seed-{known.seed}-{record.cell[:8]}"
    return re.sub(r"[^\w.=+-]+", "-", words)
