"""Chooses settings from trials, by one rule for every configuration."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from routebench.data_names import unfolded
from routebench.engine.results import TRIALS, Entry, Identity, Record, Store
from routebench.engine.suites import FIRST_SEED, Cell, ChosenPoint, ChosenSettings, Plan, digest_of
from routebench.errors import UserError
from routebench.quantities import plural

Run = list[tuple[Cell, Record | None]]
"""The runs of one seed, one for each fold, each with its record so far."""


@dataclass(frozen=True)
class _Tried:
    """One point of one configuration, on all folds.

    Args:
        runs: the first seed's, then those of repeats.
    """

    runs: list[Run]

    @property
    def whole(self) -> int:
        """Number of seeds, from the first, of which every fold has a record, of a result or a failure."""
        return next((n for n, run in enumerate(self.runs) if not _is_whole(run)), len(self.runs))

    def score(self, chance: float, runs: int = 1) -> float:
        """Mean over folds and the first `runs` seeds, in per cent; what failed or diverged scores chance."""
        return float(np.mean([chance if _broke(one) else _measured(one, "score") for one in self.records(runs)]))

    def rank(self, chance: float, runs: int = 1) -> tuple[int, float]:
        """Sorts trials: those first of which fewest runs failed or diverged, and among them the best score."""
        return sum(map(_broke, self.records(runs))), -self.score(chance, runs)

    def records(self, runs: int = 1) -> list[Record]:
        """The records of the first `runs` seeds."""
        return [record for run in self.runs[:runs] for _, record in run if record is not None]

    def cells(self, runs: int = 1) -> list[Cell]:
        """The runs of the first `runs` seeds."""
        return [cell for run in self.runs[:runs] for cell, _ in run]


def _is_whole(run: Run) -> bool:
    return all(record is not None for _, record in run)


def _measured(record: Record, metric: str) -> float:
    """The value of a metric; NaN without one."""
    found = [float(one["value"]) for one in record.metrics if one["metric"] == metric and one["value"] is not None]
    return found[0] if record.status == "ok" and found else math.nan


def _diverged(record: Record) -> bool:
    return _measured(record, "diverged") == 1


def _broke(record: Record) -> bool:
    """Tells whether a run failed, diverged, or has no finite score."""
    return _diverged(record) or not math.isfinite(_measured(record, "score"))


def with_repeats(plan: Plan, store: Store) -> Plan:
    """The plan with repeats of every configuration's best trials; as it is while trials are missing.

    Args:
        plan: a plan of trials.
        store: the results folder.
    """
    tuning = plan.suite.tuning
    if tuning is None or tuning.finalists == 1:
        return plan
    entries = _entries(plan.cells, store)
    if not all(trial.whole for trials in entries.values() for trial in trials.values()):
        return plan
    chance = plan.chance
    further = [
        replace(cell, identity=replace(cell.identity, seed=cell.identity.seed + run * FIRST_SEED))
        for run in range(1, tuning.repeats + 1)
        for trials in entries.values()
        for number in _finalists(trials, tuning.finalists, chance)
        for cell in trials[number].cells()
    ]
    distinct = {cell.key: cell for cell in (*plan.cells, *further)}  # the plan may have them already
    return replace(plan, cells=tuple(distinct.values()))


def to_repeat(plan: Plan) -> str:
    """Says what will run once a plan of trials is done; empty where nothing will, or it is in the plan."""
    tuning = plan.suite.tuning
    if tuning is None or tuning.finalists == 1 or any(cell.identity.seed >= 2 * FIRST_SEED for cell in plan.cells):
        return ""
    entries = {cell.entry for cell in plan.cells if not cell.broken}
    more = len(entries) * tuning.finalists * tuning.repeats * tuning.scored
    what = f"the best {tuning.finalists} trials of every configuration run again with other seeds"
    return f"then {what}: {plural(more, 'run')} more"


def told_of_kept(plan: Plan) -> str:
    """Names the configurations of a plan of trials that keep the suite's settings; empty where none does."""
    if plan.kept is None:
        return ""
    who = "; ".join(one.title for one in plan.kept.choices)
    count = plural(len(plan.kept.choices), "configuration")
    return (
        f"the settings that suite {plan.kept.suite} brings are kept for {count}, each the best of "
        f"{plan.kept.trials} trials as well ({who}); without --method and --plugin, all are tuned"
    )


