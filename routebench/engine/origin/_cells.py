"""The code of what a notebook cell defines: such a module has no file, but Python keeps the lines of each cell."""

import ast
import dis
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from routebench.errors import UserError

LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
"""Instructions that look a name up in the notebook."""
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Used:
    """The parts of an object of a notebook.

    Args:
        nodes: the definitions of cells, by name.
        values: the plain values of cells that these use, by name, as Python writes them.
        files: files of the modules that they use.
    """

    nodes: dict[str, Definition] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)


def is_of_cell(entry: object) -> bool:
    """Tells whether a class or function is defined in a notebook cell, or in other lines without a file."""
    module = sys.modules.get(str(getattr(entry, "__module__", "")))
    return module is not None and module.__spec__ is None and getattr(module, "__file__", None) is None


def used_by(entry: Callable[..., Any]) -> Used:
    """The definition of an object of a notebook, and all of the notebook that it uses, as it is now.

    What was put into a class after its definition is not seen.

    Raises:
        UserError: the lines of a cell are not kept, as by `python -c`, or a value of one cannot be compared.
    """
    used, waiting = Used(), [entry]
    while waiting:
        one = waiting.pop()
        if one.__qualname__ in used.nodes:
            continue
        used.nodes[one.__qualname__] = _definition(one)
        notebook = vars(sys.modules[one.__module__])
        for name in sorted(_names_in(used.nodes[one.__qualname__]) & notebook.keys()):
            value = notebook[name]
            if isinstance(value, ModuleType):
                _add_file(value, used)
            elif is_of_cell(value) and (inspect.isclass(value) or inspect.isroutine(value)):
                waiting.append(value)
            elif inspect.isclass(value) or inspect.isroutine(value):
                _add_file(sys.modules.get(str(value.__module__)), used)
            elif _is_plain(value):
                used.values[name] = repr(value)
            else:
                kind = type(value).__name__
                raise UserError(
                    f"{entry.__qualname__} uses {name!r} of the notebook, a {kind}, which no hash tells from another; "
                    f"make it in {entry.__qualname__}, or save both as a file and import it"
                )
    return used


def _definition(entry: Callable[..., Any]) -> Definition:
    """The statement that defines a class or function."""
    for code in _codes_of(entry):
        lines = linecache.getlines(code.co_filename)
        for node in ast.walk(ast.parse("".join(lines))) if lines else ():
            if isinstance(node, Definition) and node.name == entry.__qualname__ and _holds(node, code):
                return node
    raise UserError(
        f"{entry.__qualname__}: expected a file or a notebook cell that its source can be read from, got none; save it "
        "as a file and import it, or name it with --plugin"
    )


def _codes_of(entry: Callable[..., Any]) -> Iterator[CodeType]:
    """The compiled code of a function, or of the functions in a class."""
    for one in vars(entry).values() if inspect.isclass(entry) else [entry]:
        inner: Any = getattr(one, "fget", None) or getattr(one, "__func__", one)
        code = getattr(inspect.unwrap(inner), "__code__", None) if callable(inner) else None
        if isinstance(code, CodeType):
            yield code


def _holds(node: Definition, code: CodeType) -> bool:
    first = min(one.lineno for one in (node, *node.decorator_list))
    return first <= code.co_firstlineno <= (node.end_lineno or first)


def _names_in(node: Definition) -> set[str]:
    """The names that a definition looks up outside itself."""
    names, waiting = set(), [compile(ast.Module([node], []), "cell", "exec")]
    while waiting:
        code = waiting.pop()
        names |= {str(one.argval) for one in dis.get_instructions(code) if one.opname in LOADS}
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names


def _add_file(module: ModuleType | None, used: Used) -> None:
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).suffix == ".py":
        used.files.add(Path(file).resolve())


def _is_plain(value: object) -> bool:
    """Tells whether its text says all of a value."""
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))  # type: ignore[call-overload]  # of these two
    return value is None or type(value) in (bool, int, float, complex, str, bytes)
