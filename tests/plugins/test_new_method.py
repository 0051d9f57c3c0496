"""`new-method` writes a file that runs as it is."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from routebench import routing
from routebench.arguments import legal_values
from routebench.capsules import Sizes
from routebench.conformance._calls import CheckInputs
from routebench.conformance._claims import worst_seen
from routebench.conformance._method import subject_of
from routebench.conformance._problems import DENSE, WINDOWS
from routebench.errors import UserError
from routebench.registry import load_plugin
from tests.plugins.texts import analysis

PARTS = Path(__file__).parents[1] / "engine" / "small_parts.py"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(call, tmp_path):
    done = call("new-method", "my-agreement", "-o", "made here")
    assert done.code == 0, done.error
    return done.out, tmp_path / "made here" / "my_agreement.py"


def test_it_says_what_to_do_next(written):
    out, file = written
    plugin = "--plugin 'made here/my_agreement.py'"
    assert out.splitlines()[1:] == [
        f"  python -m routebench check my-agreement {plugin}",
        f"  python -m routebench suite accuracy --preset smoke {plugin} --method my-agreement",
    ]
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    (docstring,) = map(ast.get_docstring, classes)
    assert "Source:" in docstring
    assert "Departures:" in docstring


@pytest.mark.parametrize("room", [0, 1])
def test_on_a_full_disk_it_writes_both_files_or_none(call, tmp_path, monkeypatch, room):
    """So that the same command can be given again."""
    left = iter(range(room))

    def sync(descriptor):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", sync)
        done = call("new-method", "my-agreement", "-o", "made")
    told = "its test cannot be written to 'made/test_my_agreement.py'" if room else "the method cannot be written to"
    assert done.code == 2 and told in done.error and "the disk is full; choose with -o" in done.error
    assert done.error.count("\n") == 1 and not (tmp_path / "made").exists()
    assert call("new-method", "my-agreement", "-o", "made").code == 0


@pytest.mark.parametrize("reason", [KeyboardInterrupt, None])
def test_stopped_between_its_files_it_goes_on(call, tmp_path, monkeypatch, reason):
    """An interruption leaves neither; a kill leaves the first, as it was to be."""
    assert call("new-method", "my-agreement", "-o", "made").code == 0
    files = {file.name: file.read_text() for file in (tmp_path / "made").iterdir()}
    for file in (tmp_path / "made").iterdir():
        if reason or file.name.startswith("test_"):
            file.unlink()
    if reason:
        left = iter([None])

        def sync(descriptor):
            if not next(left, True):
                return
            raise reason

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", sync)
            assert call("new-method", "my-agreement", "-o", "made").code == 130
        assert not [*(tmp_path / "made").iterdir()]
    assert call("new-method", "my-agreement", "-o", "made").code == 0
    assert files == {file.name: file.read_text() for file in (tmp_path / "made").iterdir()}
    (tmp_path / "made" / "my_agreement.py").write_text("mine")
    assert "is there already" in call("new-method", "my-agreement", "-o", "made").error


def test_what_it_writes_is_in_order(written):
    """Formatted, typed, and its own test passes."""
    _, file = written
    test = file.with_name("test_my_agreement.py")
    config = ["--config", ROOT / "pyproject.toml"]
    for command in (
        ["ruff", "format", "--check", *config, file, test],
        ["ruff", "check", *config, "--ignore", "D103,I001", file, test],  # a test explains itself; what is first-party
        ["pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", file.parent, test],
    ):
        call = [sys.executable, "-m", *map(str, command)]
        done = subprocess.run(call, cwd=file.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_keeps_its_claims(written):
    load_plugin(str(written[1]))
    claims = routing.registry["my-agreement"].claims
    assert len(claims) >= 6
    inputs = CheckInputs(subject_of("my-agreement"), seed=0, shapes=(DENSE, WINDOWS))
    assert not [claim for claim in claims if worst_seen(claim, inputs).wrong]


def test_it_has_a_knob_to_tune(written):
    load_plugin(str(written[1]))
    tuned = {name: legal.tuned for name, legal in legal_values(routing.registry["my-agreement"].__init__).items()}
    assert tuned["sharpness"] is not None and tuned["iterations"] is None  # suites set T


def test_a_wrong_hyperparameter_is_refused(written):
    load_plugin(str(written[1]))
    with pytest.raises(UserError, match="sharpness must be a number of at least 0"):
        routing.make("my-agreement", Sizes(6, 4, 8), sharpness=-1)
    with pytest.raises(UserError, match="iterations must be an integer of at least 1"):
        routing.make("my-agreement", Sizes(6, 4, 8), iterations=0)


def test_it_trains(written, write, call, tmp_path):
    """The printed command, on fewer images; an analysis of the user's own stands in the report."""
    count = write({"count.py": analysis("count-cells")})
    command = written[0].splitlines()[-1].replace("'", "").split(" --plugin ")[0].split()[3:]
    small = ["--data", "digits200", "--method", "my-agreement", "--jobs", "2"]
    plugins = [part for plugin in (PARTS, count, f"{written[1]}:MyAgreement") for part in ("--plugin", plugin)]
    done = call(*command, *small, *plugins)
    assert done.code == 0, done.out + done.error
    records = [json.loads(file.read_text()) for file in tmp_path.glob("results/records/*.json")]
    mine = [record for record in records if record["identity"]["method"] == "my-agreement"]
    assert {record["identity"]["iterations"] for record in mine} == {1, 3}
    assert {record["status"] for record in mine} == {"ok"}
    assert "Cells of the plug-in" in (tmp_path / "results" / "report.html").read_text()
    assert all(torch.tensor(record["metrics"][0]["value"]).isfinite() for record in mine)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dynamic", "'dynamic' of routebench is there already"),
        ("MyMethod", "did you mean 'my-method'?"),
        ("2nd_try", "did you mean 'nd-try'?"),
        ("torch", "would hide what Python knows as 'torch'; did you mean 'torch-routing'?"),
        ("class", "did you mean 'class-routing'?"),
        ("mine", "mine.py' is there already"),
    ],
)
def test_a_name_that_cannot_be_is_refused(write, call, tmp_path, name, says):
    write({"mine.py": "kept"})
    done = call("new-method", name)
    assert (done.code, done.error.count("\n")) == (2, 1)
    assert says in done.error
    assert [file.name for file in tmp_path.iterdir()] == ["mine.py"]
