"""Messages between processes: one line of JSON each. Nothing of them is run, and nobody waits for the rest of one.

The annotations of dataclasses say what a value may be. Whatever else arrives is refused: its sender may run code of
others.
"""

import json
import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

LONGEST = 1 << 30  # bytes of a message
CHUNK = 1 << 20
DIGITS = 20  # of an integer: more than any file holds


class Unreadable(Exception):
    """A message cannot be read, or is not of the type that was expected."""


class Inbox:
    """The messages that arrive at a file descriptor, read as far as they are there.

    Args:
        descriptor: the reading end of a pipe.
    """

    def __init__(self, descriptor: int):
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._read = bytearray()
        self._looked = 0

    def next(self) -> tuple[str, Any] | None:
        """Kind and content of the next message that is complete; None if there is none yet.

        Raises:
            Unreadable: it is no message.
            EOFError: its sender has closed the other end.
        """
        while (end := self._read.find(b"\n", self._looked)) < 0:
            self._looked = len(self._read)
            if self._looked > LONGEST:
                raise Unreadable
            try:
                more = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                return None
            if not more:
                raise EOFError
            self._read += more
        line, self._looked = bytes(self._read[:end]), 0
        del self._read[: end + 1]
        try:
            kind, content = json.loads(line, parse_int=_whole)
        except (ValueError, TypeError, RecursionError) as error:
            raise Unreadable from error
        if not isinstance(kind, str):
            raise Unreadable
        return kind, content


def line_of(kind: str, content: Any) -> bytes:
    """A message as it is sent.

    Raises:
        TypeError: the content has a part that no message holds.
    """
    return json.dumps([kind, plain(content)]).encode() + b"\n"


def plain(value: Any) -> Any:
    """A value as JSON has it; a dataclass as a table under its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, range):
        value = [value.start, value.stop, value.step]
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(one) for key, one in value.items()}
        return [[plain(key), plain(one)] for key, one in value.items()]
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.init}}
    if isinstance(value, Enum | Path):
        return value.name if isinstance(value, Enum) else str(value)
    raise TypeError(f"expected what JSON holds, got {type(value).__name__}")


def taken(kind: Any, value: Any) -> Any:
    """The value that `plain` was given, of the type that an annotation names.

    Args:
        kind: the annotation of its type.
        value: as the message has it.

    Raises:
        Unreadable: it is of another type.
    """
    try:
        return _taken(kind, value)
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise Unreadable from error


def _taken(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin is not None:
        return _taken_by(origin, get_args(kind), value)
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind, value)
    found = value
    if kind is float and type(value) is int:
        found = float(value)
    elif issubclass(kind, Enum):
        found = kind[_expect(str, value)]
    elif issubclass(kind, Path):
        found = Path(_expect(str, value))
    elif issubclass(kind, range):
        start, stop, step = (_expect(int, one) for one in _expect(list, value))
        found = range(start, stop, step)
    elif kind is not Any:
        _expect(kind, value)
    return found


def _taken_by(origin: Any, inner: Sequence[Any], value: Any) -> Any:
    if origin in (typing.Union, types.UnionType):
        found = _one_of(inner, value)
    elif origin is Literal:
        found = inner[inner.index(value)]
    elif issubclass(origin, Mapping):
        found = _table(inner, value)
    elif issubclass(origin, tuple):
        found = _tuple(inner, value)
    else:
        made = list if issubclass(origin, Sequence) else origin
        found = made([_taken(inner[0], one) for one in _expect(list, value)])
    return found


def _dataclass(kind: type, value: Any) -> Any:
    ((name, content),) = _expect(dict, value).items()
    if name != kind.__name__:
        raise TypeError
    known = _hints(kind)
    return kind(**{key: _taken(known[key], one) for key, one in _expect(dict, content).items()})


def _one_of(kinds: Sequence[Any], value: Any) -> Any:
    for kind in kinds:
        try:
            return _taken(kind, value)
        except (TypeError, ValueError, KeyError):
            continue
    raise TypeError


def _table(inner: Sequence[Any], value: Any) -> dict[Any, Any]:
    pairs = value.items() if isinstance(value, dict) else [(key, one) for key, one in _expect(list, value)]
    return {_taken(inner[0], key): _taken(inner[1], one) for key, one in pairs}


def _tuple(inner: Sequence[Any], value: Any) -> tuple[Any, ...]:
    found = _expect(list, value)
    of = [inner[0]] * len(found) if inner[-1] is Ellipsis else inner
    return tuple(_taken(kind, one) for kind, one in zip(of, found, strict=True))


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError
    return int(digits)


_known: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass, of the fields that it is made with."""
    if kind not in _known:
        found = get_type_hints(kind)
        _known[kind] = {one.name: found[one.name] for one in fields(kind) if one.init}
    return _known[kind]
