"""The folder of a paper, copied out and loaded as a stranger would, with the shipped one left out: the same keys."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from routebench.catalogue import catalogue
from routebench.engine import doctor
from routebench.errors import UserError
from routebench.registry import bundles, suite_origin

KEYS = """
import json, sys
from routebench.engine.suites import Asked, Choices
from routebench.engine.suites._planning import plans_of
from routebench.registry import EVERY, load_plugin, suite_files
plugins = sys.argv[1:]
for plugin in plugins:
    load_plugin(plugin)
suites = [name for name, file in suite_files().items() if {"papers", "studies", "copies"} & {*file.parts}]
found = {}
for name in suites:
    asked = Asked(name, "smoke", Choices(), tuple(plugins), without_data=True)
    found[name] = [cell.key for plan in plans_of(asked, {}).plans for cell in plan.cells]
shipped = {kind: registry.is_shipped for kind, registry in EVERY.items()}
print(json.dumps({"keys": found, "shipped": shipped}))
"""


def keys(*plugins, **variables):
    """The keys that a process of its own plans for the suites of papers and studies."""
    command = [sys.executable, "-c", KEYS, *map(str, plugins)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Copies of all folders, outside the package."""
    place = tmp_path_factory.mktemp("outside") / "copies"
    for folder in bundles():
        shutil.copytree(folder.path, place / folder.path.name, ignore=shutil.ignore_patterns("__pycache__"))
    return sorted(place.iterdir())


def test_copies_in_place_of_what_ships_have_the_same_keys(copies):
    here, there = keys(), keys(*copies, ROUTEBENCH_WITHOUT=",".join(copy.name for copy in copies))
    assert len(here["keys"]) > 15
    assert there["keys"] == here["keys"]
    assert all(here["shipped"].values())
    assert not any(there["shipped"][kind] for kind in ("models", "data", "protocols", "analyses"))


def test_a_copy_beside_what_ships_is_refused(copies):
    command = [sys.executable, "-m", "routebench", "list", "models", "--plugin", str(copies[0])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is taken by routebench; choose another name" in done.stderr


def test_what_is_left_out_is_not_there(monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_WITHOUT", "smith, tsai")
    assert {folder.path.name for folder in bundles()} & {"smith", "tsai"} == set()
    assert "hinton" in {folder.path.name for folder in bundles()}


def test_a_folder_that_does_not_ship_cannot_be_left_out(monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_WITHOUT", "smyth")
    with pytest.raises(UserError, match="unknown folder in ROUTEBENCH_WITHOUT 'smyth'; did you mean 'smith'"):
        bundles()


def test_a_name_that_is_left_out_is_told_with_the_reason():
    known = os.environ | {"ROUTEBENCH_WITHOUT": "tsai"}
    command = [sys.executable, "-m", "routebench", "suite", "iterations", "--preset", "smoke", "--dry-run"]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown recipe 'tsai'" in done.stderr
    assert "(ROUTEBENCH_WITHOUT leaves out tsai)" in done.stderr


def test_the_doctor_says_what_is_left_out(monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_WITHOUT", "smith")
    assert [str(line) for line in doctor._left_out()] == [
        "ok       ROUTEBENCH_WITHOUT: smith left out, with all suites that need them"
    ]
    monkeypatch.setenv("ROUTEBENCH_WITHOUT", "smyth")
    (line,) = doctor._left_out()
    assert not line.is_ok
    assert "did you mean 'smith'" in line.told
    monkeypatch.delenv("ROUTEBENCH_WITHOUT")
    assert doctor._left_out() == []


def test_what_ships_in_a_folder_has_the_origin_of_routebench():
    known = catalogue(kinds=("models", "suites"))
    assert [entry["name"] for kind in known.values() for entry in kind if "origin" in entry] == []
    for folder in bundles():
        for file in sorted(folder.path.glob("suites/*.toml")):
            assert suite_origin(file) == "routebench"
