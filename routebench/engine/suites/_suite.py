"""Suites: TOML files that state a question and the experiment that answers it.

question = "Does routing beat uniform coupling?"
version = 1                     # results of different versions are not mixed
caveat = "Weights are random."  # what a reader has to know; also caveat_on = { mnist5k = "..." }, of one data set alone
protocol = "accuracy"
[training]                      # as `routebench.recipe.Recipe`; presets and methods may override
recipe = "sabour"               # of `routebench.recipes`, where settings start; the last table that names one wins
learning_rate = 1e-3            # what is written out replaces a recipe's, whichever table it is in
[[methods]]
name = "dynamic"                # also: params, iterations, training
variant = "margin loss"         # in words, where two entries differ in training or network alone
models = { tsai-simple = "tsai-simple-dynamic" }    # in networks of its own, beside those of the preset
[[controls]]                    # run whatever methods the user picks
name = "cnn"                    # without capsules: says which network stands beside which
models = { capsnet = "cnn" }
[presets.quick]
data = "mnist5k"
take = 5000                     # at most so many images of whatever data is named; all of them without this line
model = "capsnet-small"         # or several, ["a", "b"]; also: model_params, training, and the protocol's own options
iterations = [1, 2, 3]          # the grid of every method that iterates
variant_iterations = [3]        # that of variants, if it is another
seeds = 3
[presets.quick.training_of.b]   # for one of several networks; it has the last word
reconstruction = 0.0005
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from routebench.data.taking import whole_name
from routebench.engine.suites._toml import Table, count, counts, table, text
from routebench.errors import UserError, nearest, unknown
from routebench.recipe import Recipe
from routebench.recipes import NAME, RECIPES, merged
from routebench.registry import models, protocols, routing, suite_files
from routebench.routing.spec import MethodSpec

_TOP = (
    "question",
    "version",
    "protocol",
    "caveat",
    "caveat_on",
    "standard",
    "training",
    "methods",
    "controls",
    "presets",
)
_ENTRY = ("name", "variant", "params", "iterations", "training", "models", "model_params")
_PRESET = (
    "data",
    "take",
    "model",
    "model_params",
    "iterations",
    "variant_iterations",
    "seeds",
    "training",
    "training_of",
)
_RECIPE = {known.name: known.default for known in fields(Recipe)}
_ITERATIONS = "a list of different integers of at least 1"


@dataclass(frozen=True)
class Entry:
    """A method or a control of a suite.

    Args:
        name: of a routing method; of a control with a network of its own, what it is called.
        variant: what tells it from other entries of the same method and hyperparameters, in words.
        params: hyperparameters that differ from the defaults.
        iterations: a grid of its own, in place of the preset's.
        training: overrides of the recipe.
        models: the networks in which it runs, by the preset's network that they stand beside, one or several. It then
            runs beside these alone. A control without capsules needs it; a method without it runs in the preset's.
        model_params: further arguments of its network.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    iterations: tuple[int, ...] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variant: str = ""
    model_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """The method as one would type it."""
        return str(MethodSpec(self.name, self.params))

    @property
    def routed(self) -> bool:
        """Whether it is a routing method, and not a network without capsules."""
        return not self.models or self.name in routing

    def networks(self, model: str) -> tuple[str, ...]:
        """The networks in which it runs for one of the preset's."""
        return self.models.get(model, ()) if self.models else (model,)


@dataclass(frozen=True)
class Preset:
    """How much of a suite is run, and on what.

    `take` is the most images that are used of a data set; `options` are the protocol's, `training_of` is by network.
    """

    name: str
    data: str
    models: tuple[str, ...]
    iterations: tuple[int, ...]
    seeds: int
    model_params: Mapping[str, Any]
    training: Mapping[str, Any]
    options: Mapping[str, Any]
    training_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variant_iterations: tuple[int, ...] | None = None
    take: int | None = None

    def grid(self, entry: Entry) -> tuple[int, ...]:
        """The iterations of a method that iterates."""
        of_variants = self.variant_iterations if entry.variant else None
        return entry.iterations or of_variants or self.iterations


