"""A fingerprint of the code that a result runs through, so that a change of the code never serves old results."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
UNCOUNTED = {PACKAGE / name for name in ("__init__.py", "registry.py", "errors.py", "claims.py")}
"""The first two know everything by name, so that following them would reach all; the others change no number."""

OTHER_LANGUAGES = (".cpp", ".cu")


def source_hash(*entries: Callable[..., Any] | str) -> str:
    """16 hex digits over the given objects' files (or modules, by name) and all of routebench that they import.

    Comments, blank lines and docstrings of Python do not count. A kernel's source in another language is the file of
    the same name as the module that loads it.
    """
    files = {file for entry in entries for file in _reachable(_file_of(entry))}
    digest = hashlib.sha256()
    for name, file in sorted((_name(file), file) for file in files):
        digest.update(f"{name}\n{_code(file)}\n".encode())
    return digest.hexdigest()[:16]


def fit_code(model: Callable[..., Any], method: Callable[..., Any] | None) -> list[Callable[..., Any] | str]:
    """What a trained model comes from, for `source_hash`: the loop, the network and what builds it, the routing."""
    code: list[Callable[..., Any] | str] = ["routebench.training", "routebench.models.build", model]
    return code if method is None else [*code, method]


def _file_of(entry: Callable[..., Any] | str) -> Path:
    module = entry if isinstance(entry, str) else entry.__module__
    file = sys.modules[module].__file__ if module in sys.modules else None
    if file is None:
        file = inspect.getfile(entry) if not isinstance(entry, str) else str(_module_file(entry))
    return Path(file).resolve()


@cache
def _reachable(start: Path) -> frozenset[Path]:
    """The file and every file of the package that it imports, directly or not."""
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
    """The files that one file imports, of this package or, for a plug-in, of its own folder.

    A package's `__init__` stands for the names it passes on.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    own = frozenset(_files(name for name in names if name.split(".")[0] == PACKAGE.name))
    if file.is_relative_to(PACKAGE):
        return own
    return own | {beside for name in names if (beside := file.with_name(f"{name}.py")).is_file()}


def _files(names: Iterable[str]) -> Iterable[Path]:
    for name in names:
        file = _module_file(name)
        if file is not None and file not in UNCOUNTED:
            yield file


def _module_file(name: str) -> Path | None:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix() if file.is_relative_to(PACKAGE) else file.name


@cache
def _code(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix in OTHER_LANGUAGES:
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)  # `ast.dump` differs between versions of Python
