"""Recipes of the papers by name. A suite's `[training]` table takes one as `recipe = "NAME"`; its other keys win.

They stand in `recipes.toml`: beside this file, in the folders of papers, and in plug-in folders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from routebench.errors import UserError, nearest, one_line, unknown
from routebench.plain import from_toml
from routebench.received import permitted, read_plain
from routebench.recipe import LEGAL, STORED_AS, Recipe
from routebench.registry import beside

NAME = "recipe"
"""The key of a training table that names one."""
FILE = "recipes.toml"


@dataclass(frozen=True)
class NamedRecipe:
    """The training settings of a paper.

    Args:
        source: who trains so, and what the settings are for.
        settings: settings of a `routebench.recipe.Recipe`; any other is left to its default, and so not known.
    """

    source: str
    settings: Mapping[str, Any]


def recipes() -> Mapping[str, NamedRecipe]:
    """Named recipes: those of routebench, then those of loaded plug-ins. `routebench list recipes` shows them.

    Raises:
        UserError: a file cannot be read, or a recipe in it is wrong, or there already.
    """
    return _read((Path(__file__).with_name(FILE), *beside(FILE)))


@cache
def _read(files: tuple[Path, ...]) -> Mapping[str, NamedRecipe]:
    tables: dict[str, dict[str, Any]] = {}
    places: dict[str, Path] = {}
    for file in files:
        try:
            found = from_toml(read_plain(permitted(file), named=True)[0])
        except (OSError, ValueError) as error:
            raise UserError(f"recipes {file}: cannot be read ({one_line(error)}); correct the file") from error
        for name, table in found.items():
            if name in tables:
                raise UserError(f"recipe {name!r} of {file} is there already; choose another name")
            if not isinstance(table, dict) or not isinstance(table.get("source"), str):
                raise UserError(f"recipe {name!r} of {file}: expected a table with a text 'source', got {table!r:.80}")
            if strange := [key for key in table if key not in {*LEGAL, *STORED_AS, "source", NAME}]:
                raise UserError(f"recipe {name!r} of {file}: unknown key {strange[0]!r}{nearest(strange[0], LEGAL)}")
            for now, stored in STORED_AS.items():
                if now in table and stored in table:
                    raise UserError(f"recipe {name!r} of {file}: expected one of {now!r} and {stored!r}, got both")
            tables[name], places[name] = table, file
    for name in tables:
        try:
            Recipe(**_settings(name, tables))
        except UserError as error:
            raise UserError(f"recipe {name!r} of {places[name]}: {error}") from error
    return MappingProxyType({
        name: NamedRecipe(table["source"], MappingProxyType(_settings(name, tables))) for name, table in tables.items()
    })  # fmt: skip


def _settings(name: str, tables: Mapping[str, Mapping[str, Any]], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of one, with those of the recipe that it names under its own."""
    if name not in tables:
        raise unknown("recipe", name, tables)
    if name in above:
        raise UserError("expected a recipe that does not take its own settings; name another")
    own = {
        STORED_AS.get(key, key): tuple(value) if isinstance(value, list) else value
        for key, value in tables[name].items()
    }
    under = own.pop(NAME, None)
    del own["source"]
    return own if under is None else {**_settings(str(under), tables, (*above, name)), **own}


def settings_of(name: str) -> Mapping[str, Any]:
    """The settings of a named recipe.

    Raises:
        UserError: there is none of that name.
    """
    known = recipes()
    if name not in known:
        raise unknown("recipe", name, known)
    return known[name].settings


def merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """One table from several: the settings of the recipe that is named last, under all that the tables write out.

    A later table's key replaces an earlier one's. A key that is written out, in whichever table, replaces that of a
    recipe: a preset's `batch_size = 32` holds for a method with `recipe = "sabour"`, which has 128.

    Raises:
        UserError: a recipe has no such name.
    """
    written: dict[str, Any] = {}
    for table in tables:
        written |= table
    name = written.pop(NAME, None)
    return written if name is None else {**settings_of(name), **written}
