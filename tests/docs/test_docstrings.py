"""Docstrings begin with a noun or a verb, and arguments are said by what they are."""

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec

import routebench
from tests.docs.pages import ROOT

FILES = [*ROOT.glob("routebench/**/*.py"), *ROOT.glob("analyses/*.py")]
NEITHER = {
    *("What", "Whether", "Where", "How", "Of", "Which", "When", "Likewise."),
    *("As", "At", "By", "For", "From", "In", "On", "With"),
}
OF = re.compile(r"^ +[\w, *`]+: of ", re.MULTILINE)
ARGUMENTS = re.compile(r"^ +((?:\w+, )*\w+): ", re.MULTILINE)
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings():
    """Every docstring, with the place of what it is of."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, DEFINITIONS) and (text := ast.get_docstring(node, clean=False)):
                yield f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def test_docstrings_begin_with_a_noun_or_a_verb():
    assert [f"{place}: {text.splitlines()[0]}" for place, text in docstrings() if text.split()[0] in NEITHER] == []


def test_arguments_are_said_by_what_they_are():
    found = [(place, line) for place, text in docstrings() for line in OF.findall(text.partition("Args:\n")[2])]
    assert found == []


def modules():
    """Every public module of routebench, without commands, whose docstrings are their help."""
    for found in pkgutil.walk_packages(routebench.__path__, "routebench."):
        _, room, *inner = found.name.split(".")
        is_missing = "triton" in found.name and find_spec("triton") is None
        if room != "commands" and not any(part.startswith("_") for part in (room, *inner)) and not is_missing:
            yield import_module(found.name)


def functions():
    """Every function of a public module, or of a private one behind its door, and every method of such classes."""
    for module in modules():
        for name in {*vars(module), *getattr(module, "__all__", ())}:
            one = getattr(module, name)
            if name[0] != "_" and str(getattr(one, "__module__", "")).startswith(module.__name__):
                for each in methods(one) if inspect.isclass(one) else [one]:
                    yield each if inspect.isfunction(each) else inspect.unwrap(each)  # of one that is cached


def methods(kind):
    """The public methods of a class, without those that a class above it has."""
    above = {name for base in kind.__mro__[1:] for name in vars(base)}
    return [getattr(one, "__func__", one) for name, one in vars(kind).items() if name[0] != "_" and name not in above]


def unsaid(function):
    """The arguments of a function with two or more that its docstring leaves out."""
    wanted = {name for name in inspect.signature(function).parameters if name not in ("self", "cls") and name[0] != "_"}
    told = ARGUMENTS.findall((inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0])
    return wanted - {name for names in told for name in names.split(", ")} if len(wanted) > 1 else set()


def test_public_functions_name_every_argument():
    found = {f"{one.__module__}.{one.__qualname__}": one for one in functions() if inspect.isfunction(one)}
    assert len(found) > 1000
    assert {place: sorted(lacking) for place, one in found.items() if (lacking := unsaid(one))} == {}


def raising(file):
    """Every public function of a file that raises an error of its caller itself, with its docstring."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            raised = {one.exc.func.id for one in ast.walk(node) if isinstance(one, ast.Raise) and _is_call(one.exc)}
            if raised & {"UserError", "ValueError"}:
                yield node.name, ast.get_docstring(node) or ""


def _is_call(raised):
    return isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name)


def test_public_functions_name_the_errors_of_their_callers():
    files = [file for file in FILES if "commands" not in file.parts]  # whose docstrings are the help of commands
    found = [(file, *one) for file in files for one in raising(file)]
    assert len(found) > 100
    assert [f"{file.name}: {name}" for file, name, text in found if "aises" not in text] == []
