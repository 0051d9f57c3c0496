"""Turns a suite, a preset and the user's choices into the list of cells to run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from routebench.data import Dataset, Taken, at_most, whole_name
from routebench.engine.isolation import step
from routebench.engine.origin import fit_code, source_hash
from routebench.engine.results import DEPTH, Identity, is_plain
from routebench.engine.suites._cell import Cell, cell_of, foreign_origins, plain
from routebench.engine.suites._lineup import METHOD, Choices, Lineup, Starter, line_up
from routebench.engine.suites._settings import ChosenSettings
from routebench.engine.suites._suite import Entry, Preset, Suite
from routebench.engine.suites._toml import Place
from routebench.engine.suites._tuning import OF_METHOD, OF_MODEL, FairTuning, trials_of
from routebench.errors import UserError, nearest
from routebench.models.facts import Facts
from routebench.models.smallest import expect_buildable, smallest_side
from routebench.registry import SHIPPED, models, protocols, routing
from routebench.routing import hyperparameters_of

TUNING = "tuning"
"""The protocol of trials."""
MOST_CELLS = 200_000
"""Of one plan: planned within seconds, and twice the number that reading a folder is tested with."""


@dataclass(frozen=True)
class Plan:
    """The cells to run, as plain data for a process that has loaded no plug-in.

    Args:
        suite, preset: what was asked for.
        cells: in order.
        is_alone: whether cells measure time, so that they run one at a time.
        preload: modules to import once for all cells.
        is_foreign: whether a plug-in takes part.
        taken: how many images of which data set are used, in words; empty if all are.
        chosen: how settings were chosen, in words; empty where a suite tunes none.
        half_width: that the intervals of the named comparisons are to have, in points; None for what comes.
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

    @property
    def primary_pairs(self) -> list[tuple[Cell, Cell]]:
        """The comparisons that the suite names, ours first, as cells of the first seed; none among trials."""
        first = [cell for cell in self.cells if cell.identity.seed == 0]
        return [] if self.suite.primary is None or self.suite.protocol == TUNING else self.suite.primary.pairs(first)

    @property
    def caveat(self) -> str:
        """What a reader of the results has to know; empty if nothing."""
        return " ".join(filter(None, (self.suite.caveats(self.preset.data), self.chosen)))

    @property
    def networks(self) -> dict[str, dict[str, list[str]]]:
        """Networks by method and model, of each method and control with networks of its own."""
        entries = (*self.suite.methods, *self.suite.controls)
        apart = {entry.name for entry in entries if {*entry.models} & {*self.preset.models}}
        found: dict[str, dict[str, list[str]]] = {}
        for entry in entries:
            for model in self.preset.models if entry.name in apart else ():
                own = found.setdefault(entry.name, {}).setdefault(model, [])
                own += [network for network in entry.networks(model) if network not in own]
        return found


def plan(suite: Suite, preset_name: str, choices: Choices) -> Plan:
    """All cells, ordered so that every method is run once before any is run with a second seed.

    Raises:
        UserError: a name, a hyperparameter or an option is unknown, a value is not allowed, or the data set does not
            suit the suite; or settings are to be tuned and the suite does not say how, or chosen ones are missing.
    """
    lineup = line_up(suite, preset_name, choices)
    if choices.tuning:
        return _plan_of_trials(suite, lineup)
    preset, data, points = _points(suite, lineup.preset, lineup)
    cells, told = _cells(points, preset.seeds), ""
    half_width = choices.until if suite.primary is None else choices.until or suite.primary.half_width
    if choices.until is not None and suite.primary is None:
        raise UserError(
            f"--until: expected a suite with a table [primary], which names comparisons; {suite.name} has none"
        )
    if preset.settings:
        settings = ChosenSettings.read(suite.folder / preset.settings, suite.name)
        cells, told = _settled(cells, settings), settings.told(whole_name(preset.data))
    elif suite.tuning is not None:
        told = "No settings were tuned: every entry has the defaults of the suite."
    return replace(_plan(suite, preset, cells, data, told), half_width=half_width)


def _plan_of_trials(suite: Suite, lineup: Lineup) -> Plan:
    """One trial of every entry after the other, each on the folds that count."""
    tuning = suite.tuning
    if tuning is None:
        raise UserError(f"suite {suite.name}: expected a table [tuning] that says what to try, got none")
    trying = replace(suite, protocol=TUNING)
    parts = [_points(trying, _on_fold(lineup.preset, tuning, fold), lineup) for fold in range(tuning.scored)]
    _expect_few(
        suite, lineup.preset, tuning.trials * sum(len(point.grid) for _, _, points in parts for point in points)
    )
    entries = [point.cell.identity for point in parts[0][2] if not point.cell.broken]
    tuning.expect_known(entries, Place(suite.file, "tuning"))
    each = [
        trials_of(tuning, replace(point.cell.identity, iterations=iterations), point.fixed)
        for _, _, points in parts
        for point in points
        for iterations in point.grid
    ]
    broken = {point.cell.identity.method: point.cell.broken for _, _, points in parts for point in points}
    cells = tuple(cell_of(trial, broken[trial.method]) for trials in zip(*each, strict=True) for trial in trials)
    preset, data, _ = parts[0]
    return _plan(trying, preset, cells, data)


