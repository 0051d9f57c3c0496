"""Reads tables of a TOML or JSON file into frozen types, strictly: an error names file, key and expectation.

The annotation of a field says what its key may hold: `seeds: Count`. Text and tables need a reader of their own, and
a key may have another name than its field: `models: Annotated[tuple[str, ...], NETWORKS, "model"]`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

from routebench.arguments import Legal
from routebench.errors import UserError, nearest
from routebench.registry import extensions

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Place:
    """A key of a file, such as `presets.quick.seeds`; empty at the top."""

    file: str
    path: str = ""

    def below(self, key: str) -> "Place":
        """A key of the table that stands here."""
        return Place(self.file, f"{self.path}.{key}" if self.path else key)

    def wrong(self, told: str) -> UserError:
        """The error for what stands here."""
        return UserError(f"{self.file}: key {self.path!r}: {told}" if self.path else f"{self.file}: {told}")


Reader = Callable[[Any, Place], Any]
"""Turns what stands at a place of a file into what a type holds."""


def in_todays_words(value: Any, place: Place, former: Mapping[str, str]) -> Any:
    """A table whose keys have their names of today, in place of former ones, which are told.

    Args:
        value: a table, or what is there in its place.
        place: place of the value.
        former: former names of keys, and those of today.

    Raises:
        UserError: a key is there by both names.
    """
    if not isinstance(value, Mapping):
        return value
    for old, now in former.items():
        if old in value and now in value:
            raise place.below(now).wrong(f"expected one of {now!r} and its former name {old!r}, got both")
        if old in value:
            key = place.below(old).path
            extensions.warn(f"{place.file}: key {key!r} is {now!r} now; the old name is read until the next release")
    return {former.get(key, key): one for key, one in value.items()}


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""Stands for the value of a key that is missing."""


def expect(said: str, check: Callable[[Any], bool], into: Callable[[Any], Any] = lambda value: value) -> Reader:
    """A reader of values that pass a check, which `said` names; `into` makes of them what a type holds."""

    def read_value(value: Any, place: Place) -> Any:
        if not check(value):
            raise place.wrong(f"expected {said}, got {value!r}")
        return into(value)

    return read_value


def legal(allowed: Legal) -> Reader:
    """A reader of legal values. A list in a file is not empty."""

    def read_value(value: Any, place: Place) -> Any:
        fault = f"expected {allowed}, got {value!r}" if value == [] else allowed.fault(value)
        if fault:
            raise place.wrong(fault)
        return allowed.take(place.path, value)

    return read_value


TABLE = expect("a table", lambda value: isinstance(value, Mapping))
_TABLES = expect("an array of tables, [[...]]", lambda value: isinstance(value, list))


def each(reader: Reader) -> Reader:
    """A reader of an array of tables."""
    return lambda value, place: tuple(
        reader(one, Place(place.file, f"{place.path}[{number}]")) for number, one in enumerate(_TABLES(value, place))
    )


def by_key(reader: Reader) -> Reader:
    """A reader of a table with any keys."""
    return lambda value, place: {key: reader(one, place.below(key)) for key, one in TABLE(value, place).items()}


def expect_known(value: Any, place: Place, known: Collection[str]) -> Mapping[str, Any]:
    """The table that stands at a place, if it has no other keys than the known ones."""
    content: Mapping[str, Any] = TABLE(value, place)
    for key in content:
        if key not in known:
            raise place.below(key).wrong(f"unknown{nearest(key, known)}")
    return content


def read_table(kind: type[Kind], value: Any, place: Place, also: Collection[str] = (), **given: Any) -> Kind:
    """A frozen type from the table that holds its fields.

    Args:
        kind: the type.
        value: the table.
        place: place of the table.
        also: keys that are read elsewhere.
        given: fields that are not in the file.

    Raises:
        UserError: a key is unknown or missing, or its value is not what its reader expects.
    """
    hints = get_type_hints(kind, include_extras=True)
    known = {key: (name, reader) for name in hints if name not in given for key, reader in [_key(name, hints[name])]}
    content = expect_known(value, place, [*known, *also])
    needed = {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}  # type: ignore[arg-type]
    for key, (name, reader) in known.items():
        if key in content or name in needed:
            given[name] = reader(content.get(key, NOTHING), place.below(key))
    return kind(**given)


def _key(name: str, annotation: Any) -> tuple[str, Reader]:
    """The key of a field, and its reader."""
    extra = getattr(annotation, "__metadata__", ())
    key = next((one for one in extra if isinstance(one, str)), name)
    return key, next(filter(callable, extra), None) or legal(Legal.of(annotation))
