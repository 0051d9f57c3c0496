"""Adds seeds to pre-specified comparisons until their intervals are narrow enough."""

import math
from dataclasses import dataclass, replace

from routebench.engine.results import Entry, Store
from routebench.engine.suites import Cell, Plan


@dataclass(frozen=True)
class Need:
    """The seeds that a comparison needs.

    Args:
        ours, theirs: their runs of the first seed.
        seeds: number of seeds for the half-width; None while the first stage is incomplete.
    """

    ours: Cell
    theirs: Cell
    seeds: int | None


def needs_of(plan: Plan, store: Store, half_width: float) -> list[Need]:
    """Number of seeds for each pre-specified comparison, by Stein's two stages; the preset's seeds are the first stage.

    Args:
        plan: plan of the suite; its preset's seeds are the first stage.
        store: the folder with what was measured.
        half_width: half-width of the 95 % interval, in points.
    """
    from routebench.statistics import seeds_needed  # takes a second, and few calls need it

    by_entry: dict[Entry, dict[int, float]] = {}
    for cell in plan.cells:
        if not math.isnan(accuracy := _accuracy(store, cell)):
            by_entry.setdefault(cell.entry, {})[cell.identity.seed] = accuracy
    found = []
    for ours, theirs in plan.primary_pairs:
        one, other = by_entry.get(ours.entry, {}), by_entry.get(theirs.entry, {})
        found.append(Need(ours, theirs, seeds_needed(one, other, plan.preset.seeds.stop, half_width)))
    return found


def extended(plan: Plan, store: Store, half_width: float) -> Plan:
    """The plan with further seeds for the configurations of its pre-specified comparisons."""
    wanted: dict[str, tuple[Cell, int]] = {}
    for need in needs_of(plan, store, half_width):
        for cell in (need.ours, need.theirs):
            _, known = wanted.get(cell.key, (cell, 0))
            wanted[cell.key] = cell, max(known, need.seeds or 0)
    further = [
        replace(cell, identity=replace(cell.identity, seed=seed))
        for seed in range(plan.preset.seeds.stop, max((seeds for _, seeds in wanted.values()), default=0))
        for cell, seeds in wanted.values()
        if seed < seeds
    ]
    distinct = {cell.key: cell for cell in (*plan.cells, *further)}  # the plan may have them already
    return replace(plan, cells=tuple(distinct.values()))


def _accuracy(store: Store, cell: Cell) -> float:
    """Accuracy on test images with the T of training, in per cent; NaN without a result."""
    record = store.record(cell.key)
    known = record.accuracy if record is not None and record.status == "ok" else None
    return math.nan if known is None else known
