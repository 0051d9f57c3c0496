"""Another package brings methods, a model and suites by entry points; a broken one does no harm."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.texts import METHOD, method, suite

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests" / "engine" / "small_parts.py"
"""Brings `digits200`, which trains at once."""

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.2"
[tool.hatch.build.targets.wheel]
packages = ["{module}"]
[project.entry-points."routebench.{group}"]
{points}
"""

OBJECT = METHOD.format(name="x", class_name="FromElsewhere").replace('@routing.register("x")\n', "")


LOSS = """
def half(output, labels, moment):
    "Half the softmax cross entropy."
    return -output.logits.log_softmax(dim=1).gather(1, labels[:, None]).mean() / 2
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder that pip has installed two packages into: one that works, one whose import fails."""
    made, target = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("installed")
    points = 'decorated = "capsule_lab.routing"\nfrom-elsewhere = "capsule_lab.plain:FromElsewhere"\n'
    points += '[project.entry-points."routebench.suites"]\nlab = "capsule_lab"\n'
    points += '[project.entry-points."routebench.losses"]\nlab-loss = "capsule_lab.plain:half"'
    package(made / "lab", "capsule-lab", "routing", points, {
        "__init__.py": "", "routing.py": "from .names import NAME\n" + method("x").replace('"x"', "NAME"),
        "names.py": "NAME = 'lab-method'", "plain.py": OBJECT + LOSS, "suites/lab-question.toml": suite("lab-method"),
    })  # fmt: skip
    broken = {"__init__.py": "import absent_module_of_a_package"}
    package(made / "broken", "broken-lab", "routing", 'broken = "broken_lab"', broken)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", target, made / "lab", made / "broken"], check=True)
    return target


def package(folder, name, group, points, files):
    module = name.replace("-", "_")
    for file, text in files.items():
        path = folder / module / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "pyproject.toml").write_text(PROJECT.format(name=name, module=module, group=group, points=points))


@pytest.fixture
def program(tmp_path, target):
    """`python -m routebench` in a folder of its own, where the packages are installed."""

    def go(*arguments, **environment):
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [target, ROOT])), **environment}
        command = [sys.executable, "-m", "routebench", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    return go


WARNING = (
    "warning: package broken-lab 1.2 is left out: routebench.routing entry point 'broken': ModuleNotFoundError: "
    "No module named 'absent_module_of_a_package'\n"
)


def test_list_shows_what_installed_packages_bring(program):
    done = program("list", "methods", "--json")
    assert done.returncode == 0, done.stderr
    known = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert {"lab-method", "from-elsewhere", "dynamic"} <= known.keys()
    assert known["lab-method"]["origin"] == known["from-elsewhere"]["origin"] == "package capsule-lab 1.2"
    assert done.stderr == WARNING


def test_its_suites_are_listed_without_torch(program):
    done = program("list", "suites", PYTHONPROFILEIMPORTTIME="1")
    (line,) = (line for line in done.stdout.splitlines() if "lab-question" in line)
    assert " ".join(line.split()) == "lab-question How well does the plug-in do? (package capsule-lab 1.2)"
    assert "torch" not in {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_method_is_measured_by_the_suite_of_its_package(program, tmp_path):
    call = ("suite", "lab-question", "--preset", "smoke", "--jobs", "1", "--plugin", PARTS, "--data", "digits200")
    done = program(*call, "--loss", "lab-loss")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "lab-method" in done.stdout
    records = [json.loads(file.read_text()) for file in tmp_path.glob("results/records/*.json")]
    assert [record["status"] for record in records if record["identity"]["method"] == "lab-method"] == ["ok"]
    assert {record["identity"]["training"]["loss"] for record in records} == {"lab-loss"}
    assert all(record["identity"]["source"] for record in records)  # its code counts