def choose(plan: Plan, store: Store) -> ChosenSettings:
    """Chooses the settings of every configuration of a plan of trials, as `routebench.engine.suites.RULE` says.

    Args:
        plan: a plan of trials.
        store: the results folder.

    Raises:
        UserError: some configuration has no trial, or fewer than those have whose settings are kept.
    """
    entries = _entries(plan.cells, store)
    counted = min(_whole_from_the_start(trials) for trials in entries.values())
    if not counted:
        missing = next(entry for entry, trials in entries.items() if not _whole_from_the_start(trials))
        raise UserError(f"suite {plan.suite.name}: no trial of {missing[0]} has ended yet; run the same command again")
    kept = {entry: {number: trials[number] for number in range(counted)} for entry, trials in entries.items()}
    chance, planned = plan.chance, plan.suite.tuning
    wanted = 1 if planned is None else min(planned.finalists, counted)
    finalists = {entry: _finalists(trials, wanted, chance) for entry, trials in kept.items()}
    runs = min(kept[entry][number].whole for entry, numbers in finalists.items() for number in numbers)
    before = plan.kept
    if before is not None and (counted, runs - 1) != (before.trials, before.repeats):
        raise UserError(
            f"suite {plan.suite.name}: expected {before.trials} trials with {before.repeats} repeats of the best, as "
            f"{len(before.choices)} other configurations had, got {counted} and {runs - 1} so far; run the same "
            "command again"
        )
    keys = [
        cell.key
        for entry, trials in kept.items()
        for number, trial in trials.items()
        for cell in trial.cells(runs if number in finalists[entry] else 1)
    ]
    return ChosenSettings(
        suite=plan.suite.name,
        suite_version=plan.suite.version,
        preset=plan.preset.name.removesuffix(TRIALS),
        data=unfolded(plan.preset.data),
        trials=counted,
        planned=max(map(len, entries.values())),
        digest=digest_of(keys if before is None else [*keys, before.digest]),
        choices=(
            *(_choice(entry, trials, finalists[entry], runs, chance) for entry, trials in kept.items()),
            *(() if before is None else before.choices),
        ),
        finalists=wanted if runs > 1 else 1,
        repeats=runs - 1,
        fingerprint=plan.base,
    )


def choose_beside(plan: Plan, store: Store) -> ChosenSettings:
    """The same as `choose`, where each choice that the preset's own settings have too keeps the name of their trials.

    So published results stay results of these settings. `rank` and `submit` use `choose`: a submission stands for
    itself, and names all its trials by one digest.

    Args:
        plan, store: as for `choose`.

    Raises:
        UserError: as `choose`.
    """
    found, name = choose(plan, store), plan.suite.preset(plan.preset.name.removesuffix(TRIALS)).settings
    try:
        return found.as_before(ChosenSettings.read(plan.suite.settings_file(name), plan.suite.name)) if name else found
    except UserError:  # the first settings of a preset are to be chosen still
        return found


