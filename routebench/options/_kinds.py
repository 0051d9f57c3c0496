"""Kinds of options, and what is made of a dataclass of options: signatures, checks, documentation.

>>> @described
... @dataclass(kw_only=True)
... class Walk:
...     days: Whole = Whole(None, "days that it takes; by default as many as it needs", "N", Ge(1))
>>> Walk(days=0)
Traceback (most recent call last):
    ...
routebench.errors.UserError: days: expected an integer of at least 1, got 0
"""

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, get_args, overload

from annotated_types import Ge, Gt, Le, Lt

from routebench import plain, quantities
from routebench.arguments import Legal
from routebench.errors import UserError
from routebench.given import expect_known, fault_of, several
from routebench.terminal import note

Given = TypeVar("Given")
Kept = TypeVar("Kept")
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

LEAST_MEMORY = 500_000_000
"""Bytes that a process with torch takes at least."""
ANSWERS = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
"""A yes and a no, in an environment variable."""


class Option(Generic[Given, Kept]):
    """An option, as a field of a dataclass: the field takes what a user gives, and keeps what it means.

    Args:
        default: the value where none is given; `...` for none.
        text: a noun phrase on what it is; `name` in it is another option.
        metavar: its placeholder in help.
        flag: its name on the command line; empty for that of the field.
        surrounds: whether it changes no number, so that an environment variable may say it for all calls.
        names: the kind of the catalogue whose names it takes, such as `methods`, for a shell to complete.
        writes: keys of a suite's preset whose values it replaces; `*` is any key.
    """

    repeats = False
    """Tells whether the command line takes it more than once."""

    def __init__(
        self,
        default: Any,
        text: str,
        metavar: str | None = None,
        *,
        flag: str = "",
        surrounds: bool = False,
        names: str = "",
        writes: Sequence[str] = (),
    ):
        self.default, self.text, self.metavar, self.flag = default, text, metavar, flag
        self.surrounds, self.names, self.writes, self.name = surrounds, names, writes, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.flag = name, self.flag or name.replace("_", "-")

    @overload
    def __get__(self, instance: None, owner: type) -> Given: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return vars(instance)[self.name]
        if self.default is ...:
            raise AttributeError(self.name)  # so that dataclasses take it for a field without a default
        return self.default

    def __set__(self, instance: Any, value: Given) -> None:
        if self.name in vars(instance):
            raise AttributeError(f"{self.name} cannot be set again: `dataclasses.replace` makes options anew")
        try:
            vars(instance)[self.name] = self.checked(value)
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from error

    @property
    def given(self) -> Any:
        """The types that a program may give."""
        bases = type(self).__orig_bases__  # type: ignore[attr-defined]  # typing gives it to subclasses
        return next(get_args(base)[0] for base in bases if get_args(base))

    def checked(self, value: Any) -> Any:
        """The meaning of a value of whatever type, which a program gives."""
        if told := fault_of(value, self.given):
            raise UserError(told)
        return None if value is None and self.default is None else self.read(value)

    def read(self, value: Any, /) -> Any:
        """The meaning of a value.

        Raises:
            UserError: it is not legal. The message says what was expected, not of which option.
        """
        return value

    def typed(self, text: str, /) -> Any:
        """The same, for the text that was typed."""
        return self.checked(text)

    @property
    def variable(self) -> str:
        """The environment variable that says it where nobody else does; empty for none."""
        return f"ROUTEBENCH_{self.name.upper()}" if self.surrounds else ""

    def from_environment(self) -> Any:
        """The meaning of its variable; `...` where that is not set, or empty.

        Raises:
            UserError: it is not legal. The message names the variable.
        """
        text = os.environ.get(self.variable, "") if self.surrounds else ""
        if not text:
            return ...
        try:
            return self.typed(text)
        except UserError as error:
            raise UserError(f"{self.variable}: {error}") from error

    @property
    def in_python(self) -> str:
        """Its text, as the documentation of a function has it."""
        return f"{self.text}."

    def in_help(self, known: Mapping[str, "Option[Any, Any]"]) -> str:
        """Its text, as the command line has it, with other options by their names there."""
        text = self.text
        for name, option in known.items():
            text = text.replace(f"`{name}`", f"--{option.flag}")
        more = " (repeatable)" * self.repeats + f" ({self.variable})" * self.surrounds
        return f"{text[0].upper()}{text[1:]}{more}."


class Text(Option[str, str]):
    """A text."""


