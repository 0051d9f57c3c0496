"""Which versions of Python and of other packages are allowed, and that CI tries the lowest of them."""

import ast
import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_requirement_says_from_which_version():
    asked = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    others = [one for one in asked if not one.startswith("routebench[")]
    assert [one for one in others if not re.search(r"[>=]=\d", one)] == []


def test_ci_tries_the_lowest_and_the_newest_versions_and_the_newest_python():
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["versions"]
    assert job["strategy"]["matrix"] == {
        "versions": ["lowest", "newest"],
        "python": ["3.11", "3.14"],
        "exclude": [{"versions": "lowest", "python": "3.14"}],
    }
    (line,) = [step["run"] for step in job["steps"] if "run" in step]
    script, *_ = line.removeprefix("bash ").split()
    assert f"bash {script} lowest|newest [PYTHON]" in (ROOT / script).read_text()


def test_the_fast_tests_are_there():
    (listed,) = re.findall(r"^fast=\((.+)\)$", (ROOT / ".ci" / "versions").read_text(), re.MULTILINE)
    for word in listed.split():
        before, _, inside = word.partition("{")
        names, _, after = inside.partition("}")
        for name in names.split(","):
            assert (ROOT / f"{before}{name}{after}").exists(), name


def test_no_annotation_in_a_class_has_a_name_that_the_class_defines():
    """From Python 3.14 on, annotations are looked up late: a method `grid` hides a reader `grid` of the module."""
    found = {
        f"{file.relative_to(ROOT)}:{node.lineno} {name}"
        for folder in ("routebench", "analyses", "reports")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for kind in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(kind, ast.ClassDef)
        for node, name in _annotated(kind)
        if name in _defined(kind)
    }
    assert found == set()


def _annotated(kind):
    """The names in the annotations of a class's fields and methods."""
    for node in (one for part in kind.body for one in ast.walk(part)):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if annotation is not None:
                yield from ((node, one.id) for one in ast.walk(annotation) if isinstance(one, ast.Name))


def _defined(kind):
    named = {node.name for node in kind.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    targets = [node.target for node in kind.body if isinstance(node, ast.AnnAssign)]
    targets += [one for node in kind.body if isinstance(node, ast.Assign) for one in node.targets]
    return named | {one.id for one in targets if isinstance(one, ast.Name)}
