"""Plans by column: the planned runs of a results folder, and their status."""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results._checks import Once, exact_bytes, is_whole
from routebench.engine.results._columns import Column, join
from routebench.engine.results._index import Saved
from routebench.engine.results._record import IDENTITY, PLAN, Identity, PlannedCell, digest, distinct
from routebench.quantities import few

if TYPE_CHECKING:
    import pandas as pd

COORDINATES = ("suite", "protocol", "method", "iterations", "role", "model", "data", "seed")
"""Keys of an identity that distinguish runs for users, beside label and shown parameters. Others are excluded, such as
options, training, code, data fingerprints and hyperparameters that trials chose: of runs that differ in those, the
newest plan's count, also where it has fewer seeds, and they are never averaged."""
TRIED = ("options", "training", "tuning", "method_params", "model_params")
"""The parts of an identity that a trial of settings tries."""
KNOWN = ("suite", "method", "role", "iterations", "model", "data")
HEADS = ("cell", "label", "params", "identity", "seed")
"""The columns of planned runs; identities have seed 0."""
NUMBERS = ("places", "entries", "versions", "sets", "images")

PLANNED = (
    "plan", "suite", "preset", "cell", "label", "method", "method_params", "role", "iterations", "model", "data",
    "seed", "status", "reason",
)  # fmt: skip
NOT_RUN = "not run"
TRIALS = "-trials"
"""The end of a preset's name in plans of trials that tune it."""


def preset_in_words(preset: str) -> str:
    """`preset quick`; of a plan of trials, `trials for preset quick`."""
    tuned = preset.removesuffix(TRIALS)
    return f"preset {preset}" if tuned == preset else f"trials for preset {tuned}"


def is_plan(content: Mapping[str, Any]) -> bool:
    """Tells whether a file's content is a plan."""
    is_cell = PlannedCell.check(identity=Once(IDENTITY, seed=is_whole))
    return PLAN(content) and all(map(is_cell, content["cells"]))


def without(plan: Mapping[str, Any], runs: Container[str]) -> dict[str, Any]:
    """The plan without some runs, by key. Its name says which it has, so that a call can make the whole plan again.

    Args:
        plan: a plan as its file has it.
        runs: keys of those to leave out.
    """
    left = [cell for cell in plan["cells"] if cell["cell"] not in runs]
    if len(left) == len(plan["cells"]):
        return dict(plan)
    name = f"{plan['plan'].rpartition('.')[0]}.{digest({'cells': left})[:8]}"
    return {**plan, "plan": name, "cells": left}


def age(head: Mapping[str, Any]) -> tuple[int, str, str]:
    """Sort key of plans, the oldest first.

    The sequence number only grows, whatever clocks do. Plans without one are older than all others.
    """
    return head.get("sequence", 0), head["created"], head["plan"]