@dataclass(frozen=True)
class Suite:
    """A suite file. `name` is the file's, without `.toml`; `caveat` is what a reader of its results has to know.

    `caveat_on` is, by data set, what has to be known of results on that one alone.
    `standard` is its place among the suites that `suite all` runs; 0 for one that it does not run.
    """

    name: str
    file: str
    question: str
    version: int
    protocol: str
    training: Mapping[str, Any]
    methods: tuple[Entry, ...]
    controls: tuple[Entry, ...]
    presets: Mapping[str, Preset]
    caveat: str = ""
    standard: int = 0
    caveat_on: Mapping[str, str] = field(default_factory=dict)

    def caveats(self, data: str) -> str:
        """What a reader of its results on a data set has to know; empty if nothing."""
        return " ".join(filter(None, (self.caveat, self.caveat_on.get(whole_name(data).partition("?")[0], ""))))

    def preset(self, name: str) -> Preset:
        """A preset by name.

        Raises:
            UserError: the suite has none of that name.
        """
        if name not in self.presets:
            raise unknown("preset", name, self.presets)
        return self.presets[name]

    def recipe(self, *overrides: Mapping[str, Any]) -> Recipe:
        """The suite's recipe with overrides, the last of which wins; see `routebench.recipes.merged`.

        Raises:
            UserError: a value is not allowed.
        """
        try:
            return Recipe(**merged(self.training, *overrides))
        except UserError as error:
            raise UserError(f"{self.file}: {error}") from error


def find_suite(name: str) -> Path:
    """The file of a suite: one of routebench, an installed package or a plug-in by name, or a path ending in `.toml`.

    Raises:
        UserError: there is no such suite, or two have the same name.
    """
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UserError(f"suite file {name!r}: no such file")
        return Path(name)
    known = suite_files()
    if name not in known:
        raise unknown("suite", name, known)
    return known[name]


def load_suite(name: str) -> Suite:
    """Reads and checks a suite, every preset of it.

    Raises:
        UserError: the file is missing or not TOML, a key is unknown, a value has a wrong type, a grid is empty.
    """
    path = find_suite(name)
    file = path.name
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:  # ValueError: no TOML, or no UTF-8
        raise UserError(f"{file}: expected a TOML file, got one that cannot be read: {error}") from error
    top = Table(file, "", content, _TOP)
    protocol = top.need("protocol", "the name of a protocol", text)
    options = getattr(protocols[protocol], "options", {})
    presets = top.inner("presets", top.content.get("presets", {}))
    suite = Suite(
        name=path.stem,
        file=file,
        question=top.need("question", "a question", text),
        version=top.need("version", "an integer of at least 1", count),
        protocol=protocol,
        training=_training(top),
        methods=tuple(map(_entry, top.each("methods", _ENTRY))),
        controls=tuple(map(_entry, top.each("controls", _ENTRY))),
        presets={key: _preset(presets.inner(key, [*_PRESET, *options]), key, options) for key in presets.content},
        caveat=top.get("caveat", "a sentence", text, ""),
        caveat_on=top.get(
            "caveat_on", "a table of sentences by data set", lambda one: table(one) and all(map(text, one.values())), {}
        ),
        standard=top.get("standard", "an integer of at least 1", count, 0),
    )
    _check(suite)
    return suite


def _check(suite: Suite) -> None:
    for key, found in (("methods", suite.methods), ("presets", suite.presets)):
        if not found:
            raise UserError(f"{suite.file}: key {key!r}: expected at least one, got none")
    for entry in suite.methods:
        if [(one.name, one.params, one.variant, one.models) for one in suite.methods].count(
            (entry.name, entry.params, entry.variant, entry.models)
        ) > 1:
            raise UserError(
                f"{suite.file}: key 'methods': {entry.name!r} is there twice and reads the same; "
                "tell the entries apart by `variant`, a few words"
            )
    for preset in suite.presets.values():
        for model in preset.training_of:
            if model not in models:
                raise UserError(
                    f"{suite.file}: key 'presets.{preset.name}.training_of': unknown model {model!r}"
                    f"{nearest(model, models)}"
                )
        for entry in (*suite.methods, *suite.controls):
            for overrides in ({}, *preset.training_of.values()):
                suite.recipe(preset.training, entry.training, overrides)


