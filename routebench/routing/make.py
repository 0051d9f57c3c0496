"""Instances of routing methods by name and hyperparameters."""

from collections.abc import Callable
from typing import Any

import torch

from routebench.capsules import Sizes
from routebench.errors import UserError, nearest
from routebench.registry import routing
from routebench.routing.base import RoutingMethod, hyperparameters


def hyperparameters_of(name: str) -> dict[str, Any]:
    """The hyperparameters of a registered method, with their defaults.

    Raises:
        UserError: no method has this name.
    """
    method = routing[name]
    assert isinstance(method, type)
    return hyperparameters(method)


def make(name: str, sizes: Sizes, **params: Any) -> RoutingMethod:
    """A routing method for one layer.

    Args:
        name: its registered name.
        sizes: numbers of children and parents of the layer, and the size of a vote.
        params: hyperparameters that are not left at their defaults.

    Raises:
        UserError: the name or a hyperparameter is unknown, or a value is not allowed.
    """
    known = hyperparameters_of(name)
    for key in params:
        if key not in known:
            raise UserError(f"method {name!r} has no hyperparameter {key!r}{nearest(key, known)}")
    try:
        method = routing[name](sizes, **params)
    except (TypeError, ValueError) as error:
        raise UserError(f"routing method {name!r}: {error}") from error
    assert isinstance(method, RoutingMethod)
    return method


def factory(name: str, **params: Any) -> Callable[[Sizes], RoutingMethod]:
    """`make` with everything but the sizes, which the network knows.

    Args:
        name, params: as for `make`.

    Raises:
        UserError: as for `make`; before a network is built.
    """
    with torch.random.fork_rng(devices=[]):  # methods with parameters draw, and networks of one seed start alike
        make(name, Sizes(2, 2, 4), **params)  # wrong hyperparameters are reported before a network is built
    return lambda sizes: make(name, sizes, **params)
