"""Plans by column: the planned cells of a results folder, and their status."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results._checks import Once, is_whole
from routebench.engine.results._columns import Column, join
from routebench.engine.results._index import Saved
from routebench.engine.results._record import IDENTITY, PLAN, PlannedCell

if TYPE_CHECKING:
    import pandas as pd

COORDINATES = (
    "suite", "protocol", "method", "method_params", "variant", "iterations", "role", "model", "model_params", "data",
    "seed",
)  # fmt: skip
"""Keys of an identity that distinguish cells for users. Options, training, code and data fingerprints are excluded: of
cells that differ only in those, the newest plan's count, and they are never averaged."""
KNOWN = ("suite", "method", "role", "iterations", "model", "data", "seed")
FACTS = ("cell", "label", "method_params", *KNOWN)

PLANNED = (
    "plan", "suite", "preset", "cell", "label", "method", "method_params", "role", "iterations", "model", "data",
    "seed", "status", "reason",
)  # fmt: skip
NOT_RUN = "not run"


def is_plan(content: Mapping[str, Any]) -> bool:
    """Whether a file's content is a plan."""
    is_cell = PlannedCell.check(identity=Once(IDENTITY, seed=is_whole))
    return PLAN(content) and all(map(is_cell, content["cells"]))


def age(head: Mapping[str, Any]) -> tuple[int, str, str]:
    """Sort key of plans, the oldest first.

    The sequence number only grows, whatever clocks do. Plans without one are older than all others.
    """
    return head.get("sequence", 0), head["created"], head["plan"]


@dataclass(frozen=True)
class PlanTable:
    """A plan by column.

    Args:
        head: the plan without its cells.
        facts: of the cells, by name.
        places: [cells], a number shared by cells that users cannot distinguish.
    """

    head: dict[str, Any]
    facts: dict[str, Column]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> "PlanTable":
        """From the content of a file."""
        cells = plan["cells"]
        facts = {key: Column.of(cell["identity"][key] for cell in cells) for key in KNOWN}
        facts |= {key: Column.of(cell[key] for cell in cells) for key in ("cell", "label")}
        facts["method_params"] = Column.of(cell["params"] for cell in cells)
        places = [_place(plan["preset"], cell["identity"]) for cell in cells]
        head = {key: value for key, value in plan.items() if key != "cells"}
        return cls(head, facts, np.array(places, dtype=np.int64))

    def saved(self, stamp: Sequence[int]) -> Saved:
        """Its form in an index; `stamp` is that of the plan's file."""
        head = Column([self.head], np.zeros(1, dtype=np.int32))
        return Saved({**self.facts, "head": head}, {"stamp": np.array(stamp, dtype=np.int64), "places": self.places})

    @classmethod
    def read(cls, saved: Saved) -> "PlanTable":
        """From an index."""
        facts = {name: saved.columns[name] for name in FACTS}
        return cls(saved.columns["head"].kinds[0], facts, saved.arrays["places"])


def planned(plans: Sequence[PlanTable], outcomes: Mapping[str, tuple[str, str]]) -> "pd.DataFrame":
    """One row per planned cell with its status. Of cells that users cannot distinguish, the newest plan's counts.

    Args:
        plans: the oldest first.
        outcomes: status and reason by cell, of those that have a record.
    """
    import pandas as pd

    if not plans:
        return pd.DataFrame(columns=list(PLANNED)).astype({"iterations": "Int64"})
    places = np.concatenate([plan.places for plan in plans])
    newest = ~pd.Series(places).duplicated(keep="last").to_numpy()
    facts = {name: join([plan.facts[name] for plan in plans]).at(newest) for name in FACTS}
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


def _itself(outcome: tuple[str, str]) -> tuple[str, str]:
    return outcome


def _place(preset: str, identity: Mapping[str, Any]) -> int:
    known = json.dumps([preset, *(identity.get(key) for key in COORDINATES)], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(known.encode(), digest_size=8).digest(), "little", signed=True)