def _entry(found: Table) -> Entry:
    grid = found.get("iterations", _ITERATIONS, counts)
    networks = found.get(
        "models", "a table of names", lambda value: table(value) and all(map(_names, value.values())), {}
    )
    return Entry(
        name=found.need("name", "the name of a method", text),
        params=found.get("params", "a table", table, {}),
        iterations=None if grid is None else tuple(sorted(grid)),
        training=_training(found),
        models={model: _names_in(value) for model, value in networks.items()},
        variant=found.get("variant", "a few words", text, ""),
        model_params=found.get("model_params", "a table", table, {}),
    )


def _preset(found: Table, name: str, options: Mapping[str, Any]) -> Preset:
    model = found.need("model", "the name of a model, or a list of different ones", _names)
    of_variants = found.get("variant_iterations", _ITERATIONS, counts)
    of_models = found.inner("training_of", found.content.get("training_of", {}))
    return Preset(
        name=name,
        data=found.need("data", "the name of a data set", text),
        take=found.get("take", "an integer of at least 1", count),
        models=_names_in(model),
        iterations=tuple(sorted(found.need("iterations", _ITERATIONS, counts))),
        variant_iterations=None if of_variants is None else tuple(sorted(of_variants)),
        seeds=found.need("seeds", "an integer of at least 1", count),
        model_params=found.get("model_params", "a table", table, {}),
        training=_training(found),
        options={key: _option(found, key, kind) for key, kind in options.items() if key in found.content},
        training_of={key: _training(of_models, key) for key in of_models.content},
    )


def _names(value: Any) -> bool:
    return text(value) or (
        isinstance(value, list) and bool(value) and all(map(text, value)) and len(set(value)) == len(value)
    )


def _names_in(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _option(found: Table, key: str, kind: Any) -> Any:
    """A protocol's own option; `list[int]` asks for integers, and a list must not be empty."""
    origin, inner = get_origin(kind) or kind, get_args(kind)

    def fits(value: Any) -> bool:
        if not isinstance(value, origin) or (isinstance(value, bool) and origin is not bool):
            return False
        return not isinstance(value, list) or (bool(value) and all(isinstance(one, inner or object) for one in value))

    elements = f" of {inner[0].__name__}" if inner else ""
    return found.get(key, f"{'a non-empty list' if origin is list else origin.__name__}{elements}", fits)


def _training(found: Table, key: str = "training") -> dict[str, Any]:
    """The settings of a recipe that a table below another gives, with the recipe's types."""
    inner = found.inner(key, (NAME, *_RECIPE))
    read: dict[str, Any] = {}
    for name in inner.content:
        if name == NAME:
            read[name] = _named_recipe(inner)
            continue
        default = _RECIPE[name]
        if isinstance(default, bool):
            read[name] = inner.get(name, "true or false", lambda value: isinstance(value, bool))
        elif isinstance(default, int):
            read[name] = inner.get(name, "an integer of at least 1", count)
        elif isinstance(default, float):
            number = inner.get(name, "a number", _number)
            read[name] = float(number)
        elif isinstance(default, tuple):
            read[name] = tuple(inner.get(name, _ITERATIONS, counts))
        else:
            read[name] = inner.get(name, "a string", text)
    return read


def _named_recipe(found: Table) -> str:
    name: str = found.get(NAME, "the name of a recipe", text)
    if name not in RECIPES:
        raise UserError(f"{found.file}: key '{found.path}.{NAME}': unknown recipe {name!r}{nearest(name, RECIPES)}")
    return name


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