def _on_fold(preset: Preset, tuning: FairTuning, fold: int) -> Preset:
    """The preset as settings are tried for it."""
    data = tuning.data(preset.data, fold)
    return replace(preset, name=f"{preset.name}-trials", data=data, take=tuning.take, options={}, seeds=1, settings="")


def _settled(cells: Sequence[Cell], settings: ChosenSettings) -> tuple[Cell, ...]:
    """The cells with chosen settings; what cannot run needs none."""
    return tuple(cell if cell.broken else cell_of(settings.apply(cell.identity, cell.label)) for cell in cells)


def _points(suite: Suite, preset: Preset, lineup: Lineup) -> tuple[Preset, Dataset, list["_Point"]]:
    """The preset with its data set's full name, the data set, and who takes part; all of it checked."""
    preset, data = _usable(suite, preset)
    points = [
        _point(suite, preset, model, one, data.fingerprint)
        for beside in preset.models
        for one in lineup.starters
        for model in one.entry.networks(beside)
    ]
    protocol = protocols[suite.protocol]
    if protocol.trains:  # type: ignore[attr-defined]
        _expect_learnable(suite, data, [point.cell.identity for point in points])
    _expect_buildable(preset, data, [point.cell.identity for point in points])
    points += _lost_points(points[0].cell.identity, lineup)
    _expect_few(suite, preset, preset.seeds * sum(len(point.grid) for point in points))
    return preset, data, points


def _plan(suite: Suite, preset: Preset, cells: tuple[Cell, ...], data: Dataset, chosen: str = "") -> Plan:
    return Plan(
        suite, preset, cells,
        is_alone=bool(getattr(protocols[suite.protocol], "alone", False)),
        preload=preload_of(suite.protocol),
        is_foreign=any(foreign_origins(cell.identity) for cell in cells),
        taken=_taken(data),
        chosen=chosen,
    )  # fmt: skip


def preload_of(protocol: str) -> tuple[str, ...]:
    """Modules to import once for all cells of a protocol."""
    known = protocols[protocol]
    training = ("torch._dynamo",) if getattr(known, "trains", True) else ()  # torch's first optimiser imports it
    return (*getattr(known, "preload", ()), *training)


@dataclass(frozen=True)
class _Point:
    """A cell but for iterations and seed, the grid of iterations, and the knobs that suite or user set."""

    cell: Cell
    grid: Sequence[int | None]
    fixed: frozenset[str] = frozenset()


def _cells(points: Sequence[_Point], seeds: int) -> tuple[Cell, ...]:
    """Every point with every number of iterations, seed after seed."""
    cells: dict[str, Cell] = {}
    for seed in range(seeds):
        for point in points:
            for iterations in point.grid:
                identity = replace(point.cell.identity, iterations=iterations, seed=seed)
                cells.setdefault(identity.key, replace(point.cell, identity=identity))
    return tuple(cells.values())


def _expect_few(suite: Suite, preset: Preset, count: int) -> None:
    """Raises UserError for more cells than a results folder is made for."""
    if count > MOST_CELLS:
        raise UserError(
            f"suite {suite.name}, preset {preset.name}: expected at most {MOST_CELLS:,} cells, got {count:,}; take "
            "fewer, such as with --seeds"
        )


def _usable(suite: Suite, preset: Preset) -> tuple[Preset, Dataset]:
    """Loads the data set and lets the protocol check it; returns the preset with the data set's full name, and it."""
    with step("data set", preset.data, timed=False):
        name, data = at_most(preset.data, preset.take)
    with step("protocol", suite.protocol):
        protocols[suite.protocol]().expect(data)
    return replace(preset, data=name), data


def _taken(data: Dataset) -> str:
    if not isinstance(data, Taken):
        return ""
    _, number, name = data.name.split(":", 2)
    return f"{int(number):,} of the {data.whole:,} images of {name}, the same for all methods and seeds"


def _expect_learnable(suite: Suite, data: Dataset, points: Sequence[Identity]) -> None:
    """Raises UserError where images may show several classes, and a method would be trained as if each showed one."""
    if not data.train.multi_label:
        return
    for point in points:
        training = point.training
        if training["loss"] == "cross-entropy" or training["reconstruction"] > 0:
            way = "the loss cross-entropy" if training["loss"] == "cross-entropy" else "a reconstruction of one capsule"
            raise UserError(
                f"suite {suite.name}: {point.method} on {point.model} is trained with {way}, which takes one "
                f"class per image, and those of {data.name} may show several; suite overlap is for such data"
            )


