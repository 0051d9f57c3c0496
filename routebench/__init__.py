"""Compares routing methods of capsule networks on identical networks, data and budgets.

>>> import routebench
>>> results = routebench.load_results("results")  # doctest: +SKIP

Names are imported when they are first used, so that `import routebench` is immediate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from routebench import models, protocols, routing
    from routebench.capsules import Sizes, Votes
    from routebench.engine.results import load_arrays, load_results
    from routebench.registry import analyses, datasets
    from routebench.routing import Routed, RoutingMethod

_MODULE_OF = {
    "Routed": "routebench.routing",
    "RoutingMethod": "routebench.routing",
    "Sizes": "routebench.capsules",
    "Votes": "routebench.capsules",
    "analyses": "routebench.registry",
    "datasets": "routebench.registry",
    "load_arrays": "routebench.engine.results._store",
    "load_results": "routebench.engine.results._store",
}
_PACKAGES = ("models", "protocols", "routing")

__all__ = [
    "Routed",
    "RoutingMethod",
    "Sizes",
    "Votes",
    "analyses",
    "datasets",
    "load_arrays",
    "load_results",
    "models",
    "protocols",
    "routing",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if name in _PACKAGES:
        return import_module(f"routebench.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("routebench")
    raise AttributeError(f"module 'routebench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
