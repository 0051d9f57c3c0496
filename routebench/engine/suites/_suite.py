"""Suites: TOML files that state a question and the experiment that answers it.

question = "Does routing help?"
version = 1                     # results of different versions are not mixed
caveat = "Weights are random."  # what a reader has to know; also caveat_on = { mnist5k = "..." }, of one data set alone
protocol = "accuracy"
entries_of = "standard"         # instead of the three tables below: those of another suite, whose networks it measures
[training]                      # as `routebench.recipe.Recipe`; presets and methods may override
recipe = "sabour"               # of `routebench.recipes`, where settings start; the last table that names one wins
learning_rate = 1e-3            # what is written out replaces a recipe's, whichever table it is in
[[methods]]
name = "dynamic"                # also: params, iterations, training, training_of
variant = "margin loss"         # in words; reports call the configuration so, and do not name its hyperparameters
models = { capsnet-small = "capsnet" }  # in networks of its own, beside those of the preset
[[baselines]]                   # run whatever methods the user picks
name = "cnn"                    # without capsules: says which network stands beside which
models = { capsnet = "cnn" }
[presets.quick]
data = "mnist5k"
take = 5000                     # at most so many images of whatever data is named; all of them without this line
model = "capsnet-small"         # or several, ["a", "b"]; also: model_params, training, and the protocol's own options
iterations = [1, 2, 3]          # the grid of every method that iterates
variant_iterations = [3]        # that of variants, if it is another
seeds = 3
entries_of = "standard"         # as above, for one preset
[presets.quick.training_of.b]   # for one of several networks; only that of a method or baseline goes before it
reconstruction = 0.0005
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any

from routebench.arguments import Count, Legal
from routebench.data import loader_of
from routebench.data_names import items_of
from routebench.engine.results import TRIALS, cleaned
from routebench.engine.suites._changes import OPTION, changed
from routebench.engine.suites._primary import Primary
from routebench.engine.suites._readers import (
    BESIDE,
    NAMES,
    NETWORKS,
    PROTOCOL,
    SENTENCES,
    counts,
    different,
    first_seeds,
    line,
    recipe_table,
    text,
)
from routebench.engine.suites._toml import (
    NOTHING,
    TABLE,
    Place,
    Reader,
    by_key,
    each,
    in_todays_words,
    legal,
    read_table,
)
from routebench.engine.suites._tuning import FairTuning
from routebench.errors import UserError, nearest, shown, unknown
from routebench.notation import Spec
from routebench.plain import NoPlainValue, from_toml
from routebench.received import permitted, read_plain
from routebench.recipe import Recipe
from routebench.recipes import merged
from routebench.registry import SHIPPED, datasets, models, protocols, routing, suite_files
from routebench.routing import hyperparameters_of

LONGEST = 60
NAME = re.compile(rf"\w[\w-]{{0,{LONGEST - 1}}}")
"""The name of a preset."""
CONTROLS = ("uniform", "random")
"""Routing methods that every suite runs unasked, with one iteration of each iterative method."""

_BEING_CHECKED: set[Path] = set()
"""Files whose checks go on: the check of one reads the suite that it takes methods of, which may take some of it."""


@dataclass(frozen=True)
class Entry:
    """A method or a baseline as a suite lists it.

    Args:
        name: name of a routing method, or of a baseline with a network of its own.
        variant: a few words that tell it from other configurations of the method; reports then name no hyperparameters.
        params: hyperparameters that differ from the defaults.
        iterations: a grid of its own, in place of the preset's.
        training: overrides of the recipe.
        training_of: further overrides, by network; they have the last word.
        models: the networks in which it runs, by the preset's network that they stand beside, one or several. It then
            runs beside these alone. A baseline without capsules needs it; a method without it runs in the preset's.
        model_params: further arguments of its network.
        first_is: another configuration that is the same function as one iteration of this one, which is then not run.
    """

    name: Annotated[str, line("the name of a method")]
    params: Annotated[Mapping[str, Any], TABLE] = field(default_factory=dict)
    iterations: Annotated[tuple[int, ...] | None, counts] = None
    training: Annotated[Mapping[str, Any], recipe_table] = field(default_factory=dict)
    training_of: Annotated[Mapping[str, Mapping[str, Any]], by_key(recipe_table)] = field(default_factory=dict)
    models: Annotated[Mapping[str, tuple[str, ...]], BESIDE] = field(default_factory=dict)
    variant: Annotated[str, line("a few words")] = ""
    model_params: Annotated[Mapping[str, Any], TABLE] = field(default_factory=dict)
    first_is: Annotated[str, line("the name of a method")] = ""

    @property
    def spec(self) -> str:
        """The method as one would type it."""
        return str(Spec(self.name, self.params))

    @property
    def routed(self) -> bool:
        """Tells whether it is a routing method, and not a network without capsules."""
        return not self.models or self.name in routing

    def networks(self, model: str) -> tuple[str, ...]:
        """The networks in which it runs for one of the preset's."""
        return self.models.get(model, ()) if self.models else (model,)

    def reads_like(self, other: "Entry", models: Collection[str]) -> bool:
        """Tells whether reports would call both the same in one network, beside one of `models` or among them."""
        if (self.name, _as_read(self.variant)) != (other.name, _as_read(other.variant)):
            return False
        if not self.variant and self._all_params != other._all_params:
            return False
        ours, theirs = ({network for model in models for network in one.networks(model)} for one in (self, other))
        return not ours.isdisjoint(theirs)

    @property
    def _all_params(self) -> dict[str, Any]:
        return {**(hyperparameters_of(self.name) if self.name in routing else {}), **self.params}