def _lost_points(like: Identity, lineup: Lineup) -> list[_Point]:
    """Points of methods whose plug-in failed to import; their identities change when its files do.

    Args:
        like: of a method that runs.
        lineup: with what was lost.
    """
    like = replace(like, role=METHOD, routed=True, source=lineup.lost_source)
    return [
        _Point(cell_of(replace(like, method=spec.name, method_params=plain(spec.params)), reason), [None])
        for spec, reason in lineup.lost
    ]


def _expect_buildable(preset: Preset, data: Dataset, points: Sequence[Identity]) -> None:
    """Raises UserError for a network that cannot be built with what is set, or for images of this size.

    A plug-in's network is asked only where a suite sets its arguments.
    """
    classes, shape = len(data.classes), data.train.shape
    networks = [(point.model, point.model_params) for point in points]
    needed: dict[str, int] = {}
    for place, (name, params) in enumerate(networks):
        if (name, params) in networks[:place] or (models.origin(name) != SHIPPED and not params):
            continue
        try:
            with step("network", name):
                expect_buildable(name, shape, classes, params)
        except UserError:
            side = smallest_side(name, shape, classes, params)
            if side is None:
                raise
            needed[name] = side
    if needed:
        raise _too_small(preset.data, shape, needed)


def _too_small(data: str, shape: tuple[int, int, int], needed: Mapping[str, int]) -> UserError:
    """The error for networks that need larger images, with a way to get them."""
    networks = ", ".join(f"{name} (at least {side} x {side})" for name, side in sorted(needed.items()))
    _, height, width = shape
    larger = f"--data '{data.partition('?')[0]}?size={max(needed.values())}' or more scales them"
    way = larger if "folder:" in data else "choose other data with --data, or another network with --model"
    return UserError(f"images of {data} are {height} x {width} pixels, too small for {networks}; {way}")


def _point(suite: Suite, preset: Preset, model: str, starter: Starter, fingerprint: str) -> _Point:
    """The point of a method or control in one network."""
    entry = starter.entry
    routed = entry.routed
    training = (preset.training, entry.training, preset.training_of.get(model, {}))
    if model not in models:
        raise UserError(f"{suite.file}: preset {preset.name}, model: unknown model {model!r}{nearest(model, models)}")
    facts: Facts = models[model].facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    if facts.routed != routed:
        wanted = "a capsule network" if routed else "a network without capsules"
        raise UserError(f"{suite.file}: preset {preset.name}, {entry.name}: expected {wanted}, got model {model!r}")
    defaults = hyperparameters_of(entry.name) if routed else {}
    iterative = "iterations" in defaults
    defaults.pop("iterations", None)
    grid: Sequence[int | None] = preset.grid(entry) if iterative else [None]
    identity = {
        "suite": suite.name,
        "suite_version": suite.version,
        "protocol": suite.protocol,
        "options": dict(preset.options),
        "method": entry.name,
        "method_params": {**defaults, **entry.params},
        "routed": routed,
        "role": starter.role,
        "model": model,
        "model_params": {**(preset.model_params if routed else {}), **entry.model_params},
        "data": preset.data,
        "data_fingerprint": fingerprint,
        "training": asdict(suite.recipe(*training)),
        "source": source_hash(
            protocols[suite.protocol], *fit_code(models[model], routing[entry.name] if routed else None)
        ),
        "variant": entry.variant or None,
        "iterations": None,
        "seed": 0,
    }
    found = plain(identity)
    _expect_storable(suite, entry, {**found, "iterations": list(grid)})
    return _Point(cell_of(Identity(**found), starter.fault), grid, _fixed(preset, entry))


def _fixed(preset: Preset, entry: Entry) -> frozenset[str]:
    """Names of the knobs that preset, entry or user set; the recipe of the suite itself is where tuning starts."""
    of_model = (f"{OF_MODEL}{name}" for name in {**preset.model_params, **entry.model_params})
    of_method = (f"{OF_METHOD}{name}" for name in entry.params)
    return frozenset({*preset.training, *entry.training, *of_model, *of_method})


def _expect_storable(suite: Suite, entry: Entry, identity: Mapping[str, Any]) -> None:
    """Raises UserError for a setting that no record can hold."""
    for key, value in identity.items():
        if not is_plain(value):
            raise UserError(
                f"{suite.file}: {entry.name}: {key.replace('_', ' ')}: expected integers of at most 64 bits, in tables "
                f"and lists at most {DEPTH} deep, got {value!r:.80}"
            )