class Argument(Option[str | Path, str]):
    """A name or a path without which there is nothing to do."""

    read = staticmethod(str)


class Name(Option[str | None, str | None]):
    """A name, or none."""


class Device(Option[str, str]):
    """The name of a device."""

    read = staticmethod(plain.device)


class Word(Option[str, str]):
    """One of a few words; arguments as for `Option`, with the words last."""

    def __init__(self, default: Any, text: str, choices: Sequence[str], **more: Any):
        super().__init__(default, text, f"[{'|'.join(choices)}]", **more)
        self.legal = Legal(choices=tuple(choices))

    def read(self, value: Any) -> str:
        """The word."""
        return str(_legal(self.legal, value, value))


class _Several:
    """One value or several, as texts."""

    repeats = True

    read = staticmethod(several)

    def typed(self, text: str) -> str:
        """One of them."""
        return str(self.checked(text)[0])  # type: ignore[attr-defined]  # it is an option


class Texts(_Several, Option[str | Sequence[str], tuple[str, ...]]):
    """One text or several."""


class Paths(_Several, Option[str | Path | Sequence[str | Path], tuple[str, ...]]):
    """One path or several, as texts."""


class Location(Option[Path | str, Path]):
    """A path."""

    read = staticmethod(Path)


class File(Option[Path | str | None, Path | None]):
    """The path of a file, or none."""

    def read(self, value: Any) -> Path:
        """The path, which has no end of a folder's: `Path` would take that away."""
        if str(value).endswith("/"):
            raise UserError(f"expected a file, got {str(value)!r}, which names a folder; name a file in it")
        return Path(value)


class OptionalFolder(Option[Path | str | None, Path | None]):
    """The path of a folder, or none."""

    read = staticmethod(Path)


class Flag(Option[bool, bool]):
    """A yes or a no to what its text says."""

    @property
    def in_python(self) -> str:
        """Its text, as the documentation of a function has it."""
        return f"whether {self.text}."


class Either(Option[bool | None, bool | None]):
    """A yes, a no, or none, where routebench chooses, to what its text says."""

    def typed(self, text: str) -> bool:
        """The answer of a text."""
        if text.lower() not in ANSWERS:
            raise UserError(f"expected one of {', '.join(ANSWERS)}, got {text!r:.80}")
        return ANSWERS[text.lower()]

    @property
    def in_python(self) -> str:
        """Its text, as the documentation of a function has it."""
        return f"whether {self.text}."


class Whole(Option[int | None, int | None]):
    """An integer of at most 64 bits, or none; arguments as for `Option`, with its bounds last."""

    def __init__(self, default: Any, text: str, metavar: str | None, *bounds: Ge | Gt | Le | Lt, **more: Any):
        super().__init__(default, text, metavar, **more)
        self.legal = Legal(int, bounds=bounds)

    def read(self, value: Any) -> int:
        """The integer."""
        return self._whole(value, value)

    def typed(self, text: str) -> int:
        """The integer of a text."""
        try:
            return self._whole(int(text), text)
        except ValueError:
            return self._whole(None, text)

    def _whole(self, value: Any, given: Any) -> int:
        known = int(_legal(self.legal, value, given))
        if abs(known) > plain.LARGEST:
            raise UserError(f"expected an integer of at most 64 bits, got {given!r:.80}")
        return known


class Amount(Option[float | None, float | None]):
    """A finite number, or none; arguments as for `Whole`."""

    def __init__(self, default: Any, text: str, metavar: str | None, *bounds: Ge | Gt | Le | Lt, **more: Any):
        super().__init__(default, text, metavar, **more)
        self.legal = Legal(float, bounds=bounds)

    def read(self, value: Any) -> float:
        """The number."""
        return float(_legal(self.legal, value, value))

    def typed(self, text: str) -> float:
        """The number of a text."""
        try:
            return float(_legal(self.legal, float(text), text))
        except ValueError:
            return float(_legal(self.legal, None, text))


class Time(Option[float | str | None, float | None]):
    """Seconds, or a text such as 30m, or none."""

    def read(self, value: Any) -> float:
        """The seconds."""
        return quantities.seconds(value) if isinstance(value, str) else float(_legal(_POSITIVE, value, value))


