"""Turns a suite, a preset and the user's choices into the list of runs to execute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from routebench.data import SIZE_ALONE, Dataset, Taken, load, loader_of
from routebench.data_names import items_of, set_of, whole_name
from routebench.engine.results import TRIALS, Entry, Identity, PlannedTuning
from routebench.engine.suites._cell import Cell, cell_of, foreign_origins
from routebench.engine.suites._lineup import Choices, Starter, line_up
from routebench.engine.suites._parts import stamped
from routebench.engine.suites._points import Point, expect_chosen, expect_few, expect_learnable, grid_of, points_of
from routebench.engine.suites._settings import ChosenPoint, ChosenSettings
from routebench.engine.suites._suite import CONTROLS, Preset, Suite, load_suite
from routebench.engine.suites._suite import Entry as SuiteEntry
from routebench.engine.suites._toml import Place
from routebench.engine.suites._tuning import FairTuning, trials_of
from routebench.errors import UserError, nearest
from routebench.quantities import written
from routebench.received import text_in
from routebench.registry import SHIPPED, datasets, protocols, suite_files

TUNING = "tuning"
"""The protocol of trials."""
MOST_NAMED = 8
"""Configurations that a sentence names at most."""
NONE_TUNED = "No settings were tuned: every configuration has the defaults of the suite."


@dataclass(frozen=True)
class Plan:
    """The runs to execute, as plain data for a process that has loaded no plug-in.

    Args:
        suite, preset: the suite and the preset that were asked for.
        cells: the runs in order.
        is_alone: whether runs measure time, so that they are executed one at a time.
        preload: modules to import once for all runs.
        is_foreign: whether a plug-in takes part.
        taken: the number of images that are used, and of which data set, in words; empty for all.
        chosen: the choice of settings, in words; empty where a suite tunes none.
        half_width: target of the intervals of pre-specified comparisons, in points; None for no target.
        chance: accuracy of guesses on the data set, in per cent.
        left_out: what lies beside the images and is not used, and which test images are trained on, in words.
        changes: what the user has changed in the suite's file, as `KEY=VALUE`.
        kept: for trials, the settings of configurations that need none: the suite brings them, chosen with the same
            budget.
        altered: configurations that are made otherwise than the suite's file says.
        tuned: the choice of settings, as facts; None where runs rest on none.
        base: for trials, the fingerprint of the data set of whose training images they have folds.
        told: the facts that the data set states of itself, for reports that do not know it; None for one that ships.
    """

    suite: Suite
    preset: Preset
    cells: tuple[Cell, ...] = field(repr=False)
    is_alone: bool = False
    preload: tuple[str, ...] = ()
    is_foreign: bool = False
    taken: str = ""
    chosen: str = ""
    half_width: float | None = None
    chance: float = 0.0
    left_out: str = ""
    changes: tuple[str, ...] = ()
    altered: frozenset[Entry] = frozenset()
    kept: ChosenSettings | None = None
    tuned: PlannedTuning | None = None
    base: str = ""
    told: Mapping[str, Any] | None = None

    @property
    def primary_pairs(self) -> list[tuple[Cell, Cell]]:
        """The pre-specified comparisons of the suite, ours first, as runs of the first seed; none among trials."""
        first = [cell for cell in self.cells if cell.identity.seed == self.preset.seeds.start]
        return [] if self.suite.primary is None or self.suite.protocol == TUNING else self.suite.primary.pairs(first)

    @property
    def caveat(self) -> str:
        """The caveat that a reader of the results has to know; empty if there is none."""
        changed = f"Other than in the suite's file: {', '.join(self.changes)}." if self.changes else ""
        return " ".join(
            filter(None, (self.suite.caveats(self.preset.data), changed, self._copied, self.chosen, self.left_out))
        )

    @property
    def _copied(self) -> str:
        """Says that a file of the suite's name is none of its copies; empty where it is, or has the name alone."""
        if not (self.altered and self.suite.is_other_of_its_name):
            return ""
        every = {cell.entry for cell in self.cells}
        return (
            f"This file is not that of suite {self.suite.name}: it makes {len(self.altered)} of {len(every)} "
            "configurations otherwise."
        )

    @property
    def networks(self) -> dict[str, dict[str, list[str]]]:
        """Networks by method and model, of each method and baseline with networks of its own."""
        entries = (*self.suite.methods, *self.suite.controls)
        apart = {entry.name for entry in entries if {*entry.models} & {*self.preset.models}}
        found: dict[str, dict[str, list[str]]] = {}
        for entry in entries:
            for model in self.preset.models if entry.name in apart else ():
                own = found.setdefault(entry.name, {}).setdefault(model, [])
                own += [network for network in entry.networks(model) if network not in own]
        return found


