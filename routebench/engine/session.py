"""One call of a suite: plan, look what is there, run what is missing."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch

from routebench import kernels
from routebench.engine.execute import Listener, Setting, execute, prepare_torch
from routebench.engine.plan import Cell, Plan, digest, set_params
from routebench.engine.progress import kind
from routebench.engine.provenance import command_line, provenance
from routebench.engine.store import Store
from routebench.errors import UserError
from routebench.routing.spec import compact


@dataclass(frozen=True)
class Standing:
    """What a results folder knows of a plan's cells.

    Args:
        cached: cells that have a result.
        failed: cells whose last run left none; they are run again.
        missing: cells that were never finished.
        seconds: how long finished cells took, by kind.
    """

    cached: list[Cell]
    failed: list[Cell]
    missing: list[Cell]
    seconds: Mapping[str, list[float]]

    @property
    def to_do(self) -> list[Cell]:
        """What is to be run: never finished before failed."""
        return [*self.missing, *self.failed]


def standing(plan: Plan, store: Store) -> Standing:
    """Looks up every cell of a plan."""
    found = Standing([], [], [], {})
    seconds: dict[str, list[float]] = {}
    for cell in plan.cells:
        record = store.record(cell.key)
        if record is None:
            found.missing.append(cell)
        elif record["status"] == "ok":
            found.cached.append(cell)
            seconds.setdefault(kind(cell.identity), []).append(float(record["provenance"]["seconds"]))
        else:
            found.failed.append(cell)
    return Standing(found.cached, found.failed, found.missing, seconds)


def choose_device(wanted: str) -> str:
    """`cuda` where there is a GPU and `auto` or `cuda` was asked for, else `cpu`.

    Raises:
        UserError: `cuda` was asked for and there is none.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UserError("--device cuda: torch finds no GPU here; use --device cpu or install a CUDA build of torch")
    return "cuda" if available and wanted != "cpu" else "cpu"


def choose_backend(wanted: str, device: str) -> str:
    """The back end that was asked for.

    Raises:
        UserError: it can do nothing here.
    """
    if reason := kernels.unavailable(wanted, torch.device(device)):
        raise UserError(f"--backend {wanted}: cannot be used here: {reason}; `python -m routebench doctor` tells more")
    return wanted


def choose_jobs(wanted: int | None, device: str, cells: int, *, alone: bool = False) -> tuple[int, int]:
    """Processes at a time, and torch threads of each: one process on a GPU, else one per core.

    Args:
        wanted: by the user; None to choose.
        device: `cpu` or `cuda`.
        cells: that are to be run.
        alone: cells measure time, and none may run beside another.

    Raises:
        UserError: several processes are wanted for cells that have to be alone.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if alone and wanted not in (None, 1):
        raise UserError(f"--jobs {wanted}: this suite measures time, so that its cells run one at a time; leave it out")
    jobs = wanted if wanted is not None else (1 if alone or device == "cuda" else cores)
    # Threads do not depend on how many cells are left: another number of threads may give other last digits.
    return max(1, min(jobs, cells)), max(1, cores // jobs)


def write_plan(plan: Plan, store: Store) -> None:
    """Puts the plan into the folder, before anything is run."""
    cells = [
        {
            "cell": cell.key,
            "label": cell.label,
            "params": compact(set_params(cell.identity)),
            "identity": dict(cell.identity),
        }
        for cell in plan.cells
    ]
    now = datetime.now(UTC)
    data = plan.preset.data.replace(":", "-").replace("/", "-")
    name = f"{plan.suite.name}.{plan.preset.name}.{data}.{now:%Y%m%dT%H%M%S%fZ}.{digest({'cells': cells})[:8]}"
    content = {
        "schema": 1,
        "plan": name,
        "created": now.isoformat(),
        "suite": plan.suite.name,
        "suite_version": plan.suite.version,
        "protocol": plan.suite.protocol,
        "question": plan.suite.question,
        "caveat": plan.suite.caveat,
        "preset": plan.preset.name,
        "settings": json.loads(json.dumps(asdict(plan.preset))),
        "command": command_line(),
        "cells": cells,
    }
    latest = store.plans()
    if latest and latest[-1]["plan"].rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]:
        return  # the same plan again: an interrupted run goes on
    store.write_plan(name, content)


def run(
    cells: Sequence[Cell],
    store: Store,
    *,
    device: str,
    jobs: int,
    threads: int,
    plugins: tuple[str, ...],
    listener: Listener,
    backend: str = "auto",
) -> list[dict[str, Any]]:
    """Runs cells with the provenance of this call, and returns their records."""
    setting = Setting(device=device, backend=backend, jobs=jobs, threads=threads, plugins=plugins)
    prepare_torch(setting)  # before provenance tells of it
    origin = {**provenance(device, command_line()), "backend": backend, "threads": threads, "jobs": jobs}
    setting = replace(setting, origin=origin)
    return execute(cells, store, setting, listener)
