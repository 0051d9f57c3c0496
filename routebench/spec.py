"""Methods as they are written on the command line: `dynamic[iterations=3,detach=true]`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from routebench.errors import UserError


@dataclass(frozen=True)
class MethodSpec:
    """A routing method's name, and the hyperparameters that were set."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return label(self.name, self.params)


def parse(text: str) -> MethodSpec:
    """Reads `NAME` or `NAME[key=value,...]`. Values are TOML literals; a bare word is a string.

    Raises:
        UserError: the text has another form.
    """
    match = re.fullmatch(r"\s*([\w.-]+)\s*(?:\[(.*)\])?\s*", text)
    if match is None:
        raise UserError(f"expected a method as NAME or NAME[key=value,...], got {text!r}")
    params = {}
    for part in filter(None, (piece.strip() for piece in (match[2] or "").split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UserError(f"method {text!r}: expected key=value, got {part!r}")
        params[key.strip()] = _value(value.strip())
    return MethodSpec(match[1], params)


def label(name: str, params: Mapping[str, Any]) -> str:
    """How a method is named in tables: `dynamic`, or `dynamic[detach=true]`."""
    return f"{name}[{params_text(params)}]" if params else name


def params_text(params: Mapping[str, Any]) -> str:
    """`detach=true,leaky=true`, in alphabetic order."""
    return ",".join(f"{key}={_text(params[key])}" for key in sorted(params))


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
