"""Notation of a routing method in one word: `dynamic[iterations=3,detach=true]`."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from routebench.errors import UserError, nearest
from routebench.plain import from_toml
from routebench.routing.make import hyperparameters_of

MOST_ITERATIONS = 10_000
"""Largest T: nothing converges so slowly, and memory for gradients grows with it."""
_SPEC = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_SETTING = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.DOTALL)
_COMMA = re.compile(r""",(?=(?:[^"']|"[^"]*"|'[^']*')*$)(?![^\[]*\])""")  # outside quotes and lists
_BARE_WORD = re.compile(r"[A-Za-z][\w.+-]*")


@dataclass(frozen=True)
class MethodSpec:
    """A method's name and the hyperparameters that were given.

    Args:
        name: name of a registered routing method.
        params: values by name; everything that is not here has its default.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + (f"[{compact(self.params)}]" if self.params else "")


def parse(text: str) -> MethodSpec:
    """Reads `NAME` or `NAME[key=value,...]`. Values are TOML; a bare word is a string.

    Raises:
        UserError: the text has another form, or a key is given twice.
    """
    found = _SPEC.fullmatch(text)
    if found is None:
        raise UserError(f"expected a method as NAME or NAME[key=value,...], got {text!r}")
    name, inside = found.groups()
    params: dict[str, Any] = {}
    for setting in _COMMA.split(inside) if inside and inside.strip() else []:
        pair = _SETTING.fullmatch(setting)
        if pair is None:
            raise UserError(f"method {text!r}: expected key=value, got {setting.strip()!r}")
        key, value = pair.groups()
        if key in params:
            raise UserError(f"method {text!r}: {key!r} is given twice")
        params[key] = _value(text, key, value)
    return MethodSpec(name, params)


def expect_known(spec: MethodSpec) -> None:
    """Raises UserError for an unknown method, for a hyperparameter that it lacks, and for too many iterations.

    `make` passes on what it is given, and takes arguments of its own that are no hyperparameters.
    """
    known = hyperparameters_of(spec.name)
    for key in spec.params:
        if key not in known:
            raise UserError(f"method {spec.name!r} has no hyperparameter {key!r}{nearest(key, known)}")
    expect_few_iterations(f"method {spec.name!r}", spec.params.get("iterations"))


def expect_few_iterations(where: str, steps: Any) -> None:
    """Raises UserError for a T that no machine gets through; what is no integer is refused elsewhere."""
    if isinstance(steps, int) and steps > MOST_ITERATIONS:
        raise UserError(f"{where}: expected at most {MOST_ITERATIONS:,} iterations, got {steps:,}")


def compact(params: Mapping[str, Any]) -> str:
    """Hyperparameters in the form that `parse` reads: `detach=true,leaky=false`."""
    return ",".join(f"{key}={_text(value)}" for key, value in params.items())


def _value(spec: str, key: str, text: str) -> Any:
    try:
        return from_toml(f"value = {text}".encode())["value"]
    except tomllib.TOMLDecodeError as error:
        if _BARE_WORD.fullmatch(text):
            return text
        raise UserError(f"method {spec!r}: expected a TOML value for {key!r}, got {text!r:.80}") from error
    except ValueError as error:
        raise UserError(f"method {spec!r:.80}: {key!r}: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str) and value not in {"true", "false", "inf", "nan"} and _BARE_WORD.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
