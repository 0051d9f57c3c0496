"""What is to be run: a suite, a preset and the user's choices give an ordered list of cells."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from routebench.capsules import Sizes
from routebench.data import load
from routebench.engine.cell import CONTROL, METHOD, Cell, digest
from routebench.engine.source import defining_module, source_hash
from routebench.engine.suite import Entry, Preset, Suite
from routebench.errors import UserError, nearest, unknown
from routebench.registry import models, protocols, routing
from routebench.routing import hyperparameters_of, make
from routebench.routing.spec import MethodSpec, parse

UNASKED = ("uniform", "random")
"""Controls of every suite, besides one iteration of each iterative method and those that the suite names."""


@dataclass(frozen=True)
class Choices:
    """What the command line says.

    Args:
        methods: specs, `NAME[key=value]`; empty for those of the suite.
        added: methods that plug-ins register; they run where no method is named.
        broken: plug-in files that failed to import, with the reason.
        data: in place of the preset's.
        seeds: in place of the preset's.
    """

    methods: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Plan:
    """Cells in the order in which they run: every method once before any seed twice.

    Args:
        settings: a hash of what all cells share, which plans must share to be read as one.
        broken: methods that cannot run because their plug-in failed to import, with the reason.
    """

    suite: Suite
    preset: Preset
    data: str
    cells: tuple[Cell, ...]
    settings: str
    broken: Mapping[str, str]


@dataclass(frozen=True)
class _Row:
    """A line of the grid before it is spread over seeds."""

    method: str
    params: Mapping[str, Any]
    iterations: int | None
    role: str
    model: str
    training: Mapping[str, Any]
    source: str
    label: str


def make_plan(suite: Suite, preset_name: str, choices: Choices) -> Plan:
    """The plan of one run. Nothing is written.

    Raises:
        UserError: a name is unknown, a hyperparameter is not allowed, or the data cannot be read.
    """
    preset = suite.preset(preset_name)
    if preset.model not in models:
        raise unknown("model", preset.model, models)
    controls = _controls(suite)
    methods, broken = _methods(suite, choices, {control.name for control in controls})
    rows = list(
        chain(
            *(_rows(suite, preset, control, CONTROL) for control in controls),
            *(_rows(suite, preset, method, METHOD) for method in methods),
            (_broken_row(suite, preset, spec, file) for spec, file in broken),
        )
    )
    data = choices.data or preset.data
    fingerprint = load(data).fingerprint
    shared = {
        "suite": suite.name,
        "suite_version": suite.version,
        "protocol": suite.protocol,
        "options": dict(preset.options),
        "data": data,
        "data_fingerprint": fingerprint,
    }
    seeds = range(preset.seeds if choices.seeds is None else choices.seeds)
    cells = [_cell(row, preset, shared, seed) for seed in seeds for row in rows]
    training = asdict(suite.recipe(preset.training))
    return Plan(
        suite=suite,
        preset=preset,
        data=data,
        cells=tuple({cell.key: cell for cell in cells}.values()),
        settings=digest({**shared, "training": training, "model_params": dict(preset.model_params)}),
        broken={spec.name: choices.broken[file] for spec, file in broken},
    )


def _cell(row: _Row, preset: Preset, shared: Mapping[str, Any], seed: int) -> Cell:
    return Cell(
        **shared,
        method=row.method,
        method_params=row.params,
        iterations=row.iterations,
        role=row.role,
        model=row.model,
        model_params=dict(preset.model_params) if row.model == preset.model else {},
        training=row.training,
        seed=seed,
        source=row.source,
        label=row.label,
    )


def _controls(suite: Suite) -> list[Entry]:
    named = {control.name for control in suite.controls}
    return [*(Entry(name) for name in UNASKED if name not in named), *suite.controls]


def _methods(
    suite: Suite, choices: Choices, controls: set[str]
) -> tuple[list[Entry], list[tuple[MethodSpec, str]]]:
    """The methods to run, and those of broken plug-ins with their file. A control that is named runs as control."""
    known = {entry.name: entry for entry in suite.methods}
    if not choices.methods:
        entries = [*suite.methods, *(Entry(name) for name in choices.added if name not in known)]
        broken = [(MethodSpec(Path(file).stem), file) for file in choices.broken]
        return [entry for entry in entries if entry.name not in controls], broken
    entries, broken = [], []
    for spec in map(parse, choices.methods):
        if spec.name in controls and not spec.params:
            continue
        if spec.name not in routing and choices.broken:
            broken.append((spec, next(iter(choices.broken))))
            continue
        if spec.name not in routing:
            raise unknown("routing method", spec.name, {*routing, *controls})
        base = known.get(spec.name, Entry(spec.name))
        entries.append(Entry(spec.name, {**base.params, **spec.params}, base.iterations, base.training))
    return entries, broken


def _rows(suite: Suite, preset: Preset, entry: Entry, role: str) -> Iterator[_Row]:
    training = asdict(suite.recipe(preset.training, entry.training))
    if entry.models:
        model = _stand_in(suite, preset, entry)
        source = _source(suite, model, None)
        yield _Row(entry.name, {}, None, role, model, training, source, entry.name)
        return
    params, label, iterative = _resolve(entry)
    source = _source(suite, preset.model, entry.name)
    for iterations in _grid(preset, entry) if iterative else [None]:
        yield _Row(entry.name, params, iterations, role, preset.model, training, source, label)


def _stand_in(suite: Suite, preset: Preset, entry: Entry) -> str:
    if preset.model not in entry.models:
        raise UserError(f"{suite.file}: control {entry.name!r}: expected a model beside {preset.model!r}, got none")
    model = entry.models[preset.model]
    if model not in models:
        raise unknown("model", model, models)
    return model


def _resolve(entry: Entry) -> tuple[dict[str, Any], str, bool]:
    """All hyperparameters but `iterations`, the label, and whether the method iterates."""
    if not isinstance(routing[entry.name], type):
        raise UserError(f"routing method {entry.name!r}: expected a class derived from RoutingMethod, got a function")
    defaults = hyperparameters_of(entry.name)
    for key in entry.params:
        if key not in defaults:
            raise UserError(f"method {entry.name!r} has no hyperparameter {key!r}{nearest(key, defaults)}")
    if entry.params:
        make(entry.name, Sizes(2, 2, 4), **entry.params)  # reports a value that is not allowed
    iterative = "iterations" in defaults
    params = {key: entry.params.get(key, default) for key, default in defaults.items() if key != "iterations"}
    changed = {key: value for key, value in params.items() if value != defaults[key]}
    return params, str(MethodSpec(entry.name, changed)), iterative


def _grid(preset: Preset, entry: Entry) -> list[int]:
    """Iterations to train with: pinned by the method's spec, its own grid, or the preset's; 1 is the control."""
    if "iterations" in entry.params:
        return sorted({1, entry.params["iterations"]})
    return sorted({1, *(entry.iterations or preset.iterations)})


def _source(suite: Suite, model: str, method: str | None) -> str:
    """Of a measured cell: fit and protocol."""
    return source_hash(*fit_modules(model, method), defining_module(protocols[suite.protocol]))


def fit_modules(model: str, method: str | None) -> list[str]:
    """The modules that a trained model comes from."""
    entries = [models[model], *([] if method is None else [routing[method]])]
    return ["routebench.training", *map(defining_module, entries)]


def _broken_row(suite: Suite, preset: Preset, spec: MethodSpec, file: str) -> _Row:
    """Of a method whose plug-in does not import: it is planned, so that its failure is a record."""
    training = asdict(suite.recipe(preset.training))
    source = digest(Path(file.partition(":")[0]).read_bytes())
    return _Row(spec.name, dict(spec.params), None, METHOD, preset.model, training, source, str(spec))

