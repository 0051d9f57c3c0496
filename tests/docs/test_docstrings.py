"""Docstrings begin with a noun or a verb, and arguments are said by what they are."""

import ast
import re

from tests.docs.pages import ROOT

FILES = [*ROOT.glob("routebench/**/*.py"), *ROOT.glob("analyses/*.py")]
NEITHER = {
    *("What", "Whether", "Where", "How", "Of", "Which", "When", "Likewise."),
    *("As", "At", "By", "For", "From", "In", "On", "With"),
}
OF = re.compile(r"^ +[\w, *`]+: of ", re.MULTILINE)
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