class Size(Option[int | str | None, int | None]):
    """Bytes, or a text such as 4GB, or none."""

    def read(self, value: Any) -> int:
        """The bytes."""
        found = quantities.size(value) if isinstance(value, str) else int(_legal(_COUNT, value, value))
        if found < LEAST_MEMORY:
            raise UserError(
                f"expected at least {LEAST_MEMORY / 1e6:.0f}MB, of which a process with torch takes most, got "
                f"{found / 1e6:g}MB"
            )
        return found


class Seeds(Option[int | str | range | None, range | None]):
    """Seeds: their number, a text such as 10..19, or a range; or none."""

    read = staticmethod(quantities.seeds)


_POSITIVE, _COUNT = Legal(float, bounds=(Gt(0),)), Legal(int, bounds=(Ge(1),))


def _legal(legal: Legal, value: Any, given: Any) -> Any:
    """The value; the error tells what was given."""
    if not legal.fits(value):
        raise UserError(f"expected {legal}, got {given!r:.80}")
    return value


def options_of(kind: type) -> dict[str, Option[Any, Any]]:
    """The options of a dataclass by name, its own before those of the classes that it inherits."""
    found: dict[str, Option[Any, Any]] = {}
    for part in kind.__mro__:
        for name, option in vars(part).items():
            if isinstance(option, Option):
                found.setdefault(name, option)
    return found


def described(kind: type[T]) -> type[T]:
    """Completes a dataclass of options, whose other fields are `Annotated[TYPE, text]`.

    Its signature, which tools read, then has the types that a program may give, in the order of `options_of`.
    """
    known = options_of(kind)
    found = inspect.signature(kind.__init__).parameters
    others = [name for name in found if name not in known and name != "self"]
    given = {name: option.given for name, option in known.items()}
    types = {name: get_args(found[name].annotation)[0] for name in others}
    given |= {name: getattr(one, "__forward_arg__", one) for name, one in types.items()}
    listed = (found[name].replace(annotation=given[name]) for name in (*known, *others))
    made: Any = kind
    made.__signature__ = inspect.Signature(sorted(listed, key=lambda one: one.kind))
    made.__init__.__annotations__ = {}  # a value of another type is told in a line, not by a checker of types
    return kind


def told_of(kind: Any) -> dict[str, str]:
    """The text that the documentation of a function has for each option of a dataclass, and of its other fields."""
    known = options_of(kind)
    others = {field.name: f"{get_args(field.type)[1]}." for field in fields(kind) if field.name not in known}
    return {
        name: known[name].in_python if name in known else others[name] for name in inspect.signature(kind).parameters
    }


def takes(kind: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Makes a function of options take each as an argument: its signature, and what its documentation says of them.

    In the documentation of the function, the line `asked: ...` becomes a line for each option.

    Args:
        kind: a dataclass that is `described`.
    """

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        signature = inspect.signature(kind)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            expect_known(function.__name__, kwargs, signature.parameters)
            given = signature.bind(*args, **kwargs).arguments
            return function(kind(*args, **kwargs, **taken_from_environment(kind, given)))  # type: ignore[arg-type]  # it is a class, as `described` makes it

        made: Any = call
        made.__signature__ = signature.replace(return_annotation=inspect.signature(function).return_annotation)
        made.__doc__ = _with_arguments(function.__doc__ or "", told_of(kind))
        return call

    return decorate


def surroundings(kind: type) -> dict[str, str]:
    """The options of a dataclass that environment variables say now, as typed: variables with their values."""
    names = (option.variable for option in options_of(kind).values() if option.surrounds)
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def taken_from_environment(kind: type, given: Collection[str]) -> dict[str, Any]:
    """The values that environment variables have for options, by name, which a line on standard error tells.

    Args:
        kind: a dataclass of options.
        given: names of options that have a value already.

    Raises:
        UserError: a variable has no legal value.
    """
    asked = {name: option for name, option in options_of(kind).items() if name not in given}
    found = {name: value for name, option in asked.items() if (value := option.from_environment()) is not ...}
    if found:
        told = (f"{asked[name].variable}={os.environ[asked[name].variable]}" for name in found)
        note(f"from the environment: {', '.join(told)}", err=True)
    return found


def _with_arguments(text: str, told: Mapping[str, str]) -> str:
    """A documentation with a line for each argument in place of the line `asked: ...`."""
    before, _, rest = inspect.cleandoc(text).partition("    asked: ")  # Python 3.13 indents no documentation itself
    lines = [f"    {name}: {said}" for name, said in told.items()]
    return "\n".join([before + lines[0], *lines[1:]]) + rest[rest.find("\n") :]
