"""Legal values of arguments. A signature declares them once; calls are checked, and listings read them.

The values that a tuner tries stand beside them: `Annotated[Positive, Range(0.1, 10, "log")]`.

>>> class Sharp:
...     @checked
...     def __init__(self, *, iterations: Count = 3, start: Literal["zeros", "random"] = "zeros"):
...         self.iterations, self.start = iterations, start
>>> Sharp(iterations=0)
Traceback (most recent call last):
    ...
ValueError: iterations must be an integer of at least 1, got 0
"""

import enum
import functools
import inspect
import math
import types
import typing
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from annotated_types import Ge, Gt, Le, Lt

Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
NonNegative = Annotated[float, Ge(0.0)]
Positive = Annotated[float, Gt(0.0)]
Share = Annotated[float, Ge(0.0), Le(1.0)]

LARGEST = 3.4028234663852886e38
"""The largest number of type float32, which networks have."""

_WORDS: Mapping[type | None, str] = {bool: "true or false", str: "text", int: "an integer", float: "a number"}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Range:
    """The range in which a tuner looks for a number: `Annotated[Positive, Range(0.1, 10, "log")]`.

    Args:
        low, high: the ends; between two integers only integers are looked at.
        scale: the scale on which shares of the range are equal.

    Raises:
        ValueError: the ends are no finite numbers in order, or a logarithmic range does not start above 0.
    """

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"

    def __post_init__(self) -> None:
        ends: tuple[Any, ...] = (self.low, self.high)  # of a file, which may hold anything
        are_numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in ends)
        if not are_numbers or not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"a range must go from a number to a larger one, got {self.low!r} to {self.high!r}")
        if self.scale not in ("linear", "log"):
            raise ValueError(f"the scale of a range must be linear or log, got {self.scale!r}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"a logarithmic range must start above 0, got {self.low!r}")

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to 1 without 1, to four digits."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return min(math.floor(self._between(self.low, self.high + 1, share)), self.high)
        return float(f"{self._between(self.low, self.high, share):.4g}")

    def _between(self, low: float, high: float, share: float) -> float:
        if self.scale == "log":
            return float(low * (high / low) ** share)
        return low + (high - low) * share


@dataclass(frozen=True)
class Among:
    """Values among which a tuner looks: `Annotated[bool, Among((False, True))]`.

    Raises:
        ValueError: there are fewer than two, or two are the same.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2 or len(set(map(repr, self.values))) < len(self.values):
            raise ValueError(f"expected two different values or more to look among, got {list(self.values)!r}")

    def at(self, share: float) -> Any:
        """The value at a share, 0 to 1 without 1; each has an equal part."""
        return self.values[int(share * len(self.values))]


class Names(Sequence[str]):
    """Names that plug-ins may add to, such as those of a registry: `Annotated[str, NAMES]`.

    A value is a name, with hyperparameters in brackets where what it names has some.
    """

    @abstractmethod
    def read(self, value: Any) -> str:
        """The value in the one form that stands in results.

        Raises:
            ValueError: it is not legal; the message says all of it.
        """


@dataclass(frozen=True)
class Legal:
    """The legal values of an argument.

    Args:
        kind: `int`, `float`, `bool`, `str`, `list` or `tuple`; None if anything is legal, or `choices` decide.
        choices: all legal values, if they are few; else empty.
        bounds: bounds of a number, from `annotated_types`.
        each: the legal values of the elements of a list.
        optional: whether None is legal.
        tuned: the values that a tuner tries; None if it stays as it is.
    """

    kind: type | None = None
    choices: Sequence[Any] = ()
    bounds: tuple[Ge | Gt | Le | Lt, ...] = ()
    each: "Legal | None" = None
    optional: bool = False
    tuned: Range | Among | None = None

    @classmethod
    def of(cls, annotation: Any) -> "Legal":
        """Reads an annotation: `Literal`, an enumeration, bool, str, a number with or without bounds, a list of these.

        None may stand beside any of them. `Annotated[str, Literal["a", "b"]]` is for words that callers put together.
        """
        tuned = [extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, Range | Among)]
        return replace(cls._of(annotation), tuned=tuned[0] if tuned else None)

    @classmethod
    def _of(cls, annotation: Any) -> "Legal":
        bounds: tuple[Any, ...] = ()
        if typing.get_origin(annotation) is Annotated:
            annotation, *extra = typing.get_args(annotation)
            bounds = tuple(bound for bound in extra if isinstance(bound, Ge | Gt | Le | Lt))
            words = (one for one in extra if typing.get_origin(one) is Literal or isinstance(one, Names))
            annotation = next(words, annotation)
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Union, types.UnionType):
            members = [member for member in inner if member is not type(None)]
            if len(members) == len(inner) or len(members) > 1:
                return cls()
            known = cls._of(members[0])
            return replace(known, bounds=known.bounds or bounds, optional=True)
        if origin is Literal or isinstance(annotation, Names):
            return cls(choices=annotation if isinstance(annotation, Names) else inner)
        if origin in (list, Sequence) or inner[1:] == (...,):
            return cls(list if origin is list else tuple, each=cls._of(inner[0]))
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return cls(choices=tuple(annotation))
        return cls(annotation if annotation in (int, float, bool, str) else None, bounds=bounds)

    def __str__(self) -> str:
        """`an integer of at least 1`, `one of gru, replace`; empty where anything is legal."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        if self.each is not None:
            return f"a list, each {self.each}"
        return " ".join([_WORDS.get(self.kind, ""), *self._limits()])

    def _limits(self) -> list[str]:
        match self.bounds:
            case (Ge(least), Le(most)):
                return [f"from {least:g} to {most:g}"]
        words = {Ge: "of at least", Gt: "above", Le: "of at most", Lt: "below"}
        told = [f"{words[type(bound)]} {getattr(bound, type(bound).__name__.lower()):g}" for bound in self.bounds]
        return [" and ".join(told)] if told else []

    def take(self, name: str, value: Any) -> Any:
        """Checks a value and returns it as Python's int, float or tuple where it is a number or a list.

        Args:
            name: name of the argument, for the message.
            value: as given.

        Raises:
            ValueError: the value is not legal. The message names the argument, the legal values and the value.
        """
        if isinstance(self.choices, Names):
            return self.choices.read(value)
        if not self.fits(value):
            raise ValueError(f"{name} must be {self}{', or none' if self.optional else ''}, got {self._told(value)}")
        return self._as_declared(value)

    def fault(self, value: Any) -> str:
        """Says why a value is not legal: what is expected, and what came; empty if it is."""
        if isinstance(self.choices, Names):
            try:
                self.choices.read(value)
            except ValueError as error:
                return str(error)
            return ""
        return "" if self.fits(value) else f"expected {self}, got {self._told(value)}"

    def fits(self, value: Any) -> bool:
        """Tells whether a value is legal."""
        if isinstance(self.choices, Names):
            return not self.fault(value)
        if value is None and self.optional:
            return True
        if self.choices:
            return value in self.choices
        if self.each is not None:
            return isinstance(value, list | tuple) and all(map(self.each.fits, value))
        if self.kind in (int, float):
            return self._is_number(value) and all(_holds(bound, value) for bound in self.bounds)
        return self.kind is None or isinstance(value, self.kind)

    def _is_number(self, value: Any) -> bool:
        kind: Any = Integral if self.kind is int else Real
        return isinstance(value, kind) and not isinstance(value, bool) and bool(abs(value) <= LARGEST)  # NaN is not

    def _told(self, value: Any) -> str:
        """A value that is not legal, with the reason where only its size is one."""
        too_large = self.kind is float and isinstance(value, int | float) and LARGEST < abs(value) < math.inf
        return f"{value!r:.80}{', which float32 cannot hold' if too_large else ''}"

    def _as_declared(self, value: Any) -> Any:
        if value is None:
            return None
        if self.each is not None:
            value = map(self.each._as_declared, value)
        return self.kind(value) if self.kind not in (None, bool, str) else value


def _holds(bound: Ge | Gt | Le | Lt, value: Any) -> bool:
    match bound:
        case Ge(least):
            return bool(value >= least)
        case Gt(limit):
            return bool(value > limit)
        case Le(most):
            return bool(value <= most)
        case Lt(limit):
            return bool(value < limit)


def legal_values(function: Callable[..., Any]) -> Mapping[str, Legal]:
    """The legal values of each argument, by its annotation. An annotation that cannot be read allows anything."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        hints = {}
    return {name: Legal.of(hints.get(name)) for name in inspect.signature(function).parameters}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function, so that each call checks its arguments by their annotations."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        legal = legal_values(function)
        for name, value in given.arguments.items():
            given.arguments[name] = legal[name].take(name, value)
        return function(*given.args, **given.kwargs)

    return call