def choice_among(trials: Iterable[Identity], store: Store, finalists: int, chance: float) -> ChosenPoint | None:
    """The choice of one configuration by the rule of `choose`, from its trials alone: no code of the method is run.

    Args:
        trials: those of one configuration, all of which have a record.
        store: the folder that these lie in.
        finalists: the number of the best that were repeated; 1 for none.
        chance: accuracy of guesses in per cent, which counts in the score alone: trials rank by how many runs broke.

    Returns:
        None where their numbers, settings or seeds are not those of trials.
    """
    cells = [Cell(one) for one in trials]
    numbers = [number for one in cells if isinstance(number := one.identity.options.get("trial"), int)]
    points = [(one.identity.tuning or {}).get("point") for one in cells]
    are_whole = len(numbers) == len(cells) and {*numbers} == {*range(len({*numbers}))}
    seeds = [one.identity.seed - number for one, number in zip(cells, numbers, strict=False)]
    are_whole &= all(seed >= FIRST_SEED and seed % FIRST_SEED == 0 for seed in seeds)
    if not (cells and are_whole and all(isinstance(one, Mapping) for one in points)):
        return None
    (entry, tried), *others = _entries(cells, store).items()
    best = _finalists(tried, finalists, chance)
    runs = min(tried[number].whole for number in best)
    return None if others or not runs else _choice(entry, tried, best, runs, chance)


def at_ends(plan: Plan, settings: ChosenSettings) -> list[str]:
    """Tells of numbers whose best lies at an end of what was tried, and so perhaps beyond it; a line each.

    Only hyperparameters that configurations share, and of which three or more values were tried.

    Args:
        plan: a plan of trials.
        settings: what was chosen from them.
    """
    points = [(cell.identity.tuning or {}).get("point", {}) for cell in plan.cells]
    lines = []
    for name in plan.suite.tuning.shared if plan.suite.tuning else ():
        values = {point[name] for point in points if name in point}
        if len(values) < 3 or not all(isinstance(value, int | float) for value in values):
            continue
        for end, word in ((min(values), "lowest"), (max(values), "highest")):
            who = [one.title for one in settings.choices if one.point.get(name) == end]
            if who:
                count = f"{len(who)} of {plural(len(settings.choices), 'configuration')}"
                lines.append(f"{name}: the {word} value tried, {end:g}, is the best for {count} ({'; '.join(who)})")
    return lines


def _entries(cells: Iterable[Cell], store: Store) -> dict[Entry, dict[int, _Tried]]:
    """The trials of every configuration that can run, by number."""
    found: dict[Entry, dict[int, dict[int, Run]]] = {}
    for cell in cells:
        if cell.broken:
            continue
        known = cell.identity
        trials = found.setdefault(cell.entry, {})
        runs = trials.setdefault(int(known.options["trial"]), {})
        runs.setdefault(known.seed, []).append((cell, store.record(cell.key)))
    return {
        entry: {number: _Tried([runs[seed] for seed in sorted(runs)]) for number, runs in trials.items()}
        for entry, trials in found.items()
    }


def _whole_from_the_start(trials: Mapping[int, _Tried]) -> int:
    """Number of complete trials before the first incomplete one."""
    return next((number for number in range(len(trials)) if not trials[number].whole), len(trials))


def _finalists(trials: Mapping[int, _Tried], count: int, chance: float) -> list[int]:
    """The numbers of the trials whose first seeds rank first, the best first; the earlier of equals."""
    return sorted(trials, key=lambda number: (trials[number].rank(chance), number))[:count]


def _choice(entry: Entry, trials: Mapping[int, _Tried], finalists: list[int], runs: int, chance: float) -> ChosenPoint:
    chosen = min(finalists, key=lambda number: (trials[number].rank(chance, runs), number))
    label, model, iterations = entry
    counted = {number: runs if number in finalists else 1 for number in trials}
    records = [record for number, trial in trials.items() for record in trial.records(counted[number])]
    return ChosenPoint(
        method=label,
        model=model,
        iterations=iterations,
        trial=chosen,
        score=round(trials[chosen].score(chance, runs), 4),
        diverged=sum(map(_diverged, records)),
        failed=sum(record.status != "ok" for record in records),
        point=dict((trials[chosen].cells()[0].identity.tuning or {})["point"]),
    )
