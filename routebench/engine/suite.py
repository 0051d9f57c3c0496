"""Suite files: a question, a protocol, and the grid that answers it, read and checked."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from routebench.errors import UserError, nearest, unknown
from routebench.recipe import Recipe
from routebench.registry import shipped

RECIPE_KEYS = {entry.name: entry.type for entry in fields(Recipe)}
KINDS: dict[Any, tuple[type, ...]] = {float: (float, int), int: (int,), str: (str,), bool: (bool,)}
"""What TOML may have for a recipe's type; anything else is a list."""
SUITE_KEYS = ("question", "version", "protocol", "training", "methods", "controls", "presets")
ENTRY_KEYS = ("name", "params", "training", "iterations")
PRESET_KEYS = ("data", "model", "model_params", "cnn", "iterations", "seeds", "options", "training")


@dataclass(frozen=True)
class Entry:
    """A method, or a control, of a suite.

    Args:
        name: of a registered routing method, or `cnn` for the preset's network without capsules.
        params: hyperparameters that differ from the method's defaults.
        training: keys of the recipe that differ from the suite's.
        iterations: the grid, where it is not the preset's.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    iterations: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Preset:
    """One size of a suite.

    Args:
        data, model, cnn: names; `cnn` is the network without capsules that controls for `model`.
        iterations: that iterative methods are trained with.
        seeds: how many, counted from 0.
        options: of the protocol.
        training: keys of the recipe that differ from the suite's.
        model_params: arguments of the model.
    """

    name: str
    data: str
    model: str
    iterations: tuple[int, ...]
    seeds: int
    cnn: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    model_params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A suite file.

    Args:
        name: the file's name without `.toml`.
        file: where it was read from.
        version: raised when results are no longer comparable with earlier ones.
    """

    name: str
    file: Path
    question: str
    version: int
    protocol: str
    training: Mapping[str, Any]
    methods: tuple[Entry, ...]
    controls: tuple[Entry, ...]
    presets: Mapping[str, Preset]

    def preset(self, name: str) -> Preset:
        """A preset by name.

        Raises:
            UserError: the suite has none of this name.
        """
        if name not in self.presets:
            raise unknown(f"preset of suite {self.name!r}", name, self.presets)
        return self.presets[name]

    def recipe(self, preset: Preset, entry: Entry) -> Recipe:
        """How an entry is trained under a preset: the suite's keys, the preset's, then its own."""
        merged = {**self.training, **preset.training, **entry.training}
        merged = {key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()}
        try:
            return Recipe(**merged)
        except UserError as error:
            raise UserError(f"{self.file.name}: {entry.name}, preset {preset.name}: {error}") from error


def suite_names() -> list[str]:
    """The suites that travel with the package."""
    return sorted(file.stem for file in shipped("suites").glob("*.toml"))


def load_suite(name: str) -> Suite:
    """Reads a suite.

    Args:
        name: of a shipped suite, or the path of a `.toml` file.

    Raises:
        UserError: there is no such suite or file, or the file is not a valid suite; the message names file and key.
    """
    if name.endswith(".toml"):
        file = Path(name)
        if not file.is_file():
            raise UserError(f"suite file {name!r}: no such file")
    elif name in suite_names():
        file = shipped("suites") / f"{name}.toml"
    else:
        raise unknown("suite", name, suite_names())
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file.name}: not a valid TOML file: {error}") from error
    return _Reader(file).suite(content)


class _Reader:
    """Takes a parsed file apart; every complaint names the file, the key and what was expected."""

    def __init__(self, file: Path):
        self.file = file

    def suite(self, content: dict[str, Any]) -> Suite:
        self.known(content, SUITE_KEYS, "")
        presets = self.need(content, "presets", dict, "")
        if not presets:
            raise self.wrong("presets", "at least one preset", "an empty table")
        methods = self.need(content, "methods", list, "")
        if not methods:
            raise self.wrong("methods", "at least one method", "an empty list")
        return Suite(
            name=self.file.stem,
            file=self.file,
            question=self.need(content, "question", str, ""),
            version=self.need(content, "version", int, ""),
            protocol=self.need(content, "protocol", str, ""),
            training=self.training(content, ""),
            methods=tuple(self.entry(entry, f"methods[{number}].") for number, entry in enumerate(methods)),
            controls=tuple(
                self.entry(entry, f"controls[{number}].")
                for number, entry in enumerate(self.take(content, "controls", list, "", []))
            ),
            presets={name: self.preset(name, table) for name, table in presets.items()},
        )

    def entry(self, table: Any, where: str) -> Entry:
        self.table(table, where)
        self.known(table, ENTRY_KEYS, where)
        grid = self.iterations(table, where) if "iterations" in table else None
        return Entry(
            self.need(table, "name", str, where),
            self.take(table, "params", dict, where, {}),
            self.training(table, where),
            grid,
        )

    def preset(self, name: str, table: Any) -> Preset:
        where = f"presets.{name}."
        self.table(table, where)
        self.known(table, PRESET_KEYS, where)
        seeds = self.need(table, "seeds", int, where)
        if seeds < 1:
            raise self.wrong(f"{where}seeds", "at least 1", repr(seeds))
        return Preset(
            name=name,
            data=self.need(table, "data", str, where),
            model=self.need(table, "model", str, where),
            iterations=self.iterations(table, where),
            seeds=seeds,
            cnn=self.take(table, "cnn", str, where, None),
            options=self.take(table, "options", dict, where, {}),
            training=self.training(table, where),
            model_params=self.take(table, "model_params", dict, where, {}),
        )

    def iterations(self, table: dict[str, Any], where: str) -> tuple[int, ...]:
        grid = self.need(table, "iterations", list, where)
        if not grid:
            raise self.wrong(f"{where}iterations", "at least one number of iterations", "an empty list")
        for value in grid:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise self.wrong(f"{where}iterations", "whole numbers of at least 1", repr(value))
        return tuple(sorted(set(grid)))

    def training(self, table: dict[str, Any], where: str) -> dict[str, Any]:
        found: dict[str, Any] = self.take(table, "training", dict, where, {})
        self.known(found, tuple(RECIPE_KEYS), f"{where}training.")
        for key, value in found.items():
            expected = RECIPE_KEYS[key]
            kinds = KINDS.get(expected, (list,))
            if not isinstance(value, kinds) or (isinstance(value, bool) and expected is not bool):
                name = getattr(expected, "__name__", str(expected))
                raise self.wrong(f"{where}training.{key}", f"a value of type {name}", repr(value))
        return found

    def known(self, table: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in keys:
                raise UserError(f"{self.file.name}: unknown key '{where}{key}'{nearest(key, keys)}")

    def table(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise self.wrong(where.rstrip("."), "a table", repr(value))

    def need(self, table: dict[str, Any], key: str, kind: type, where: str) -> Any:
        if key not in table:
            raise UserError(
                f"{self.file.name}: key '{where}{key}' is missing; expected a value of type {kind.__name__}"
            )
        return self.take(table, key, kind, where, None)

    def take(self, table: dict[str, Any], key: str, kind: type, where: str, default: Any) -> Any:
        value = table.get(key, default)
        if key in table and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise self.wrong(f"{where}{key}", f"a value of type {kind.__name__}", repr(value))
        return value

    def wrong(self, key: str, expected: str, got: str) -> UserError:
        return UserError(f"{self.file.name}: key '{key}': expected {expected}, got {got}")