def plan(suite: Suite, preset_name: str, choices: Choices) -> Plan:
    """All runs, ordered so that every method is run once before any is run with a second seed.

    Args:
        suite: the suite.
        preset_name: name of the preset.
        choices: what the call asks for beside them.

    Raises:
        UserError: a name, a hyperparameter or an option is unknown, a value is not allowed, or the data set does not
            suit the suite; settings shall be tuned but the suite has no table for it, or chosen settings are missing.
    """
    suite = suite.with_entries(preset_name)
    preset, starters = line_up(suite, preset_name, choices)
    _expect_compared(suite, [*(one.entry for one in starters), *suite.methods, *suite.controls], choices.absent)
    if choices.tuning:
        return _plan_of_trials(suite, preset, starters, choices)
    preset, data, points = points_of(suite, preset, starters)
    file = suite.settings_file(preset.settings) if preset.settings else None
    settings = ChosenSettings.read(file, suite.name) if file else None
    cells = _cells(points, preset.seeds, settings)
    try:
        expect_chosen(suite, preset, data, cells)
    except UserError as error:
        raise UserError(f"settings {file}: {error}") from error
    if settings is not None and protocols[suite.protocol].trains:  # type: ignore[attr-defined]
        expect_learnable(suite, data, [cell.identity for cell in cells])
    half_width = choices.until if suite.primary is None else choices.until or suite.primary.half_width
    if choices.until is not None and suite.primary is None:
        raise UserError(
            f"--until: expected a suite with a table [primary], which names comparisons; {suite.name} has none"
        )
    if choices.until is not None and preset.seeds.start:
        raise UserError(
            f"--until: expected seeds from 0 on, the first stage of two, such as --seeds {preset.seeds.stop}, got "
            f"{written(preset.seeds)}"
        )
    told, tuned = "", None
    if settings is not None:
        told, tuned = _told(settings, preset, cells, choices, _now(settings, preset.data, data))
    elif suite.tuning is not None:
        told = NONE_TUNED
    made = _plan(suite, preset, cells, data, told)
    altered = _altered(suite, preset_name, choices, cells)
    return replace(made, half_width=half_width, changes=choices.unlike_file, altered=altered, tuned=tuned)


def _expect_compared(suite: Suite, entries: Sequence[SuiteEntry], absent: Sequence[str]) -> None:
    """Raises UserError for a pre-specified comparison with what neither runs nor is left out of these `entries`."""
    names = {name for one in entries for name in (one.name, one.spec)}
    known = {*CONTROLS, *absent, *names, *(f"{one.spec} ({one.variant})" for one in entries)}
    for name in () if suite.primary is None else suite.primary.against:
        if name not in known:
            told = f"unknown configuration {name!r}{nearest(name, {*CONTROLS, *names})}"
            raise Place(suite.file, "primary.against").wrong(told)


def _altered(suite: Suite, preset_name: str, choices: Choices, cells: Sequence[Cell]) -> frozenset[Entry]:
    """The configurations that the suite of this name makes otherwise by its file.

    Options and copies of a file may say what the file does. So the plan is made again without them, and compared.
    """
    plain = choices.plain
    if not suite.preset(preset_name).settings:  # trials choose them, as the file says
        plain = replace(plain, settings=choices.settings)
    if plain == choices and not suite.is_other_of_its_name:
        return frozenset()
    name = suite.name if suite.name in suite_files() else str(suite.folder / suite.file)
    try:
        known = {
            _unseeded(cell) for cell in plan(load_suite(name, preset_name, plain.changes), preset_name, plain).cells
        }
    except UserError:  # it has no such preset, or cannot be planned so
        known = set()
    return frozenset(cell.entry for cell in cells if _unseeded(cell) not in known)


def _unseeded(cell: Cell) -> str:
    """The key of a run with the first seed, which its configuration has alone."""
    return replace(cell.identity, seed=0).key


