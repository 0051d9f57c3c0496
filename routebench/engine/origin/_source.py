"""Hashes the code that a result runs through: the user's, so that changed code never reuses old results, and ours."""

import ast
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2]
UNCOUNTED = {
    *(PACKAGE / name for name in ("__init__.py", "atomic.py", "errors.py", "claims.py")),
    *PACKAGE.glob("registry/*.py"),
}
"""`__init__` and `registry` import everything, so that following them would reach all files."""

OTHER_LANGUAGES = (".cpp", ".cu")


def source_hash(*entries: Callable[..., Any] | str) -> str:
    """16 hex digits over the user's files behind the given objects (or modules, by name); empty where there are none.

    Comments, blank lines and docstrings of Python do not count.
    """
    return _hash({file for file in _behind(entries) if not file.is_relative_to(PACKAGE)})


def shipped_hash(*entries: Callable[..., Any] | str) -> str:
    """As `source_hash`, over the files of routebench.

    A kernel's source in another language is the file of the same name as the module that loads it.
    """
    return _hash({file for file in _behind(entries) if file.is_relative_to(PACKAGE)})


def _behind(entries: Iterable[Callable[..., Any] | str]) -> set[Path]:
    return {file for entry in entries for file in _reachable(_file_of(entry))}


def _hash(files: set[Path]) -> str:
    if not files:
        return ""
    digest = hashlib.sha256()
    for name, file in sorted((_name(file), file) for file in files):
        digest.update(f"{name}\n{_code(file)}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()[:16]


def fit_code(model: Callable[..., Any], method: Callable[..., Any] | None) -> list[Callable[..., Any] | str]:
    """The code behind a trained model, for `source_hash`: the training loop, the network, its builder, the routing."""
    code: list[Callable[..., Any] | str] = ["routebench.training", "routebench.models.build", model]
    return code if method is None else [*code, method]


def _file_of(entry: Callable[..., Any] | str) -> Path:
    module = entry if isinstance(entry, str) else entry.__module__
    file = sys.modules[module].__file__ if module in sys.modules else None
    if file is None:
        file = inspect.getfile(entry) if not isinstance(entry, str) else str(_in_folder(PACKAGE.parent, module))
    return Path(file).resolve()


@cache
def _reachable(start: Path) -> frozenset[Path]:
    """The file and every file that it imports, directly or not."""
    found, waiting = {start}, [start]
    while waiting:
        file = waiting.pop()
        found |= {beside for beside in (file.with_suffix(suffix) for suffix in OTHER_LANGUAGES) if beside.is_file()}
        for imported in _imported(file) - found:
            found.add(imported)
            waiting.append(imported)
    return frozenset(found)


@cache
def _imported(file: Path) -> frozenset[Path]:
    """The files that one file imports: of routebench, its own package, a plug-in's folder, the user's path.

    A package's `__init__` counts for the names that it re-exports. Other libraries do not count.
    """
    names: set[str] = set()
    for node in _statements(_tree(file)):
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


@cache
def _root_of(file: Path) -> Path:
    """The folder from which absolute imports of a file's package start; for a plug-in, its own."""
    if library := _library_of(file):
        return library
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


@cache
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


@cache
def _in_folder(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix() if file.is_relative_to(PACKAGE) else file.name


@cache
def _code(file: Path) -> str:
    if file.suffix in OTHER_LANGUAGES:
        return file.read_text(encoding="utf-8")
    tree = _tree(file)
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


@cache
def _tree(file: Path) -> ast.Module:
    """A file of Python, parsed once for both questions; `_code` takes docstrings out of it."""
    return ast.parse(file.read_text(encoding="utf-8"))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below a node. Expressions, which hold no others, are most of a tree: `ast.walk` takes long."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # the latter two hold bodies
        for below in getattr(node, field, ()):
            if isinstance(below, ast.stmt):
                yield below
            yield from _statements(below)
