"""Checks a submission: its files, plans, settings and answers; then trains some of its runs again, and compares."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from pandas import isna

from routebench import statistics
from routebench.analysis import BASELINE, Method
from routebench.engine import reproduce
from routebench.engine.agreement import Agreement, compare
from routebench.engine.isolation import Scratch
from routebench.engine.results import (
    NOT_RUN,
    TRIALS,
    Identity,
    PlannedCell,
    Record,
    Store,
    distinct,
    preset_in_words,
    unpack,
)
from routebench.engine.suites import METHOD, Cell, ChosenPoint, ChosenSettings, load_suite, settled
from routebench.engine.tuning import choice_among
from routebench.errors import UserError
from routebench.options import RankOptions
from routebench.quantities import plural
from routebench.ranking._boards import Board, PublishedBoard, board_of, published
from routebench.ranking._measuring import Wanted, best_of, part_of
from routebench.ranking._standing import Standing, standing_of
from routebench.ranking._submission import SETTINGS, ClaimedPlace, about_of, claim_of, faults_of_records, inspected

LEANS = 0.2
"""Points that several runs may claim above what they reach on another machine, on average."""
LEANING_P = 0.01
"""The p below which such a mean is no chance; an honest submission is refused so seldom."""
FEWEST = 3
"""So many runs are needed to see that."""


@dataclass(frozen=True)
class Verification:
    """The findings of a verifier on a submission.

    Args:
        about: what the submission says of itself.
        standing: its place, computed again from its records.
        agreements: how the runs that were trained again agree, by key.
        names: what these runs are called, by key.
        runs: how many trials and runs it has.
        faults: what a maintainer would refuse.
    """

    about: Mapping[str, Any]
    standing: Standing | None
    agreements: Mapping[str, Agreement]
    runs: int
    faults: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Tells whether nothing speaks against it."""
        return not self.faults and all(one.holds for one in self.agreements.values())

    def missed(self, false: int) -> float:
        """The chance that no drawn run is false, where so many of all are.

        Args:
            false: the number of false trials and runs.
        """
        return missed(self.runs, len(self.agreements), false)


def missed(runs: int, drawn: int, false: int) -> float:
    """The chance that none of the drawn runs is false: C(runs - false, drawn) / C(runs, drawn).

    Args:
        runs: the number of all.
        drawn: the number that is trained again.
        false: the number that is false.
    """
    return math.comb(runs - false, drawn) / math.comb(runs, drawn)


def verify(folder: Path, count: int, draw: int, say: Callable[[str], None], beside: Path | None = None) -> Verification:
    """Checks a submission: its files, plans, settings and answers; then trains some of its runs again, and compares.

    Args:
        folder: the submission.
        count: how many runs are trained again; 0 for none.
        draw: a number that the verifier chooses after the submission was made; with the checksum it says which runs.
        say: is called with a line for each run that is trained again.
        beside: results that stand in place of the published ones in the package.

    Raises:
        UserError: it is no submission, or files of it are missing, changed, or lie elsewhere.
    """
    about, seal = about_of(folder)
    known = published(board_of(about["board"]), beside)
    with Scratch() as made:
        own = Path(made) / "results"
        unpack(folder, own)
        plugin = str(folder / about["plugin"])
        wanted = Wanted(known.board, about["method"], RankOptions(plugins=(plugin,), results=own))
        try:
            claim = claim_of(wanted)
            faults = [*_other_plans(about, claim)]
            faults += _made_otherwise(claim.store, claim.cells) if faults else ()
            _plan_anew(claim)
            standing, more = inspected(claim, known)
        except UserError as error:
            return Verification(about, None, {}, 0, (str(error), *_made_otherwise(Store(own), _trials_of(wanted))))
        faults += [*more, *_other_settings(folder, claim)]
        if faults:
            return Verification(about, None, {}, len(claim.cells), tuple(faults))
        agreements, names, pairs = {}, {}, []
        for cell, record in _drawn(claim, count, f"{seal} {draw}"):
            say(f"training {cell} again")
            found, agreements[cell.key] = _again(cell, record, claim.store)
            names[cell.key] = str(cell)
            pairs.append((record, found))
        return Verification(about, standing, agreements, len(claim.cells), (*leaning(pairs),), names)