@dataclass(frozen=True)
class PlanTable:
    """A plan by column.

    Args:
        head: the plan without its runs.
        heads: what it says of the runs, by name, as `HEADS` says.
        places: [runs], a number shared by runs that users cannot distinguish.
        entries: [runs], the same but for the seed.
        versions: [runs], a number shared by runs of the same options, training, code and data.
        sets: [runs], a number shared by runs that are compared: of one suite, preset and name of data.
        images: [runs], a number shared by runs on the same data, whatever its name.
    """

    head: dict[str, Any]
    heads: dict[str, Column]
    places: NDArray[np.int64]
    entries: NDArray[np.int64]
    versions: NDArray[np.int64]
    sets: NDArray[np.int64]
    images: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> "PlanTable":
        """Makes the table from the content of a file."""
        cells = plan["cells"]
        heads = {key: Column.of(cell[key] for cell in cells) for key in ("cell", "label", "params")}
        heads["seed"] = Column.of(cell["identity"]["seed"] for cell in cells)
        heads["identity"] = Column.of(({**cell["identity"], "seed": 0} for cell in cells), exact_bytes)
        places, entries = (
            _numbers([plan["preset"], *_coordinates(cell, without)] for cell in cells) for without in ("", "seed")
        )
        versions, sets, images = (
            _numbers(told(cell["identity"]) for cell in cells)
            for told in (
                _version,
                lambda identity: [plan["preset"], identity["suite"], identity.get("data")],
                lambda identity: [identity.get("data_fingerprint")],
            )
        )
        head = {key: value for key, value in plan.items() if key != "cells"}
        return cls(head, heads, places, entries, versions, sets, images)

    def saved(self, stamp: Sequence[int]) -> Saved:
        """Its form in an index; `stamp` is that of the plan's file."""
        head = Column([self.head], np.zeros(1, dtype=np.int32))
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return Saved({**self.heads, "head": head}, {"stamp": np.array(stamp, dtype=np.int64), **numbers})

    @classmethod
    def read(cls, saved: Saved) -> "PlanTable":
        """Makes the table from an index."""
        heads = {name: saved.columns[name] for name in HEADS}
        numbers = (saved.arrays[name] for name in NUMBERS)
        return cls(saved.columns["head"].kinds[0], heads, *numbers)

    @cached_property
    def facts(self) -> dict[str, Column]:
        """Facts of the runs that `planned` shows, by name."""
        facts = {name: self.heads[name] for name in ("cell", "label", "seed")}
        facts |= {name: self.heads["identity"].each(itemgetter(name)) for name in KNOWN}
        return facts | {"method_params": self.heads["params"]}

    @property
    def cells(self) -> Iterator[PlannedCell]:
        """The planned runs, in order; those of one configuration share the tables of their identities."""
        texts = (self.heads[name].items() for name in ("label", "params"))
        for (cell, known, seed), label, params in zip(self.identities(), *texts, strict=True):
            yield PlannedCell(cell=cell, label=label, params=params, identity=replace(known, seed=seed))

    def identities(self) -> Iterator[tuple[str, Identity, int]]:
        """The key of each planned run, an identity that all seeds of its configuration share, and its seed."""
        identity = self.heads["identity"]
        known = map([*map(Identity.read, identity.kinds)].__getitem__, identity.codes.tolist())
        return zip(self.heads["cell"].items(), known, self.heads["seed"].items(), strict=True)


def planned(
    plans: Sequence[PlanTable], outcomes: Mapping[str, tuple[str, str]], *, counts: bool = True
) -> "pd.DataFrame":
    """One row per planned run with its status. Of runs that users cannot distinguish, the newest plan's counts.

    Nor do other seeds of older code, options or training count, beside newer ones of the same configuration.

    Args:
        plans: the oldest first.
        outcomes: status and reason by run, of those that have a record.
        counts: whether to give the runs that count, or one row for each plan and run that counts for nothing there.
    """
    import pandas as pd

    if not plans:
        return pd.DataFrame(columns=list(PLANNED)).astype({"iterations": "Int64"})
    newest = counted(plans) == counts
    facts = {name: join([plan.facts[name] for plan in plans]).at(newest) for name in plans[0].facts}
    sizes = [len(plan.places) for plan in plans]
    for name in ("plan", "preset"):
        codes = np.repeat(np.arange(len(plans), dtype=np.int32), sizes)
        facts[name] = Column([plan.head[name] for plan in plans], codes).at(newest)
    found = [outcomes.get(cell, (NOT_RUN, "")) for cell in facts["cell"].items()]
    outcome = Column.of(found, key=_itself)
    for number, name in enumerate(("status", "reason")):
        facts[name] = Column([kind[number] for kind in outcome.kinds], outcome.codes)
    table = {name: facts[name].array("Int64" if name == "iterations" else None) for name in PLANNED}
    return pd.DataFrame(table, copy=False)


def counted(plans: Sequence[PlanTable]) -> NDArray[np.bool_]:
    """Tells of each run whether it counts, over the plans in their order, the oldest first.

    Of runs on different data of one name, those on the newest plan's count, for others cannot be compared with them.
    """
    import pandas as pd

    table = _joined(plans)
    found = table["is_current"].to_numpy(copy=True)
    current = table[found]
    newest = current["plan"] == current.groupby("entries")["plan"].transform("max")
    pairs = pd.MultiIndex.from_frame(current[["entries", "versions"]])
    found[found] = pairs.isin(pairs[newest]) & ~current["places"].duplicated(keep="last")
    return found


