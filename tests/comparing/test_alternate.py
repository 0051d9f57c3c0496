"""Two checkouts in turn: which processes are started, in which order, and what becomes of what they leave."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import routebench
from routebench.commands.alternate import _side, command, rounds_in
from routebench.errors import UserError
from tests.command import Command
from tests.comparing.planted import headline, in_turn

MAIN = """
import json, os, sys
with open({journal!r}, "a") as journal:
    journal.write(json.dumps([os.getcwd(), sys.argv[1:], os.environ["PYTHONPATH"].split(os.pathsep)[0]]) + "\\n")
sys.exit({code})
"""

PLUGIN = """
from routebench import routing
from routebench.routing.uniform import Uniform

@routing.register("own-way")
class OwnWay(Uniform):
    "Uniform coupling, computed so many times."

    def route(self, votes, activations):
        for _ in range({times}):
            routed = super().route(votes, activations)
        return routed
"""


def checkout(folder, journal, code=0):
    """Code of which a command only says that it was called."""
    (folder / "routebench").mkdir(parents=True)
    (folder / "routebench" / "__init__.py").touch()
    (folder / "routebench" / "__main__.py").write_text(MAIN.format(journal=str(journal), code=code))
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two rounds of the suite `cost`, preset `quick`."""
    folder = tmp_path_factory.mktemp("rounds")
    in_turn(folder, 2, np.random.default_rng(0), keep=headline)
    return folder


def alternate(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_each_round_is_a_process_of_base_and_one_of_head_with_one_more_seed(tmp_path, results):
    journal = tmp_path / "journal"
    codes = [checkout(tmp_path / side, journal) for side in ("base code", "head code")]
    done = alternate(*codes, "--preset", "quick", "--rounds", 4, "--results", results, "--", "--threads", 1)
    assert done.exit_code == 0, done.exception
    assert "BASE: " in done.output
    calls = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(place, path) for place, _, path in calls] == [(str(code), str(code)) for code in codes] * 2
    expected = [("base", "3"), ("head", "3"), ("base", "4"), ("head", "4")]  # two rounds are there
    for (_, arguments, _), (side, seeds) in zip(calls, expected, strict=True):
        assert arguments == [
            *("suite", "cost", "--preset", "quick", "--seeds", seeds, "--results", str(results / side)),
            *("--threads", "1"),
        ]


def test_rounds_that_are_there_are_not_measured_again_and_the_gate_may_end_it(tmp_path, results, capfd):
    journal = tmp_path / "journal"
    codes = [checkout(tmp_path / side, journal) for side in ("base", "head")]
    done = alternate(*codes, "--preset", "quick", "--rounds", 2, "--results", results, "--gate")
    assert not journal.exists()
    assert done.exit_code == 4  # two rounds are too few
    told = Command(tmp_path, capfd)(
        "alternate", *codes, "--preset", "quick", "--rounds", 2, "--results", results, "--json"
    )
    assert json.loads(told.out)["exit_code"] == 4
    assert rounds_in(results / "base", "cost", "quick") == 2
    assert rounds_in(results / "base", "cost", "smoke") == rounds_in(tmp_path, "cost", "quick") == 0


def test_a_side_that_cannot_be_run_ends_it_with_its_words(tmp_path, results):
    codes = [checkout(tmp_path / side, tmp_path / "journal", code=2) for side in ("base", "head")]
    done = alternate(*codes, "--preset", "quick", "--rounds", 3, "--results", results)
    assert isinstance(done.exception, UserError)
    assert "ended with exit code 2" in str(done.exception)


def test_a_folder_without_code_is_refused(tmp_path):
    done = alternate(tmp_path, tmp_path)
    assert isinstance(done.exception, UserError)
    assert "expected a folder with the code of routebench" in str(done.exception)
    assert "named with --plugin FILE.py" in str(done.exception)


def versions_of_a_plugin(folder):
    """Two folders with a file of one name each; that of HEAD does its work three times."""
    for side, times in (("base", 1), ("head", 3)):
        (folder / f"the {side}").mkdir()
        (folder / f"the {side}" / "own.py").write_text(PLUGIN.format(times=times))
    return folder / "the base", folder / "the head"


def test_two_versions_of_a_plugin_are_measured_in_turn_and_the_slower_one_is_found(tmp_path):
    folders, results = versions_of_a_plugin(tmp_path), tmp_path / "rounds"
    measured = ("--method", "own-way", "--threads", 1, "--jobs", 1, "--no-isolate")
    options = ("--rounds", 2, "--results", results, "--gate", "--", *measured)
    done = alternate(*folders, "--plugin", "own.py", *options)
    assert done.exit_code == 1, done.exception
    assert "Regression: training_flops in network of own-way" in done.output
    found = [routebench.load_results(results / side) for side in ("base", "head")]
    own = [table[table["method"] == "own-way"] for table in found]
    assert all({*table["status"]} == {"ok"} and {*table["seed"]} == {0, 1} for table in own)
    assert not {*own[0]["cell"]} & {*own[1]["cell"]}  # each side ran its own version


def test_two_files_are_two_versions_of_a_plugin(tmp_path):
    base, head = versions_of_a_plugin(tmp_path)
    assert _side(base / "own.py", ()) == (base, ("own.py",)) == _side(base, ("own.py",))
    assert _side(head, ("own.py:OwnWay",)) == (head, ("own.py:OwnWay",))


def test_a_plugin_that_is_not_in_both_folders_is_refused(tmp_path):
    base, head = versions_of_a_plugin(tmp_path)
    (head / "own.py").rename(head / "renamed.py")
    done = alternate(base, head, "--plugin", "own.py")
    assert isinstance(done.exception, UserError)
    assert "the head/own.py': expected a Python file or a folder" in str(done.exception)
    done = alternate(base, head, "--plugin", base / "own.py")
    assert isinstance(done.exception, UserError)
    assert "expected a path in BASE and in HEAD" in str(done.exception)
