"""The command line, as a user meets it: exit codes, one-line errors, and how soon it answers."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from routebench import cli
from routebench.commands import suite
from routebench.engine.running import Counts
from routebench.engine.suites._suite import load_suite
from routebench.kernels import compiler, fused
from routebench.registry import EVERY, shipped

ROOT = Path(__file__).parents[1]


@pytest.fixture
def call(monkeypatch, tmp_path, capfd):
    """Runs the command line in this process, in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["routebench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, error = capfd.readouterr()
        return ended.value.code or 0, out, error

    return run


MISTYPED = [
    (("siute", "accuracy"), "'suite'"),
    (("suite", "acuracy"), "'accuracy'"),
    (("suite", "accuracy", "--prest", "smoke"), "--preset"),
    (("suite", "accuracy", "--preset", "smok"), "'smoke'"),
    (("suite", "accuracy", "--method", "dynamc"), "'dynamic'"),
    (("suite", "accuracy", "--method", "dynamic[detahc=true]"), "'detach'"),
    (("suite", "accuracy", "--method", "dynamic[detach"), "NAME[key=value"),
    (("suite", "accuracy", "--method", "dynamic[iterations=0]"), "iterations"),
    (("suite", "accuracy", "--data", "mnist5"), "'mnist5k'"),
    (("suite", "accuracy", "--data", "folder:absent"), "absent"),
    (("suite", "accuracy", "--device", "gpu"), "cuda"),
    (("suite", "accuracy", "--backend", "fusd"), "fused"),
    (("suite", "accuracy", "--device", "cpu", "--backend", "triton"), "--backend triton: cannot be used here"),
    (("suite", "cost", "--jobs", "2"), "one at a time"),
    (("suite", "accuracy", "--model", "capsnet-smal"), "'capsnet-small'"),
    (("suite", "all", "--data", "mnist5k"), "name it instead of `all`"),
    (("suite", "all", "--preset", "quik"), "'quick'"),
    (("suite", "accuracy", "--seeds", "0"), "0"),
    (("suite", "accuracy", "--jobs", "many"), "many"),
    (("suite", "absent.toml"), "absent.toml"),
    (("suite", "accuracy", "--plugin", "absent.py"), "absent.py"),
    (("suite", "accuracy", "--address", "here:1"), "--executor ray"),
    (("suite", "accuracy", "--gpus-per-cell", "0.2"), "--executor ray"),
    (("suite", "accuracy", "--memory-limit", "1MB"), "at least 500MB"),
    (("suite",), "NAME"),
    (("list", "method"), "methods"),
    (("report", "absent"), "absent"),
    (("status", "absent"), "absent"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTYPED, ids=[" ".join(arguments) for arguments, _ in MISTYPED])
def test_a_wrong_call_is_one_line_and_writes_nothing(call, tmp_path, arguments, says):
    code, out, error = call(*arguments)
    assert code == 2
    assert out == ""
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    assert says in error
    assert list(tmp_path.iterdir()) == []


def test_a_results_folder_that_cannot_be_written_is_one_line(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = call("suite", "accuracy", "--preset", "smoke", "--results", "file")
    assert (code, error.count("\n")) == (2, 1)
    assert "cannot be written" in error


def test_dry_run_lists_cells_and_writes_nothing(call, tmp_path):
    code, out, _ = call("suite", "accuracy", "--preset", "smoke", "--dry-run")
    assert code == 0
    lines = out.splitlines()
    assert sum("to do" in line and "T=3" in line for line in lines) == 3
    assert lines[-1].startswith("10 cells: 0 cached, 0 failed, 10 to do; ")
    assert list(tmp_path.iterdir()) == []


def test_all_is_every_standard_suite_in_order(call, tmp_path, no_data):
    code, out, _ = call("suite", "all", "--preset", "smoke", "--jobs", "2", "--dry-run")
    assert code == 0
    titles = [line.split(",")[0] for line in out.splitlines() if ", preset smoke, " in line]
    places = {file.stem: load_suite(file.stem).standard for file in shipped("suites").glob("*.toml")}
    assert titles == sorted((name for name in places if places[name]), key=places.get)
    assert list(tmp_path.iterdir()) == []


def test_all_is_suggested_like_a_suite(call, tmp_path):
    code, _, err = call("suite", "al", "--preset", "smoke", "--results", str(tmp_path / "none"))
    assert (code, err) == (2, "Error: unknown suite 'al'; did you mean 'all'?\n")
    code, _, err = call("suite", "nothing-like-it")
    assert code == 2
    assert "known: accuracy, all, cost" in err


@pytest.mark.parametrize("command", ["report", "export", "status"])
def test_the_results_folder_is_an_argument_or_an_option(call, tmp_path, command):
    as_argument, as_option = call(command, "absent"), call(command, "--results", "absent")
    assert as_argument == as_option
    assert "'absent'" in as_option[2]
    assert call(command, "absent", "--results", "absent") == as_option
    code, _, error = call(command, "one", "--results", "other")
    assert (code, error.count("\n")) == (2, 1)
    assert "'one' and --results 'other'" in error


def test_a_suite_says_in_one_line_that_it_falls_back_to_the_slow_back_end(call, tmp_path, monkeypatch, no_data):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(suite, "_run", lambda *_: Counts(cells=1, cached=1))
    monkeypatch.setattr(suite, "_report", lambda *_: None)
    for clear in (compiler.library.cache_clear, fused.missing.cache_clear):
        clear()
    try:
        told = call("suite", "all", "--preset", "smoke", "--device", "cpu")
        plain = call("suite", "accuracy", "--preset", "smoke", "--device", "cpu", "--backend", "reference")
    finally:
        fused.missing.cache_clear()
    assert told[2].count("\n") == 1
    assert told[2].startswith("warning: routing runs on the slow back end, plain torch: ")
    assert "ROUTEBENCH_CACHE" in told[2] or "C++ compiler" in told[2]
    assert (plain[0], plain[2]) == (0, "")


@pytest.mark.parametrize(("suite", "data"), [("overlap", "mnist5k"), ("robustness", "diverse-multimnist5k")])
def test_data_that_does_not_suit_is_one_line_before_anything_is_trained(call, tmp_path, suite, data):
    code, out, err = call("suite", suite, "--preset", "smoke", "--data", data, "--results", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert "; " in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def small_folder(place, side, count=4):
    """Two classes of square images."""
    for label in "ab":
        (place / label).mkdir(parents=True)
        for number in range(count):
            pixels = np.random.default_rng([number, ord(label)]).integers(0, 256, (side, side), np.uint8)
            Image.fromarray(pixels).save(place / label / f"{number}.png")


def test_images_that_are_too_small_are_one_line_with_the_size_that_will_do(call, tmp_path):
    small_folder(tmp_path / "tiny", 8)
    command = ("suite", "linear-probe", "--preset", "smoke", "--method", "dynamic", "--data")
    code, out, error = call(*command, "folder:tiny")
    assert (code, out) == (2, "")
    assert error == (
        "Error: images of folder:tiny are 8 x 8 pixels, too small for capsnet-small (at least 13 x 13), cnn-small (at "
        "least 13 x 13), scae-small (at least 23 x 23); --data 'folder:tiny?size=23' or more scales them\n"
    )
    assert [place.name for place in tmp_path.iterdir()] == ["tiny"]
    assert call(*command, "folder:tiny?size=23", "--dry-run")[0] == 0


def test_a_run_says_how_many_images_are_taken(call, tmp_path):
    code, out, _ = call("suite", "accuracy", "--preset", "smoke", "--data", "take:500:mnist5k", "--dry-run")
    taken = (
        "takes 500 of the 5,000 images of mnist5k, the same for all methods and seeds; --data take:NUMBER:NAME takes"
    )
    assert code == 0
    assert out.splitlines()[0] == "accuracy, preset smoke, take:500:mnist5k, capsnet-small"
    assert out.splitlines()[1].startswith(taken)


def test_listing_is_what_is_registered(call):
    code, out, _ = call("list", "--json")
    known = json.loads(out)
    assert code == 0
    for kind, registry in EVERY.items():
        assert [entry["name"] for entry in known[kind]] == list(registry)
    assert [entry["name"] for entry in known["suites"]] == sorted(
        file.stem for file in shipped("suites").glob("*.toml")
    )
    models = {entry["name"]: entry for entry in known["models"]}
    assert models["capsnet"]["parameters"] == 6_804_224
    assert models["capsnet-reconstruction"]["parameters"] == 8_215_568
    methods = {entry["name"]: entry for entry in known["methods"]}
    assert methods["dynamic"]["hyperparameters"]["iterations"] == 3
    assert "Sabour" in methods["dynamic"]["source"]
    assert methods["dynamic"]["claims"]


def test_every_command_explains_itself():
    context = click.Context(cli.cli)
    for name in cli.cli.list_commands(context):
        command = cli.cli.get_command(context, name)
        done = CliRunner().invoke(cli.cli, [name, "--help"])
        assert done.exit_code == 0
        assert " ".join(command.help.split()) in " ".join(done.output.split())
        for option in command.params:
            assert getattr(option, "help", None) is not None or option.param_type_name == "argument"


def program(*arguments, cwd, **environment):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-X", "importtime", "-m", "routebench", *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("line", ["--help", "suite --help", "list", "list models --json"])
def test_help_and_listing_import_nothing_heavy(tmp_path, line):
    done = program(*line.split(), cwd=tmp_path)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "routebench.cli" in imported
    assert not imported & {"torch", "numpy", "pandas", "scipy", "matplotlib"}


def test_help_answers_at_once(tmp_path):
    """Under 0.4 s on a machine at rest; processor time, which other work there does not lengthen."""
    spent = []
    for _ in range(3):
        before = os.times()
        program("--help", cwd=tmp_path)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
        time.sleep(0.05)
    assert min(spent) < 0.4


def test_the_committed_catalogue_is_fresh():
    """`make catalogue` writes it anew."""
    from routebench.catalogue import FILE, code_hash

    assert json.loads(FILE.read_text())["made_from"] == code_hash()


BROKEN = "import absent_module_of_a_user\n"
LEAVES = """
import os

from routebench import routing


@routing.register("leaves")
class Leaves(routing.RoutingMethod):
    def route(self, votes, activations):
        os._exit(0)
"""


def test_a_plugin_that_does_not_import_is_a_failed_cell(tmp_path):
    """The others go on, and the exit code says that some failed."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = small_suite(tmp_path, "--plugin", "broken.py")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "absent_module_of_a_user" in done.stdout
    assert done.stderr.count("warning: plug-in") == 1
    shown = done.stdout.partition("Method ")[2]
    assert "uniform" in shown  # in one table
    assert "broken" in shown
    listed = small_suite(tmp_path, "--plugin", "broken.py", "--dry-run").stdout.splitlines()
    (line,) = [line for line in listed if "broken" in line]
    assert line.split()[0] == "failed"


def test_a_method_that_ends_its_process_does_not_conform(tmp_path):
    (tmp_path / "leaves.py").write_text(LEAVES)
    done = called(tmp_path, "check", "--plugin", "leaves.py")
    assert (done.returncode, done.stdout) == (
        1,
        "WRONG: leaves.py: it ended its process with exit code 0, as os._exit does\n",
    )
    told = json.loads(called(tmp_path, "check", "--plugin", "leaves.py", "--json").stdout)
    assert (told["conforms"], "exit code 0" in told["ended"]) == (False, True)


def test_a_finished_suite_shows_table_and_report_and_status(tmp_path):
    done = small_suite(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[4/4]" in done.stdout
    assert "uniform" in done.stdout
    page = tmp_path / "results" / "report.html"
    assert f"report: {page.relative_to(tmp_path)}" in done.stdout
    assert "How bright are digits?" in page.read_text()
    again = small_suite(tmp_path)
    assert "4 of them done before" in again.stdout
    assert table_of(again.stdout) == table_of(done.stdout)


def test_doctor_examines_the_machine(call):
    code, out, error = call("doctor", "--device", "cpu")
    assert (code, error) == (0, "")
    assert "ok       back end reference: plain torch" in out
    assert "back end fused" in out
    assert "back end triton" in out


def table_of(out):
    return [line for line in out.splitlines() if "uniform" in line and "seed" not in line]


def small_suite(folder, *arguments):
    """A suite of four cells that need no training, with the plug-in of tests/engine."""
    (folder / "small.toml").write_text(
        'question = "How bright are digits?"\nversion = 1\nprotocol = "brightness"\n[[methods]]\nname = "dynamic"\n'
        '[presets.quick]\ndata = "digits200"\nmodel = "capsnet-small"\niterations = [1, 2]\nseeds = 1\n'
    )
    parts = Path(__file__).parent / "engine" / "small_parts.py"
    return called(folder, "suite", "small.toml", "--plugin", parts, "--jobs", "1", *arguments)


def called(folder, *arguments):
    command = [sys.executable, "-m", "routebench", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
