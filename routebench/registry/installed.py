"""What other installed packages bring, by entry points.

A package names, in the group of a registry's package such as `routebench.routing`, a module whose decorators run or an
object, which is then known by the entry point's name; in the group `routebench.suites`, a package in whose folder, or
in its folder `suites`, TOML files lie.
"""

import importlib.metadata
import importlib.util
import inspect
import logging
import multiprocessing
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from routebench.errors import UserError, message_of
from routebench.registry.origin import loading

if TYPE_CHECKING:
    from routebench.registry.names import Registry

SUITES = "routebench.suites"

PROBLEMS: list[str] = []
"""What could not be loaded, a line each; routebench goes on without it."""


def load_installed(registry: "Registry") -> None:
    """Enters what installed packages bring of one kind. What is broken is told in one line, and left out."""
    for point in importlib.metadata.entry_points(group=registry.package):
        origin = origin_of_point(point)
        with loading(origin):
            try:
                found = point.load()
                if not inspect.ismodule(found) and not registry.names_of(found):
                    registry.register(point.name)(found)
            except Exception as error:  # noqa: BLE001  # whatever it is, the other methods have to work
                warn(f"{origin} is left out: {registry.package} entry point {point.name!r}: {_told(error)}")


def origin_of_point(point: EntryPoint) -> str:
    """The package that brings an entry point, in words for messages."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"package of {point.value}"


@cache
def installed_suites() -> tuple[tuple[str, Path], ...]:
    """The suite files of installed packages with their origins; the packages are not imported."""
    found: list[tuple[str, Path]] = []
    for point in importlib.metadata.entry_points(group=SUITES):
        try:
            files = _suites_in(point.module)
        except Exception as error:  # noqa: BLE001  # as above
            warn(f"{origin_of_point(point)} is left out: {SUITES} entry point {point.name!r}: {_told(error)}")
            continue
        found += [(origin_of_point(point), file) for file in files]
    return tuple(found)


def _suites_in(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [file for folder in folders for file in (*folder.glob("*.toml"), *folder.glob("suites/*.toml"))]
    if not files:
        raise UserError(f"expected a package with TOML files, got none in {package!r}")
    return sorted(files)


def warn(problem: str) -> None:
    """Keeps one line in `PROBLEMS`, and tells it; of several processes, the first does."""
    PROBLEMS.append(problem)
    if multiprocessing.parent_process() is None:
        logging.getLogger("routebench").warning("warning: %s", problem)


def _told(error: Exception) -> str:
    text = " ".join(message_of(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
