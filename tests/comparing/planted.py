"""Results folders with a known difference: the published records, written anew through the store after a change."""

import copy
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from routebench.engine.results import PlanTable, Store
from routebench.engine.results import Record as Stored

ROOT = Path(__file__).parents[2]
ACCURACY, COST = ROOT / "tests" / "packs" / "accuracy-quick", ROOT / "tests" / "packs" / "cost-quick"

Record, Arrays = dict[str, Any], dict[str, np.ndarray]
Edit = Callable[[Record, Arrays], None]


@cache
def _published(source: Path) -> tuple[PlanTable, str, dict[str, Arrays]]:
    store = Store(source)
    (plan,) = store.plans()
    records = {cell.cell: found.as_dict() for cell in plan.cells if (found := store.record(cell.cell))}
    return plan, json.dumps(records), {key: store.arrays(key) for key in records}


def write(
    target: Path,
    edit: Edit = lambda record, arrays: None,
    *,
    source: Path = ACCURACY,
    keep: Callable[[Record], bool] = lambda record: True,
    run: Callable[[Record], bool] = lambda record: True,
    metrics: tuple[str, ...] = (),
) -> Path:
    """A folder with the published records after `edit`.

    Args:
        target: where.
        edit: changes a record and its arrays in place.
        source: published folder.
        keep: which cells are planned.
        run: which of them have a record.
        metrics: that are kept; empty for all.
    """
    plan, records, arrays = _published(source)
    store = Store(target)
    store.prepare()
    kept = {key: record for key, record in json.loads(records).items() if keep(record)}
    for key, record in kept.items():
        own = {name: values.copy() for name, values in arrays[key].items()}
        if metrics:
            record["metrics"] = [metric for metric in record["metrics"] if metric["metric"] in metrics]
        edit(record, own)
        if run(record):
            store.write_record(Stored.read(record), {name: torch.from_numpy(values) for name, values in own.items()})
    cells = [{**cell.as_dict(), "identity": kept[cell.cell]["identity"]} for cell in plan.cells if cell.cell in kept]
    store.write_plan(plan.head["plan"], {**plan.head, "cells": cells})
    return target


def headline(record: Record) -> bool:
    """T = 3 and methods without iterations: seven settings with three seeds."""
    return record["identity"]["iterations"] in (None, 3)


def set_correct(record: Record, arrays: Arrays, correct: np.ndarray) -> None:
    """Other images right; the accuracy with the iterations trained with says so."""
    arrays["correct"] = correct.astype(np.uint8)
    for metric in record["metrics"]:
        if metric["metric"] == "accuracy" and metric["test_iterations"] in (None, record["identity"]["iterations"]):
            metric["value"] = 100 * float(correct.mean())


def lose(images: int, method: str, rng: np.random.Generator) -> Edit:
    """So many images that were right are wrong, other ones with each seed; a negative number: the other way round."""

    def edit(record: Record, arrays: Arrays) -> None:
        if record["identity"]["method"] == method:
            correct = arrays["correct"].astype(bool)
            flipped = rng.choice(np.flatnonzero(correct == (images > 0)), abs(images), replace=False)
            correct[flipped] = images < 0
            set_correct(record, arrays, correct)

    return edit


def trained_again(rng: np.random.Generator) -> Edit:
    """Other weights of the same method, as a change of rounding gives them.

    Which of the images that some seed has wrong are right is drawn anew, each with its share over seeds.
    """
    _, _, arrays = _published(ACCURACY)
    records = json.loads(_published(ACCURACY)[1])
    right: dict[tuple[str, int | None], list[np.ndarray]] = {}
    for key, record in records.items():
        right.setdefault((record["label"], record["identity"]["iterations"]), []).append(arrays[key]["correct"])
    shares = {method: np.mean(rows, axis=0) for method, rows in right.items()}

    def edit(record: Record, own: Arrays) -> None:
        share = shares[record["label"], record["identity"]["iterations"]]
        set_correct(record, own, rng.random(share.size) < share)

    return edit


def retrained(rng: np.random.Generator, spread: float, worse: Mapping[str, float] | None = None) -> Edit:
    """Other weights of the same method: its accuracy is normal with a spread over trainings.

    Args:
        rng: draws the weights.
        spread: standard deviation in points.
        worse: method to points that it is truly worse by.
    """
    again = trained_again(rng)

    def edit(record: Record, own: Arrays) -> None:
        before = own["correct"].mean()
        again(record, own)
        points = rng.normal(0, spread) - (worse or {}).get(record["identity"]["method"], 0.0)
        correct = own["correct"].astype(bool)
        missing = round(correct.size * (before + points / 100)) - int(correct.sum())
        flipped = rng.choice(np.flatnonzero(correct == (missing < 0)), abs(missing), replace=False)
        correct[flipped] = missing > 0
        set_correct(record, own, correct)

    return edit


def in_turn(folder: Path, rounds: int, rng: np.random.Generator, **how: Any) -> tuple[Path, Path]:
    """BASE and HEAD with the published times, measured in turn: in each round a process of each.

    Args:
        folder: for both.
        rounds: of each side.
        rng: draws the noise.
        how: `metrics` that are kept; `keep` says which cells; `spread` is the noise of a process, and of each value
            alone; `worse` is, by method, what HEAD's values are multiplied by.
    """
    metrics, keep = how.get("metrics", ("training_time",)), how.get("keep", lambda record: True)
    spread, worse = how.get("spread", 0.02), how.get("worse", {})
    plan, records, _ = _published(COST)
    known = {key: record for key, record in json.loads(records).items() if keep(record)}
    for turn, side in enumerate(("base", "head")):
        store, cells = Store(folder / side), []
        store.prepare()
        for number in range(rounds):
            luck = rng.normal(0, spread)
            for record in copy.deepcopy(list(known.values())):
                record["cell"] = f"{record['cell'][:-2]}{number:02x}"
                record["identity"]["seed"] = number
                record["provenance"]["finished"] = f"2026-01-01T00:{number:02d}:{30 * turn:02d}+00:00"
                factor = worse.get(record["identity"]["method"], 1.0) if side == "head" else 1.0
                record["metrics"] = _steadied(record["metrics"], metrics)
                for metric in record["metrics"]:
                    metric["value"] *= factor * math.exp(luck + rng.normal(0, spread))
                store.write_record(Stored.read({**record, "arrays": None}), {})
                cells.append({key: record[key] for key in ("cell", "label", "params", "identity")})
        store.write_plan(plan.head["plan"], {**plan.head, "cells": cells})
    return folder / "base", folder / "head"


def _steadied(metrics: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Some metrics, each of their repeats with the value of the first."""
    first: dict[str, float] = {}
    kept = [metric for metric in metrics if metric["metric"] in names]
    for metric in kept:
        where = {key: value for key, value in metric["where"].items() if key != "repeat"}
        metric["value"] = first.setdefault(json.dumps([metric["metric"], where], sort_keys=True), metric["value"])
    return kept
