"""Routing methods, one file each. `register` is the decorator of the registry, so that users can write

>>> from routebench import routing
>>> @routing.register("mine")  # doctest: +SKIP
... class Mine(routing.RoutingMethod): ...
"""

from routebench.registry import routing as registry
from routebench.routing.base import IterativeRouting, Routed, RoutingError, RoutingMethod
from routebench.routing.layer import RoutingLayer
from routebench.routing.make import factory, hyperparameters_of, make

register = registry.register

__all__ = [
    "IterativeRouting",
    "Routed",
    "RoutingError",
    "RoutingLayer",
    "RoutingMethod",
    "factory",
    "hyperparameters_of",
    "make",
    "register",
]
