"""Hashes the code that a result runs through: yours, so that changed code never reuses old results, and routebench's.

It is the code that this process has loaded, as `routebench.registry.loaded_source` tells it. A process imports
routebench once: of its own files, the code is what was found at the first question.
"""

import ast
import hashlib
import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from routebench.engine.origin import _cells
from routebench.registry import loaded_source, own_files_of

PACKAGE = Path(__file__).resolve().parents[2]
UNCOUNTED = {
    *(PACKAGE / name for name in ("__init__.py", "atomic.py", "errors.py", "claims.py", "declared.py")),
    *PACKAGE.glob("registry/*.py"),
}
"""`__init__` and `registry` import everything, so that following them would reach all files."""

OTHER_LANGUAGES = (".cpp", ".cu")


@dataclass(frozen=True)
class Code:
    """Hashes of the code that a result runs through.

    Args:
        yours: hash of files and notebook cells outside routebench; empty if there are none.
        shipped: hash of routebench's own files.
    """

    yours: str
    shipped: str


def code_of(*entries: Callable[..., Any] | str, shipped: bool = True) -> Code:
    """Hashes over the given objects' files (or modules, by name) and all that they import, each of 16 hex digits.

    Comments, blank lines and docstrings of Python do not count. A kernel's source in another language is the file of
    the same name as the module that loads it. Of an object that a notebook cell defines, its own lines count, and what
    they use.

    Args:
        entries: what a result runs through.
        shipped: whether routebench's own files are asked for.

    Raises:
        UserError: an object has no source that can be read.
    """
    found = _found(entries, shipped=shipped)
    ours = {file for file in found.files if file.is_relative_to(PACKAGE)}
    read = [one for file in sorted(found.files - ours) for one in sorted(own_files_of(file).items())]
    yours = [*_named(found.files - ours), *sorted(found.cells.items()), *read]
    return Code(_digest(yours) if yours else "", _digest(_named(ours)) if ours else "")


def fit_code(model: Callable[..., Any], method: Callable[..., Any] | None) -> list[Callable[..., Any] | str]:
    """The code behind a trained model, for `source_hash`: the training loop, the network, its builder, the routing."""
    code: list[Callable[..., Any] | str] = ["routebench.training", "routebench.models.build", model]
    return code if method is None else [*code, method]