def _as_read(text: str) -> str:
    """The text without what no reader sees: forms of Unicode, further blanks."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Preset:
    """The size of a suite's experiment, and its data and networks.

    `take` is the most images that are used of a data set; `options` are the protocol's, `training_of` is by network.
    `settings` is a file that `routebench tune` wrote, beside the suite's. `without` names variants and baselines that
    are not run. `entries_of` is another suite, whose methods, baselines and training stand in place of the suite's.
    """

    name: str
    data: Annotated[str, line("the name of a data set")]
    models: Annotated[tuple[str, ...], NETWORKS, "model"]
    iterations: Annotated[tuple[int, ...], counts]
    seeds: Annotated[range, first_seeds]
    model_params: Annotated[Mapping[str, Any], TABLE] = field(default_factory=dict)
    training: Annotated[Mapping[str, Any], recipe_table] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    training_of: Annotated[Mapping[str, Mapping[str, Any]], by_key(recipe_table)] = field(default_factory=dict)
    variant_iterations: Annotated[tuple[int, ...] | None, counts] = None
    take: Count | None = None
    settings: Annotated[str, line("the name of a file")] = ""
    without: Annotated[tuple[str, ...], NAMES] = ()
    entries_of: Annotated[str, line("the name of a suite")] = ""

    def grid(self, entry: Entry) -> tuple[int, ...]:
        """The iterations of a method that iterates.

        One iteration is every iterative method's own baseline, whatever is asked for; a variant has that of the plain
        form, and a method may share it with another configuration.
        """
        of_variants = self.variant_iterations if entry.variant else None
        wanted = {*(entry.iterations or of_variants or self.iterations)}
        if entry.first_is:
            return tuple(sorted(wanted - {1}))
        return tuple(sorted(wanted if entry.variant else wanted | {1}))


@dataclass(frozen=True)
class Page:
    """The table `page` of a suite: its `title` among tabs, the `paper` that it repeats, its `place` among tabs.

    `menu` is the title of another suite, behind whose tab it stands.
    """

    title: Annotated[str, line("a title")]
    paper: Annotated[str, line("the name of a paper")] = ""
    menu: Annotated[str, line("a title")] = ""
    place: Count = 10_000


@dataclass(frozen=True)
class Suite:
    """A suite file in `folder`. `name` is the file's, without `.toml`.

    `caveat` is what a reader of its results has to know; `caveat_on` is, by data set, what has to be known of results
    on that one alone. `place_in_all` is its place among the suites that `suite all` runs; 0 for one that it does not
    run. `entries_of` is another suite, which says methods, baselines and training in its place; baselines here are then
    further ones.
    """

    name: str
    file: str
    question: Annotated[str, text("a question")]
    version: Count
    protocol: Annotated[str, PROTOCOL]
    presets: Mapping[str, Preset]
    training: Annotated[Mapping[str, Any], recipe_table] = field(default_factory=dict)
    methods: Annotated[tuple[Entry, ...], each(partial(read_table, Entry))] = ()
    controls: Annotated[tuple[Entry, ...], "baselines", each(partial(read_table, Entry))] = ()
    caveat: Annotated[str, text("a sentence")] = ""
    place_in_all: Count = 0
    entries_of: Annotated[str, line("the name of a suite")] = ""
    caveat_on: Annotated[Mapping[str, str], SENTENCES] = field(default_factory=dict)
    tuning: Annotated[FairTuning | None, partial(read_table, FairTuning)] = None
    primary: Annotated[Primary | None, partial(read_table, Primary)] = None
    page: Annotated[Page | None, partial(read_table, Page)] = None
    folder: Path = Path()

    @property
    def is_other_of_its_name(self) -> bool:
        """Tells whether a suite of this name is registered, and is another file."""
        known = suite_files().get(self.name)
        return known is not None and not (self.folder / self.file).samefile(known)

    def caveats(self, data: str) -> str:
        """The caveat that a reader of its results on a data set has to know; empty if there is none."""
        return " ".join(filter(None, (self.caveat, self.caveat_on.get(items_of(data)[0].partition("?")[0], ""))))

    def preset(self, name: str) -> Preset:
        """A preset by name.

        Raises:
            UserError: the suite has none of that name.
        """
        if name not in self.presets:
            raise unknown("preset", name, self.presets)
        return self.presets[name]

    def settings_file(self, name: str) -> Path:
        """The file of settings that a preset names: beside the suite, or beside the suite whose name it begins with."""
        own, other = self.folder / name, suite_files().get(name.partition(".")[0])
        return own if other is None or own.exists() else other.parent / name

    def with_entries(self, preset: str) -> "Suite":
        """The suite with methods, baselines and training of the suite that it or its preset names, if one does.

        Baselines of its own stay, but for those that the other suite has by the same name and variant.

        Raises:
            UserError: there is no such suite or preset, or the other suite has no methods of its own.
        """
        name = self.preset(preset).entries_of or self.entries_of
        if not name:
            return self
        other = load_suite(name)
        if not other.methods:
            raise UserError(
                f"{self.file}: key 'entries_of': expected a suite with methods, got {name!r}, which takes those of "
                f"{other.entries_of!r}; name that one"
            )
        known, beside = (*other.methods, *other.controls), self.preset(preset).models
        own = (one for one in self.controls if not any(one.reads_like(entry, beside) for entry in known))
        controls = (*other.controls, *own)
        return replace(self, methods=other.methods, controls=controls, training=other.training)

    def place_of(self, entry: Entry, preset: Preset) -> Place | None:
        """The place in a file of a configuration that a preset runs: this file, or the one that it takes methods of."""
        name = preset.entries_of or self.entries_of
        for suite in (*([load_suite(name)] if name else []), self):
            for key, entries in (("methods", suite.methods), ("baselines", suite.controls)):
                if entry in entries:
                    return Place(suite.file, f"{key}.{entry.name}")
        return None

    def recipe(self, *overrides: Mapping[str, Any]) -> Recipe:
        """The suite's recipe with overrides, the last of which wins; see `routebench.recipes.merged`."""
        return Recipe(**merged(self.training, *overrides))