def entry_of(folder: Path, beside: Path | None = None) -> tuple[dict[str, Any], Standing, list[tuple[str, Any]]]:
    """A submission as a board shows it, from its files alone: no code of it is run. `verify` says whether it holds.

    Args:
        folder: the submission.
        beside: results that stand in place of the published ones in the package.

    Returns:
        what it says of itself, its place, and the settings of its ranked configuration, by name.

    Raises:
        UserError: it is no submission, its files have changed, it plans runs of something else, or its results cannot
            be compared.
    """
    about, _ = about_of(folder)
    known = published(board_of(about["board"]), beside)
    settings = ChosenSettings.read(folder / SETTINGS, about["label"])
    store = Store(folder)
    runs = part_of(store, known.board)
    if runs is None or not any(one.method == about["label"] for one in settings.choices):
        raise UserError(f"{str(folder)!r}: expected results of {about['label']} on {known.board.title}, got none")
    best = best_of(settings, about["label"], known.board)
    if faults := [*_faults_of_files(store, known, settings, about["label"])]:
        raise UserError(f"{str(folder)!r}: {faults[0]}")
    first = {"first": known.board.seeds} if runs.primary else {}  # whatever its plans say of it, and of the images
    runs = replace(runs, primary=first, told=known.runs.told)
    standing = standing_of(known, runs, store, about["label"], best.iterations)
    return about, standing, [*best.point.items()]


def _drawn(claim: ClaimedPlace, count: int, seed: str) -> Iterator[tuple[Cell, Record]]:
    """Trials and runs, failed ones too, drawn by the submission's checksum and the verifier's number."""
    own = [(cell, record) for cell in claim.cells if (record := claim.store.record(cell.key)) is not None]
    random = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest(), 16))
    for place in sorted(random.permutation(len(own))[:count]):
        yield own[place]


def _again(cell: Cell, record: Record, store: Store) -> tuple[Record, Agreement]:
    """Trains a run again, a plug-in's in a process of its own, and compares."""
    now = reproduce.prepare(record)
    with Scratch() as made:
        found = reproduce.run_again(cell, Path(made), now)
        return found, compare(record, found, store.arrays(cell.key), Store(Path(made)).arrays(cell.key))


def leaning(pairs: Iterable[tuple[Record, Record]]) -> Iterator[str]:
    """Tells of runs that together lean to the side of the method by more than rounding explains.

    Each alone may be within what another processor changes. Rounding has no side: of the claimed accuracies less those
    trained again, the mean is tested by Student's t, one-sided, for the method's runs and for those of uniform routing,
    where the other side flatters.

    Args:
        pairs: each run that was trained again, as it is claimed and as it is here.
    """
    apart: dict[str, dict[int, float]] = {}
    for place, (claimed, found) in enumerate(pairs):
        if not found.identity.is_trial and claimed.accuracy is not None and found.accuracy is not None:
            apart.setdefault(found.label, {})[place] = claimed.accuracy - found.accuracy
    for label, values in apart.items():
        more = statistics.paired_difference(values, dict.fromkeys(values, 0.0))
        favours = -more.mean if label == BASELINE else more.mean
        by_chance = more.p_value / 2 if more.kind == statistics.OVER_SEEDS else 0.0  # else all differ alike
        if len(values) >= FEWEST and favours > LEANS and by_chance < LEANING_P:
            yield (
                f"{label}: {len(values)} runs claim accuracies {more.mean:+.2f} points from those reached here, "
                "on average and to the side of the method; rounding has no side"
            )


def _other_settings(folder: Path, claim: ClaimedPlace) -> list[str]:
    """Tells of settings that its trials do not choose."""
    stored = ChosenSettings.read(folder / SETTINGS, claim.label)
    one, two = ([each for each in of.choices if each.method == claim.label] for of in (stored, claim.settings))
    return [] if one == two else ["its settings are not those that the rule chooses from its trials"]


def _plan_anew(claim: ClaimedPlace) -> None:
    """Replaces the plans of a submission by those of its code, so that nothing rests on what it says of its runs."""
    for file in (claim.store.path / "plans").glob("*.json"):
        file.unlink()
    for stage in claim.stages:
        stage.write_plan()


def _trials_of(wanted: Wanted) -> list[Cell]:
    """The trials of a method as they are planned here; none where they cannot be."""
    try:
        return [cell for plan, *_ in wanted.trials().plans for cell in plan.cells]
    except UserError:  # such as of code that does not import
        return []


