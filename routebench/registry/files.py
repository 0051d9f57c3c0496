"""Imports Python files that belong to no package."""

import ast
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from routebench.errors import PluginError, UserError, message_of

PREFIX = "routebench_plugin_"
"""How the names of their modules begin."""

_FOLDERS: set[Path] = set()
"""Where files were imported from; their neighbours can be imported by name."""


def module_name(path: Path) -> str:
    """The name that a file is imported under: two files of one name in different folders have different ones."""
    return f"{PREFIX}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def import_file(path: Path) -> ModuleType:
    """Imports a Python file once per process, under a name made from its path. It can import files beside it.

    Raises:
        PluginError: the file raised while it was imported; the message carries the error and its line.
        UserError: it is no Python file, or registers something that cannot be.
    """
    name = module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"plug-in {str(path)!r}: expected a Python file, got another; its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    let_be_imported(path.parent)
    try:
        spec.loader.exec_module(module)
        _check_neighbours(path)
    except UserError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line, text = _line_in(path, error), " ".join(message_of(error).split())
        raise PluginError(f"plug-in {path.name}{line} failed to import: {type(error).__name__}: {text}") from error
    return module


def let_be_imported(folder: Path) -> None:
    """Puts a folder on the path; last, so that nothing in it hides an installed package."""
    _FOLDERS.add(folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _check_neighbours(path: Path) -> None:
    """Raises UserError where a plug-in got a file of another plug-in's folder in place of its neighbour."""
    for name in imported_names(path):
        beside = {path.parent / f"{name}.py", path.parent / name / "__init__.py"}
        got = getattr(sys.modules.get(name), "__file__", None)
        if got is None or Path(got) in beside or not any(file.is_file() for file in beside):
            continue
        if {Path(got).parent, Path(got).parents[1]} & _FOLDERS:
            raise UserError(f"plug-in {path}: its neighbour {name!r} is hidden by {got}; rename one of the two")


def imported_names(path: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _line_in(path: Path, error: BaseException) -> str:
    traceback, line = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = f":{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line