def find_suite(name: str) -> Path:
    """The file of a suite: one of routebench, an installed package or a plug-in by name, or a path ending in `.toml`.

    Raises:
        UserError: there is no such suite, or two have the same name.
    """
    if name.endswith(".toml"):
        if not permitted(Path(name), "suite file").exists():
            raise UserError(f"suite file {name!r}: no such file")
        return Path(name)
    known = suite_files()
    if name not in known:
        raise unknown("suite", name, known)
    return known[name]


def load_suite(name: str, preset: str = "", changes: Sequence[str] = ()) -> Suite:
    """Reads and checks a suite, every preset of it.

    Args:
        name: its name, or a file.
        preset: name of the preset that is changed.
        changes: texts such as `training.epochs=20`: keys of the preset's table, with other values than in the file.

    Raises:
        UserError: the file is missing or not TOML, a key is unknown, a value has a wrong type, a grid is empty.
    """
    if changes:
        load_suite(name)  # what is wrong from here on is wrong with the changes
        try:
            return _loaded(name, preset, changes)
        except UserError as error:
            told = str(error)
            raise UserError(told if told.startswith(OPTION) else f"{OPTION}: {told}") from error
    return _loaded(name, preset, changes)


def _loaded(name: str, preset_name: str, changes: Sequence[str]) -> Suite:
    path = find_suite(name)
    place = Place(path.name)
    try:
        content = cleaned(from_toml(read_plain(path, named=True)[0]))  # as records hold its names
    except NoPlainValue as error:
        raise place.wrong(str(error)) from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path.name}: expected a TOML file, got one that cannot be read: {error}") from error
    content = changed(in_todays_words(content, place, {"controls": "baselines"}), preset_name, changes)
    protocol = PROTOCOL(content.get("protocol", NOTHING), place.below("protocol"))
    try:
        known = getattr(protocols[protocol], "options", {})
    except UserError as error:
        raise place.below("protocol").wrong(str(error)) from error
    reader = legal if protocols.origin(protocol) != SHIPPED else lambda allowed: different(legal(allowed))
    preset = partial(_preset, {name: reader(Legal.of(kind)) for name, kind in known.items()})
    presets = by_key(preset)(content.get("presets", {}), place.below("presets"))
    suite = read_table(
        Suite, content, place, ["presets"], name=shown(path.stem), file=path.name, folder=path.parent, presets=presets
    )
    if (file := path.resolve()) not in _BEING_CHECKED:
        _BEING_CHECKED.add(file)
        try:
            _check(suite)
        finally:
            _BEING_CHECKED.remove(file)
    return suite


