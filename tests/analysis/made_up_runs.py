"""Records of runs that never happened, in the shape that the engine leaves them, with known effects and failures."""

import hashlib
import zlib
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from routebench.analysis import Runs
from routebench.analysis.palette import colours_of
from routebench.engine.results import Record

# label: (iterations, role, model, accuracy in % per iteration count)
METHODS: dict[str, tuple[list[int | None], str, str, list[float]]] = {
    "dynamic": ([1, 2, 3], "method", "capsnet-small", [96.3, 97.0, 96.9]),
    "em": ([1, 2, 3], "method", "capsnet-small", [95.2, 96.1, 95.9]),
    "inverted-attention": ([1, 2, 3], "method", "capsnet-small", [96.4, 97.5, 97.4]),
    "none": ([None], "method", "capsnet-small", [96.2]),
    "uniform": ([None], "control", "capsnet-small", [96.3]),
    "random": ([None], "control", "capsnet-small", [95.6]),
    "cnn": ([None], "control", "cnn-small", [97.1]),
}
COLUMNS = [
    *("suite", "suite_version", "protocol", "cell", "status", "reason", "method", "method_params", "label", "role"),
    *("iterations", "test_iterations", "epoch", "model", "data", "seed", "metric", "split", "value", "unit"),
    *("higher_is_better", "device", "commit", "dirty", "seconds"),
]
EPOCHS = 5
N_TEST = 1000
RECIPE = {"epochs": EPOCHS, "batch_size": 128, "optimiser": "adam", "learning_rate": 0.001, "loss": "margin"}
RECIPE |= {"reconstruction": 0.0, "augmentation": "none", "selection": "last", "precision": "float32"}


def made_up_records(
    seeds: int = 3,
    spread: float = 0.15,
    failures: bool = True,
    methods: dict[str, tuple[list[int | None], str, str, list[float]]] = METHODS,
    preset: str = "quick",
) -> list[dict[str, Any]]:
    """One record per cell, as `records/*.json` holds them, with `correct` besides; `diverged` where failures are on.

    Args:
        seeds: per method and iteration count.
        spread: standard deviation over seeds, in points; half of it is shared by all methods of a seed.
        failures: em with T = 3 diverges with seed 1, and its last seed has no record (status `not run`).
        methods: what is run.
        preset: of the plan.
    """
    return [
        _record(label, iterations, seed, accuracy, role, model, spread, failures and label == "em", seeds, preset)
        for label, (grid, role, model, accuracies) in methods.items()
        for iterations, accuracy in zip(grid, accuracies, strict=True)
        for seed in range(seeds)
    ]


def _record(
    label: str,
    iterations: int | None,
    seed: int,
    accuracy: float,
    role: str,
    model: str,
    spread: float,
    fragile: bool,
    seeds: int,
    preset: str,
) -> dict[str, Any]:
    name = f"{preset}/{label}/{iterations}/{seed}"
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shared = np.random.default_rng(seed).normal(0, spread)
    value = min(99.9, accuracy + 0.7 * shared + rng.normal(0, 0.7 * spread))
    right = rng.permutation(N_TEST) < round(value / 100 * N_TEST)
    identity = {
        "suite": "accuracy",
        "suite_version": 1,
        "protocol": "accuracy",
        "options": {},
        "method": label.partition("[")[0],
        "method_params": {},
        "routed": True,
        "iterations": iterations,
        "role": role,
        "model": model,
        "model_params": {},
        "data": "mnist5k",
        "data_fingerprint": "0123456789abcdef",
        "training": dict(RECIPE),
        "seed": seed,
    }
    status, reason = "ok", ""
    if fragile and iterations == 3 and seed == 1:
        status, reason = "diverged", "the loss was not finite at step 41"
    elif fragile and iterations == 3 and seed == seeds - 1:
        status = "not run"
    return {
        "schema": 2,
        "cell": hashlib.sha256(name.encode()).hexdigest()[:16],
        "label": label,
        "status": status,
        "reason": reason,
        "identity": identity,
        "metrics": _metrics(100 * right.mean(), iterations, rng) if status == "ok" else [],
        "correct": right,
        "provenance": _provenance(seed),
    }


