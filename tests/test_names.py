"""The core knows nothing that is registered by name; papers and tests import it through its doors."""

import ast
import dataclasses
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from routebench.engine.results import Identity, Record
from routebench.recipe import Recipe
from routebench.registry import EVERY, bundles, suite_files

PACKAGE = Path(__file__).parents[1] / "routebench"
CORE = ("engine", "analysis", "report", "comparing", "export", "interface.py")
ALLOWED = {"uniform", "random", "cnn"}
"""The baselines that every suite runs, and the control that viewpoints are matched to."""
WORDS = {
    "margin": "the difference below which methods count as equal",
    "none": "an English word, and a colour of matplotlib",
    "accuracy": "a metric",
    "samples": "a kind of test",
    "spread": "a column of printed numbers",
    "parts": "a folder of results, and a key of exports",
    "templates": "the folder of a report's templates",
    "transfer": "an attack",
    "tuning": "trials, which the engine itself plans",
}
"""Names that are other words as well."""
FIELDS = {field.name for kind in (Identity, Record, Recipe) for field in dataclasses.fields(kind)}


@cache
def registered():
    return {name for registry in EVERY.values() for name in registry} | {*suite_files()}


def literals(file):
    """The strings of a file that are no docstrings, with their lines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value, node.lineno


@pytest.mark.parametrize("room", CORE)
def test_the_core_contains_no_name_of_a_part(room):
    place = PACKAGE / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    found = {
        f"{file.relative_to(PACKAGE)}:{line} {text}"
        for file in files
        for text, line in literals(file)
        if text in registered() - ALLOWED - WORDS.keys() - FIELDS
    }
    assert found == set()


def brought():
    """The names that papers and studies bring, but for those that are English words."""
    folders = {folder.path for folder in bundles()}
    packages = tuple(f"{folder.package}." for folder in bundles())
    suites = {name for name, file in suite_files().items() if not folders.isdisjoint(file.parents)}
    parts = {name for known in EVERY.values() for name in known if known[name].__module__.startswith(packages)}
    return {name for name in suites | parts if "-" in name}


def test_the_core_speaks_of_no_name_of_a_paper_or_study():
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, brought()))})(?![\w-])")
    files = [file for file in _files(PACKAGE) if file.relative_to(PACKAGE).parts[0] not in ("papers", "studies")]
    assert len(files) > 300
    assert len(brought()) > 60
    assert {(file.name, name) for file in files for name in named.findall(file.read_text("utf-8"))} == set()


def test_what_is_allowed_is_needed():
    used = {text for room in CORE for file in _files(PACKAGE / room) for text, _ in literals(file)}
    assert used >= ALLOWED | WORDS.keys()
    assert len(ALLOWED) <= 5
    assert registered() >= ALLOWED | WORDS.keys()


def _files(place):
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def test_a_folder_imports_its_own_files_with_leading_dots():
    absolute = re.compile(r"^\s*(?:from|import) routebench\.(?:papers|studies)\b", flags=re.MULTILINE)
    files = [file for folder in bundles() for file in sorted(folder.path.rglob("*.py"))]
    assert len(files) > 50
    assert [file.name for file in files if absolute.search(file.read_text(encoding="utf-8"))] == []


def within(file):
    """Modules within a package of routebench that a file imports from, each with the names it takes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        module = (isinstance(node, ast.ImportFrom) and node.module) or ""
        if module.startswith("routebench.") and "._" in module:
            yield module, [alias.name for alias in node.names]


def test_tests_import_through_doors_what_these_have():
    found = [(file, *one) for file in sorted(Path(__file__).parent.rglob("*.py")) for one in within(file)]
    assert len(found) > 100
    missed = {
        f"{file.name}: {name} of {module}"
        for file, module, names in found
        for name in names
        if name in getattr(import_module(module.partition("._")[0]), "__all__", ())
    }
    assert missed == set()


def test_every_folder_says_what_it_is():
    assert len(bundles()) >= 8
    for folder in bundles():
        text = (folder.path / "README.md").read_text(encoding="utf-8")
        assert text.startswith("# ")
        assert len(text.splitlines()) <= 40
        for target in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (folder.path / target).exists(), target
