"""The import of Python files that belong to no installed package: plug-ins, and what lies beside them."""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType

from routebench.errors import PluginError, UserError, message_of, printable
from routebench.registry._loaded import AsRead, loaded_source
from routebench.registry._origin import shipped

PREFIX = "routebench_plugin_"
"""The beginning of the names of plug-ins' modules."""

IMPORTS = {"import_module", "__import__"}
"""Functions that import what their first argument names."""

PRINTED = 4_000
"""Most bytes shown of what a plug-in prints while it is imported or a suite is planned."""


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

    Python itself runs a compiled file if the source has the time and size that it names. One may even say: do not look.

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
    if all(folder.is_relative_to(shipped("analyses")) for folder in folders):
        return  # no plug-in is there yet
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
    """Finds the file of a module below a folder by its dotted name; None if nothing has it.

    Args:
        folder: the folder.
        module: the dotted name; empty for the folder's own.
    """
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
