"""Where a result comes from."""

import subprocess

import pytest

from routebench.engine.provenance import git_state, provenance


@pytest.fixture
def repository(tmp_path):
    """A repository with one committed package."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("X = 1\n")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "package"), (*name, "commit", "-qm", "first")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_a_clean_and_a_changed_checkout(repository):
    clean = git_state(repository / "package")
    assert len(clean["commit"]) == 40
    assert (clean["dirty"], clean["dirty_hash"]) == (False, "")
    hashes = set()
    for number in (2, 3):
        (repository / "package" / "__init__.py").write_text(f"X = {number}\n")
        changed = git_state(repository / "package")
        assert (changed["commit"], changed["dirty"]) == (clean["commit"], True)
        hashes.add(changed["dirty_hash"])
    assert len(hashes - {""}) == 2


def test_outside_a_repository_there_is_no_commit(tmp_path):
    assert git_state(tmp_path) == {"commit": "", "dirty": False, "dirty_hash": ""}


def test_an_environment_inside_a_repository_is_not_its_code(repository):
    installed = repository / ".venv" / "routebench"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert git_state(installed)["commit"] == ""


def test_a_record_says_what_it_was_made_with():
    found = provenance("cpu", "python -m routebench suite accuracy")
    assert {"python", "torch", "numpy", "routebench"} <= found["versions"].keys()
    assert found["processor"]
    assert found["threads"] >= 1
    assert {
        "commit",
        "dirty",
        "dirty_hash",
        "os",
        "gpu",
        "cuda",
        "cudnn",
        "driver",
        "tf32",
        "deterministic",
    } <= found.keys()