def count_runs(suite: Suite, preset_name: str) -> int:
    """The number of runs of a preset as its file has it, without a look at data.

    Args:
        suite: the suite.
        preset_name: name of the preset.

    Raises:
        UserError: it names what is not there.
    """
    preset, starters = line_up(suite.with_entries(preset_name), preset_name, Choices())
    runs = {
        (number, model, steps)
        for number, one in enumerate(starters)
        for beside in preset.models
        for model in one.entry.networks(beside)
        for steps in grid_of(preset, one.entry)
    }
    return len(preset.seeds) * len(runs)


def _told(
    settings: ChosenSettings, preset: Preset, cells: Sequence[Cell], choices: Choices, now: str
) -> tuple[str, PlannedTuning | None]:
    """Says how the settings of all runs were chosen, and the facts of it; None where none were.

    Args:
        settings: what was chosen.
        preset, cells, choices: what is planned.
        now: the fingerprint of the data set that was tuned on.

    Raises:
        UserError: the user named the file, and it lacks a configuration.
    """
    untuned = [cell for cell in cells if cell.identity.tuning is None and not cell.broken]
    if untuned and choices.settings is not None:
        missing = ", ".join(_configurations(untuned))
        raise UserError(
            f"settings {choices.settings}: no configuration for {missing}, with what is set here; they were tuned for "
            f"{settings.suite}, preset {settings.preset}: run that, or tune what you run"
        )
    tuned = [settings.of(cell.identity, cell.label) for cell in cells if cell.identity.tuning]
    used = tuple({one.entry: one for one in tuned if one is not None}.values())
    count = len(used) + len(_configurations(untuned))
    tuning = replace(settings, choices=used).told(preset.data, count, now) if used else None
    told = NONE_TUNED if tuning is None else tuning.told
    others = _configurations([cell for cell in untuned if settings.of(cell.identity, cell.label) is not None])
    if others:
        named = "; ".join([*others[:MOST_NAMED], *([f"{len(others) - MOST_NAMED} more"] * (len(others) > MOST_NAMED))])
        told += f" Chosen settings that have other values than are set here are left out as a whole: of {named}."
    return told, tuning


def _now(settings: ChosenSettings, name: str, data: Dataset[Any]) -> str:
    """The fingerprint of the data set that was tuned on, where its test images are used now; else empty.

    Args:
        settings: what was chosen on it.
        name, data: what is used now.
    """
    if not settings.fingerprint or set_of(settings.data) != set_of(name):
        return ""
    found = data if settings.data == name else load(settings.data)
    return "" if SIZE_ALONE in found.source else found.fingerprint


def _plan_of_trials(suite: Suite, whole: Preset, starters: Sequence[Starter], choices: Choices) -> Plan:
    """Alternates between configurations, one trial of each at a time, on the scored folds."""
    tuning = _budget(suite, choices)
    trying = replace(suite, protocol=TUNING, tuning=tuning)
    parts = [points_of(trying, _on_fold(whole, tuning, fold), starters) for fold in range(tuning.scored)]
    expect_few(suite, whole, tuning.trials * sum(len(point.grid) for _, _, points in parts for point in points))
    entries = [point.cell.identity for point in parts[0][2] if not point.cell.broken]
    tuning.expect_known(entries, Place(suite.file, "tuning"))
    shipped = _shipped(suite, whole, tuning, choices)
    each, kept = [], {}
    for point in (point for _, _, points in parts for point in points):
        for iterations in point.grid:
            identity = replace(point.cell.identity, iterations=iterations)
            chosen = None if shipped is None else _chosen_before(shipped, identity, point, tuning, choices)
            if chosen is None:
                each.append([_like(point.cell, one) for one in trials_of(tuning, identity, point.fixed)])
            else:
                kept[chosen.entry] = chosen
    cells = tuple(trial for trials in zip(*each, strict=True) for trial in trials)
    preset, data, _ = parts[0]
    known = replace(shipped, choices=tuple(kept.values())) if shipped is not None and kept else None
    return replace(_plan(trying, preset, cells, data), kept=known, base=load(whole_name(whole.data)).fingerprint)


