"""What stands in several files of the project's own is the same in all of them."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_version_authors_and_licence_of_the_citation():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_the_changelog_begins_with_what_is_unreleased_and_has_this_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", PROJECT["version"]]


def test_hooks_call_what_make_setup_installs():
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        for hook in repository["hooks"]:
            tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
            assert any(re.match(rf"{tool}\b", wanted) for wanted in PROJECT["optional-dependencies"]["dev"])


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda form: form.stem)
def test_forms_have_what_github_asks_for(form):
    content = yaml.safe_load(form.read_text())
    assert content["name"]
    assert content["description"]
    ids = [field["id"] for field in content["body"]]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in content["body"])


def test_the_container_builds_from_a_file_that_is_there():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()


def test_versions_of_python_are_those_of_ci():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    named = {line.rsplit(" :: ", 1)[-1] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert set(matrix["python"]) <= named
    assert f">={min(named, key=lambda version: int(version[2:]))}" == PROJECT["requires-python"]
