"""From a suite, a preset and the user's choices to the list of cells that will be run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from routebench.data import Dataset
from routebench.data.taking import Taken, at_most, whole_name
from routebench.engine.isolation import step
from routebench.engine.origin import fit_code, source_hash
from routebench.engine.results import DEPTH, is_plain
from routebench.engine.suites._choices import Choices
from routebench.engine.suites._lineup import METHOD, entries_of, has_capsule_layers, lost
from routebench.engine.suites._suite import Entry, Preset, Suite
from routebench.errors import UserError, nearest, unknown
from routebench.models.facts import Facts
from routebench.models.smallest import expect_buildable, smallest_side
from routebench.protocols.base import FitRequest
from routebench.recipe import Recipe
from routebench.registry import SHIPPED, datasets, models, plugin_files, plugins_of, protocols, routing
from routebench.routing import hyperparameters_of
from routebench.routing.spec import MethodSpec, compact

MOST_CELLS = 200_000
"""Of one plan; this many are planned within seconds, and twice as many as reading a folder is tried with."""


@dataclass(frozen=True)
class Cell:
    """One point of a suite's grid with one seed.

    Args:
        identity: everything that can change its result.
        broken: why it cannot run, such as a plug-in that failed to import. It is planned, so that the failure is a
            record.
        defaults: of its method's hyperparameters; None to look them up.
        plugins: that it needs, for `load_plugin`.
    """

    identity: Mapping[str, Any]
    broken: str = field(default="", compare=False)
    defaults: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    plugins: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """16 hex digits that no other identity has."""
        return digest(self.identity)

    @property
    def label(self) -> str:
        """How the method is named in tables: with the hyperparameters that differ from its defaults."""
        variant = self.identity.get("variant")
        spec = str(MethodSpec(self.identity["method"], self.params))
        return f"{spec} ({variant})" if variant else spec

    @property
    def settings(self) -> str:
        """What tells it from the plain method: hyperparameters as `key=value`, and its variant."""
        variant = self.identity.get("variant")
        found = compact(self.params)
        return "; ".join([part for part in (found, variant) if part])

    @property
    def params(self) -> dict[str, Any]:
        """The hyperparameters that differ from the method's defaults; all of them if the method is not at hand."""
        given, defaults = self.identity["method_params"], self.known_defaults
        return {key: given[key] for key in sorted(given) if key not in defaults or defaults[key] != given[key]}

    @property
    def known_defaults(self) -> Mapping[str, Any]:
        """Of its method's hyperparameters; none if the method is not at hand."""
        return defaults_of(self.identity) if self.defaults is None else self.defaults

    def __str__(self) -> str:
        iterations = self.identity["iterations"]
        steps = "" if iterations is None else f" T={iterations}"
        return f"{self.label}{steps} seed {self.identity['seed']}"

    def request(self) -> FitRequest:
        """The trained model that the cell stands on."""
        known = self.identity
        routed = known["routed"]
        recipe: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in known["training"].items()
        }
        return FitRequest(
            model=known["model"],
            model_params=known["model_params"],
            method=known["method"] if routed else None,
            method_params=self.params if routed else {},
            iterations=known["iterations"],
            data=known["data"],
            recipe=Recipe(**recipe),
            seed=known["seed"],
        )


