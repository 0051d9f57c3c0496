"""Chooses settings from trials, by one rule for every entry."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from routebench.data import load, unfolded
from routebench.engine.results import Record, Store
from routebench.engine.suites import Cell, ChosenPoint, ChosenSettings, Plan, digest_of
from routebench.errors import UserError

Entry = tuple[str, str, int | None]
"""Label, network and T."""


@dataclass(frozen=True)
class _Tried:
    """One point of one entry, on all folds: its cells, and their records so far."""

    cells: list[Cell]
    records: list[Record]

    @property
    def is_whole(self) -> bool:
        """Whether every fold has a record, of a result or a failure."""
        return len(self.records) == len(self.cells)

    def score(self, chance: float) -> float:
        """Mean over folds, in per cent; a failure scores chance."""
        return float(np.mean([_measured(record, "score", chance) for record in self.records]))


def _measured(record: Record, metric: str, otherwise: float) -> float:
    found = [float(one["value"]) for one in record.metrics if one["metric"] == metric]
    return found[0] if record.status == "ok" and found else otherwise


def choose(plan: Plan, store: Store) -> ChosenSettings:
    """Chooses the settings of every entry of a plan of trials, as `routebench.engine.suites.RULE` says.

    Raises:
        UserError: some entry has no trial.
    """
    entries = _entries(plan, store)
    counted = min(_whole_from_the_start(trials) for trials in entries.values())
    if not counted:
        missing = next(entry for entry, trials in entries.items() if not _whole_from_the_start(trials))
        raise UserError(f"suite {plan.suite.name}: no trial of {missing[0]} has ended yet; run the same command again")
    chance = 100 / len(load(plan.preset.data).classes)
    kept = {entry: [trials[number] for number in range(counted)] for entry, trials in entries.items()}
    return ChosenSettings(
        suite=plan.suite.name,
        suite_version=plan.suite.version,
        preset=plan.preset.name.removesuffix("-trials"),
        data=unfolded(plan.preset.data),
        trials=counted,
        planned=max(map(len, entries.values())),
        digest=digest_of([cell.key for trials in kept.values() for trial in trials for cell in trial.cells]),
        choices=tuple(_choice(entry, trials, chance) for entry, trials in kept.items()),
    )


def _entries(plan: Plan, store: Store) -> dict[Entry, dict[int, _Tried]]:
    """The trials of every entry that can run, by number."""
    found: dict[Entry, dict[int, _Tried]] = {}
    for cell in plan.cells:
        if cell.broken:
            continue
        known = cell.identity
        trials = found.setdefault((cell.label, known.model, known.iterations), {})
        trial = trials.setdefault(int(known.options["trial"]), _Tried([], []))
        trial.cells.append(cell)
        if (record := store.record(cell.key)) is not None:
            trial.records.append(record)
    return found


def _whole_from_the_start(trials: Mapping[int, _Tried]) -> int:
    """Number of complete trials before the first incomplete one."""
    return next((number for number in range(len(trials)) if not trials[number].is_whole), len(trials))


def _choice(entry: Entry, trials: list[_Tried], chance: float) -> ChosenPoint:
    scores = [trial.score(chance) for trial in trials]
    best = int(np.argmax(scores))  # the first of equals
    label, model, iterations = entry
    records = [record for trial in trials for record in trial.records]
    return ChosenPoint(
        method=label,
        model=model,
        iterations=iterations,
        trial=best,
        score=round(scores[best], 4),
        diverged=sum(_measured(record, "diverged", 0.0) == 1 for record in records),
        failed=sum(record.status != "ok" for record in records),
        point=dict((trials[best].cells[0].identity.tuning or {})["point"]),
    )
