"""Other legal values of a hyperparameter, found without knowing the method."""

import enum
import inspect
import re
import typing
from typing import Any

from routebench.capsules import Sizes
from routebench.conformance.subject import Subject

NONSENSE = "no-such-word"
SIZES = Sizes(children=6, parents=4, pose=9)
_LISTED = re.compile(r"must be one of (.*?), got")
_QUOTED = re.compile(r"['\"]([\w.+-]+)['\"]")


class NotKnown(Exception):
    """No other legal value was found; the message says what to declare."""


def other_values(subject: Subject, name: str) -> list[Any]:
    """Values that the method takes besides the one that is set: all choices, or up to two numbers near by.

    Choices are read from a `Literal` or `Enum` annotation or, as `one_of` words it, from the error that a nonsensical
    word raises.

    Raises:
        NotKnown: there is no way to tell what else is legal.
    """
    now = subject.settings[name]
    legal = _legal(subject, name, _candidates(subject, name, now))
    if not legal:
        raise NotKnown(f"no other legal value than {now!r} is taken with the other hyperparameters as they are")
    return legal if isinstance(now, str | enum.Enum) else legal[:2]


def far_values(subject: Subject, name: str) -> list[Any]:
    """Numbers by orders of magnitude away, for guards such as `clip = 1e4` that nothing near by brings to act."""
    now = subject.settings[name]
    if isinstance(now, bool) or not isinstance(now, int | float):
        return []
    if isinstance(now, int):
        return _legal(subject, name, [now // 1000, now // 10**6])  # upwards, a number of passes would never end
    return _legal(subject, name, [now * by for by in (1e-3, 1e-6, 1e3, 1e6)] + [1.0, 0.01])


def _legal(subject: Subject, name: str, values: list[Any]) -> list[Any]:
    """Those that the method takes besides the one that is set, each once."""
    now = subject.settings[name]
    return list(dict.fromkeys(value for value in values if value != now and not refusal(subject, name, value)))


def refusal(subject: Subject, name: str, value: Any) -> str:
    """What the method says to a value; empty if it takes it."""
    try:
        subject.make(SIZES, changes={name: value})
    except Exception as error:  # noqa: BLE001  # any is a refusal
        return str(error) or type(error).__name__
    return ""


def _candidates(subject: Subject, name: str, now: Any) -> list[Any]:
    if declared := _declared(subject, name):
        return declared
    if isinstance(now, bool):
        return [not now]
    if isinstance(now, int):
        return [now + 1, 2 * now, now - 1, now // 2, now + 2]
    if isinstance(now, float):
        return [2 * now, now / 2, now + 1.0, now + 0.1, 0.5 * (now + 1)]
    if isinstance(now, str):
        return _choices(subject, name)
    return [1, 0.5, 2, True, False, 0.1]  # None, or no default: whatever is taken


def _declared(subject: Subject, name: str) -> list[Any]:
    """The values of a `Literal` or `Enum` annotation; none for any other."""
    annotation = inspect.signature(subject.method.__init__).parameters[name].annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return list(annotation)
    return list(typing.get_args(annotation)) if typing.get_origin(annotation) is typing.Literal else []


def _choices(subject: Subject, name: str) -> list[str]:
    said = refusal(subject, name, NONSENSE)
    if not said:
        raise NotKnown("it takes any word, so that a mistyped one is not noticed; check it with `one_of`")
    if listed := _LISTED.search(said):
        return listed.group(1).split(", ")
    return [word for word in _QUOTED.findall(said) if word != NONSENSE]