def _preset(options: Mapping[str, Reader], value: Any, place: Place) -> Preset:
    """A preset, whose protocol has options of its own."""
    given = [key for key in TABLE(value, place) if key in options]
    own = {key: options[key](value[key], place.below(key)) for key in given}
    return read_table(Preset, value, place, options, name=place.path.partition(".")[2], options=own)


def _check(suite: Suite) -> None:
    _check_source(suite)
    if suite.tuning is not None:
        suite.tuning.expect_whole(Place(suite.file, "tuning"))
    _expect_told_apart(suite)
    tables: list[tuple[str, Mapping[str, Any]]] = [
        (f"presets.{preset.name}.training_of", preset.training_of) for preset in suite.presets.values()
    ]
    for key, several in (("methods", suite.methods), ("baselines", suite.controls)):
        tables += [(f"{key}.{entry.name}.training_of", entry.training_of) for entry in several]
        tables += [(f"{key}.{entry.name}.models", entry.models) for entry in several]
    for key, by_model in tables:
        for model in by_model:
            if model not in models:
                raise UserError(f"{suite.file}: key {key!r}: unknown model {model!r}{nearest(model, models)}")
    _expect_run(suite)
    _expect_iterations(suite)
    for name in suite.caveat_on:
        if loader_of(name)[0] not in datasets:
            told = f"unknown data set {name!r}{nearest(name, datasets)}"
            raise UserError(f"{suite.file}: key 'caveat_on': {told}")
    for preset in suite.presets.values():
        if not NAME.fullmatch(preset.name):
            raise UserError(
                f"{suite.file}: key 'presets.{preset.name:.80}': expected a name of at most {LONGEST} letters, digits "
                "and hyphens, after which files are named; rename it"
            )
        if preset.name.endswith(TRIALS):
            raise UserError(
                f"{suite.file}: key 'presets.{preset.name}': expected a name that does not end in {TRIALS!r}, by which "
                "plans of trials are known; rename it"
            )
        entries = suite.with_entries(preset.name) if preset.without else suite
        variants = (one.variant for one in (*entries.methods, *entries.controls))
        spared = {*variants, *(one.name for one in entries.controls), *CONTROLS} - {""}
        for name in preset.without:
            if name not in spared:
                raise UserError(
                    f"{suite.file}: key 'presets.{preset.name}.without': unknown variant or baseline {name!r}"
                    f"{nearest(name, spared)}"
                )


