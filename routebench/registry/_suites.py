"""The suite files: shipped ones, those of installed packages, those of plug-ins."""

import importlib.util
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from routebench.errors import UserError
from routebench.registry._folders import bundles
from routebench.registry._origin import SHIPPED, in_one_line, installed_points, origin_of_point, shipped
from routebench.registry._registry import beyond_ascii

GROUP = "routebench.suites"
"""The entry point group of packages that bring suites."""


class Suites:
    """Suite files by name.

    Args:
        warn: told in one line what is left out of what installed packages bring.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._added: dict[str, list[Path]] = {}  # by plug-ins, by origin

    def files(self) -> dict[str, Path]:
        """Every suite that can be asked for by name.

        Raises:
            UserError: two have the same name.
        """
        return _by_name(file for _, file in self._everywhere())

    def origin(self, file: Path) -> str:
        """The origin of a suite file, in the same words as `Registry.origin`."""
        return next((origin for origin, suite in self._everywhere() if suite == file), f"file {file}")

    def add(self, origin: str, files: Iterable[Path]) -> list[str]:
        """Enters the suites of a plug-in, and gives their names.

        Raises:
            UserError: a name is taken, or looks as if it were another.
        """
        added = sorted(files)
        for file in added:
            if fault := beyond_ascii(file.stem):
                raise UserError(f"suite {file.stem!r} of {origin}{fault}; rename the file")
        _by_name([*(file for other, file in self._everywhere() if other != origin), *added])
        self._added[origin] = added
        return [file.stem for file in added]

    def drop(self, origin: str) -> None:
        """Takes out what one plug-in has added."""
        self._added.pop(origin, None)

    def _everywhere(self) -> list[tuple[str, Path]]:
        folders = [shipped("suites"), *(folder.path / "suites" for folder in bundles())]
        files = [(SHIPPED, file) for folder in folders for file in sorted(folder.glob("*.toml"))]
        return files + self._installed + [(origin, file) for origin, added in self._added.items() for file in added]

    @cached_property
    def _installed(self) -> list[tuple[str, Path]]:
        """The suite files of installed packages with their origins; the packages are not imported."""
        files: list[tuple[str, Path]] = []
        for point in installed_points(GROUP):
            origin = origin_of_point(point)
            try:
                files += [(origin, file) for file in _suites_in(point.module)]
            except Exception as error:  # noqa: BLE001  # whatever it is, the other suites have to work
                self._warn(f"{origin} is left out: {GROUP} entry point {point.name!r}: {in_one_line(error)}")
        return files


def _suites_in(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [file for folder in folders for file in (*folder.glob("*.toml"), *folder.glob("suites/*.toml"))]
    if not files:
        raise UserError(f"expected a package with TOML files, got none in {package!r}")
    return sorted(files)


def _by_name(files: Iterable[Path]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for file in files:
        taken = named.setdefault(file.stem, file)
        if taken != file:
            raise UserError(f"suite {file.stem!r} of {file} is taken by {taken}; rename the file")
    return named
