"""Compares routing methods of capsule networks on identical networks, data and budgets.

>>> import routebench
>>> run = routebench.run_suite("accuracy", preset="smoke", methods="em")  # doctest: +SKIP
>>> print(run)  # doctest: +SKIP

Names are imported when they are first used, so that `import routebench` is immediate.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if "OMP_WAIT_POLICY" not in os.environ:  # read when torch loads OpenMP
    # Threads that wait for others give their core away after some tenths of a millisecond, not after ten: beside one
    # busy process on two cores, layers then take 65 to 85 % of the time, and on a quiet machine the same within noise.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

if TYPE_CHECKING:
    from routebench import models, protocols, routing, training
    from routebench.capsules import Sizes, Votes
    from routebench.engine.results import load_arrays, load_results
    from routebench.engine.running import Progress, load_fit
    from routebench.interface import (
        SuiteRun,
        check,
        compare,
        draw_coupling,
        extract_features,
        merge,
        run_suite,
        write_report,
    )
    from routebench.joining import Placement, rank
    from routebench.recipe import Recipe
    from routebench.registry import analyses, datasets, own_file
    from routebench.routing import Routed, RoutingMethod

_MODULE_OF = {
    "Progress": "routebench.engine.running",
    "Placement": "routebench.joining",
    "Recipe": "routebench.recipe",
    "Routed": "routebench.routing",
    "RoutingMethod": "routebench.routing",
    "Sizes": "routebench.capsules",
    "SuiteRun": "routebench.interface",
    "Votes": "routebench.capsules",
    "analyses": "routebench.registry",
    "check": "routebench.interface",
    "compare": "routebench.interface",
    "draw_coupling": "routebench.interface",
    "extract_features": "routebench.interface",
    "datasets": "routebench.registry",
    "load_arrays": "routebench.engine.results",
    "load_fit": "routebench.engine.running",
    "load_results": "routebench.engine.results",
    "merge": "routebench.interface",
    "own_file": "routebench.registry",
    "rank": "routebench.joining",
    "run_suite": "routebench.interface",
    "write_report": "routebench.interface",
}
_PACKAGES = ("models", "protocols", "routing", "training")

__all__ = [
    "Placement",
    "Progress",
    "Recipe",
    "Routed",
    "RoutingMethod",
    "Sizes",
    "SuiteRun",
    "Votes",
    "analyses",
    "check",
    "compare",
    "datasets",
    "draw_coupling",
    "extract_features",
    "load_arrays",
    "load_fit",
    "load_results",
    "merge",
    "models",
    "own_file",
    "protocols",
    "rank",
    "routing",
    "run_suite",
    "training",
    "write_report",
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
