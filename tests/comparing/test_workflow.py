"""The jobs of `.github/workflows` and `docs/gate.md` that compare: their command lines, run in a shell as there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from routebench.commands.alternate import command as alternate_command
from routebench.commands.suite import command as suite_command
from routebench.comparing._formats import LONGEST_COMMENT
from routebench.engine.suites import load_suite
from tests.comparing.planted import headline, lose, write

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
WORKFLOW = WORKFLOWS / "ci.yml"
MARK = "<!-- routebench: regression -->"


def jobs(file=WORKFLOW):
    return yaml.safe_load(file.read_text())["jobs"]


def steps(job):
    return {step.get("name", ""): step for step in jobs()[job]["steps"]}


def shell(line, folder, **known):
    return subprocess.run(
        ["bash", "-e", "-c", line], cwd=folder, env={**os.environ, **known}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def runner(tmp_path):
    """Two results folders of which one is worse, the base's code, and a pull request that says that all is well."""
    write(tmp_path / "base", keep=headline)
    write(tmp_path / "head", lose(10, "dynamic", np.random.default_rng(0)), keep=headline)
    base, head = tmp_path / "base-code", tmp_path / "head-code"
    for code in (base, head):
        code.mkdir()
        (code / ".venv").symlink_to(sys.prefix)
    (base / "routebench").symlink_to(ROOT / "routebench")
    (head / "routebench" / "commands").mkdir(parents=True)
    (head / "routebench" / "commands" / "compare.py").touch()
    (head / "routebench" / "__init__.py").touch()
    (head / "routebench" / "__main__.py").write_text("print('No regression.')")
    return tmp_path


def test_the_bases_own_compare_judges_and_shows_it(runner):
    summary = runner / "summary.md"
    for name, code in (("Compare", 1), ("Show", 0)):
        known = {"RUNNER_TEMP": str(runner), "GITHUB_STEP_SUMMARY": str(summary)}
        done = shell(steps("regression")[name]["run"], ROOT, **known)
        assert done.returncode == code, done.stderr
    assert summary.read_text() == (runner / "comparison.md").read_text()
    assert summary.read_text().startswith("**❌ Regression")


def test_a_base_without_the_command_is_compared_by_the_pull_request(runner):
    (runner / "base-code" / "routebench").unlink()
    done = shell(steps("regression")["Compare"]["run"], ROOT, RUNNER_TEMP=str(runner))
    assert done.stdout == "No regression.\n"


@pytest.mark.parametrize("changed", ["constraints.txt", "README.md"])
def test_libraries_are_installed_again_only_if_the_pull_request_changes_them(tmp_path, changed):
    code, temporary = tmp_path / "code", tmp_path / "temporary"
    code.mkdir()
    temporary.mkdir()
    (code / "Makefile").write_text("setup:\n\t@mkdir .venv && cp constraints.txt .venv/\n")
    git = "git -c user.name=one -c user.email=one@example.com"
    for file in ("constraints.txt", "README.md", "pyproject.toml"):
        (code / file).write_text("old\n")
    assert shell(f"git init -q && git add . && {git} commit -qm old", code).returncode == 0
    (code / changed).write_text("new\n")
    assert shell(f"{git} commit -qam new", code).returncode == 0
    commits = shell("git rev-parse HEAD~ HEAD", code).stdout.split()
    known = dict(zip(("BASE", "HEAD"), commits, strict=True))
    done = shell(steps("regression")["Install"]["run"], code, RUNNER_TEMP=str(temporary), **known)
    assert done.returncode == 0, done.stderr
    installed = temporary / "head-code" / ".venv"
    assert installed.is_symlink() == (changed == "README.md")
    assert (installed / "constraints.txt").read_text() == (temporary / "head-code" / "constraints.txt").read_text()


def test_the_workflow_measures_both_sides_alike():
    base, head = (steps("regression")[f"Measure the {who}"]["run"] for who in ("base", "pull request"))
    assert base.replace("base", "head") == head
    (call,) = re.findall(r"-m routebench suite (.*?) \|\|", base)
    given = suite_command.make_context("suite", shlex.split(call)).params
    assert given["preset"] in load_suite(given["suite"]).presets
    assert len(given["seeds"]) > 1


