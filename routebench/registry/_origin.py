"""The origin of a name: routebench itself, an installed package, a plug-in, or a program that uses routebench.

Also the import of a Python file that belongs to no package.
"""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType, FrameType, ModuleType
from typing import Any

from routebench.errors import PluginError, UserError, message_of, printable
from routebench.registry._loaded import AsRead, loaded_source

SHIPPED = "routebench"
"""The origin of what routebench brings itself."""

OF_MODULE = "module "
"""The beginning of the origin of what a program or a notebook registers itself."""

PROGRAM = "this program"
"""The origin of measures that a program or a notebook declares itself."""

PREFIX = "routebench_plugin_"
"""The beginning of the names of plug-ins' modules."""

IMPORTS = {"import_module", "__import__"}
"""Functions that import what their first argument names."""

PRINTED = 4_000
"""Bytes of what a plug-in prints while it is imported, or while a suite is planned, that are told."""

PACKAGE = Path(__file__).parents[1]


class _Load:
    """One loading of a plug-in, a package or what ships; it is no other's, even of the same.

    Args:
        origin: what is loaded, in words for messages.
    """

    def __init__(self, origin: str):
        self.origin = origin


_loading: ContextVar[_Load | None] = ContextVar("loading", default=None)


@contextmanager
def loading(origin: str) -> Iterator[None]:
    """Attributes everything registered meanwhile to `origin`, unless it lies in a module of routebench."""
    token = _loading.set(_Load(origin))
    try:
        yield
    finally:
        _loading.reset(token)


def origin_of(entry: Callable[..., Any]) -> str:
    """The origin of an object that is registered now, in words for messages."""
    module = getattr(entry, "__module__", type(entry).__module__)
    if module.startswith(f"{SHIPPED}."):
        return SHIPPED
    load = _loading.get()
    return load.origin if load else f"{OF_MODULE}{module}"


def origin_now() -> str:
    """The origin of what is declared now: the one that is being loaded, else the program."""
    load = _loading.get()
    return load.origin if load else PROGRAM


@dataclass(frozen=True)
class Registration:
    """The place of a registration: the line of a module, a script or a notebook's cell that runs meanwhile.

    Args:
        code: the code that runs, compiled once for each import, reload and run of a cell; None outside of any.
        line: number of the line in it.
        load: what is being loaded; None for a program's own.
    """

    code: CodeType | None
    line: int
    load: _Load | None

    @classmethod
    def now(cls) -> "Registration":
        """The place of whoever calls."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "<module>":
            frame = frame.f_back
        return cls(frame and frame.f_code, frame.f_lineno if frame else 0, _loading.get())

    def is_again(self, first: "Registration") -> bool:
        """Tells whether this is another registration than the first one, and yet of the same load.

        The same line again may be a cell that is run again, or a file that one load imports under two names.
        """
        if self.code is None or first.code is None:
            return False
        same_code, same_load = self.code is first.code, self.load is not None and self.load is first.load
        return (same_code and same_load) or ((same_code or same_load) and str(self) != str(first))

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).name if self.code else ''}:{self.line}"


def same_definition(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Tells whether both are the same lines of one file, imported twice, as a notebook or a worker process does."""
    return one is other or _place_of(one) == _place_of(other)


def _place_of(entry: Callable[..., Any]) -> tuple[str, object]:
    file = getattr(sys.modules.get(entry.__module__), "__file__", None)
    module = entry.__module__ if file is None else str(Path(file).resolve())
    return module, getattr(entry, "__qualname__", entry)


def shipped(folder: str) -> Path:
    """The folder `suites` or `analyses`: inside an installed wheel, beside the package in a checkout."""
    installed = PACKAGE / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder


def installed_points(*groups: str) -> list[EntryPoint]:
    """The entry points of some groups that installed packages bring, as they were at the first question."""
    known = _points(tuple(sys.path))
    return [point for group in groups for point in known.select(group=group)]


@cache
def _points(path: tuple[str, ...]) -> Any:  # noqa: ARG001  # the path is what this is kept by
    """All entry points of packages on a path, to select from: of another type in Python 3.11 than later."""
    return entry_points()


