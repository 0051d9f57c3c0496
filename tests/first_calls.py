"""Checks shapes and types in the first calls of a function in each test: a check may cost more than the function."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeVar

WITH_SHAPES = (
    "attacks", "capsules", "data", "engine.running._sealing", "kernels", "losses", "measures", "models", "ops",
    "papers", "protocols", "routing", "statistics", "studies", "training",
)  # fmt: skip
"""Parts of routebench whose calls are checked: where numbers are computed. mypy alone checks the rest."""
CHECKED = 10
"""So many calls of each function in each test."""

calls: Counter[int] = Counter()
"""In this test, by the identity of the code: of a function inside a function, those of all its copies."""


def checked_at_first(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for `jaxtyping.jaxtyped`."""

    def decorator(**given: Any) -> Callable[..., Any]:
        def decorate(one: Any) -> Any:
            if not isinstance(one, type):
                return _limited(one, functools.cache(lambda: jaxtyped(**given)(one)))
            if is_dataclass(one) and "__init__" in vars(one):
                make = one.__init__
                one.__init__ = _limited(make, functools.cache(lambda: jaxtyped(**given)(make)))
            return one

        return decorate

    return decorator


def _limited(plain: Callable[..., Any], checked: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    hints = {name: _of_any_kind(hint) for name, hint in plain.__annotations__.items()}
    code = inspect.unwrap(plain).__code__
    key = id(code)  # to hash the code itself takes longer than many a call

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls[key] += 1
        return (checked() if calls[key] <= CHECKED else plain)(*args, **kwargs)

    if hints != plain.__annotations__:
        plain.__annotations__ = call.__annotations__ = hints
    call.__code__ = call.__code__.replace(co_filename="<check>")  # no line of a user's, where errors say their place
    return call


def _of_any_kind(hint: Any) -> Any:
    """An annotation whose type variables stand for all that they may be: beartype takes the default of one for all."""
    if isinstance(hint, TypeVar):
        return reduce(or_, hint.__constraints__) if hint.__constraints__ else hint
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(map(_of_any_kind, variables))] if variables and not isinstance(hint, type) else hint
