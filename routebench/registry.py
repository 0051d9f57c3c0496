"""Names to objects: one registry per kind, filled by decorators, entry points and plug-in files.

>>> from routebench.registry import routing
>>> "dynamic" in routing
True
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from routebench.errors import PluginError, UserError, unknown

Registered = TypeVar("Registered", bound=Callable[..., Any])


class Registry:
    """The known objects of one kind.

    Built-in ones are the modules of `package`; they and those of installed packages (entry point group `package`)
    are imported on the first look-up, so that importing a registry is cheap.

    Args:
        kind: what an entry is, in words, for error messages.
        package: the package whose modules register the built-in entries; also the entry point group.
        shipped_as_files: the modules lie in a top-level folder of the repository (`analyses/`), not in a package.
    """

    def __init__(self, kind: str, package: str, *, shipped_as_files: bool = False):
        self.kind = kind
        self.package = package
        self.shipped_as_files = shipped_as_files
        self._entries: dict[str, Callable[..., Any]] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """A decorator that enters a class or function under `name`. A name that is taken raises `UserError`."""

        def enter(entry: Registered) -> Registered:
            taken = self._entries.get(name)
            if taken is not None and not _same_definition(taken, entry):
                raise UserError(
                    f"{self.kind} {name!r} of {entry.__module__} is taken by {taken.__module__}; choose another name"
                )
            self._entries[name] = entry
            return entry

        return enter

    def drop(self, module: str) -> None:
        """Takes out what a module has registered."""
        self._entries = {name: entry for name, entry in self._entries.items() if entry.__module__ != module}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        self._load()
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True  # first, because the modules imported below may look things up here
        if self.shipped_as_files:
            for file in sorted(shipped(self.package.rpartition(".")[2]).glob("*.py")):
                import_file(file)
        else:
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{module.name}")
        for point in importlib.metadata.entry_points(group=self.package):
            point.load()


routing = Registry("routing method", "routebench.routing")
models = Registry("model", "routebench.models")
datasets = Registry("data set", "routebench.data")
protocols = Registry("protocol", "routebench.protocols")
analyses = Registry("analysis", "routebench.analyses", shipped_as_files=True)

EVERY = {"methods": routing, "models": models, "data": datasets, "protocols": protocols, "analyses": analyses}


def shipped(folder: str) -> Path:
    """The folder `suites` or `analyses`: inside an installed wheel, beside the package in a checkout."""
    package = Path(__file__).parent
    installed = package / folder
    return installed if installed.is_dir() else package.parent / folder


def load_plugin(spec: str) -> dict[str, list[str]]:
    """Imports a user's file, so that its decorators run.

    Args:
        spec: `FILE.py`, or `FILE.py:Name` to ask that the file define `Name`.

    Returns:
        the names that the file added, by registry (`methods`, `models`, ...).

    Raises:
        UserError: the file is missing, does not import, registers nothing, or does not define `Name`.
    """
    file, _, name = spec.partition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise UserError(f"plug-in {file!r}: no such file")
    before = {kind: set(registry) for kind, registry in EVERY.items()}
    module = import_file(path)
    if name and not hasattr(module, name):
        raise UserError(f"plug-in {file!r} defines no {name!r}")
    added = {kind: sorted(set(registry) - before[kind]) for kind, registry in EVERY.items()}
    owned = {
        kind: sorted(entry for entry in registry if registry[entry].__module__ == module.__name__)
        for kind, registry in EVERY.items()
    }
    if not any(owned.values()):
        raise UserError(f"plug-in {file!r} registers nothing; decorate a class with @routing.register('name')")
    return {kind: sorted({*added[kind], *owned[kind]}) for kind in EVERY}


def import_file(path: Path) -> ModuleType:
    """Imports a Python file once per process, under a name made from its path.

    Raises:
        PluginError: the file raised while it was imported; the message carries the error and its line. What it had
            registered by then is taken out again.
        UserError: it is no Python file, or registers a name that is taken.
    """
    name = f"routebench_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"plug-in {str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        _forget(name)
        raise
    except Exception as error:
        _forget(name)
        line, text = _line_in(path, error), " ".join(str(error).split())
        raise PluginError(f"plug-in {path.name}{line} failed to import: {type(error).__name__}: {text}") from error
    return module


def _forget(module: str) -> None:
    """As if the module had never been imported."""
    del sys.modules[module]
    for registry in EVERY.values():
        registry.drop(module)


def _line_in(path: Path, error: Exception) -> str:
    traceback, line = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = f":{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line


def _same_definition(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether a module was imported anew, as happens when a worker process receives it."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
