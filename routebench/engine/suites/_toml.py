"""Reads tables of a TOML file strictly: nothing in them is ignored, and an error names file, key and expectation."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from routebench.errors import UserError, nearest

Check = Callable[[Any], bool]


class Table:
    """One table of a file.

    Args:
        file: for messages.
        path: of the table in the file, such as `presets.quick`; empty at the top.
        content: what was read.
        known: the keys that it may have.

    Raises:
        UserError: a key is not known, or this is not a table.
    """

    def __init__(self, file: str, path: str, content: Any, known: Iterable[str]):
        self.file, self.path = file, path
        if not isinstance(content, Mapping):
            raise self.error("", "a table", content)
        self.content = content
        known = list(known)
        for key in content:
            if key not in known:
                raise UserError(f"{file}: key {self._full(key)!r}: unknown{nearest(key, known)}")

    def get(self, key: str, expected: str, check: Check, default: Any = None) -> Any:
        """The value of a key, checked; the default, unchecked, where it is absent."""
        if key not in self.content:
            return default
        value = self.content[key]
        if not check(value):
            raise self.error(key, expected, value)
        return value

    def need(self, key: str, expected: str, check: Check) -> Any:
        """The value of a key that must be there."""
        if key not in self.content:
            raise UserError(f"{self.file}: key {self._full(key)!r}: expected {expected}, got nothing")
        return self.get(key, expected, check)

    def inner(self, key: str, known: Iterable[str]) -> "Table":
        """The table below a key; empty where it is absent."""
        return Table(self.file, self._full(key), self.content.get(key, {}), known)

    def each(self, key: str, known: Iterable[str]) -> list["Table"]:
        """The tables of an array of tables, `[[key]]`."""
        known = list(known)
        found = self.get(key, "an array of tables, [[...]]", lambda value: isinstance(value, list), [])
        return [Table(self.file, f"{self._full(key)}[{number}]", one, known) for number, one in enumerate(found)]

    def error(self, key: str, expected: str, value: Any) -> UserError:
        """The error for a value that is not what was expected."""
        return UserError(f"{self.file}: key {self._full(key)!r}: expected {expected}, got {value!r}")

    def _full(self, key: str) -> str:
        return ".".join(part for part in (self.path, key) if part)


def text(value: Any) -> bool:
    """A string that is not empty."""
    return isinstance(value, str) and bool(value.strip())


def table(value: Any) -> bool:
    """A table, which may be empty."""
    return isinstance(value, Mapping)


def count(value: Any) -> bool:
    """An integer of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def counts(value: Any) -> bool:
    """A list of integers of at least 1, that is not empty and holds none twice."""
    return isinstance(value, list) and bool(value) and all(map(count, value)) and len(set(value)) == len(value)
