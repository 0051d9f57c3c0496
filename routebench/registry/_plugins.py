"""Loads what is registered by name: shipped modules, installed packages, a user's files and folders.

A package names, in the entry point group of a registry's package such as `routebench.routing`, a module whose
decorators run, or an object, which is then known by the entry point's name. In the group `routebench.suites` it names a
package in whose folder, or in its folder `suites`, TOML files lie.

A plug-in folder has the layout of a folder in `routebench/papers`: `suites/*.toml`, and Python files in it or in
one of `KINDS`, such as `routing`; `claims.py` and `published.csv`, which reports read; and
`recipes.toml`. With an `__init__.py` it is a package: its files may import each other with leading dots, and lie in
folders further down. Files of tests, and those whose names begin with `_`, are left out.
"""

import importlib
import inspect
import logging
import multiprocessing
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from routebench.errors import UserError, nearest
from routebench.received import kind_of as kind_of_file
from routebench.received import permitted, text_in
from routebench.registry._folders import KINDS, bundles, python_files, without
from routebench.registry._importing import PREFIX, forget, import_file, let_be_imported, module_name, package_name
from routebench.registry._origin import (
    OF_MODULE,
    PROGRAM,
    SHIPPED,
    in_one_line,
    installed_points,
    loading,
    origin_now,
    origin_of_point,
    shipped,
)
from routebench.registry._registry import (
    OF_TRAINING,
    SHOWN,
    Registry,
    candidates,
    fault_of_function,
    fault_of_method,
    fault_of_model,
    fault_of_protocol,
    fault_of_training,
    kebab,
    kind_of,
)
from routebench.registry._suites import Suites

VARIABLE = "ROUTEBENCH_PLUGINS"
CLAIMS = "claims.py"
PAGE = re.compile(r"^\s*(page\b|\[page\])", re.MULTILINE)
"""Where a suite says its page."""
READ = (CLAIMS, "published.csv", "recipes.toml")
"""Files of a folder that are read where they are needed."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in, as `--plugin` names it.

    Args:
        path: an absolute path of a file or a folder.
        name: the name that the file is to define; empty for all that it registers.
        shown: the path as the user wrote it.
    """

    path: Path
    name: str
    shown: str

    @property
    def spec(self) -> str:
        """The plug-in as `--plugin` takes it, with an absolute path."""
        return f"{self.path}:{self.name}" if self.name else str(self.path)

    @property
    def origin(self) -> str:
        """The words for its names' origin."""
        return f"plug-in {self.path}"

    @property
    def root(self) -> Path | None:
        """The folder, if it is a package."""
        return self.path if (self.path / "__init__.py").is_file() else None

    @property
    def folders(self) -> list[Path]:
        """The folders in it in which its files are found; of a package, those further down, too."""
        own = [self.path / name for name in (*KINDS, "suites")]
        return own if self.root is None else [*own, *(below for one in own for below in one.glob("**/"))]

    @property
    def files(self) -> list[Path]:
        """The Python files that are imported."""
        if self.path.is_file():
            return [self.path]
        own = [file for file in python_files(self.path, deep=False) if file.name != CLAIMS]
        return own + [file for kind in KINDS for file in python_files(self.path / kind, deep=self.root is not None)]


