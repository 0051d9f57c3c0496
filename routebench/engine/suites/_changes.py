"""Changes of a preset that the user makes in the command, as if they stood in the suite's file."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from routebench.data_names import whole_name
from routebench.errors import UserError
from routebench.plain import TOO_LONG

OPTION = "--set"
OF_EXTENT = ("iterations", "model", "seeds", "variant_iterations", "without")
"""Keys of a preset that say which runs there are, and not how one is made."""


def changed(content: Mapping[str, Any], preset: str, changes: Sequence[str]) -> dict[str, Any]:
    """The content of a suite's file with changes of one preset's table.

    Args:
        content: the content of the file; it stays as it is.
        preset: name of the preset. One that is not there stays away.
        changes: texts such as `training.epochs=20`; what follows the sign is read as TOML, or else is a text.

    Raises:
        UserError: a change is no key and value, or a key is there twice or leads through what is no table.
    """
    presets = content.get("presets", {})
    if not isinstance(presets, Mapping) or preset not in presets:  # who reads the content says what is wrong
        return dict(content)
    presets = {**presets}
    seen: set[tuple[str, ...]] = set()
    for change in changes:
        keys, value = _parsed(change)
        if any(keys[: len(one)] == one or one[: len(keys)] == keys for one in seen):
            raise UserError(f"{OPTION} {change}: expected each key once, got {'.'.join(keys)} again")
        seen.add(keys)
        presets[preset] = _with(presets[preset], keys, value, change)
    return {**content, "presets": presets}


def key_of(change: str) -> str:
    """The key of a preset's table that a change begins with, such as `training`."""
    return change.partition("=")[0].split(".")[0].strip()


def expect_once(changes: Sequence[str], options: Mapping[str, Sequence[str]]) -> None:
    """Raises UserError for a change of a key that an option writes as well.

    Args:
        changes: as for `changed`.
        options: options that are given, each with the keys that it writes; `*` is any key.
    """
    given = {change: _parsed(change) for change in changes}
    taking = {f"{OPTION} {change}": ["take"] for change, (keys, value) in given.items() if _takes(keys, value)}
    for change, (above, value) in given.items():
        for keys in _leaves(above, value):
            for option, written in {**options, **taking}.items():
                for key in written:
                    if all(one in (own, "*") for own, one in zip(keys, key.split("."), strict=False)):
                        way = "" if key == written[0] else f", or give {written[0]} with {OPTION} in its place"
                        raise UserError(
                            f"{OPTION} {change}: expected {key} once, and {option} replaces it as well; keep one{way}"
                        )


def _takes(keys: tuple[str, ...], value: Any) -> bool:
    """Tells whether a change names a data set with the number of images to take of it."""
    return keys == ("data",) and isinstance(value, str) and whole_name(value) != value


def _leaves(keys: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """The keys that a change writes, below tables too."""
    if not isinstance(value, Mapping):
        yield keys
        return
    for key, below in value.items():
        yield from _leaves((*keys, key), below)


def _parsed(change: str) -> tuple[tuple[str, ...], Any]:
    key, equals, text = change.partition("=")
    keys = tuple(key.strip().split("."))
    if not equals or not all(keys) or not text.strip():
        raise UserError(f"{OPTION} {change}: expected KEY=VALUE, such as training.epochs=20")
    try:
        read = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return keys, text.strip()
    except ValueError as error:  # Python converts no longer ones
        raise UserError(f"{OPTION} {key}: {TOO_LONG}") from error
    return keys, read["value"] if len(read) == 1 else text.strip()


def _with(table: Any, keys: Sequence[str], value: Any, change: str) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise UserError(f"{OPTION} {change}: expected a table before {keys[0]!r}, got {table!r:.60}")
    first, *rest = keys
    return {**table, first: _with(table.get(first, {}), rest, value, change) if rest else value}
