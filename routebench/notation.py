"""Notation of what is registered, with hyperparameters, in one word: `dynamic[iterations=3,detach=true]`."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, overload

from routebench.arguments import Names, legal_values
from routebench.errors import UserError, nearest, unknown
from routebench.plain import from_toml
from routebench.registry import Registry, hyperparameters_of_function

_SPEC = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_SETTING = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.DOTALL)
_COMMA = re.compile(r""",(?=(?:[^"']|"[^"]*"|'[^']*')*$)(?![^\[]*\])""")  # outside quotes and lists
_BARE_WORD = re.compile(r"[A-Za-z][\w.+-]*")


@dataclass(frozen=True)
class Spec:
    """The name of a method or another part, and the hyperparameters that were given.

    Args:
        name: its registered name.
        params: values by name; everything that is not here has its default.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + (f"[{compact(self.params)}]" if self.params else "")


def parse(text: str, kind: str = "method") -> Spec:
    """Reads `NAME` or `NAME[key=value,...]`. Values are TOML; a bare word is a string.

    Args:
        text: what the user wrote.
        kind: the kind of the part, for messages.

    Raises:
        UserError: the text has another form, or a key is given twice.
    """
    found = _SPEC.fullmatch(text)
    if found is None:
        article = "an" if kind[0] in "aeiou" else "a"
        raise UserError(f"expected {article} {kind} as NAME or NAME[key=value,...], got {text!r}")
    name, inside = found.groups()
    params: dict[str, Any] = {}
    for setting in _COMMA.split(inside) if inside and inside.strip() else []:
        pair = _SETTING.fullmatch(setting)
        if pair is None:
            raise UserError(f"{kind} {text!r}: expected key=value, got {setting.strip()!r}")
        key, value = pair.groups()
        if key in params:
            raise UserError(f"{kind} {text!r}: {key!r} is given twice")
        params[key] = _value(f"{kind} {text!r:.80}", key, value)
    return Spec(name, params)


class Registered(Names):
    """The names of a registry, each with the hyperparameters of its function: `focal[gamma=3]`.

    Args:
        registry: where functions are registered.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def __len__(self) -> int:
        return len(self.registry)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return list(self.registry)[place]

    def read(self, value: Any) -> str:
        """The name, with those hyperparameters that are not as by default, in the order of the function's."""
        kind = self.registry.kind
        if not isinstance(value, str):
            raise ValueError(f"expected the name of a registered {kind}, got {value!r}")  # noqa: TRY004  # as for all else
        try:
            spec = parse(value, kind)
            if spec.name not in self.registry:
                raise unknown(kind, spec.name, self.registry, shipped=self.registry.is_shipped)
        except UserError as error:
            raise ValueError(str(error)) from error
        function = self.registry[spec.name]
        known, legal = hyperparameters_of_function(function), legal_values(function)
        for key in spec.params:
            if key not in known:
                raise ValueError(f"{kind} {spec.name!r} has no hyperparameter {key!r}{nearest(key, known)}")
        given = {key: legal[key].take(f"{kind} {spec.name!r}: {key}", spec.params[key]) for key in spec.params}
        return str(Spec(spec.name, {key: given[key] for key in known if key in given and given[key] != known[key]}))


def registered(registry: Registry, value: str) -> Callable[..., Any]:
    """The function that a value such as `focal[gamma=3]` names, with its hyperparameters.

    Args:
        registry: that of its kind.
        value: as `parse` reads it.

    Raises:
        UserError: nothing has this name.
    """
    spec = parse(value, registry.kind)
    function = registry[spec.name]
    return partial(function, **spec.params) if spec.params else function


def compact(params: Mapping[str, Any]) -> str:
    """Hyperparameters in the form that `parse` reads: `detach=true,leaky=false`."""
    return ",".join(f"{key}={_text(value)}" for key, value in params.items())


def _value(where: str, key: str, text: str) -> Any:
    try:
        return from_toml(f"value = {text}".encode())["value"]
    except tomllib.TOMLDecodeError as error:
        if _BARE_WORD.fullmatch(text):
            return text
        raise UserError(f"{where}: expected a TOML value for {key!r}, got {text!r:.80}") from error
    except ValueError as error:
        raise UserError(f"{where}: {key!r}: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str) and value not in {"true", "false", "inf", "nan"} and _BARE_WORD.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
