"""Reads tables of a file into frozen types, strictly: nothing is ignored, an error names file, key and expectation.

The annotation of a field names its type and the reader of its key: `seeds: Annotated[int, COUNT]`, or with another key
`models: Annotated[tuple[str, ...], MODELS, "model"]`. A field without a reader is not in the file.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

from routebench.errors import UserError, nearest

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
        return UserError(f"{self.file}: key {self.path!r}: {told}")


Reader = Callable[[Any, Place], Any]
"""From what stands at a place of a file to what a type holds."""


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


def read(kind: type[Kind], value: Any, place: Place, also: Collection[str] = (), **given: Any) -> Kind:
    """A frozen type from the table that holds its fields.

    Args:
        kind: the type.
        value: the table.
        place: of the table.
        also: keys that are read elsewhere.
        given: fields that are not in the file.

    Raises:
        UserError: a key is unknown or missing, or its value is not what its reader expects.
    """
    hints = get_type_hints(kind, include_extras=True)
    marks = {name: hint.__metadata__ for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    names = {mark[1] if len(mark) > 1 else name: name for name, mark in marks.items()}
    content = expect_known(value, place, [*names, *also])
    needed = {one.name for one in fields(kind) if one.default is one.default_factory is MISSING}  # type: ignore[arg-type]
    for key, name in names.items():
        if key in content or name in needed:
            given[name] = marks[name][0](content.get(key, NOTHING), place.below(key))
    return kind(**given)