def origin_of_point(point: EntryPoint) -> str:
    """The package that brings an entry point, in words for messages."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"package of {point.value}"


def in_one_line(error: Exception) -> str:
    """An error of foreign code in one line; a UserError is its own message."""
    text = " ".join(message_of(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def module_name(path: Path, root: Path | None = None) -> str:
    """The name that a file is imported under.

    Args:
        path: path of the file.
        root: the package that it belongs to. The name then has the folders between, and is the same wherever the
            package lies. Without one, two files of one name in different folders have different names.
    """
    if root is None:
        return f"{PREFIX}{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    inner = path.relative_to(root).with_suffix("").parts
    return ".".join([package_name(root), *(inner[:-1] if inner[-1] == "__init__" else inner)])


def package_name(root: Path) -> str:
    """The name that a plug-in's folder is imported under if it is a package."""
    return PREFIX + re.sub(r"\W", "_", root.name)


def import_file(path: Path, folders: set[Path], root: Path | None = None) -> ModuleType:
    """Imports a Python file once per process. It can import files beside it, and in a package those above it.

    Args:
        path: path of the file.
        folders: the folders whose files can be imported by name; the file's own, or the package, is added.
        root: the package that it belongs to; None for a file of its own.

    Raises:
        PluginError: the file raised while it was imported; the message carries the error and its line.
        UserError: it is no Python file, or registers something that cannot be; another package has its name.
    """
    name, known = module_name(path, root), {*sys.modules}
    if name in known:
        return _same_place(sys.modules[name], path)
    let_be_imported(root or path.parent, folders)
    try:
        with nullcontext() if path.is_relative_to(shipped("analyses")) else telling(f"plug-in {path.name}"):
            module = _run_file(path, name) if root is None else _run_in_package(name, root)
        _check_neighbours(path, {*sys.modules} - known, folders)
    except UserError:
        forget([name if root is None else package_name(root)], known)
        raise
    except (Exception, SystemExit) as error:
        forget([name if root is None else package_name(root)], known)
        place, text = _place_in(path, root, error), " ".join(message_of(error).split())
        raise PluginError(f"plug-in {place} failed to import: {type(error).__name__}: {text}") from error
    return module


def _run_file(path: Path, name: str) -> ModuleType:
    own = None if path.is_relative_to(shipped("analyses")) or path.suffix != ".py" else AsRead(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=own)
    if spec is None or spec.loader is None:
        raise UserError(f"plug-in {str(path)!r}: expected a Python file, got another; its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _run_in_package(name: str, root: Path) -> ModuleType:
    if not any(isinstance(finder, _OfPackages) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OfPackages())
    if (top := package_name(root)) in sys.modules:
        _same_place(sys.modules[top], root / "__init__.py")
    else:
        file = str(root / "__init__.py")
        spec = importlib.util.spec_from_file_location(
            top, file, loader=AsRead(top, file), submodule_search_locations=[str(root)]
        )
        assert spec is not None and spec.loader is not None
        sys.modules[top] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[top])
    return importlib.import_module(name)


