"""A results folder with made-up records, written through the real store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from routebench.engine.results import Store
from tests.analysis.made_up_runs import record_of


def write_folder(
    path: Path, records: list[dict[str, Any]], preset: str = "quick", time: int = 0, suite: str = "accuracy",
    protocol: str = "accuracy", more: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Plans all records, and writes those whose status is not `not run`; `time` orders plans, which say `more`."""
    store = Store(path)
    store.prepare()
    data = records[0]["identity"]["data"]
    name = f"{suite}.{preset}.{data}.20251121T10{time:02d}00000000Z.{preset}"
    cells = [{**{key: record[key] for key in ("cell", "label", "identity")}, "params": ""} for record in records]
    facts = {"schema": 2, "plan": name, "created": f"2025-11-21T10:{time:02d}:00", "preset": preset, "cells": cells}
    facts |= {"protocol": protocol, "question": "Which routing is <best>?", "suite": suite, "suite_version": 1}
    store.write_plan(
        name, {**facts, "command": f"python -m routebench suite {suite} --preset {preset}", **(more or {})}
    )
    for record in records:
        if record["status"] != "not run":
            arrays = {"correct": torch.tensor(record["correct"], dtype=torch.uint8)} if record["metrics"] else {}
            beside = f"arrays/{record['cell']}.safetensors" if arrays else None
            store.write_record(record_of(record, beside), arrays)
    return path