class Extensions:
    """Everything that is known by name: one registry per kind, and suites. A process has one."""

    def __init__(self) -> None:
        self.registries = {
            "methods": Registry("routing method", "routebench.routing", fault_of_method, self._load),
            "models": Registry("model", "routebench.models", fault_of_model, self._load),
            "data": Registry("data set", "routebench.data", fault_of_function, self._load),
            "protocols": Registry("protocol", "routebench.protocols", fault_of_protocol, self._load),
            "analyses": Registry("analysis", "routebench.analyses", fault_of_function, self._load),
            **{
                kinds: Registry(kind, f"routebench.{kinds}", partial(fault_of_training, arguments), self._load)
                for kinds, (kind, arguments) in OF_TRAINING.items()
            },
        }
        self.suites = Suites(self.warn)
        self._measures: dict[str, Any] = {}
        self._measured: dict[str, str] = {}  # measure -> origin
        self._has_measures = False
        self.problems: list[str] = []
        """A line for each thing that could not be loaded; routebench goes on without it."""
        self._plugins: dict[str, str] = {}  # loaded here: spec with an absolute path -> origin of its names
        self._tried: set[str] = set()  # plug-ins of the environment that have been loaded, or could not be
        self._folders: set[Path] = set()  # of imported files, whose neighbours can be imported by name
        self.ran_plugin = False
        """Whether code of a plug-in was executed here, also of one that could not be loaded."""

    def load_plugin(self, spec: str) -> dict[str, list[str]]:
        """Imports a user's file or folder, so that decorators run. It is loaded whole or not at all.

        Args:
            spec: `FILE.py`; `FILE.py:Name` for one class or function of it, which needs no decorator; or a folder.

        Returns:
            the names that it adds, by registry (`methods`, `models`, ...), and `suites`. For `FILE.py:Name` they are
                those of `Name`; what else the file registers is known, too.

        Raises:
            PluginError: a file raised while it was imported.
            UserError: the file is missing, registers nothing or what is taken, or does not define `Name`.
        """
        plugin = _plugin(spec)
        known = {*sys.modules}
        self.ran_plugin = True
        try:
            added = self._add(plugin)
        except UserError:
            self._forget(plugin, known)
            raise
        self._plugins[plugin.spec] = plugin.origin
        return added

    def declare(self, name: str, measure: object) -> None:
        """Enters what is known of a measure. A program, such as a notebook, may change what it has entered.

        Args:
            name: name of the measure.
            measure: what is known of it.

        Raises:
            UserError: the name is taken.
        """
        origin, first = origin_now(), self._measured.get(name)
        if first is not None and measure != self._measures[name] and (first, origin) != (PROGRAM, PROGRAM):
            raise UserError(f"measure {name!r} of {origin} is taken by {first}; choose another name")
        self._measures[name] = measure
        self._measured.setdefault(name, origin)

    def measures(self) -> Mapping[str, Any]:
        """Declarations of measures by name: of the core, of papers and studies, then of plug-ins."""
        if not self._has_measures:
            files = [f"{folder.package}.measures" for folder in bundles() if (folder.path / "measures.py").is_file()]
            self._has_measures = True  # the modules imported below look measures up
            with loading(SHIPPED):
                for measure in importlib.import_module("routebench.declared").CORE:
                    self.declare(measure.name, measure)
                for name in files:
                    importlib.import_module(name)
        return self._measures

    def load_suites(self, spec: str) -> None:
        """Makes the suites of a plug-in known, and imports nothing of it.

        Raises:
            UserError: the plug-in is missing, or a name is taken.
        """
        plugin = _plugin(spec)
        self.suites.add(plugin.origin, plugin.path.glob("suites/*.toml"))

    @property
    def ships_whole(self) -> bool:
        """Tells whether this process has registered nothing besides what ships; a notebook may have."""
        return not self.ran_plugin and all(registry.is_shipped for registry in self.registries.values())

    def brought_by(self, spec: str) -> tuple[str, ...]:
        """The methods and models of a loaded plug-in, by name."""
        origin = _plugin(spec).origin
        return tuple(name for kind in ("methods", "models") for name in self.registries[kind].of(origin))

    def named_beside(self, entry: object, names: Collection[str]) -> list[Callable[..., Any]]:
        """The parts that whoever has registered an object has registered under some of these names.

        Args:
            entry: the object.
            names: the names.
        """
        registries = self.registries.values()
        origins = {registry.origin(name) for registry in registries for name in registry.names_of(entry)} - {SHIPPED}
        of_program = any(origin.startswith(OF_MODULE) for origin in origins)  # whose modules know each other

        def is_beside(origin: str) -> bool:
            return origin in origins or (of_program and origin.startswith(OF_MODULE))

        found = ((one, name) for one in registries for name in sorted(one.entries.keys() & names) if origins)
        return [one.entries[name] for one, name in found if is_beside(one.origin(name))]

    def says_how_it_is_shown(self, spec: str) -> bool:
        """Tells whether reports need a loaded plug-in: for files that they read, pages of suites, titles or colours."""
        plugin = _plugin(spec)
        entries = [self.registries[kind].entries[name] for kind in ("methods", "models") for name in
                   self.registries[kind].of(plugin.origin)]  # fmt: skip
        return (
            any((plugin.path / name).is_file() for name in READ)
            or any(PAGE.search(text_in(file)) for file in plugin.path.glob("suites/*.toml"))
            or any(getattr(getattr(entry, "facts", entry), told, "") for entry in entries for told in SHOWN)
        )

    def loaded_plugins(self) -> list[str]:
        """The plug-ins that this process has loaded, for another process to load; with absolute paths."""
        return list(self._plugins)

    def plugins_of(self, origins: Collection[str]) -> tuple[str, ...]:
        """The loaded plug-ins that brought names of these origins, for another process to load."""
        return tuple(spec for spec, origin in self._plugins.items() if origin in origins)

    def load_environment(self) -> None:
        """Loads the plug-ins of the environment, each once. A broken one is left out, with a one-line warning."""
        for spec in plugins_of_environment():
            if spec in self._tried:
                continue
            self._tried.add(spec)
            try:
                self.load_plugin(spec)
            except UserError as error:
                self.warn(f"{VARIABLE}: {error}")

    def leave_out_environment(self) -> None:
        """Makes this process, and those forked from it, load plug-ins of the environment only by name from now on."""
        self._tried.update(plugins_of_environment())

    def suite_files(self) -> dict[str, Path]:
        """Every suite that can be asked for by name.

        Raises:
            UserError: two have the same name.
        """
        self.load_environment()
        return self.suites.files()

    def import_file(self, path: Path, root: Path | None = None) -> ModuleType:
        """Imports a file as `_importing.import_file` does: it can import files beside it and others.

        Args:
            path, root: as for `_importing.import_file`.
        """
        return import_file(path, self._folders, root)

    def claims(self) -> list[tuple[Path, Callable[[], ModuleType]]]:
        """The files `claims.py` of shipped folders and of loaded plug-ins, in this order, with what imports each.

        Raises:
            UserError: `ROUTEBENCH_WITHOUT` names a folder that does not ship.
        """
        shipped = [(one.path / CLAIMS, partial(importlib.import_module, f"{one.package}.claims")) for one in bundles()]
        plugins = [(one.path / CLAIMS, one.root) for one in map(_plugin, self._plugins)]
        own = [(file, partial(self.import_file, file, root)) for file, root in plugins]
        return [(file, load) for file, load in (*shipped, *own) if file.is_file()]

    def beside(self, name: str) -> list[Path]:
        """The files of this name, such as `published.csv`, in shipped folders and in plug-in folders, in this order."""
        folders = [*(folder.path for folder in bundles()), *(_plugin(spec).path for spec in self._plugins)]
        return [file for folder in folders if (file := folder / name).is_file()]

    def replaces(self, origin: str) -> bool:
        """Tells whether names of this origin are there instead of a shipped folder that is left out.

        That is a plug-in folder with the name of one in `ROUTEBENCH_WITHOUT`: its parts have the versions that they
        say, as what ships has, so that results of the same versions are the same.
        """
        return any(_plugin(spec).path.name in without() for spec, known in self._plugins.items() if known == origin)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Loads all registries; forgets afterwards what was registered, loaded or imported from plug-ins meanwhile."""
        self.measures()
        for registry in self.registries.values():
            registry.load()
        parts = (self, self.suites, *self.registries.values())
        before = [_contents(part) for part in parts]
        modules, path = set(sys.modules), list(sys.path)
        try:
            yield
        finally:
            new = {name: sys.modules[name] for name in set(sys.modules) - modules}
            for name in [name for name in new if name.startswith(PREFIX) or _lies_in(new[name], self._folders)]:
                del sys.modules[name]
            sys.path[:] = path
            for part, contents in zip(parts, before, strict=True):
                vars(part).update(contents)

    def _add(self, plugin: Plugin) -> dict[str, list[str]]:
        with loading(plugin.origin):
            if plugin.path.is_dir():
                let_be_imported(plugin.path, self._folders)
            modules = [self.import_file(file, plugin.root) for file in plugin.files]
            named = self._register_by_kind(modules[0], plugin) if plugin.name else None
        added = {kind: registry.of(plugin.origin) for kind, registry in self.registries.items()}
        for kind in [kind for kind in added if added[kind]]:
            self.registries[kind].load()  # a clash with what is not loaded yet is found now
        suites = self.suites.add(plugin.origin, plugin.path.glob("suites/*.toml"))
        if not (suites or any(added.values()) or any((plugin.path / name).is_file() for name in READ)):
            raise _nothing_in(plugin, modules)
        return {**(named or added), "suites": suites}

    def _register_by_kind(self, module: ModuleType, plugin: Plugin) -> dict[str, list[str]]:
        """Registers what a plug-in names by what it is, in kebab-case, unless a decorator has registered it.

        Returns:
            what the object is registered as, by registry.

        Raises:
            UserError: the module does not define it, its kind cannot be told, or the name is taken.
        """
        entry = getattr(module, plugin.name, None)
        if entry is None:
            others = candidates(module)
            hint = (
                nearest(plugin.name, others) if others else "; it defines nothing that can be used: name another file"
            )
            raise UserError(f"plug-in {plugin.shown!r} defines no {plugin.name!r}{hint}")
        if not any(registry.names_of(entry) for registry in self.registries.values()):
            kind = kind_of(entry)
            if not kind:
                raise UserError(
                    f"plug-in '{plugin.shown}:{plugin.name}': expected a routing method, a model with "
                    "@models.facts(...), a protocol, a function with '-> Dataset' or '-> Analysis', or a part of "
                    f"training, got {entry!r:.80}; or decorate it"
                )
            self.registries[kind].register(kebab(plugin.name))(entry)
        return {kind: registry.names_of(entry) for kind, registry in self.registries.items()}

    def _forget(self, plugin: Plugin, known: Collection[str]) -> None:
        forget([package_name(plugin.root)] if plugin.root else map(module_name, plugin.files), known)
        if plugin.origin not in self._plugins.values():
            self.suites.drop(plugin.origin)
            for registry in self.registries.values():
                registry.drop(plugin.origin)
            for name in [name for name, origin in self._measured.items() if origin == plugin.origin]:
                del self._measures[name], self._measured[name]

    def _load(self, registry: Registry) -> None:
        """Fills a registry with what routebench brings, then installed packages, then plug-ins of the environment."""
        with loading(SHIPPED):
            if registry.kind == "analysis":  # files of a folder of the repository, in no package
                for file in sorted(shipped("analyses").glob("*.py")):
                    self.import_file(file)
            else:
                _import_modules(registry.package)
            for folder in bundles():
                for name in folder.modules(registry.package.rpartition(".")[2]):
                    importlib.import_module(name)
        self._load_installed(registry)
        self.load_environment()

    def _load_installed(self, registry: Registry) -> None:
        """Registers what installed packages bring of one kind. A broken entry is left out, with a one-line warning."""
        for point in installed_points(registry.package):
            origin = origin_of_point(point)
            with loading(origin):
                try:
                    entry = point.load()
                    if not inspect.ismodule(entry) and not registry.names_of(entry):
                        registry.register(point.name)(entry)
                except Exception as error:  # noqa: BLE001  # whatever it is, the other methods have to work
                    self.warn(
                        f"{origin} is left out: {registry.package} entry point {point.name!r}: {in_one_line(error)}"
                    )

    def warn(self, problem: str) -> None:
        """Keeps one line in `problems`, and tells it, once; of several processes, the first does."""
        if problem in self.problems:
            return
        self.problems.append(problem)
        if multiprocessing.parent_process() is None:
            logging.getLogger("routebench").warning("warning: %s", problem)


def plugin_files(spec: str) -> list[Path]:
    """The files that a plug-in consists of, suites apart.

    Raises:
        UserError: there is no such file or folder.
    """
    return _plugin(spec).files


def layout_of(spec: str) -> list[Path]:
    """The files of a plug-in that are found by their place: those of `plugin_files`, suites, and what reports read.

    Raises:
        UserError: there is no such file or folder.
    """
    plugin = _plugin(spec)
    read = [plugin.path / name for name in READ]
    return [*plugin.files, *sorted(plugin.path.glob("suites/*.toml")), *(file for file in read if file.is_file())]


def absolute(spec: str) -> str:
    """A plug-in as runs name it, with an absolute path.

    Raises:
        UserError: there is no such file or folder.
    """
    return _plugin(spec).spec


def plugins_of_environment() -> list[str]:
    """The plug-ins that the variable ROUTEBENCH_PLUGINS names, in the form of `--plugin`.

    They are separated as in PATH. Where that is a colon, a word after `FILE.py:` is a `Name`, unless a file or folder
    has this name.
    """
    specs: list[str] = []
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if specs and specs[-1].endswith(".py") and part.isidentifier() and not _exists(Path(part)):
            specs[-1] += f":{part}"
        else:
            specs.append(part)
    return specs


def _exists(path: Path) -> bool:
    """Tells whether there is such a file or folder; False where the name is too long for one."""
    try:
        return path.exists()
    except OSError:
        return False


def _plugin(spec: str) -> Plugin:
    shown, _, name = (spec, "", "") if _exists(Path(spec)) else spec.rpartition(":")
    shown, name = (shown, name) if shown else (spec, "")
    path = Path(os.path.realpath(shown))  # which a link in a circle does not stop
    if not _exists(permitted(path, f"plug-in {shown!r}")):
        raise UserError(f"plug-in {shown!r}: expected a Python file or a folder, got no such file; check the path")
    if not (path.is_dir() or path.is_file()):
        raise UserError(
            f"plug-in {shown!r}: expected a Python file or a folder, got {kind_of_file(path.stat())}; name another"
        )
    if path.is_dir() and name:
        raise UserError(f"plug-in {spec!r}: expected a file before the colon, got a folder; name the file, or no name")
    plugin = Plugin(path, name, shown)
    for folder in plugin.folders:
        permitted(folder, f"plug-in {shown!r}")  # `glob` finds nothing in what may not be looked at
    return plugin


def _nothing_in(plugin: Plugin, modules: list[ModuleType]) -> UserError:
    if plugin.path.is_dir():
        own = f"suites/*.toml, {', '.join(READ)}"
        layout = f"{own} or Python files that register something, in it or in {', '.join(KINDS)}"
        return UserError(f"plug-in {plugin.shown!r}: expected a folder with {layout}, got none")
    names = [name for module in modules for name in candidates(module)]
    hint = f", or name it: --plugin {plugin.shown}:{names[0]}" if names else ""
    return UserError(
        f"plug-in {plugin.shown!r} registers nothing; decorate a class with @routing.register('name'){hint}"
    )


def _import_modules(package: str) -> None:
    """Imports a module, and if it is a package, all that lie in it."""
    for module in pkgutil.iter_modules(getattr(importlib.import_module(package), "__path__", ())):
        importlib.import_module(f"{package}.{module.name}")


def _contents(part: object) -> dict[str, object]:
    """The attributes of an object, with containers copied."""
    return {name: value.copy() if isinstance(value, dict | list | set) else value for name, value in vars(part).items()}


def _lies_in(module: ModuleType, folders: Collection[Path]) -> bool:
    """Tells whether a module lies in one of the folders, be it a folder without `__init__.py`."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", ()))
    return any(Path(place).is_relative_to(folder) for place in places for folder in folders)
