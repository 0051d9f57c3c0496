"""What changes the keys of cells, and what does not: each edit in a copy of the tree."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse

ROOT = Path(__file__).parents[2]
PLANS = """
import json
from routebench.engine.running._fits import fit_key
from routebench.engine.suites import Choices, load_suite, plan

plans = [plan(load_suite(suite), "smoke", Choices()) for suite in ("accuracy", "robustness", "overlap")]
cells = {f"{made.suite.name}: {cell}": cell for made in plans for cell in made.cells}
print(json.dumps({name: [cell.key, fit_key(cell.request()), cell.code.shipped] for name, cell in cells.items()}))
"""
NEUTRAL = {
    "a setting of a method": ("routing/em.py", "*,\n", "*,\n        nothing: bool = False,\n"),
    "a setting of all trainings": (
        "recipe.py",
        "    channels_last: bool = False\n",
        "    channels_last: bool = False\n    nothing: bool = False\n",
    ),
    "an argument of a network": ("models/capsnet.py", "*,\n", "*,\n    nothing: bool = False,\n"),
    "a docstring": ("losses.py", '"""', '"""Edited. '),
    "a function": ("ops/squash.py", "\ndef ", "\ndef nothing() -> None:\n    pass\n\n\ndef "),
}


def keys_in(folder):
    done = subprocess.run([sys.executable, "-c", PLANS], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is installed, and the keys before any edit."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("routebench", "suites", "analyses"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder, keys_in(folder)


@pytest.fixture
def keys_after(tree):
    """The keys with edits: of files of the package, what stands there and what comes in its place, once."""
    folder, _ = tree
    before = {}

    def edited(*edits):
        for name, text, other in edits:
            file = folder / "routebench" / name
            before.setdefault(file, file.read_text())
            assert text in file.read_text()
            file.write_text(file.read_text().replace(text, other, 1))
        return keys_in(folder)

    yield edited
    for file, text in before.items():
        file.write_text(text)


def test_what_changes_no_number_changes_no_key(tree, keys_after):
    _, before = tree
    after = keys_after(*NEUTRAL.values())
    assert {name: keys[:2] for name, keys in after.items()} == {name: keys[:2] for name, keys in before.items()}
    assert all(after[name][2] != keys[2] for name, keys in before.items())  # it is told that the code is another


def test_a_file_and_its_functions_may_move(tree, keys_after):
    folder, before = tree
    (folder / "routebench" / "ops" / "_squash.py").write_text((folder / "routebench" / "ops" / "squash.py").read_text())
    after = keys_after(("ops/__init__.py", "routebench.ops.squash", "routebench.ops._squash"))
    assert {name: keys[:2] for name, keys in after.items()} == {name: keys[:2] for name, keys in before.items()}


RAISED = {
    "model": [("models/capsnet.py", 'register("capsnet-small"', 'register("capsnet-small", version=2')],
    "loss": [("losses.py", 'register("margin")', 'register("margin", version=7)')],
    "method and attack": [
        ("routing/em.py", 'register("em"', 'register("em", version=2'),
        ("protocols/robustness.py", '"attack": {', '"attack": {"fgsm": 2'),
    ],
    "network beside": [("models/cnn.py", 'register("cnn-small"', 'register("cnn-small", version=2')],
    "protocol": [("protocols/robustness.py", 'register("robustness"', 'register("robustness", version=2')],
}


@pytest.mark.parametrize("kind", RAISED)
def test_a_version_changes_the_keys_of_what_it_is_of_and_no_other(tree, keys_after, kind):
    _, before = tree
    after = keys_after(*RAISED[kind])
    changed = {name for name, keys in before.items() if after[name][0] != keys[0]}
    fits = {name for name, keys in before.items() if after[name][1] != keys[1]}
    if kind == "loss":  # which entries say their loss stands in suites
        assert any(name.startswith("accuracy: dynamic ") for name in changed)
    else:
        parts = {
            "method and attack": [": em", "robustness: "],
            "model": [" on capsnet-small,"],
            "network beside": ["robustness: ", " on cnn-small,"],
        }
        held = parts.get(kind, ["robustness: "])
        assert changed == {name for name in before if any(part in name for part in held)}
        assert len(changed) < len(before)
    assert changed
    trained = {"method and attack": ": em", "network beside": " on cnn-small,"}  # images are made against the latter
    if kind in trained:
        assert fits == {name for name in before if trained[kind] in name}
    else:
        assert fits == (set() if kind == "protocol" else changed)


def test_a_setting_that_is_its_default_is_no_other_cell():
    """Whether a user says it or not."""
    told, silent = (
        plan(load_suite("accuracy"), "smoke", Choices(methods=(parse(method),)))
        for method in ("dynamic[detach=false]", "dynamic")
    )
    assert [cell.key for cell in told.cells] == [cell.key for cell in silent.cells]
