"""Which versions of other packages are allowed, and that CI tries the lowest of them."""

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


def test_ci_tries_the_lowest_and_the_newest_on_both_ends_of_python():
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["versions"]
    assert job["strategy"]["matrix"] == {"versions": ["lowest", "newest"], "python": ["3.11", "3.13"]}
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