def _joined(plans: Sequence[PlanTable]) -> "pd.DataFrame":
    """The numbers of all runs, that of their plan, and whether they are on the data of the newest plan beside them."""
    import pandas as pd

    table = pd.DataFrame({name: np.concatenate([getattr(plan, name) for plan in plans]) for name in NUMBERS})
    table["plan"] = np.repeat(np.arange(len(plans)), [len(plan.places) for plan in plans])
    known = pd.MultiIndex.from_frame(table[["sets", "images"]])
    latest = table["plan"] == table.groupby("sets")["plan"].transform("max")
    table["is_current"] = known.isin(known[latest])
    return table


def on_other_data(plans: Sequence[PlanTable]) -> list[str]:
    """A sentence for each suite, preset and data set with configurations that were run on other data of the name alone.

    Args:
        plans: the oldest first.
    """
    if not plans:
        return []
    table = _joined(plans)
    known = {"label": [label for plan in plans for label in plan.facts["label"].items()]}
    known |= {"data": [data for plan in plans for data in plan.facts["data"].items()]}
    left = table.assign(**known)[~table["entries"].isin(table.loc[table["is_current"], "entries"])]
    told = []
    for _, own in left.groupby("sets", sort=False):
        head, labels = plans[int(own["plan"].iloc[0])].head, sorted({*own["label"]})
        told.append(
            f"{head['suite']}, {preset_in_words(head['preset'])}: runs of {few(labels)} do not count: the data "
            f"{own['data'].iloc[0]!r} have changed since; the suite with these methods measures them again"
        )
    return told


def first_planned(plans: Sequence[PlanTable]) -> dict[str, str]:
    """The time at which each run was planned first, by key; `plans` come with the oldest first."""
    found: dict[str, str] = {}
    for plan in reversed(plans):
        found |= dict.fromkeys(plan.facts["cell"].items(), plan.head["created"])
    return found


def replaced(plans: Sequence[PlanTable]) -> dict[str, str]:
    """The runs of older plans whose place the newest gives to others: their labels by key.

    Args:
        plans: the oldest first.
    """
    *older, newest = plans
    pairs = {*zip(newest.entries.tolist(), newest.versions.tolist(), strict=True)}
    taken = {entry for entry, _ in pairs}
    found: dict[str, str] = {}
    for plan in older:
        known = zip(plan.entries.tolist(), plan.versions.tolist(), strict=True)
        gone = np.array([pair[0] in taken and pair not in pairs for pair in known], dtype=bool)
        found |= zip(*(plan.facts[name].at(gone).items() for name in ("cell", "label")), strict=True)
    return found


def superseded(plans: Sequence[PlanTable]) -> set[str]:
    """Runs that older plans name, and that do not count any more."""
    cells = [str(cell) for plan in plans for cell in plan.facts["cell"].items()]
    counting = {cell for cell, counts in zip(cells, counted(plans), strict=True) if counts} if plans else set()
    return {*cells} - counting


def _itself(outcome: tuple[str, str]) -> tuple[str, str]:
    return outcome


def _coordinates(cell: Mapping[str, Any], without: str) -> list[Any]:
    """The coordinates that distinguish a planned run for users."""
    return [cell["label"], cell["params"], *(cell["identity"].get(key) for key in COORDINATES if key != without)]


def _version(identity: Mapping[str, Any]) -> list[Any]:
    """The facts that distinguish runs besides coordinates; the settings of a trial are what it tries."""
    tuning = identity.get("tuning")
    tried = TRIED if tuning is not None and "trials" not in tuning else ()
    known = distinct(identity)
    return [[key, known[key]] for key in sorted(known) if key not in COORDINATES and key not in tried]


def _numbers(known: Iterable[list[Any]]) -> NDArray[np.int64]:
    """A number for each list of plain values, equal for equal ones."""
    digests = (hashlib.blake2b(json.dumps(one, sort_keys=True).encode(), digest_size=8).digest() for one in known)
    return np.array([int.from_bytes(one, "little", signed=True) for one in digests], dtype=np.int64)
