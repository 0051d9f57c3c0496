"""Readers of the values in a suite's file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from routebench.arguments import Count, Legal
from routebench.engine.suites._toml import Place, Reader, expect, expect_known, in_todays_words, legal
from routebench.errors import left_out, nearest
from routebench.recipe import LEGAL, NOW, STORED_AS
from routebench.recipes import NAME, recipes


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are(check: Callable[[Any], bool], value: Any) -> bool:
    """Tells whether this is a list of different values that pass a check."""
    return isinstance(value, list) and bool(value) and all(map(check, value)) and len(set(value)) == len(value)


def _are_names(value: Any) -> bool:
    return _is_text(value) or _are(_is_text, value)


def _tuple(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _of_all(check: Callable[[Any], bool], value: Any) -> bool:
    """Tells whether this is a table of values that pass a check."""
    return isinstance(value, Mapping) and all(map(check, value.values()))


def text(said: str) -> Reader:
    """A reader of text that is not empty; `said` names what it is."""
    return expect(said, _is_text)


def line(said: str) -> Reader:
    """A reader of text that fits into one line of a list or a table; `said` names what it is."""
    return expect(f"{said}, in one line", lambda value: _is_text(value) and value.splitlines() == [value])


def different(reader: Reader) -> Reader:
    """A reader of a list no two values of which are the same in a table, where numbers have six digits."""

    def read_value(value: Any, place: Place) -> Any:
        found = reader(value, place)
        told = [f"{one:g}" if isinstance(one, float) else one for one in found] if isinstance(value, list) else []
        if len(set(told)) < len(told):
            raise place.wrong(f"expected different values, got {value!r}")
        return found

    return read_value


def counts(value: Any, place: Place) -> tuple[int, ...]:
    """Different counts, the smallest first."""
    found: tuple[int, ...] = legal(Legal.of(list[Count]))(value, place)
    if len(set(found)) < len(found):
        raise place.wrong(f"expected different integers, got {value!r}")
    return tuple(sorted(found))


def first_seeds(value: Any, place: Place) -> range:
    """The seeds from 0 on, as many as a number says."""
    return range(legal(Legal.of(Count))(value, place))


PROTOCOL = text("the name of a protocol")
NAMES = expect("a list of different names", partial(_are, _is_text), tuple)
NETWORKS = expect("the name of a model, or a list of different ones", _are_names, _tuple)
BESIDE = expect(
    "a table of names", partial(_of_all, _are_names), lambda value: {key: _tuple(one) for key, one in value.items()}
)
SENTENCES = expect("a table of sentences by data set", partial(_of_all, _is_text))


def _recipe_name(value: Any, place: Place) -> str:
    name: str = text("the name of a recipe")(value, place)
    if name not in recipes():
        raise place.wrong(f"unknown recipe {name!r}{nearest(name, recipes())}{left_out()}")
    return name


_TRAINING = {NAME: _recipe_name, **{NOW.get(name, name): legal(allowed) for name, allowed in LEGAL.items()}}


def recipe_table(value: Any, place: Place) -> dict[str, Any]:
    """The settings of a recipe that a table gives."""
    table = expect_known(in_todays_words(value, place, NOW), place, _TRAINING)
    return {STORED_AS.get(key, key): _TRAINING[key](one, place.below(key)) for key, one in table.items()}