class _OfPackages(MetaPathFinder):
    """Finds the modules of plug-ins that are packages, so that they run as their files are now."""

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module, as any finder gives it; None for what belongs to no such package."""
        if path is None or not fullname.startswith(PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, [*path], target)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = AsRead(fullname, spec.origin)
        return spec


class _OfNeighbours(MetaPathFinder):
    """Finds what lies beside the files of plug-ins, so that it runs as its files are now, and as they are hashed.

    Python itself takes code that it compiled before by its time and size, or without a look, as whoever sends it wants.

    Args:
        folders: those of plug-ins, in which top-level modules and packages may lie.
    """

    def __init__(self) -> None:
        self.folders: set[Path] = set()

    def find_spec(
        self, fullname: str, path: Iterable[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module, as any finder gives it; None for what lies elsewhere."""
        where = None if path is None else [*path]
        if where is None and not any((folder / fullname).is_dir() or (folder / f"{fullname}.py").is_file()
                                     for folder in self.folders):  # fmt: skip
            return None
        if where is not None and not self._holds(fullname.partition(".")[0]):
            return None
        spec = PathFinder.find_spec(fullname, where, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        file = Path(spec.origin)
        if where is None and not {file.parent, file.parents[1]} & self.folders:
            return None  # what is installed comes first
        spec.loader = AsRead(fullname, spec.origin)
        return spec

    def _holds(self, name: str) -> bool:
        """Tells whether a package that was imported lies in one of the folders."""
        return any(Path(place).parent in self.folders for place in getattr(sys.modules.get(name), "__path__", ()))


_NEIGHBOURS = _OfNeighbours()


def _same_place(module: ModuleType, file: Path) -> ModuleType:
    """The module, if it was loaded from this file."""
    other = Path(module.__file__ or "")
    if other != file and file.exists() and not (other.exists() and other.samefile(file)):
        raise UserError(f"plug-in {file}: a package of the same name is loaded from {other.parent}; rename one folder")
    return module


def forget(tops: Iterable[str], known: Collection[str]) -> None:
    """Takes modules out that were imported in vain: these and those below them, but for `known` ones."""
    for top in tops:
        for name in [one for one in sys.modules if one == top or one.startswith(f"{top}.")]:
            if name not in known:
                del sys.modules[name]


@contextmanager
def telling(who: str) -> Iterator[None]:
    """Tells what a plug-in prints meanwhile on standard error, each line behind its name.

    Else it would stand in the output of a command, such as JSON, and could steer the terminal.
    """
    with TemporaryFile() as printed:
        try:
            with _into(printed.fileno()):
                yield
        finally:
            printed.seek(0)
            for line in printed.read(PRINTED).decode(errors="replace").splitlines():
                sys.stderr.write(printable(f"{who} prints: {line}") + "\n")


@contextmanager
def _into(file: int) -> Iterator[None]:
    """Leads standard output and standard error to a file, what other languages write too."""
    kept = {}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        for number in (1, 2):
            with suppress(OSError):  # it is closed
                kept[number] = os.dup(number)
                os.dup2(file, number)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, before in kept.items():
            os.dup2(before, number)
            os.close(before)


def let_be_imported(folder: Path, folders: set[Path]) -> None:
    """Puts a folder on the path, and among those; last, so that nothing in it hides an installed package."""
    folders.add(folder)
    if not folder.is_relative_to(shipped("analyses")):
        _NEIGHBOURS.folders.add(folder.absolute())
        if _NEIGHBOURS not in sys.meta_path:  # after what is built in, which nothing hides
            at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
            sys.meta_path.insert(at, _NEIGHBOURS)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _check_neighbours(path: Path, new: Collection[str], folders: set[Path]) -> None:
    """Raises UserError where a plug-in got a file of another plug-in in place of its own.

    Args:
        path: a file of the plug-in.
        new: names of the modules that were imported with it.
        folders: the folders of all plug-ins.
    """
    own = sorted((folder for folder in folders if path.is_relative_to(folder)), key=lambda folder: -len(folder.parts))
    neighbours = {file for name in new if (file := _file_of(name)) and _root_of(name, file) in own}
    for file in sorted({path, *neighbours}):
        for name in sorted(_imported_names(file)):
            beside = next((found for folder in own if (found := in_folder(folder, name))), None)
            got = _file_of(name) or _first_of(name, folders)
            if beside is not None and got not in (None, beside, file) and _root_of(name, got) in folders:
                raise UserError(f"plug-in {file}: its neighbour {name!r} is hidden by {got}; rename one of the two")


def _file_of(module: str) -> Path | None:
    """The Python file of a module that was imported; None for any other, and where none was."""
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    return file if file.suffix == ".py" else None


def _first_of(module: str, folders: set[Path]) -> Path | None:
    """Finds the file that a later import of a module would run, of those in plug-ins' folders."""
    of_plugins = (folder for folder in map(Path, sys.path) if folder in folders)
    return None if module in sys.modules else next(filter(None, (in_folder(one, module) for one in of_plugins)), None)


def _root_of(module: str, file: Path) -> Path:
    """The folder on the path that a module lies in, by its dotted name."""
    above = module.count(".") + (file.name == "__init__.py")
    return file.parents[min(above, len(file.parents) - 1)]


def in_folder(folder: Path, module: str) -> Path | None:
    """Finds the file of a module below a folder by its dotted name; None if nothing has it."""
    path = folder.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py") if module else (path / "__init__.py",):
        if file.is_file():
            return file
    return None


def _imported_names(path: Path) -> set[str]:
    """The dotted names that a file imports, anywhere in it; not those that are relative to its package.

    Also those that it gives to `import_module` or `__import__` as they are.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(loaded_source(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTS:
            names |= {
                one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    steps = (name.split(".") for name in names if not name.startswith("."))
    return {".".join(parts[:length]) for parts in steps for length in range(1, len(parts) + 1)}


def _place_in(path: Path, root: Path | None, error: BaseException) -> str:
    """The file that raised, with the line: of a package the innermost of its files, named from its folder on."""
    place, trace = path, error.__traceback__
    line = ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file == path or (root is not None and file.is_relative_to(root)):
            place, line = file, f":{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and root is not None and error.filename:
        inner = Path(error.filename)
        place, line = (inner, f":{error.lineno}") if inner.is_relative_to(root) else (place, line)
    return f"{place.name if root is None else place.relative_to(root.parent)}{line}"
