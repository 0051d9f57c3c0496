"""Checks what programs give to the public functions: texts, paths, numbers, and lists of them."""

import errno
import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from routebench.errors import UserError, nearest

P = ParamSpec("P")
R = TypeVar("R")
ACCEPTED = {
    str: (str, "text"), Path: (os.PathLike, "a path"), float: (Real, "a number"), int: (Integral, "a whole number"),
    bool: (bool, "true or false"), NoneType: (NoneType, "none"), Sequence: (Collection, "a list of these"),
    range: (range, "a range"),
}  # fmt: skip
"""The types that are accepted where a type is annotated, and their name in words."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function, so that each call checks the arguments whose annotations name only types of `ACCEPTED`.

    Raises:
        UserError: one has another type, or is an empty path, or one that no file can have.
        TypeError: an argument has another name.
    """
    signature = inspect.signature(function)
    kinds = {name: _kinds(one.annotation) for name, one in signature.parameters.items()}
    takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if strange := [name for name in kwargs if name not in kinds and not takes_any]:
            hint = nearest(strange[0], kinds)
            raise TypeError(f"{function.__name__}() got an unexpected argument {strange[0]!r}{hint}")
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if ACCEPTED.keys() >= {*kinds[name]}:
                _expect(name, value, kinds[name])
        return function(*args, **kwargs)

    return call


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, or of one annotation; of a list, that it is one."""
    members = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return tuple(get_origin(member) or member for member in members)


def _expect(name: str, value: Any, kinds: Sequence[Any]) -> None:
    """Raises UserError for a value of none of the types; elements of a list are of the others."""
    single = [kind for kind in kinds if kind is not Sequence]
    if len(single) < len(kinds) and isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
        for one in value:
            _expect(name, one, single)
        return
    types = tuple(ACCEPTED[kind][0] for kind in single)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in single):
        words = " or ".join(dict.fromkeys(ACCEPTED[kind][1] for kind in kinds))
        raise UserError(f"{name}: expected {words}, got {value!r:.80}")
    if Path in single and isinstance(value, str | os.PathLike):
        if not os.fspath(value):  # such as a variable that is not set: not the current folder
            raise UserError(f"{name}: expected a path, got an empty one")
        try:
            os.lstat(value)
        except ValueError as error:  # a null byte
            raise UserError(f"{name}: expected a path, got {str(value)!r:.80}: {error}") from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise UserError(f"{name}: expected a path, got {str(value)!r:.80}: {error.strerror}") from error