def _expect_iterations(suite: Suite) -> None:
    """Raises UserError for iterations of a method without any, or given twice, and for a wrong `first_is`."""
    listed = [("methods", entry) for entry in suite.methods] + [("baselines", entry) for entry in suite.controls]
    for key, entry in listed:
        iterates = entry.name in routing and "iterations" in hyperparameters_of(entry.name)
        own, told = f"{key}.{entry.name}", ""
        if iterates and "iterations" in entry.params:
            own += ".params"
            told = (
                f"expected numbers of iterations in the key `iterations`, got iterations = {entry.params['iterations']}"
            )
        elif not iterates and (entry.iterations or entry.first_is) and (entry.name in routing or not entry.routed):
            own += ".iterations" if entry.iterations else ".first_is"
            told = f"expected a method that iterates, got {entry.name!r}, which does not; leave the line out"
        elif entry.first_is:
            own += ".first_is"
            known = {other.name for _, other in listed if other is not entry} | {*CONTROLS}
            if entry.first_is not in known:
                got = "itself" if entry.first_is == entry.name else repr(entry.first_is)
                told = f"unknown configuration {got}{nearest(entry.first_is, known)}"
        if told:
            raise UserError(f"{suite.file}: key {own!r}: {told}")


def _expect_run(suite: Suite) -> None:
    """Raises UserError for training of a network in which the preset or the configuration does not run."""
    trained: list[tuple[str, Mapping[str, Any], set[str]]] = []
    unasked = {
        name for name in models if getattr(protocols[suite.protocol], "unsupervised", False)
        and models[name].facts.unsupervised  # type: ignore[attr-defined]  # attached by the decorator `facts`
    }  # fmt: skip
    for preset in suite.presets.values():
        if preset.training_of:
            whole = suite.with_entries(preset.name)
            beside = (one.networks(model) for one in (*whole.methods, *whole.controls) for model in preset.models)
            runs = {*unasked, *preset.models, *chain.from_iterable(beside)}
            trained.append((f"presets.{preset.name}", preset.training_of, runs))
    for key, several in (("methods", suite.methods), ("baselines", suite.controls)):
        own = ((entry, chain.from_iterable(entry.models.values())) for entry in several if entry.models)
        trained += [(f"{key}.{entry.name}", entry.training_of, {*networks}) for entry, networks in own]
    for key, training_of, runs in trained:
        for model in training_of:
            if model not in runs:
                told = f"expected networks that run there, {', '.join(sorted(runs))}, got {model!r}"
                raise UserError(f"{suite.file}: key '{key}.training_of': {told}")


def _expect_told_apart(suite: Suite) -> None:
    """Raises UserError for two configurations that reports would call the same. One may be a baseline, too."""
    entries = {"methods": suite.methods, "baselines": suite.controls}
    known = {entry.name for entry in suite.controls}
    entries["baselines that run unasked"] = tuple(Entry(name) for name in CONTROLS if name not in known)
    listed = [(key, entry) for key, several in entries.items() for entry in several]
    alone = {(model,) for _, entry in listed for model in entry.models}
    beside = {preset.models for preset in suite.presets.values()} | alone
    for (key, one), (other_key, other) in combinations(listed, 2):
        is_same = one == other and key != other_key
        if not is_same and any(one.reads_like(other, models) for models in beside):
            where = f"key {key!r}" if key == other_key else f"keys {key!r} and {other_key!r}"
            raise UserError(
                f"{suite.file}: {where}: {one.name!r} is there twice and reads the same; "
                "tell the configurations apart by `variant`, a few words"
            )


def _check_source(suite: Suite) -> None:
    """Methods are the suite's own or another's, never both."""
    for key, found in (("methods", suite.methods or suite.entries_of), ("presets", suite.presets)):
        if not found:
            raise UserError(f"{suite.file}: key {key!r}: expected at least one, got none")
    sources = {f"presets.{preset.name}.entries_of": preset.entries_of for preset in suite.presets.values()}
    for key, name in {"entries_of": suite.entries_of, **sources}.items():
        if name and not name.endswith(".toml") and name not in suite_files():
            raise UserError(f"{suite.file}: key {key!r}: unknown suite {name!r}{nearest(name, suite_files())}")
    for key, found in (("methods", suite.methods), ("training", suite.training)):
        if found and suite.entries_of:
            raise UserError(
                f"{suite.file}: key {key!r}: expected none beside `entries_of`, which takes another suite's"
            )
