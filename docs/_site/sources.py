"""Excerpts of the sources, and what their options are: taken from the code as it is."""

import ast
import importlib
import inspect
import re
import textwrap
from itertools import pairwise
from types import ModuleType
from typing import Any

SECTION = re.compile(r"^\w+:$")


def source(*names: str) -> str:
    """The source of functions, methods, properties and constants of one module, one below the other.

    Docstrings are cut after their first line: a page says the rest in its own words. What is said of a constant is text
    below the code, with its name in front where there is other code too.

    Args:
        names: in full, such as `routebench.ops.squash.length`. A name that begins with `.` continues the one before it,
            in place of its last part.

    Raises:
        LookupError: there is no such thing.
    """
    full: list[str] = []
    for name in names:
        full.append(f"{full[-1].rpartition('.')[0]}{name}" if name.startswith(".") else name)
    module = _module_of(full[0])
    found = [_excerpt(name) for name in full]
    code = "\n\n".join(written for written, _ in found)
    block = f'```python title="{module.__name__.replace(".", "/")}.py"\n{code}\n```'
    told = [(name.rpartition(".")[2], words) for name, (_, words) in zip(full, found, strict=True) if words]
    return "\n\n".join([block, *(f"`{name}`: {words}" if len(full) > 1 else words for name, words in told)])


def options(*names: str) -> list[tuple[str, str, str, str]]:
    """Options of classes and functions with their defaults, and what their docstrings say.

    Args:
        names: in full; behind a colon, what to call it, and behind another the options to leave out, with commas.

    Returns:
        what takes it, its name, its default, what it is and why.

    Raises:
        LookupError: an option has no explanation.
    """
    rows = []
    for asked in names:
        name, called, without = (*asked.split(":"), "", "")[:3]
        one = named(name)
        told = explained(inspect.getdoc(one) or "")
        for option in inspect.signature(one).parameters.values():
            if option.default is not option.empty and option.name not in without.split(","):
                if option.name not in told:
                    raise LookupError(f"{name} does not explain {option.name}")
                rows.append((called or name.rpartition(".")[2], option.name, repr(option.default), told[option.name]))
    return rows


def explained(docstring: str) -> dict[str, str]:
    """What the section `Args` of a docstring says, by name."""
    found: dict[str, str] = {}
    names: list[str] = []
    inside = False
    for line in docstring.splitlines():
        if SECTION.match(line):
            inside = line == "Args:"
        elif inside and line.startswith("    ") and not line.startswith("     "):
            listed, _, words = line.strip().partition(": ")
            names = [name.strip() for name in listed.split(",")]
            found |= dict.fromkeys(names, words)
        elif inside and line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def _excerpt(name: str) -> tuple[str, str]:
    """A definition with its docstring and no words, or a constant and the words below it."""
    found = named(name)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    if callable(found):
        return _with_short_docstring(textwrap.dedent(inspect.getsource(found)).rstrip()), ""
    written = inspect.getsource(_module_of(name))
    for node, after in pairwise([*ast.parse(written).body, ast.Pass()]):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name.rpartition(".")[2]:
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            code = "\n".join(written.splitlines()[node.lineno - 1 : node.end_lineno])
            return code, inspect.cleandoc(str(told))
    raise LookupError(f"{name}: neither a definition nor a constant")


def _with_short_docstring(written: str) -> str:
    (defined,) = ast.parse(written).body
    first = defined.body[0] if isinstance(defined, ast.FunctionDef | ast.ClassDef) else None
    if not isinstance(first, ast.Expr) or first.end_lineno == first.lineno:
        return written
    lines = written.splitlines()
    opening = lines[first.lineno - 1]
    return "\n".join([*lines[: first.lineno - 1], f'{opening}"""', *lines[first.end_lineno :]])


def _module_of(name: str) -> ModuleType:
    """The longest beginning of a name that is a module."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
    raise LookupError(f"{name}: there is no such module")


def named(name: str) -> Any:
    """What a full name means; of a class, as it is written there.

    Raises:
        LookupError: there is no such thing.
    """
    module = _module_of(name)
    found: Any = module
    for part in name.removeprefix(module.__name__).strip(".").split("."):
        if not hasattr(found, part):
            raise LookupError(f"{name}: there is no {part}")
        found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
    return found