def _metrics(accuracy: float, iterations: int | None, rng: np.random.Generator) -> list[dict[str, Any]]:
    def metric(
        name: str, split: str, value: float, unit: str, higher: bool | None, **where: int | None
    ) -> dict[str, Any]:
        known = {"metric": name, "split": split, "value": float(value), "unit": unit, "higher_is_better": higher}
        return {**known, "test_iterations": None, "epoch": None, **where}

    grid = [None] if iterations is None else [1, 2, 3, 5]
    found = []
    for tested in grid:
        off = 0 if tested in (None, iterations) else 0.6 * (tested - (iterations or 0)) ** 2
        found.append(metric("accuracy", "test", max(10.0, accuracy - off), "%", True, test_iterations=tested))
        found.append(metric("loss", "test", 0.03, "", False, test_iterations=tested))
    for epoch in range(1, EPOCHS + 1):
        left = 0.45 ** (epoch - 1)
        found += [
            metric("train_loss", "train", 0.35 * left + 0.01 + 0.002 * rng.random(), "", False, epoch=epoch),
            metric("held_out_accuracy", "held-out", accuracy - 12 * left + rng.normal(0, 0.2), "%", True, epoch=epoch),
        ]
    found.append(metric("parameters", "", 231_456, "count", None))
    found.append(metric("fit_seconds", "", 6.5 + 1.5 * (iterations or 0), "s", False))
    return found


def _provenance(seed: int) -> dict[str, Any]:
    return {
        "commit": "82f8ab2d0c",
        "dirty": False,
        "command": "python -m routebench suite accuracy --preset quick",
        "versions": {"python": "3.11.2", "torch": "2.13.0", "numpy": "2.4.6"},
        "processor": "Example CPU @ 2.00GHz",
        "gpu": None,
        "threads": 2,
        "tf32": False,
        "deterministic": True,
        "data_fingerprint": "0123456789abcdef",
        "seconds": 9.5 + seed,
        "finished": f"2025-11-21T10:0{seed}:00+00:00",
        "hostname": "somewhere",
    }


def record_of(made_up: dict[str, Any], arrays: str | None = None) -> Record:
    """A made-up record as the store has it."""
    kept = {key: value for key, value in made_up.items() if key != "correct"}
    return Record.read({**kept, "params": "", "arrays": arrays})


def results_of(records: list[dict[str, Any]]) -> DataFrame:
    """What `load_results` makes of the records."""
    rows = []
    for record in records:
        if record["status"] == "not run":
            continue
        identity = record["identity"]
        cell = {
            key: identity[key]
            for key in ("suite", "suite_version", "protocol", "method", "role", "model", "data", "seed")
        }
        cell |= {
            "cell": record["cell"],
            "label": record["label"],
            "status": record["status"],
            "reason": record["reason"],
        }
        cell |= {"iterations": identity["iterations"], "method_params": "", "device": "cpu", "commit": "82f8ab2d0c"}
        cell |= {"dirty": False, "seconds": record["provenance"]["seconds"]}
        nothing = {"metric": pd.NA, "split": pd.NA, "value": np.nan, "unit": pd.NA, "higher_is_better": pd.NA}
        nothing |= {"test_iterations": None, "epoch": None}
        rows += [{**cell, **metric} for metric in record["metrics"] or [nothing]]
    return DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(("iterations", "test_iterations", "epoch"), "Int64"))


def planned_of(records: list[dict[str, Any]], preset: str = "quick") -> DataFrame:
    """What `Store.planned` makes of the plan."""
    rows = [
        {
            "plan": f"accuracy.{preset}.mnist5k.20251121T100000.abcd",
            "preset": preset,
            **{key: record[key] for key in ("cell", "label", "status", "reason")},
            **{
                key: record["identity"][key]
                for key in ("suite", "method", "role", "iterations", "model", "data", "seed")
            },
            "method_params": "",
        }
        for record in records
    ]
    return DataFrame(rows).astype({"iterations": "Int64"})


def made_up_runs(records: list[dict[str, Any]] | None = None, preset: str = "quick", **options: Any) -> Runs:
    """Runs as an analysis gets them; options as for `made_up_records`."""
    records = made_up_records(preset=preset, **options) if records is None else records
    right = {record["cell"]: record["correct"] for record in records if record["status"] == "ok"}
    planned = planned_of(records, preset)
    names = {"suite": "accuracy", "preset": preset, "data": "mnist5k", "model": "capsnet-small", "protocol": "accuracy"}
    return Runs(
        **names,
        results=results_of(records),
        planned=planned,
        correct=right.get,
        colours=colours_of(planned["label"]),
    )
