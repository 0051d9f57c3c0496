"""Registers a class or function that carries no decorator, by what it is."""

import inspect
import re
from types import ModuleType
from typing import Any

from routebench.errors import UserError, nearest
from routebench.registry.kinds import PROTOCOL, ROUTING_METHOD, is_a
from routebench.registry.known import EVERY

RETURNED = {"data": re.compile(r"\bDataset\b"), "analyses": re.compile(r"\bAnalysis\b")}
"""How the annotated result of a function tells its kind."""


def register_by_kind(module: ModuleType, name: str, shown: str) -> dict[str, list[str]]:
    """Registers `name` of a module under its own name in kebab-case, unless a decorator has done it.

    Args:
        shown: the file as the user wrote it, for messages.

    Returns:
        what the object is registered as, by registry.

    Raises:
        UserError: the module does not define it, its kind cannot be told, or the name is taken.
    """
    entry = getattr(module, name, None)
    if entry is None:
        found = candidates(module)
        hint = nearest(name, found) if found else "; it defines nothing that can be used: name another file"
        raise UserError(f"plug-in {shown!r} defines no {name!r}{hint}")
    if not any(registry.names_of(entry) for registry in EVERY.values()):
        kind = kind_of(entry)
        if not kind:
            raise UserError(
                f"plug-in '{shown}:{name}': expected a routing method, a model with @models.facts(...), a protocol, or "
                f"a function with '-> Dataset' or '-> Analysis', got {entry!r:.80}; or decorate it"
            )
        EVERY[kind].register(kebab(name))(entry)
    return {kind: registry.names_of(entry) for kind, registry in EVERY.items()}


def candidates(module: ModuleType) -> list[str]:
    """What a module defines that can be registered without a decorator."""
    own = {name: entry for name, entry in vars(module).items() if getattr(entry, "__module__", "") == module.__name__}
    return [name for name, entry in own.items() if not name.startswith("_") and kind_of(entry)]


def kind_of(entry: Any) -> str:
    """`methods`, `models`, `data`, `protocols` or `analyses`; empty where that cannot be told."""
    if is_a(entry, ROUTING_METHOD):
        return "methods"
    if is_a(entry, PROTOCOL):
        return "protocols"
    if callable(entry) and type(getattr(entry, "facts", None)).__name__ == "Facts":
        return "models"
    returned = str(inspect.get_annotations(entry).get("return", "")) if inspect.isfunction(entry) else ""
    return next((kind for kind, sign in RETURNED.items() if sign.search(returned)), "")


def kebab(name: str) -> str:
    """`cosine-routing` for `CosineRouting` and for `cosine_routing`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name)
    return words.replace("_", "-").strip("-").lower()