def test_the_workflow_measures_times_in_turn_into_the_folders_that_it_compares(tmp_path):
    run = steps("regression")["Measure the costs of both in turn"]["run"]
    (call,) = re.findall(r"-m routebench alternate (.*)", run)
    for side in ("base-code", "head-code"):
        (tmp_path / side).mkdir()
    arguments = shlex.split(call.replace("$RUNNER_TEMP", str(tmp_path)))
    given = alternate_command.make_context("alternate", arguments).params
    assert [given["base"], given["head"]] == [tmp_path / "base-code", tmp_path / "head-code"]
    assert given["results"] == tmp_path  # where `compare` finds `base` and `head`
    assert given["preset"] in load_suite(given["suite"]).presets


def comment(folder, found=""):
    """What the step asks of GitHub, whose answer to a search is `found`."""
    gh = folder / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder}/asked'\ncase \"$*\" in *--jq*) printf '{found}';; esac\n")
    gh.chmod(0o755)
    known = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "us/ours", "NUMBER": "7", "MARK": MARK}
    done = shell(steps("comment")["Comment"]["run"], folder, **known)
    assert done.returncode == 0, done.stderr
    return (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        ("", "--method POST repos/us/ours/issues/7/comments"),
        (r"41\n42\n", "--method PATCH repos/us/ours/issues/comments/41"),
    ],
)
def test_the_comment_is_written_once_and_then_over_itself(tmp_path, found, asked):
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "comparison.md").write_text("**verdict**\n")
    search, call = comment(tmp_path, found)
    assert f'startswith("{MARK}")' in search
    assert call == f"api {asked} --field body=@body.md --silent"
    assert (tmp_path / "body.md").read_text() == f"{MARK}\n**verdict**\n"
    assert steps("comment")["Comment"]["env"]["MARK"] == MARK


def test_without_a_comparison_there_is_no_comment(tmp_path):
    assert comment(tmp_path) == []
    assert steps("comment")[""]["continue-on-error"] is True


def test_a_marked_comment_is_not_too_long_for_github():
    assert LONGEST_COMMENT + len(MARK) + 1 <= 65_536


def test_only_the_job_that_runs_no_code_of_a_pull_request_may_write():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert writers(WORKFLOW) == ["comment"]
    comment = workflow["jobs"]["comment"]
    assert "head.repo.full_name == github.repository" in comment["if"]
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"])


def writers(file):
    return [name for name, job in jobs(file).items() if "write" in str(job.get("permissions", {}).values())]


@pytest.mark.parametrize("file", sorted(WORKFLOWS.glob("*.yml")), ids=lambda file: file.name)
def test_where_a_token_may_write_actions_are_pinned_to_a_commit(file):
    used = [step["uses"] for name in writers(file) for step in jobs(file)[name]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)


def test_a_push_does_not_stop_the_deployment_under_way():
    cancel = yaml.safe_load((WORKFLOWS / "docs.yml").read_text())["concurrency"]["cancel-in-progress"]
    assert cancel == "${{ github.event_name == 'pull_request' }}"


def of_the_page():
    """The workflow that `docs/gate.md` shows for the repository of a plug-in."""
    (written,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "gate.md").read_text(), re.MULTILINE | re.DOTALL)
    return yaml.safe_load(written)


def test_the_workflow_for_a_plugin_passes_equal_code_and_fails_what_got_worse(tmp_path):
    workflow = of_the_page()
    lines = {step["name"]: step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step}
    assert [*lines] == ["Install", "Measure the base", "Measure the head", "Compare", "Show"]
    assert "git+" in workflow["env"]["ROUTEBENCH"] and "--extra-index-url" not in lines["Install"]
    small = workflow["env"] | {
        "SUITE": "accuracy --preset smoke --seeds 3 --data take:1000:mnist5k --no-isolate --jobs 1"
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    known = small | {"PATH": path, "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def run(name):
        return shell(lines[name], tmp_path, **known)

    good = (ROOT / "examples" / "my_routing.py").read_text()
    bad = good.replace("squash(total)", "squash(total / votes.children)")  # parents so short that little is learned
    for side, code in (("base", good), ("head", bad)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "my_routing.py").write_text(code)
    for name in ("Measure the base", "Measure the head"):
        assert (done := run(name)).returncode == 0, done.stderr
    assert run("Compare").returncode == 1
    assert run("Show").returncode == 0
    assert "mean-agreement" in (tmp_path / "summary.md").read_text()
    shutil.rmtree(tmp_path / "results" / "head")
    shutil.copytree(tmp_path / "results" / "base", tmp_path / "results" / "head")
    assert run("Compare").returncode == 0