@dataclass(frozen=True)
class Plan:
    """What will be run: plain data, for a process that has loaded no plug-in.

    Args:
        suite, preset: what is asked.
        cells: in order.
        is_alone: whether cells measure time, so that nothing may run beside one.
        preload: modules that the protocol would have imported once for all cells.
        is_foreign: whether code that is not of routebench takes part.
        taken: of which data set how many images are used, in words; empty where it is all of them.
    """

    suite: Suite
    preset: Preset
    cells: tuple[Cell, ...] = field(repr=False)
    is_alone: bool = False
    preload: tuple[str, ...] = ()
    is_foreign: bool = False
    taken: str = ""

    @property
    def networks(self) -> dict[str, dict[str, list[str]]]:
        """For each method and control of which an entry has networks of its own, those that each model stands for."""
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
            suit the suite.
    """
    preset = _chosen(suite.preset(preset_name), choices)
    if suite.protocol not in protocols:
        raise UserError(f"{suite.file}: unknown protocol {suite.protocol!r}{nearest(suite.protocol, protocols)}")
    entries = entries_of(suite, preset, choices)
    _expect_methods(suite, preset, [entry for entry, role in entries if role == METHOD])
    preset, data = _usable(suite, preset)
    points = [
        (*_identity(suite, preset, model, entry, role, data.fingerprint), choices.faulty.get(entry.spec, ""))
        for beside in preset.models
        for entry, role in entries
        for model in entry.networks(beside)
    ]
    if protocols[suite.protocol].trains:  # type: ignore[attr-defined]
        _expect_learnable(suite, data, [point for point, _, _ in points])
    _expect_buildable(preset, data, [point for point, _, _ in points])
    points += _broken_points(points[0][0], choices)
    _expect_few(suite, preset, sum(len(grid) for _, grid, _ in points))
    protocol = protocols[suite.protocol]
    return Plan(
        suite, preset, _cells(points, preset.seeds),
        is_alone=bool(getattr(protocol, "alone", False)),
        preload=preload_of(suite.protocol),
        is_foreign=any(_foreign_origins(point) for point, _, _ in points),
        taken=_taken(data),
    )  # fmt: skip


def preload_of(protocol: str) -> tuple[str, ...]:
    """The modules that are imported once for all cells of a protocol."""
    known = protocols[protocol]
    training = ("torch._dynamo",) if getattr(known, "trains", True) else ()  # torch's first optimiser imports it
    return (*getattr(known, "preload", ()), *training)


def _cells(points: Sequence[tuple[dict[str, Any], Sequence[int | None], str]], seeds: int) -> tuple[Cell, ...]:
    """Every point with every number of iterations, seed after seed."""
    facts = [(defaults_of(point), plugins_for(point)) for point, _, _ in points]
    cells: dict[str, Cell] = {}
    for seed in range(seeds):
        for (point, grid, broken), (defaults, plugins) in zip(points, facts, strict=True):
            for iterations in grid:
                cell = Cell({**point, "iterations": iterations, "seed": seed}, broken, defaults, plugins)
                cells.setdefault(cell.key, cell)
    return tuple(cells.values())


def _expect_few(suite: Suite, preset: Preset, each: int) -> None:
    """Raises UserError for more cells than a results folder is made for."""
    if each * preset.seeds > MOST_CELLS:
        raise UserError(
            f"suite {suite.name}, preset {preset.name}: expected at most {MOST_CELLS:,} cells, got {each:,} with each "
            f"of {preset.seeds:,} seeds; take fewer with --seeds"
        )


def plugins_for(identity: Mapping[str, Any]) -> tuple[str, ...]:
    """The plug-ins that a cell needs, of those that this process has loaded."""
    return plugins_of(_foreign_origins(identity))


def _foreign_origins(identity: Mapping[str, Any]) -> set[str]:
    """Where the parts of a cell come from that are not of routebench."""
    data = whole_name(identity["data"])
    kind = f"{data.partition(':')[0]}:PATH"
    origins = {
        protocols.origin(identity["protocol"]),
        models.origin(identity["model"]),
        datasets.origin(kind if ":" in data and kind in datasets else data),
    }
    if identity["routed"]:
        origins.add(routing.origin(identity["method"]))
    return origins - {SHIPPED}


def digest(content: Mapping[str, Any]) -> str:
    """The first 16 hex digits of the SHA-256 of the content's canonical JSON."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr).encode()
    ).hexdigest()[:16]


def plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content as JSON keeps it: tuples are lists, and what JSON does not know is written as `repr` has it."""
    return dict(json.loads(json.dumps(content, default=repr)))


def defaults_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of a cell's method, as JSON keeps them; none for a network without routing or one not at hand."""
    method = identity["method"]
    return plain(hyperparameters_of(method)) if identity["routed"] and method in routing else {}


def _chosen(preset: Preset, choices: Choices) -> Preset:
    if choices.seeds is not None:
        preset = replace(preset, seeds=choices.seeds)
    if choices.models:
        _expect_models(choices.models)
        preset = replace(preset, models=tuple(dict.fromkeys(choices.models)), model_params={}, training_of={})
    if choices.backend != "auto" and "backends" in preset.options:
        preset = replace(preset, options={**preset.options, "backends": [choices.backend]})
    return preset if choices.data is None else replace(preset, data=choices.data)


def _expect_models(names: Sequence[str]) -> None:
    """Raises UserError for a network from the command line that nobody knows."""
    for name in names:
        bare = name.partition("[")[0]
        if bare in models and bare != name:
            way = "a suite file" if has_capsule_layers(bare) else f"--method '{name}' or a suite file"
            raise UserError(f"--model {name}: expected a name alone; what a network is built with is set by {way}")
        if name not in models:
            raise unknown("model", name, models)


