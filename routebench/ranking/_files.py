"""A submission as its files alone say it is, and what they say against it: no code of it is run."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pandas import isna

from routebench.analysis import BASELINE, Method
from routebench.engine.results import NOT_RUN, TRIALS, Entry, Identity, PlannedCell, Store, preset_in_words
from routebench.engine.suites import METHOD, OF_METHOD, OF_MODEL, ChosenPoint, ChosenSettings, load_suite, settled
from routebench.engine.tuning import choice_among
from routebench.errors import UserError
from routebench.notation import parse
from routebench.quantities import plural
from routebench.ranking._boards import Board, PublishedBoard, board_of, published
from routebench.ranking._measuring import best_of, part_of
from routebench.ranking._standing import Standing, standing_of
from routebench.ranking._submission import SETTINGS, about_of, faults_of_records


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
    if fault := next(_faults_of_files(store, known, settings, about["label"]), ""):
        raise UserError(f"{str(folder)!r}: {fault}")
    if (name := Method.of(about["label"]).name) != parse(about["method"]).name:
        raise UserError(f"{str(folder)!r}: it names its method {about['method']!r}, and its runs are of {name!r}")
    first = {"first": known.board.seeds} if runs.primary else {}  # whatever its plans say of it, and of the images
    runs = replace(runs, primary=first, told=known.runs.told)
    standing = standing_of(known, runs, store, about["label"], best.iterations)
    return about, standing, [*best.point.items()]


def beyond(store: Store, own: Collection[str]) -> list[str]:
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
    if missing := store.missing([cell.cell for cell in cells]):
        yield f"{len(missing)} of {len(cells)} planned runs have no record, such as {missing[0]}"
    yield from (*beyond(store, own), *_plans_beside(store))
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
    yield from _trained_otherwise(known.board, cells)


def _other_budget(board: Board, trials: Iterable[PlannedCell], entries: Iterable[Entry]) -> Iterator[str]:
    """Tells of configurations that had another number of trials than the board's methods.

    Args:
        board: the board.
        trials: all planned trials of a submission.
        entries: label, network and T of its configurations on the board.
    """
    tuning = load_suite(board.tuning).tuning
    repeated = tuning.finalists * tuning.repeats if tuning and tuning.finalists > 1 else 0
    wanted = tuning.scored * (tuning.trials + repeated) if tuning else 0
    made = Counter(one.identity.entry(one.label) for one in trials)
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
        own = [one.identity for one in trials if one.identity.entry(one.label) == told.entry]
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


def _trained_otherwise(board: Board, cells: Sequence[PlannedCell]) -> Iterator[str]:
    """Tells of runs that were not trained with the settings that they name, or otherwise than those beside them.

    Args:
        board: the board.
        cells: the planned trials and runs of a submission.
    """
    if other := [one.cell for one in cells if settled(one.identity, _point_of(one.identity)) != one.identity]:
        yield f"{len(other)} runs were trained with other settings than those that they name, such as {other[0]}"
    runs = [one for one in cells if not one.identity.is_trial]
    for base in [one for one in runs if one.label == BASELINE][:1]:
        shared = {"training": "", "options": "", "model_params": OF_MODEL}
        for one in runs:
            if differing := _unlike(one.identity, base.identity, shared, "suite_version", "data_fingerprint"):
                yield f"run {one.cell} was made with another {differing} than uniform routing beside it"
                return
    beside = {one.identity.entry(one.label): one for one in runs}
    kept, facts = {"model_params": OF_MODEL, "method_params": OF_METHOD}, ["source"]
    if (Path(board.suite), board.preset) == (Path(board.tuning), board.tuned_on):
        kept, facts = kept | {"training": ""}, [*facts, "suite_version"]
    for one in (one for one in cells if one.identity.is_trial):
        run = beside.get(one.identity.entry(one.label))
        if run is not None and (differing := _unlike(one.identity, run.identity, kept, *facts)):
            yield f"trial {one.cell} was made with another {differing} than run {run.cell}"
            return


def _unlike(one: Identity, other: Identity, tables: Mapping[str, str], *facts: str) -> str:
    """The settings and facts in which two runs differ, but for those that were tuned; empty if they agree in all.

    Args:
        one, other: the runs.
        tables: the tables of settings to compare, with the beginning of their names in a point.
        facts: other fields to compare.
    """
    tuned = {*_point_of(one), *_point_of(other)}
    tuned |= {"train_on"} if one.is_trial else set()  # a trial leaves out what it is scored by
    found = [name for name in facts if getattr(one, name) != getattr(other, name)]
    for name, beginning in tables.items():
        ours, theirs = ({**(each.defaults or {}).get(name, {}), **getattr(each, name)} for each in (one, other))
        keys = {key for key in ours.keys() | theirs.keys() if f"{beginning}{key}" not in tuned}
        found += sorted(key for key in keys if ours.get(key) != theirs.get(key))
    return ", ".join(found)


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
