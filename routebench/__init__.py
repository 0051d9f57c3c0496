"""routebench: capsule-network routing methods, compared on identical backbones, splits and budgets.

>>> import routebench
>>> results = routebench.load_results("results")  # doctest: +SKIP

The names below are imported when they are first used, so that the command line answers at once.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from routebench import routing as routing
    from routebench.capsules import Sizes as Sizes
    from routebench.capsules import Votes as Votes
    from routebench.engine.store import load_results as load_results
    from routebench.routing import IterativeRouting as IterativeRouting
    from routebench.routing import Routed as Routed
    from routebench.routing import RoutingMethod as RoutingMethod

_HOME = {
    "IterativeRouting": "routebench.routing",
    "Routed": "routebench.routing",
    "RoutingMethod": "routebench.routing",
    "Sizes": "routebench.capsules",
    "Votes": "routebench.capsules",
    "load_results": "routebench.engine.store",
}
_MODULES = ("routing",)

__all__ = ["IterativeRouting", "Routed", "RoutingMethod", "Sizes", "Votes", "load_results", "routing"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("routebench")
    if name in _MODULES:
        return importlib.import_module(f"routebench.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'routebench' has no attribute {name!r}")