def _made_otherwise(store: Store, cells: Iterable[Cell]) -> Iterator[str]:
    """Tells in what the runs of a submission differ from those that its code plans here, such as versions of parts.

    Args:
        store: the submission's results.
        cells: the runs that its code plans.
    """
    here = {_place(cell.identity): cell.identity for cell in cells}
    then = (cell.identity for plan in store.plans() for cell in plan.cells if _place(cell.identity) in here)
    found: dict[str, str] = {}
    for one in then:
        before, now = (distinct(known.as_dict()) for known in (one, here[_place(one)]))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                found.setdefault(key, f"{before.get(key)!r:.80} in its plans, {now.get(key)!r:.80} here")
    if found:
        yield f"it was made otherwise than its code is planned here: {'; '.join(map(': '.join, found.items()))}"


def _place(known: Identity) -> tuple[object, ...]:
    """The facts by which a trial is found again, whatever it was made with."""
    return known.is_trial, known.method, known.model, known.iterations, known.seed, str(known.options.get("trial"))


def _other_plans(about: Mapping[str, Any], claim: ClaimedPlace) -> Iterator[str]:
    """Tells of plans that say something else than its code does, by which a board would show other numbers."""
    if about["label"] != claim.label:
        yield f"it names its method {about['label']}, and its code {claim.label}"
    yield from _beyond(claim.store, {cell.key for cell in claim.cells})
    planned = {one.cell: (one.label, one.identity.key) for plan in claim.store.plans() for one in plan.cells}
    if other := [cell for cell in claim.cells if planned.get(cell.key) != (cell.label, cell.key)]:
        yield f"its plans lack {len(other)} of the runs that its code plans, or name others so, such as {other[0]}"


def _beyond(store: Store, own: Collection[str]) -> list[str]:
    """Tells of planned runs that are none of a claim's: a place would count them, and nobody draws them.

    Args:
        store: the submission's results.
        own: the keys of the claim's runs.
    """
    more = sorted({*store.planned()["cell"]} - {*own})
    return [f"it plans {len(more)} runs that are not of this method on this board, such as {more[0]}"] if more else []


def _faults_of_files(store: Store, known: PublishedBoard, settings: ChosenSettings, label: str) -> Iterator[str]:
    """Tells what a submission's files say against it by themselves, without its code.

    Args:
        store: its results.
        known: the board.
        settings: those that it says its trials choose.
        label: the method's name in tables.
    """
    if label in {*known.runs.planned["label"]}:
        yield f"expected a method of its own, got {label}, which is on the board"
    own, cells = _of_method(store, known, label), [cell for plan in store.plans() for cell in plan.cells]
    yield from (*_beyond(store, own), *_plans_beside(store))
    if other := [cell.cell for cell in cells if cell.identity.key != cell.cell]:
        yield f"it plans {len(other)} runs that are others than those of their keys, such as {other[0]}"
    yield from faults_of_records([*store.records()], store, known)
    runs = [cell for cell in cells if cell.cell in own and not cell.identity.is_trial]
    if other := [cell.cell for cell in runs if cell.identity.tuning != settings.tuning_of(cell.identity, cell.label)]:
        yield f"{len(other)} runs have other settings than it says were chosen, such as {other[0]}"
    entries = [one.entry for one in settings.choices if one.method == label and one.iterations in _steps_of(known)]
    for entry in ((BASELINE, None), *((name, steps) for name, _, steps in entries)):
        seeds = {cell.identity.seed for cell in runs if (cell.label, cell.identity.iterations) == entry}
        if lacking := {*range(known.board.seeds)} - seeds:
            yield f"{Method.of(*entry).title} lacks seed {min(lacking)}; a board has {known.board.seeds} of each"
    trials = [cell for cell in cells if cell.identity.is_trial]
    yield from _other_budget(known.board, trials, entries)
    yield from _unlike_trials(known.board, store, trials, [one for one in settings.choices if one.method == label])
    yield from _trained_otherwise(cells)


def _other_budget(
    board: Board, trials: Iterable[PlannedCell], entries: Iterable[tuple[str, str, int | None]]
) -> Iterator[str]:
    """Tells of configurations that had another number of trials than the board's methods.

    Args:
        board: the board.
        trials: all planned trials of a submission.
        entries: label, network and T of its configurations on the board.
    """
    tuning = load_suite(board.tuning).tuning
    repeated = tuning.finalists * tuning.repeats if tuning and tuning.finalists > 1 else 0
    wanted = tuning.scored * (tuning.trials + repeated) if tuning else 0
    made = Counter((one.label, one.identity.model, one.identity.iterations) for one in trials)
    for label, model, steps in entries:
        if (own := made[label, model, steps]) != wanted:
            title, told = Method.of(label, steps).title, plural(own, "trial")
            yield f"{title} has {told}, each configuration on the board {wanted}"