def _budget(suite: Suite, choices: Choices) -> FairTuning:
    """The suite's table of tuning, with as many trials as the user wants."""
    if suite.tuning is None:
        have = sorted(name for name, file in suite_files().items() if "\n[tuning]" in text_in(file))
        raise UserError(
            f"suite {suite.name}: expected a table [tuning] that says what to try, got none; give a file of your own "
            f"one, or tune one of {', '.join(have)}"
        )
    if choices.trials is None:
        return suite.tuning
    tuning = replace(suite.tuning, trials=choices.trials)
    tuning.expect_whole(Place(f"--trials {choices.trials} of {suite.file}", "tuning"))
    return tuning


def _shipped(suite: Suite, preset: Preset, tuning: FairTuning, choices: Choices) -> ChosenSettings | None:
    """The settings that the preset names, if the user tunes methods beside them, and trials are as many as theirs."""
    if not preset.settings or not (choices.methods or choices.added):
        return None
    found = ChosenSettings.read(suite.settings_file(preset.settings), suite.name)
    repeats = tuning.repeats if tuning.finalists > 1 else 0
    tuned = found.suite, found.preset, found.data, found.trials, found.finalists, found.repeats
    wanted = suite.name, preset.name, whole_name(preset.data), tuning.trials, tuning.finalists, repeats
    return found if tuned == wanted else None


def _chosen_before(
    shipped: ChosenSettings, identity: Identity, point: Point, tuning: FairTuning, choices: Choices
) -> ChosenPoint | None:
    """The choice for a configuration that the user did not name, if the same hyperparameters were tried; else None."""
    if identity.method in ({method.name for method in choices.methods} or choices.added):
        return None
    found = shipped.of(identity, point.cell.label)
    return found if found and {*found.point} == {*tuning.point(identity, 0, point.fixed)} else None


def _on_fold(preset: Preset, tuning: FairTuning, fold: int) -> Preset:
    """The preset with the data and sizes of trials."""
    data = tuning.data(preset.data, fold)
    return replace(
        preset, name=preset.name + TRIALS, data=data, take=tuning.take, options={}, seeds=range(1), settings=""
    )


def _configurations(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.configuration for cell in cells))


def _plan(suite: Suite, preset: Preset, cells: tuple[Cell, ...], data: Dataset[Any], chosen: str = "") -> Plan:
    return Plan(
        suite, preset, cells,
        is_alone=bool(getattr(protocols[suite.protocol], "alone", False)),
        preload=preload_of(suite.protocol),
        is_foreign=any(foreign_origins(cell.identity) for cell in cells),
        taken=_taken(data),
        chosen=chosen,
        chance=data.chance,
        left_out=data.left_out,
        told=_facts_of(preset.data),
    )  # fmt: skip


def _facts_of(data: str) -> Mapping[str, Any] | None:
    """The facts that a data set states of itself, as far as results are read by them; None for one that ships."""
    loader, _ = loader_of(items_of(data)[0])
    if datasets.origin(loader) == SHIPPED:
        return None
    facts = getattr(datasets.entries[loader], "facts", {})
    return {name: facts[name] for name in ("test", "views") if name in facts}


def preload_of(protocol: str) -> tuple[str, ...]:
    """Modules to import once for all runs of a protocol."""
    known = protocols[protocol]
    training = ("torch._dynamo",) if getattr(known, "trains", True) else ()  # torch's first optimizer imports it
    return (*getattr(known, "preload", ()), *training)


def _cells(points: Sequence[Point], seeds: range, settings: ChosenSettings | None = None) -> tuple[Cell, ...]:
    """Every point with every number of iterations, seed after seed, with chosen settings where there are some."""
    cells: dict[str, Cell] = {}
    for seed in seeds:
        for point in points:
            for iterations in point.grid:
                cell = replace(point.cell, identity=replace(point.cell.identity, iterations=iterations, seed=seed))
                if settings is not None and not cell.broken:
                    chosen = settings.apply(cell.identity, cell.label, point.fixed)
                    cell = cell if chosen is None else _like(cell, chosen)
                cells.setdefault(cell.key, cell)
    return tuple(cells.values())


def _like(cell: Cell, identity: Identity) -> Cell:
    """The run of an identity with other settings."""
    return cell_of(identity if cell.broken else stamped(identity), cell.broken, cell.code)


def _taken(data: Dataset[Any]) -> str:
    if not isinstance(data, Taken):
        return ""
    _, number, name = data.name.split(":", 2)
    return f"{int(number):,} of the {data.whole:,} images of {name}, the same for all methods and seeds"
