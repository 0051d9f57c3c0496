"""Executes one run, and turns any outcome into a record."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import torch

from routebench import kernels
from routebench.data import sealed_test_images
from routebench.data_names import unfolded
from routebench.engine.results import RECORD, Record, Store, StoreFull, beyond_range, parsed
from routebench.engine.running._changed import Changed, expect_as_planned
from routebench.engine.running._claim import Done, HeldElsewhere, claimed
from routebench.engine.running._config import RunConfig, Stage
from routebench.engine.running._fits import StoreContext
from routebench.engine.running._patches import expect_no_patches
from routebench.engine.running._sealing import shuffled
from routebench.engine.suites import Cell
from routebench.errors import Diverged, PluginError, one_line, printable, show_calls
from routebench.protocols.base import Measurement
from routebench.registry import load_plugin, protocols

UNSTORABLE = (
    "its protocol measured what no record can hold: expected names, numbers of at most 64 bits, and coordinates that "
    "are named otherwise than columns of all results, such as data or seed"
)


def run_claimed(cell: Cell, store: Store, config: RunConfig, tell: Callable[[Stage], None]) -> Done | HeldElsewhere:
    """Executes a run, unless another process executes it or has its result.

    Args:
        cell: the run to measure.
        store: the folder for its record.
        config: settings of its execution.
        tell: is called with the progress of the run.
    """
    with claimed(cell, store) as found:
        if found is not None:
            return found
        tell(Stage())
        device, origin = torch.device(config.device), config.origin
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # kernels start on the current one
            origin = {**origin, "gpu": torch.cuda.get_device_name(device)}
        how = {"alone": config.in_processes, "compiled": config.compile}
        return Done(run_cell(cell, store, device, origin, tell, package=config.package, **how))


def run_cell(
    cell: Cell,
    store: Store,
    device: torch.device,
    origin: Mapping[str, Any],
    on_progress: Callable[[Stage], None],
    *,
    alone: bool = False,
    compiled: bool = False,
    package: str = "",
) -> Record:
    """Measures a run and writes its record, whatever the outcome.

    Args:
        cell: the run to measure.
        store: the folder for its record.
        device: the device that it runs on.
        origin: its provenance.
        on_progress: is called with the progress of the run.
        alone: whether nothing is executed in this process afterwards. If not, a run that replaces functions of torch,
            NumPy or routebench fails.
        compiled: whether networks are compiled for training.
        package: as in `RunConfig`.

    Returns:
        the record. Its status is `ok`, `diverged`, `oom`, `changed` or `failed`; the reason is one line.
    """
    started = time.perf_counter()
    found, status, reason, turned = Measurement([]), "ok", "", None
    context = StoreContext(store, device, on_progress, compiled=compiled)
    try:
        with kernels.noting() as used, contextlib.nullcontext() if alone else expect_no_patches():
            _load_plugins(cell)
            expect_as_planned(cell, package)
            with _sealed(cell):
                measured: Measurement = protocols[cell.identity.protocol]().measure(
                    cell.request(), cell.identity.options, context
                )
            asked = None if context.given is None else shuffled(context.given[1], context.given[0], device)
            expect_as_planned(cell, package)
            found, turned = measured, asked
    except (StoreFull, KeyboardInterrupt):  # of the first, no record could be written either: the suite ends
        raise
    except BaseException as error:  # noqa: BLE001  # whatever a method does must not end the suite
        found, turned = Measurement([]), None  # it may have replaced functions before it measured
        status, reason = _failure(error)
        show_calls(error)
    ran_on = {"backends": sorted(used | context.backends), "seconds": time.perf_counter() - started}
    ran_on |= {"code": cell.code.shipped} if cell.code else {}
    record = make_record(cell, status, reason, found, {**origin, **ran_on})
    if not _is_storable(record):
        found = Measurement([])
        record = make_record(cell, "failed", UNSTORABLE, found, {**origin, **ran_on})
    elif beyond := beyond_range(record.as_dict()):
        found = Measurement([])
        record = make_record(cell, "failed", f"its result {beyond}", found, {**origin, **ran_on})
    record = replace(record, files=dict(context.files), warnings=list(store.warnings) or None, shuffled=turned)
    store.write_record(record, found.arrays)
    return record


def _is_storable(record: Record) -> bool:
    try:
        return RECORD(parsed(json.dumps(record.as_dict()).encode()))
    except (TypeError, ValueError, RecursionError):  # what JSON does not know
        return False


def _load_plugins(cell: Cell) -> None:
    if cell.broken:
        raise PluginError(cell.broken)
    with sealed_test_images(unfolded(cell.identity.data)):
        for plugin in cell.plugins:
            load_plugin(plugin)


def _failure(error: BaseException) -> tuple[str, str]:
    """Status and reason of a run that raised."""
    match error:
        case Changed():
            return "changed", str(error)
        case Diverged():
            return "diverged", f"{error} of training"
        case MemoryError() | torch.OutOfMemoryError():
            return "oom", one_line(error)
        case SystemExit():
            return "failed", f"it called sys.exit({error.code!r})"
    return "failed", one_line(error)


def _sealed(cell: Cell) -> AbstractContextManager[None]:
    """Keeps test images from trials."""
    return sealed_test_images(unfolded(cell.identity.data)) if cell.identity.is_trial else contextlib.nullcontext()


def make_record(cell: Cell, status: str, reason: str, found: Measurement, origin: Mapping[str, Any]) -> Record:
    """Makes the record of a run."""
    return Record(
        cell=cell.key,
        label=cell.label,
        params=cell.settings,
        status=status,
        reason=printable(reason),
        identity=cell.identity,
        metrics=[asdict(metric) for metric in found.metrics],
        arrays=f"arrays/{cell.key}.safetensors" if found.arrays else None,
        provenance={**origin, "finished": datetime.now(UTC).isoformat(timespec="seconds")},
    )