def _unlike_trials(
    board: Board, store: Store, trials: Sequence[PlannedCell], choices: Iterable[ChosenPoint]
) -> Iterator[str]:
    """Tells of settings that the rule does not choose from a submission's trials.

    Args:
        board: the board.
        store: its results.
        trials: all its planned trials.
        choices: the settings that it says its trials choose.
    """
    tuning = load_suite(board.tuning).tuning
    for told in choices:
        known = ((one.identity, (one.label, one.identity.model, one.identity.iterations)) for one in trials)
        own = [identity for identity, entry in known if entry == told.entry]
        found, most = (choice_among(own, store, tuning.finalists if tuning else 1, chance) for chance in (0.0, 100.0))
        if found is None or most is None:
            yield f"{told.title}: its {plural(len(own), 'trial')} are not those of a suite, so that they choose nothing"
        elif (found.trial, found.point) != (told.trial, told.point):
            yield (
                f"{told.title}: expected the settings of trial {found.trial}, which the rule chooses from its trials "
                f"({found.score:.2f} %), got those of trial {told.trial}"
            )
        elif replace(told, trials="", score=found.score) != found or not found.score <= told.score <= most.score:
            yield f"{told.title}: it says a score or failures that are not those of its trials, {found.score:.2f} %"


def _trained_otherwise(cells: Sequence[PlannedCell]) -> Iterator[str]:
    """Tells of runs that were not trained with the settings that they name, or otherwise than uniform routing.

    Args:
        cells: the planned trials and runs of a submission.
    """
    points = {one.cell: _point_of(one.identity) for one in cells}
    if other := [one.cell for one in cells if settled(one.identity, points[one.cell]) != one.identity]:
        yield f"{len(other)} runs were trained with other settings than those that they name, such as {other[0]}"
    runs = [one for one in cells if not one.identity.is_trial]
    for base in [one for one in runs if one.label == BASELINE][:1]:
        for one, name in product(runs, ("training", "options")):
            ours, theirs = getattr(one.identity, name), getattr(base.identity, name)
            shared = (ours.keys() & theirs.keys()) - points[one.cell].keys() - points[base.cell].keys()
            if differing := sorted(key for key in shared if ours[key] != theirs[key]):
                yield f"run {one.cell} was made with another {', '.join(differing)} than uniform routing beside it"
                return


def _point_of(known: Identity) -> Mapping[str, Any]:
    """The settings that a trial tries, or that were chosen for a run, by name."""
    point = (known.tuning or {}).get("point")
    return point if isinstance(point, Mapping) else {}


def _steps_of(known: PublishedBoard) -> set[int | None]:
    """The T that a board runs, and none for methods without."""
    return {None, *load_suite(known.board.suite).preset(known.board.preset).iterations}


def _of_method(store: Store, known: PublishedBoard, label: str) -> set[str]:
    """The keys of those planned runs that a method's claim may have, as far as plans tell, without its code."""
    board, planned, steps = known.board, store.planned(), _steps_of(known)
    tuning = Path(board.tuning).stem if board.tuning.endswith(".toml") else board.tuning, board.tuned_on + TRIALS
    networks = {*known.runs.planned["model"]}
    return {
        row["cell"]
        for row in planned.to_dict("records")
        if row["label"] == (label if row["role"] == METHOD else BASELINE) and row["status"] != NOT_RUN
        if Method.of(row["label"]).name == row["method"]
        if (row["suite"], row["preset"]) == tuning
        or (
            (row["suite"], row["preset"], row["data"]) == (*board.part, known.runs.data)
            and row["seed"] in range(board.seeds)
            and (None if isna(row["iterations"]) else row["iterations"]) in steps
            and row["model"] in networks
        )
    }


def _plans_beside(store: Store) -> list[str]:
    """Tells of more plans than those of the trials and of the runs: of equal runs the newest would count."""
    plans = Counter((str(head["suite"]), str(head["preset"])) for head in store.plan_heads())
    return [
        f"it has {count} plans of suite {part[0]}, {preset_in_words(part[1])}, expected one"
        for part, count in plans.items()
        if count > 1
    ]
