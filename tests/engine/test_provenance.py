"""Where a result comes from."""

import importlib.metadata
import os
import platform
import re
import subprocess

import pytest
import torch

from routebench.engine.origin import command_line, plugin_hashes, provenance
from routebench.engine.origin._provenance import code_state, environment, git_state


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


def test_outside_a_repository_the_code_has_a_hash(tmp_path, repository):
    package = repository / "package"
    assert "package_hash" not in code_state(package)
    (repository / ".git").rename(tmp_path / "gone")
    state = code_state(package)
    assert (state["commit"], state["dirty"]) == ("", None)
    assert re.fullmatch("[0-9a-f]{16}", state["package_hash"])
    (package / "__init__.py").write_text("X = 2\n")
    assert code_state(package)["package_hash"] != state["package_hash"]


def test_an_environment_inside_a_repository_is_not_its_code(repository):
    installed = repository / ".venv" / "routebench"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert git_state(installed)["commit"] == ""


def test_code_that_git_does_not_know_counts(repository):
    states = [git_state(repository / "package")]
    for text in ("X = 1", "X = 2"):
        (repository / "package" / "mine.py").write_text(text)
        (repository / "notes.txt").write_text(text)  # changes no number
        states.append(git_state(repository / "package"))
    assert [state["dirty"] for state in states] == [False, True, True]
    assert len({state["dirty_hash"] for state in states}) == 3
    (repository / "package" / "mine.py").unlink()
    assert git_state(repository / "package") == states[0]


@pytest.mark.parametrize(
    "name",
    ["gr\u00f6\u00dfe.py", "gro\u0308\u00dfe.py", " mine.py", 'a "b".py', "two\nlines.py", "\udce9.py"],
)
def test_code_of_any_name_counts(repository, name):
    states = [git_state(repository / "package")]
    for text in ("X = 1", "X = 2"):
        (repository / "package" / name).write_text(text)
        states.append(git_state(repository / "package"))
    assert [state["dirty"] for state in states] == [False, True, True]
    assert len({state["dirty_hash"] for state in states}) == 3


def test_results_that_are_known_to_git_and_removed_are_no_code(repository):
    (repository / "results.json").write_text("{}")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("add", "results.json"), (*name, "commit", "-qm", "results")):
        subprocess.run(["git", *command], cwd=repository, check=True, capture_output=True)
    (repository / "results.json").unlink()
    assert not git_state(repository / "package")["dirty"]


def test_a_difference_that_is_no_text_is_hashed_all_the_same(repository):
    (repository / "package" / "__init__.py").write_bytes(b"X = '\xe9'\n")
    assert git_state(repository / "package")["dirty"]


def test_a_plugin_is_known_by_its_content(tmp_path):
    file = tmp_path / "mine.py"
    hashes = set()
    for text in ("X = 1", "X = 2"):
        file.write_text(text)
        (known,) = provenance("cpu", "x", (f"{file}:Mine",))["plugins"].items()
        assert known[0] == f"{file}:Mine"
        hashes.add(known[1])
    assert len(hashes - {""}) == 2


def test_a_folder_of_plugins_is_known_by_its_content_and_those_of_the_environment_by_name(tmp_path, monkeypatch):
    (tmp_path / "routing").mkdir()
    hashes = set()
    for text in ("X = 1", "X = 2"):
        (tmp_path / "routing" / "mine.py").write_text(text)
        hashes.add(plugin_hashes((str(tmp_path),))[str(tmp_path)])
    assert len(hashes - {""}) == 2
    monkeypatch.setenv("ROUTEBENCH_PLUGINS", str(tmp_path / "routing" / "mine.py"))
    assert list(plugin_hashes(())) == ["mine.py"]


def test_variables_that_change_numbers_are_kept_and_paths_are_not(monkeypatch):
    given = {"OMP_NUM_THREADS": "1", "MKL_CBWR": "AVX2", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "ROUTEBENCH_DATA": "d"}
    given |= {
        "TORCH_HOME": "x",
        "TRITON_CACHE_DIR": "x",
        "TORCH_EXTENSIONS": "/home/me/x",
        "HOSTNAME": "h",
        "USER": "me",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    kept = environment()
    assert kept.items() >= {name: given[name] for name in list(given)[:3]}.items()
    assert not kept.keys() & set(list(given)[3:])


def test_no_name_of_the_machine_or_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("LOGNAME", "someone-unusual")
    told = repr(provenance("cpu", "routebench suite accuracy"))
    assert not platform.node() or platform.node() not in told
    assert "someone-unusual" not in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["suite", "cost", "--results", "/home/ann/her own"], "suite cost --results 'her own'"),
        (["suite", "cost", "--results=/home/ann/own", "--jobs", "2"], "suite cost --results=own --jobs 2"),
        (["suite", "cost", "--settings", "/home/ann/tuned.json"], "suite cost --settings tuned.json"),
        (["suite", "cost", "--settings=../ann/tuned.json"], "suite cost --settings=tuned.json"),
        (["suite", "cost", "--settings", "mine/tuned.json"], "suite cost --settings mine/tuned.json"),
        (["tune", "a", "--write", "/home/ann/tuned.json"], "tune a --write tuned.json"),
        (["suite", "cost", "--plugin", "mine/own.py"], "suite cost --plugin mine/own.py"),
    ],
)
def test_of_folders_and_of_settings_elsewhere_the_command_names_the_last_part(monkeypatch, given, told):
    monkeypatch.setattr("sys.argv", ["/usr/bin/routebench", *given])
    assert command_line() == f"routebench {told}"


def test_a_record_says_what_it_was_made_with():
    found = provenance("cpu", "python -m routebench suite accuracy")
    asked = [line for line in importlib.metadata.requires("routebench") if "extra" not in line]
    assert len(found["versions"]) >= len(asked)
    assert {"python", "torch", "numpy", "routebench", "einops", "psutil"} <= found["versions"].keys()
    assert found["processor"].endswith(f"{os.cpu_count()} cores")
    assert found["threads"] >= 1
    flags = {"tf32", "deterministic", "matmul_precision", "cpu_capability", "interop_threads", "environment"}
    code = {"commit", "dirty", "dirty_hash", "plugins", "command"}
    assert {*flags, *code, "os", "gpu", "cuda", "cudnn", "driver", "device"} <= found.keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_is_known_with_its_software():
    found = provenance("cuda", "x")
    assert all(found[key] for key in ("gpu", "cuda", "cudnn", "driver"))
