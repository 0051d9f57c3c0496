"""Checks what programs give to the public functions: texts, paths, numbers, and lists of them."""

import errno
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

from routebench.arguments import Legal
from routebench.errors import UserError, nearest

P = ParamSpec("P")
R = TypeVar("R")
ACCEPTED = {
    str: (str, "text"), Path: (os.PathLike, "a path"), float: (Real, "a number"), int: (Integral, "an integer"),
    bool: (bool, "true or false"), NoneType: (NoneType, "none"), Sequence: (Collection, "a list of these"),
    range: (range, "a range"),
}  # fmt: skip
"""The types that are accepted where a type is annotated, and their name in words."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function, so that each call checks the arguments whose annotations name only types of `ACCEPTED`.

    Bounds that are annotated, as those of `routebench.arguments.Count`, are checked with them.

    Raises:
        UserError: one has another type, or is beyond its bounds, or is an empty path, or one that no file can have.
        TypeError: an argument has another name.
    """
    signature = inspect.signature(function)
    kinds = {name: _kinds(one.annotation) for name, one in signature.parameters.items()}
    takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not takes_any:
            expect_known(function.__name__, kwargs, kinds)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if all(map(_is_known, kinds[name])) and (told := _fault(value, kinds[name])):
                raise UserError(f"{name}: {told}")
        return function(*args, **kwargs)

    return call


def several(given: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    """One or several, as a tuple of texts."""
    return (str(given),) if isinstance(given, str | os.PathLike) else tuple(map(str, given))


def expect_known(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises TypeError, with the nearest name, for an argument that a function does not know.

    Args:
        function: name of the function, for the message.
        given: names of the arguments that it was given.
        known: names of those that it takes.
    """
    if strange := [name for name in given if name not in known]:
        raise TypeError(f"{function}() got an unexpected argument {strange[0]!r}{nearest(strange[0], known)}")


def fault_of(value: Any, annotation: Any) -> str:
    """Says why an annotation of types of `ACCEPTED` does not allow a value, as `checked` does; empty if it does.

    Args:
        value: as given.
        annotation: the annotation of the argument.
    """
    return _fault(value, _kinds(annotation))


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, or of one annotation; of a list, that it is one, and the types of its elements.

    A type with something annotated stands as its legal values.
    """
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    elements = [kind for one in members if get_origin(one) is Sequence for own in get_args(one) for kind in _kinds(own)]
    return tuple(dict.fromkeys((*map(_kind, members), *elements)))


def _kind(member: Any) -> Any:
    return Legal.of(member) if get_origin(member) is Annotated else get_origin(member) or member


def _is_known(kind: Any) -> bool:
    return bool(str(kind)) if isinstance(kind, Legal) else kind in ACCEPTED


def _fault(value: Any, kinds: Sequence[Any]) -> str:
    """Says why a value is of none of the types; elements of a list are of the others."""
    single = [kind for kind in kinds if kind is not Sequence]
    if len(single) < len(kinds) and isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
        return next(filter(None, (_fault(one, single) for one in value)), "")
    if any(isinstance(kind, Legal) and kind.fits(value) for kind in single):
        return ""
    types = tuple(ACCEPTED[kind][0] for kind in single if not isinstance(kind, Legal))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in single):
        words = " or ".join(
            dict.fromkeys(str(kind) if isinstance(kind, Legal) else ACCEPTED[kind][1] for kind in kinds)
        )
        return f"expected {words}, got {value!r:.80}"
    return _fault_of_path(value) if Path in single and isinstance(value, str | os.PathLike) else ""


def _fault_of_path(value: str | os.PathLike[str]) -> str:
    if not os.fspath(value):  # such as a variable that is not set: not the current folder
        return "expected a path, got an empty one"
    try:
        os.lstat(value)
    except ValueError as error:  # a null byte
        return f"expected a path, got {str(value)!r:.80}: {error}"
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return f"expected a path, got {str(value)!r:.80}: {error.strerror}"
    return ""
