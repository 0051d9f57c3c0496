"""What stands in several files of the project's own is the same in all of them."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = WHOLE["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_version_authors_and_licence_of_the_citation():
    assert CITATION["version"] == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_what_zenodo_is_told_is_the_citation():
    told = json.loads((ROOT / ".zenodo.json").read_text())
    assert told["creators"] == [{"name": author["name"]} for author in CITATION["authors"]]
    same = {"title": "title", "description": "abstract", "license": "license", "keywords": "keywords"}
    assert {key: told[key] for key in same} == {key: CITATION[name] for key, name in same.items()}
    assert (told["upload_type"], "version" in told) == ("software", False), "the release's tag is the version"


def test_the_changelog_begins_with_what_is_unreleased_and_has_this_version():
    headings = re.findall(r"^## (.+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", f"{PROJECT['version']} – {CITATION['date-released']}"]


@pytest.fixture(scope="module")
def release():
    """Runs a step of the release in a folder, for a tag."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["build"]["steps"]
    lines = {step["name"]: step["run"] for step in steps if "name" in step}

    def run(name, folder, tag=f"v{PROJECT['version']}"):
        place = {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b", "GITHUB_REF_NAME": tag}
        call = ["bash", "-e", "-c", lines[name]]
        return subprocess.run(call, cwd=folder, env=os.environ | place, capture_output=True, text=True, check=False)

    return run


def test_a_release_has_one_version(release, tmp_path):
    for name in ("pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert release("Compare versions", tmp_path).returncode == 0
    done = release("Compare versions", tmp_path, "v9.9.9")
    assert (done.returncode, "got v9.9.9" in done.stdout) == (1, True)
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n")
    assert release("Compare versions", tmp_path).returncode == 1


def test_links_of_a_released_readme_lead_somewhere(release, tmp_path):
    before = (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text(before)
    assert release("Point links to the repository", tmp_path).stderr == ""
    after = (tmp_path / "README.md").read_text()
    at = f"https://example.org/a/b/blob/v{PROJECT['version']}"
    meant = [link if "://" in link else f"{at}/{link}" for link in re.findall(r"\]\((.+?)\)", before)]
    meant[0] = meant[0].replace("blob", "raw")  # the picture
    assert re.findall(r"\]\((.+?)\)", after) == meant
    assert re.sub(r"\]\(.+?\)", "", after) == re.sub(r"\]\(.+?\)", "", before)


def test_the_readme_names_this_version():
    assert re.findall(r"alpha, version ([\d.]+\d)", (ROOT / "README.md").read_text()) == [PROJECT["version"]]


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


def test_the_container_gets_what_the_wheel_is_made_of():
    packed = {Path(one).parts[1] for one in WHOLE["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]}
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    own = {"constraints.txt", "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]}
    assert set(kept) == packed | own


def test_versions_of_python_are_those_of_ci():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    named = {line.rsplit(" :: ", 1)[-1] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert set(matrix["python"]) <= named
    assert f">={min(named, key=lambda version: int(version[2:]))}" == PROJECT["requires-python"]


def test_ci_runs_the_last_commit_where_users_have_theirs(tmp_path):
    """In a clone of the default name, below a folder with a space and a letter beyond ASCII."""

    def shell(command, folder=tmp_path / "code", **environment):
        call = ["bash", "-c", command]
        variables = {**os.environ, **environment}
        return subprocess.run(call, cwd=folder, env=variables, capture_output=True, text=True, check=False)

    def commit(content):
        (tmp_path / "code" / "file").write_text(content)
        known = "git -c user.name=a -c user.email=a"
        done = shell(f"git init --quiet && git add . && {known} commit --quiet --message=m")
        assert done.returncode == 0, done.stderr

    def run(fails="none"):
        make = f'#!/bin/sh\necho "$PWD: $(cat file): make $1"\ntest "$1" != {fails}\n'
        (tmp_path / "make").write_text(make)
        (tmp_path / "make").chmod(0o755)
        return shell("bash .ci/run", PATH=f"{tmp_path}:{os.environ['PATH']}")

    (tmp_path / "code" / ".ci").mkdir(parents=True)
    (tmp_path / "code" / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    (tmp_path / "code" / ".gitignore").write_text("build/\n")
    for content in ("one", "two"):  # the clone is made, then brought up to date
        commit(content)
        done = run()
        assert (done.returncode, done.stderr) == (0, "")
        where, made = zip(*(line.split(f": {content}: ") for line in done.stdout.splitlines()), strict=True)
        assert made == ("make setup", "make check", "make test")
        (clone,) = {*map(Path, where)}
        assert clone.name == "routebench" and clone.is_relative_to(tmp_path / "code" / "build")
        assert " " in clone.parent.name and not clone.parent.name.isascii()
    (tmp_path / "code" / "file").write_text("three")
    done = run(fails="check")
    assert done.returncode == 1
    assert "not committed are not tested" in done.stderr
    assert done.stdout.splitlines()[-1].endswith(": two: make test")


def test_nothing_that_a_command_writes_lies_beside_the_project():
    """Pages and tables are published below `reports/` and `docs/`; commands write some into the current folder."""
    told = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip("no repository")
    files = [Path(line) for line in told.stdout.splitlines()]
    assert [str(file) for file in files if file.suffix in {".html", ".csv", ".svg"} and len(file.parts) == 1] == []
