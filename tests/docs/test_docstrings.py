"""Docstrings begin with a noun or a verb, and arguments are said by what they are."""

import ast
import inspect
import re
from importlib import import_module

from tests.docs.pages import ROOT

FILES = [*ROOT.glob("routebench/**/*.py"), *ROOT.glob("analyses/*.py")]
NEITHER = {
    *("What", "Whether", "Where", "How", "Of", "Which", "When", "Likewise."),
    *("As", "At", "By", "For", "From", "In", "On", "With"),
}
OF = re.compile(r"^ +[\w, *`]+: of ", re.MULTILINE)
ARGUMENTS = re.compile(r"^ +((?:\w+, )*\w+): ", re.MULTILINE)
PACKAGES = (
    *("analysis", "analysis.comparison", "attacks", "capsules", "data", "kernels", "measures", "models", "ops"),
    *("augmentations", "comparing", "published", "protocols", "routing", "statistics", "training"),
)
"""Packages of which every public function says what its arguments are."""
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


def functions():
    """Every public function of `PACKAGES`, with its name."""
    for package in PACKAGES:
        module = import_module(f"routebench.{package}")
        for name in getattr(module, "__all__", vars(module)):
            function = getattr(module, name)
            if inspect.isfunction(function) and function.__module__.startswith(module.__name__) and name[0] != "_":
                yield f"{package}.{name}", function


def test_public_functions_name_every_argument():
    missing = {}
    for place, function in functions():
        wanted = [name for name in inspect.signature(function).parameters if not name.startswith("_")]
        told = ARGUMENTS.findall((inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0])
        lacking = {*wanted} - {name for names in told for name in names.split(", ")}
        if len(wanted) > 1 and lacking:
            missing[place] = sorted(lacking)
    assert missing == {}


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
