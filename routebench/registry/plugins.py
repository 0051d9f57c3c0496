"""A user's own files and folders.

A folder has the layout of the repository: `suites/*.toml`, and Python files in it or in `routing`, `models`, `data`,
`protocols` and `analyses`. Files of tests, and those whose names begin with `_`, are left out.
"""

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from routebench.errors import UserError
from routebench.registry.files import import_file, let_be_imported, module_name
from routebench.registry.installed import warn
from routebench.registry.known import EVERY
from routebench.registry.origin import loading
from routebench.registry.suites import add_suites, drop_suites
from routebench.registry.undecorated import candidates, register_by_kind

VARIABLE = "ROUTEBENCH_PLUGINS"
FOLDERS = ("", "data", "routing", "models", "protocols", "analyses")

_LOADED: dict[str, str] = {}
"""Plug-ins of this process, with absolute paths, and the origin of their names."""

_TRIED: set[str] = set()
"""Plug-ins of the environment that have been loaded, or could not be."""


@dataclass(frozen=True)
class Plugin:
    """What `--plugin` names.

    Args:
        path: an absolute path of a file or a folder.
        name: what the file is to define; empty for all that it registers.
        shown: the path as the user wrote it.
    """

    path: Path
    name: str
    shown: str

    @property
    def origin(self) -> str:
        """The words for its names' origin."""
        return f"plug-in {self.path}"

    @property
    def files(self) -> list[Path]:
        """The Python files that are imported."""
        if self.path.is_file():
            return [self.path]
        found = [file for folder in FOLDERS for file in sorted((self.path / folder).glob("*.py"))]
        return [file for file in found if not file.name.startswith(("_", "test_")) and file.name != "conftest.py"]

    @property
    def suites(self) -> list[Path]:
        """The suite files of a folder."""
        return sorted(self.path.glob("suites/*.toml"))


def load_plugin(spec: str) -> dict[str, list[str]]:
    """Imports a user's file or folder, so that decorators run. It is loaded whole or not at all.

    Args:
        spec: `FILE.py`; `FILE.py:Name` for one class or function of it, which needs no decorator; or a folder.

    Returns:
        the names that it adds, by registry (`methods`, `models`, ...), and `suites`. Of `FILE.py:Name` those of `Name`;
        what else the file registers is known, too.

    Raises:
        PluginError: a file raised while it was imported.
        UserError: the file is missing, registers nothing or what is taken, or does not define `Name`.
    """
    plugin = _plugin(spec)
    new = [file for file in plugin.files if module_name(file) not in sys.modules]
    try:
        with loading(plugin.origin):
            if plugin.path.is_dir():
                let_be_imported(plugin.path)
            modules = [import_file(file) for file in plugin.files]
            named = register_by_kind(modules[0], plugin.name, plugin.shown) if plugin.name else None
        added = {kind: registry.of(plugin.origin) for kind, registry in EVERY.items()}
        for kind in [kind for kind in EVERY if added[kind]]:
            EVERY[kind].load()  # a clash with what is not loaded yet is found now
        suites = add_suites(plugin.origin, plugin.suites)
        _expect_something(plugin, modules, [*suites, *(name for names in added.values() for name in names)])
    except UserError:
        _forget(plugin, new)
        raise
    _LOADED[f"{plugin.path}:{plugin.name}" if plugin.name else str(plugin.path)] = plugin.origin
    return {**(named or added), "suites": suites}


def loaded_plugins() -> list[str]:
    """The plug-ins that this process has loaded, for another process to load; with absolute paths."""
    return list(_LOADED)


def plugins_of(origins: Collection[str]) -> tuple[str, ...]:
    """The loaded plug-ins that brought names of these origins, for another process to load."""
    return tuple(spec for spec, origin in _LOADED.items() if origin in origins)


def plugin_files(spec: str) -> list[Path]:
    """The files that a plug-in consists of, suites apart.

    Raises:
        UserError: there is no such file or folder.
    """
    return _plugin(spec).files


def plugins_of_environment() -> list[str]:
    """The plug-ins that the variable ROUTEBENCH_PLUGINS names, in the form of `--plugin`.

    They are separated as in PATH. Where that is a colon, a word after `FILE.py:` is a `Name`, unless a file or folder
    has this name.
    """
    specs: list[str] = []
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if specs and specs[-1].endswith(".py") and part.isidentifier() and not Path(part).exists():
            specs[-1] += f":{part}"
        else:
            specs.append(part)
    return specs


def load_environment() -> None:
    """Loads the plug-ins of the environment, each once. What is broken is told in one line, and left out."""
    for spec in plugins_of_environment():
        if spec in _TRIED:
            continue
        _TRIED.add(spec)
        try:
            load_plugin(spec)
        except UserError as error:
            warn(f"{VARIABLE}: {error}")


def leave_out_environment() -> None:
    """From now on this process, and what is forked from it, loads plug-ins of the environment only where it is told."""
    _TRIED.update(plugins_of_environment())


def _plugin(spec: str) -> Plugin:
    shown, _, name = (spec, "", "") if Path(spec).exists() else spec.rpartition(":")
    shown, name = (shown, name) if shown else (spec, "")
    path = Path(shown).resolve()
    if not path.exists():
        raise UserError(f"plug-in {shown!r}: expected a Python file or a folder, got no such file; check the path")
    if path.is_dir() and name:
        raise UserError(f"plug-in {spec!r}: expected a file before the colon, got a folder; name the file, or no name")
    return Plugin(path, name, shown)


def _expect_something(plugin: Plugin, modules: list[ModuleType], added: list[str]) -> None:
    if added:
        return
    if plugin.path.is_dir():
        layout = f"suites/*.toml or Python files that register something, in it or in {', '.join(FOLDERS[1:])}"
        raise UserError(f"plug-in {plugin.shown!r}: expected a folder with {layout}, got none")
    found = [name for module in modules for name in candidates(module)]
    hint = f", or name it: --plugin {plugin.shown}:{found[0]}" if found else ""
    raise UserError(
        f"plug-in {plugin.shown!r} registers nothing; decorate a class with @routing.register('name'){hint}"
    )


def _forget(plugin: Plugin, files: list[Path]) -> None:
    for file in files:
        sys.modules.pop(module_name(file), None)
    if plugin.origin not in _LOADED.values():
        drop_suites(plugin.origin)
        for registry in EVERY.values():
            registry.drop(plugin.origin)
