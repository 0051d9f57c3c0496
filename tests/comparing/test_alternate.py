"""Two checkouts in turn: which processes are started, in which order, and what becomes of what they leave."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import routebench
from routebench.commands.alternate import _now, _side, command, rounds_in
from routebench.comparing import origin_of_rounds
from routebench.engine.results import Store
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
def measured(tmp_path_factory):
    """Two rounds of the suite `cost`, preset `quick`, of which nothing says what they were measured from."""
    folder = tmp_path_factory.mktemp("rounds")
    in_turn(folder, 2, np.random.default_rng(0), keep=headline)
    return folder


@pytest.fixture
def results(tmp_path, measured):
    """A copy of these rounds."""
    return shutil.copytree(measured, tmp_path / "results")


def keep(results, codes, *options):
    """Writes down what rounds were measured from."""
    sides = [_now(*_side(code, ()), options) for code in codes]
    (results / "rounds.json").write_text(json.dumps(asdict(origin_of_rounds("cost", "quick", options, *sides))))


def alternate(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_each_round_is_a_process_of_base_and_one_of_head_with_one_more_seed(tmp_path, results):
    journal = tmp_path / "journal"
    codes = [checkout(tmp_path / side, journal) for side in ("base code", "head code")]
    keep(results, codes, "--threads", "1")
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
    keep(results, codes)
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
    keep(results, codes)
    done = alternate(*codes, "--preset", "quick", "--rounds", 3, "--results", results)
    assert isinstance(done.exception, UserError)
    assert "ended with exit code 2" in str(done.exception)


def failed(folder, *methods):
    """All runs of some methods have no result; of all methods if none is named."""
    store = Store(folder)
    for record in [*store.records()]:
        if not methods or record.identity.method in methods:
            store.write_record(replace(record, status="failed", reason="boom", metrics=[], files=None), {})


@pytest.mark.parametrize(
    ("side", "methods", "ends", "code"),
    [
        ("head", (), 4, 1),  # nothing could be measured
        ("head", ("dynamic",), 3, 1),
        ("base", (), 4, 4),  # nothing can be compared
        ("base", ("dynamic",), 3, 4),  # two rounds are too few
    ],
)
def test_a_side_whose_runs_fail_is_judged(tmp_path, results, side, methods, ends, code):
    """A round that measures nothing is a finding of the gate, and no wrong call."""
    failed(results / side, *methods)
    codes = [checkout(tmp_path / one, tmp_path / "journal", code=ends * (one == side)) for one in ("base", "head")]
    keep(results, codes)
    done = alternate(*codes, "--preset", "quick", "--rounds", 3, "--results", results, "--gate")
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, len((tmp_path / "journal").read_text().splitlines())) == (code, 2), done.output


def refused(*arguments):
    done = alternate(*arguments)
    assert isinstance(done.exception, UserError), done.exception
    return str(done.exception)


@pytest.fixture
def begun(tmp_path, results):
    """Two checkouts and their rounds, as arguments; a round more would be written into a journal."""
    codes = [checkout(tmp_path / side, tmp_path / "journal") for side in ("base", "head")]
    keep(results, codes, "--threads", "1")
    return (*codes, "--preset", "quick", "--rounds", 3, "--results", results)


EDITS = {
    "python": ("routebench/__init__.py", "X = 1"),
    "new module": ("routebench/routing/own.py", ""),
    "kernel": ("routebench/kernels/fused.cpp", "// faster"),
    "suite": ("suites/cost.toml", "seeds = 1"),
    "settings": ("suites/cost.quick.settings.json", "{}"),
}


@pytest.mark.parametrize("side", ["base", "head"])
@pytest.mark.parametrize("edit", EDITS)
def test_rounds_of_code_that_was_edited_are_not_judged_as_of_these(tmp_path, begun, side, edit):
    name, text = EDITS[edit]
    (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / side / name).write_text(text)
    told = refused(*begun, "--", "--threads", 1)
    assert f"{side.upper()}: the rounds there are of '{tmp_path / side}' (code " in told
    assert "name another folder" in told
    assert not (tmp_path / "journal").exists()


def test_rounds_of_other_checkouts_are_not_judged_as_of_these(tmp_path, begun):
    for side in ("base", "head"):
        (checkout(tmp_path / "other" / side, tmp_path / "journal") / "routebench" / "x.py").write_text(f"X = {side!r}")
    others = [tmp_path / "other" / side for side in ("base", "head")]
    assert "BASE: the rounds there are of" in refused(*others, *begun[2:], "--", "--threads", 1)
    assert "HEAD: the rounds there are of" in refused(begun[0], others[1], *begun[2:], "--", "--threads", 1)
    assert not (tmp_path / "journal").exists()


def test_rounds_of_a_moved_checkout_go_on_also_where_something_else_than_code_was_edited(tmp_path, begun):
    moved = [code.rename(tmp_path / f"moved {code.name}") for code in begun[:2]]
    (moved[0] / "notes.py").write_text("not run")
    (moved[0] / "routebench" / "README.md").write_text("read")
    assert alternate(*moved, *begun[2:], "--", "--quiet", "--threads=1").exit_code == 0
    assert (tmp_path / "journal").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--", "--threads", 2), "the options: the rounds there are of --threads 1, got --threads 2"),
        ((), "the options: the rounds there are of --threads 1, got none"),
        (("--suite", "accuracy", "--", "--threads", 1), "the suite: the rounds there are of cost, got accuracy"),
        (("--preset", "full", "--", "--threads", 1), "the preset: the rounds there are of quick, got full"),
    ],
)
def test_rounds_with_other_options_are_not_judged_as_with_these(tmp_path, begun, arguments, told):
    assert told in refused(*begun, *arguments)
    assert not (tmp_path / "journal").exists()


def test_options_of_the_environment_count(begun, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_THREADS", "2")
    assert "got ROUTEBENCH_THREADS=2 --threads 1" in refused(*begun, "--", "--threads", 1)


@pytest.mark.parametrize("text", [None, "", "[]", '{"suite": "cost"}', '{"base": 1, "head": {}}'])
def test_rounds_of_which_nothing_says_what_they_are_of_are_refused(tmp_path, begun, results, text):
    kept = results / "rounds.json"
    kept.unlink() if text is None else kept.write_text(text)
    told = refused(*begun, "--", "--threads", 1)
    assert ("got no such file" if text is None else "got something else") in told
    assert "name another folder" in told
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("kept", [True, False])
def test_where_no_round_is_there_any_code_may_begin(tmp_path, begun, results, kept):
    for side in ("base", "head"):
        shutil.rmtree(results / side)
    (tmp_path / "base" / "routebench" / "__init__.py").write_text("X = 1")
    if not kept:
        (results / "rounds.json").unlink()
    assert "expected a results folder" in refused(*begun, "--", "--threads", 2)  # these checkouts measure nothing
    assert len((tmp_path / "journal").read_text().splitlines()) == 6
    assert json.loads((results / "rounds.json").read_text())["options"] == "--threads 2"


def test_an_edit_between_two_rounds_ends_them(tmp_path, begun):
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'head' / 'routebench' / 'x.py')!r}).touch(); sys.exit(0)"
    main = tmp_path / "base" / "routebench" / "__main__.py"
    main.write_text(main.read_text().replace("sys.exit(0)", code))
    keep(begun[-1], begun[:2], "--threads", "1")
    assert "HEAD: the rounds there are of" in refused(*begun, "--", "--threads", 1)
    assert len((tmp_path / "journal").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "option",
    [
        "--seeds", "--preset", "--results", "--suite", "--dry-run", "--run", "--cell", "--until", "--beside", "--help",
        "-h",
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["{} 3", "{}=3"])
def test_options_that_no_round_can_have_are_refused(tmp_path, begun, option, form):
    told = refused(*begun, "--", "--threads", 1, *form.format(option).split())
    assert told.startswith(f"{option} behind --: ")
    assert not (tmp_path / "journal").exists()


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


@pytest.mark.parametrize("edited", ["own.py", "neighbour.py", "own/routing/way.py", "own/suites/x.toml"])
def test_the_files_of_a_plugin_and_what_they_import_are_its_code(tmp_path, edited):
    for name, text in {"own.py": "import neighbour", "neighbour.py": "", "own/routing/way.py": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plugin = "own" if "/" in edited else "own.py"
    known = _now(tmp_path, (plugin,), ())
    assert _now(tmp_path, (plugin,), ()) == known != _now(tmp_path, (plugin,), ("--plugin", "neighbour.py"))
    assert _now(shutil.copytree(tmp_path, tmp_path / "copy"), (plugin,), ()) == known
    (tmp_path / edited).parent.mkdir(exist_ok=True)
    (tmp_path / edited).write_text("X = 1")
    assert _now(tmp_path, (plugin,), ()) != known


@pytest.mark.parametrize("edited", ["own.toml", "own.quick.settings.json", "beside.json"])
def test_a_suite_of_ones_own_counts_with_the_settings_that_it_names(tmp_path, edited):
    (tmp_path / "own.toml").write_text('settings = "own.quick.settings.json"')
    side = _now(tmp_path, (), ())
    known = [origin_of_rounds(str(tmp_path / "own.toml"), "quick", (), side, side)]
    (tmp_path / edited).write_text('settings = "own.quick.settings.json" # edited')
    known += [origin_of_rounds(str(tmp_path / "own.toml"), "quick", (), side, side)]
    assert (known[0] == known[1]) == (edited == "beside.json")


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


KILLED = """
import sys
from pathlib import Path
from routebench.commands.alternate import measure
measure(Path(sys.argv[1]), ["suite"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system ends a process so")
def test_a_round_ends_with_the_command_that_was_killed(tmp_path):
    code = checkout(tmp_path, tmp_path / "journal")
    (code / "routebench" / "__main__.py").write_text(
        "import os, time\nprint(os.getpid())\nopen('number', 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", KILLED, code])
    number = tmp_path / "number"
    for _ in range(600):
        if number.exists() and number.read_text():
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    place = Path("/proc", number.read_text(), "stat")
    for _ in range(100):
        if not place.exists() or b") Z" in place.read_bytes():
            return
        time.sleep(0.1)
    os.kill(int(number.read_text()), signal.SIGKILL)
    pytest.fail("it went on")
