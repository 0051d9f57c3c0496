"""A hash of the code that a result runs through, so that editing one method retrains that method and nothing else."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

UNCOUNTED = ("routebench", "routebench.errors", "routebench.registry", "routebench.claims")
"""Modules that everything imports and that cannot change a number."""


def source_hash(*modules: str) -> str:
    """Sixteen hexadecimal digits over modules and all that they import from their own packages, however indirectly.

    Imports are read off the source. Comments, docstrings and layout do not count.

    Args:
        modules: names of imported modules; a plug-in file is one, and so are the files beside it that it imports.
    """
    found = _closure(modules)
    lines = (f"{name} {_meaning(file)}" for name, file in sorted(found.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def defining_module(entry: Callable[..., Any]) -> str:
    """The module whose source defines a registered class or function."""
    return str(entry.__module__)


@cache
def _closure(modules: tuple[str, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [(name, file) for name in modules if (file := _file_of_loaded(name)) is not None]
    while waiting:
        name, file = waiting.pop()
        if name not in found and name not in UNCOUNTED:
            found[name] = file
            waiting += _imports(name, file)
    # A plug-in's module is named after the place of its file, which must not count.
    return {file.name if name.startswith("routebench_plugin_") else name: file for name, file in found.items()}


def _file_of_loaded(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else Path(file)


def _imports(name: str, file: Path) -> Iterator[tuple[str, Path]]:
    """The modules that a file imports, where they belong to its package, to routebench or to its folder."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for imported in _imported_names(ast.parse(file.read_bytes()), package):
        found = _locate(imported, {"routebench", name.partition(".")[0]}, file.parent)
        if found is not None:
            yield imported, found


def _imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def _find(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None  # a name in a module, rather than a module
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _locate(name: str, packages: set[str], folder: Path) -> Path | None:
    if name.partition(".")[0] in packages:
        found = _find(name)
        return found if found is not None and found.suffix == ".py" else None
    beside = folder / f"{name}.py"
    return beside if beside.is_file() else None


@cache
def _meaning(file: Path) -> str:
    """The hash of a file's code without docstrings, comments and layout."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [line for line in node.body if not _is_text(line)] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
