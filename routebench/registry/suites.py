"""The suite files that there are: shipped ones, those of installed packages, those of plug-ins."""

from collections.abc import Iterable
from pathlib import Path

from routebench.errors import UserError
from routebench.registry.installed import installed_suites
from routebench.registry.names import beyond_ascii
from routebench.registry.origin import SHIPPED, shipped

_ADDED: dict[str, list[Path]] = {}
"""The suite files of plug-ins, by origin."""


def suite_files() -> dict[str, Path]:
    """Every suite that can be asked for by name.

    Raises:
        UserError: two have the same name.
    """
    from routebench.registry.plugins import load_environment

    load_environment()
    return _by_name([file for _, file in _everywhere()])


def suite_origin(file: Path) -> str:
    """Where a suite file comes from, in the same words as `Registry.origin`."""
    return next((origin for origin, known in _everywhere() if known == file), f"file {file}")


def add_suites(origin: str, files: Iterable[Path]) -> list[str]:
    """Makes the suites of a plug-in known, and gives their names.

    Raises:
        UserError: a name is taken, or looks as if it were another.
    """
    added = sorted(files)
    for file in added:
        if fault := beyond_ascii(file.stem):
            raise UserError(f"suite {file.stem!r} of {origin}{fault}; rename the file")
    _by_name([*(file for known, file in _everywhere() if known != origin), *added])
    _ADDED[origin] = added
    return [file.stem for file in added]


def drop_suites(origin: str) -> None:
    """As if the plug-in had never been loaded."""
    _ADDED.pop(origin, None)


def _everywhere() -> list[tuple[str, Path]]:
    found = [(SHIPPED, file) for file in sorted(shipped("suites").glob("*.toml"))]
    found += installed_suites()
    return found + [(origin, file) for origin, files in _ADDED.items() for file in files]


def _by_name(files: Iterable[Path]) -> dict[str, Path]:
    known: dict[str, Path] = {}
    for file in files:
        taken = known.setdefault(file.stem, file)
        if taken != file:
            raise UserError(f"suite {file.stem!r} of {file} is taken by {taken}; rename the file")
    return known