def package_stamp() -> str:
    """Changes with every edit of a file of routebench on disk, and takes no longer than to list the files."""
    digest = hashlib.sha256()
    for folder, _, names in os.walk(PACKAGE):
        for name in names:
            if name.endswith((".py", *OTHER_LANGUAGES)):
                file = Path(folder, name)
                known = file.stat()
                digest.update(f"{file} {known.st_size} {known.st_mtime_ns}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Found:
    """The files that a result runs through, and the code of notebook cells by name."""

    files: set[Path]
    cells: dict[str, str]


def _found(entries: Iterable[Callable[..., Any] | str], *, shipped: bool = True) -> _Found:
    found = _Found(set(), {})
    for entry in entries:
        if not isinstance(entry, str) and _cells.is_of_cell(entry):
            used = _cells.used_by(entry)
            found.cells.update({name: _without_docstrings(node) for name, node in used.nodes.items()} | used.values)
            cell = Path.cwd() / "cell.py"
            imported = {one for node in used.nodes.values() for one in _imported_in(node, cell)}
            starts = imported | {file for file in used.files if not _library_of(file)} - UNCOUNTED
        else:
            starts = {_file_of(entry)}
        found.files.update(*(_reachable(file, shipped=shipped) for file in starts))
    return found


def _digest(parts: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for name, code in parts:
        digest.update(f"{name}\n{code}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()[:16]


def _named(files: Iterable[Path]) -> list[tuple[str, str]]:
    return [(name, _code(file)) for name, file in sorted((_name(file), file) for file in files)]


def _file_of(entry: Callable[..., Any] | str) -> Path:
    module = entry if isinstance(entry, str) else entry.__module__
    file = sys.modules[module].__file__ if module in sys.modules else None
    if file is None:
        file = inspect.getfile(entry) if not isinstance(entry, str) else str(_in_folder(PACKAGE.parent, module))
    return Path(file).resolve()


def _reachable(start: Path, *, shipped: bool = True) -> set[Path]:
    """The file and every file that it imports, directly or not; routebench's own among them if they are asked for."""
    if start.is_relative_to(PACKAGE):
        return {*_reachable_here(start)} if shipped else set()
    found, waiting = {start}, [start]
    while waiting:
        for imported in _imported(waiting.pop()) - found:
            if imported.is_relative_to(PACKAGE):
                found |= _reachable_here(imported) if shipped else set()
            else:
                found.add(imported)
                waiting.append(imported)
    return found | {beside for file in found for beside in _beside(file)}


@cache
def _reachable_here(start: Path) -> frozenset[Path]:
    """The result of `_reachable` for a file of routebench."""
    found, waiting = {start}, [start]
    while waiting:
        new = _imported_here(waiting.pop()) - found
        found |= new
        waiting += new
    return frozenset(found | {beside for file in found for beside in _beside(file)})


def _beside(file: Path) -> Iterator[Path]:
    return (beside for beside in (file.with_suffix(suffix) for suffix in OTHER_LANGUAGES) if beside.is_file())


def _imported(file: Path) -> frozenset[Path]:
    """The files that one file imports: of routebench, its own package, a plug-in's folder, the user's path.

    A package's `__init__` counts for the names that it re-exports. Other libraries do not count.
    """
    return _imported_in(_parsed(loaded_source(file))[0], file)


_imported_here = cache(_imported)


def _imported_in(tree: ast.AST, file: Path) -> frozenset[Path]:
    """The files that a part of a file imports."""
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, file)
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    if not file.is_relative_to(PACKAGE):
        names.add(_package_of(file))  # its `__init__` runs before it
    return frozenset(found for name in names for found in _files_of(name, file)) - UNCOUNTED


def _absolute(node: ast.ImportFrom, file: Path) -> str:
    """The module of `from ... import`, without leading dots."""
    if not node.level:
        return node.module or ""
    package = _package_of(file).split(".")
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _package_of(file: Path) -> str:
    """Dotted name of a file's package; empty without one."""
    return ".".join(file.parent.relative_to(_root_of(file)).parts)


def _files_of(name: str, file: Path) -> list[Path]:
    """Files that importing a name runs: its own and, outside routebench, those of its packages."""
    parts = name.split(".")
    if parts[0] == PACKAGE.name:
        found = _in_folder(PACKAGE.parent, name)
        return [] if found is None else [found]
    root = None if file.is_relative_to(PACKAGE) else _where(parts[0], file)
    if root is None:
        return []
    steps = (_in_folder(root, ".".join(parts[:length])) for length in range(1, len(parts) + 1))
    return [step for step in steps if step is not None]


def _where(top: str, file: Path) -> Path | None:
    """The folder from which a file imports a top-level module; None if it is another library's."""
    root = _root_of(file)
    if _library_of(file):
        own = file.relative_to(root).with_suffix("").parts[0]
        return root if top == own else None
    return root if _in_folder(root, top) else _on_path(top)


def _root_of(file: Path) -> Path:
    """The folder from which absolute imports of a file's package start; for a plug-in, its own."""
    if library := _library_of(file):
        return library
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _on_path(top: str) -> Path | None:
    """The folder of a module of the user's on `sys.path`; None if it belongs to a library."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    origin = Path(spec.origin).resolve() if spec and spec.origin else None
    if spec is None or origin is None or not origin.is_file() or _library_of(origin):
        return None
    return origin.parents[2] if spec.submodule_search_locations else origin.parent


@cache
def _library_of(file: Path) -> Path | None:
    """The folder of installed packages, or of Python itself, that holds a file: recognised by name, or by torch."""
    torch = importlib.util.find_spec("torch")
    known = {Path(sysconfig.get_path("stdlib")).resolve()}
    known |= {Path(torch.origin).resolve().parents[2]} if torch and torch.origin else set()
    return next(
        (folder for folder in file.parents if folder.name in {"site-packages", "dist-packages"} or folder in known),
        None,
    )


def _in_folder(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix() if file.is_relative_to(PACKAGE) else file.name


def _code(file: Path) -> str:
    return _code_here(file) if file.is_relative_to(PACKAGE) else _code_of(file)


def _code_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.suffix in OTHER_LANGUAGES else _parsed(loaded_source(file))[1]


_code_here = cache(_code_of)


@lru_cache(maxsize=1024)
def _parsed(source: bytes) -> tuple[ast.Module, str]:
    """The tree of a Python file, and the same as text without comments and docstrings."""
    tree = ast.parse(source)
    return tree, _without_docstrings(tree)


def _without_docstrings(tree: ast.AST) -> str:
    """The code below a node, from which docstrings are taken."""
    for node in (tree, *_statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)  # `ast.dump` differs between versions of Python


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below a node. Expressions, which hold no others, are most of a tree: `ast.walk` takes long."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # the latter two hold bodies
        for below in getattr(node, field, ()):
            if isinstance(below, ast.stmt):
                yield below
            yield from _statements(below)