def _expect_methods(suite: Suite, preset: Preset, methods: Sequence[Entry]) -> None:
    """Raises UserError for a network beside which no method of the suite has one of its own."""
    for model in preset.models if methods else ():
        if model in models and not any(entry.networks(model) for entry in methods):
            known = sorted({name for entry in methods for name in entry.models})
            raise UserError(
                f"suite {suite.name}: no method has a network to stand beside {model!r}; choose one of "
                f"{', '.join(known)}, or name a method of your own with --method"
            )


def _usable(suite: Suite, preset: Preset) -> tuple[Preset, Dataset]:
    """The data set, once the suite's protocol has looked at it; the preset with the name that it has."""
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


def _expect_learnable(suite: Suite, data: Dataset, points: Sequence[Mapping[str, Any]]) -> None:
    """Raises UserError where images may show several classes, and a method would be trained as if each showed one."""
    if not data.train.multi_label:
        return
    for point in points:
        training = point["training"]
        if training["loss"] == "cross-entropy" or training["reconstruction"] > 0:
            way = "the loss cross-entropy" if training["loss"] == "cross-entropy" else "a reconstruction of one capsule"
            raise UserError(
                f"suite {suite.name}: {point['method']} on {point['model']} is trained with {way}, which takes one "
                f"class per image, and those of {data.name} may show several; suite overlap is for such data"
            )


def _broken_points(like: Mapping[str, Any], choices: Choices) -> list[tuple[dict[str, Any], Sequence[int | None], str]]:
    """Their identities, beside that of a method which runs. Another content of the files is another identity."""
    files = {str(file): file for spec in choices.broken for file in plugin_files(spec)}
    source = digest({name: file.read_text(errors="replace") for name, file in files.items()})
    changed = {"role": METHOD, "routed": True, "source": source}
    return [
        ({**like, **changed, "method": spec.name, "method_params": plain(spec.params)}, [None], reason)
        for spec, reason in zip(lost(choices), _reasons(choices), strict=False)
    ]


def _reasons(choices: Choices) -> list[str]:
    """One per broken file; where methods are named, nobody knows which file was to give them."""
    together = "; ".join(choices.broken.values())
    return [together] * len(choices.methods) if choices.methods else list(choices.broken.values())


def _expect_buildable(preset: Preset, data: Dataset, points: Sequence[Mapping[str, Any]]) -> None:
    """Raises UserError for a network that cannot be built with what is set, or for images of this size.

    A plug-in's network is asked only where a suite sets its arguments.
    """
    classes, shape = len(data.classes), data.train.shape
    networks = [(point["model"], point["model_params"]) for point in points]
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
    """Says which networks need larger images, and how to have them."""
    networks = ", ".join(f"{name} (at least {side} x {side})" for name, side in sorted(needed.items()))
    _, height, width = shape
    larger = f"--data '{data.partition('?')[0]}?size={max(needed.values())}' or more scales them"
    way = larger if "folder:" in data else "choose other data with --data, or another network with --model"
    return UserError(f"images of {data} are {height} x {width} pixels, too small for {networks}; {way}")


def _identity(  # noqa: PLR0917  # each is one coordinate
    suite: Suite, preset: Preset, model: str, entry: Entry, role: str, fingerprint: str
) -> tuple[dict[str, Any], Sequence[int | None]]:
    """A cell's identity but for iterations and seed, and the grid of iterations."""
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
    # One iteration is every iterative method's own control, whatever the grid; a variant has that of the plain form.
    own = set() if entry.variant else {1}
    grid: Sequence[int | None] = sorted(own | {*preset.grid(entry)}) if iterative else [None]
    method = routing[entry.name] if routed else None
    identity = {
        "suite": suite.name,
        "suite_version": suite.version,
        "protocol": suite.protocol,
        "options": dict(preset.options),
        "method": entry.name,
        "method_params": {**defaults, **entry.params},
        "routed": routed,
        "role": role,
        "model": model,
        "model_params": {**(preset.model_params if routed else {}), **entry.model_params},
        "data": preset.data,
        "data_fingerprint": fingerprint,
        "training": asdict(suite.recipe(*training)),
        "source": source_hash(protocols[suite.protocol], *fit_code(models[model], method)),
    }
    if entry.variant:
        identity["variant"] = entry.variant
    found = plain(identity)
    _expect_storable(suite, entry, {**found, "iterations": list(grid)})
    return found, grid


def _expect_storable(suite: Suite, entry: Entry, identity: Mapping[str, Any]) -> None:
    """Raises UserError for a setting that no record can hold."""
    for key, value in identity.items():
        if not is_plain(value):
            raise UserError(
                f"{suite.file}: {entry.name}: {key.replace('_', ' ')}: expected integers of at most 64 bits, in tables "
                f"and lists at most {DEPTH} deep, got {value!r:.80}"
            )
