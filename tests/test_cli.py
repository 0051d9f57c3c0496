"""The command line, as a user meets it: exit codes, what is printed, and what is imported for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from routebench import cli
from routebench.catalogue import catalogue
from routebench.commands import suite
from routebench.data import declared_where_missing
from routebench.engine.results import files_of
from routebench.engine.running import Counts
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import VERBOSE
from routebench.kernels import compiler, fused
from routebench.registry import EVERY, suite_files
from tests.command import Command

ROOT = Path(__file__).parents[1]
PARTS = ("train", "test")


@pytest.fixture
def call(tmp_path, capfd):
    """Runs the command line in an empty folder."""
    return Command(tmp_path, capfd)


def test_dry_run_lists_cells_and_writes_nothing(call, tmp_path):
    code, out, _ = call("suite", "accuracy", "--preset", "smoke", "--dry-run")
    assert code == 0
    lines = out.splitlines()
    assert sum("to do" in line and "T=3" in line for line in lines) == 3
    assert lines[-1].startswith("10 runs: 0 cached, 0 failed, 10 to do; ")
    assert list(tmp_path.iterdir()) == []


def test_all_is_every_suite_with_a_place_in_order(call, tmp_path, monkeypatch, no_data):
    monkeypatch.setattr("routebench.engine.running._suite.MEASURING", 0.0)  # seconds; no step is timed
    code, out, _ = call("suite", "all", "--preset", "smoke", "--jobs", "2", "--dry-run")
    assert code == 0
    titles = [line.split(",")[0] for line in out.splitlines() if ", preset smoke, " in line]
    places = {name: load_suite(name).place_in_all for name in suite_files()}
    assert titles == sorted((name for name in places if places[name]), key=places.get)
    assert list(tmp_path.iterdir()) == []


def test_a_suite_says_in_one_line_that_it_falls_back_to_the_slow_back_end(call, tmp_path, monkeypatch, no_data):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(suite, "_run", lambda *_: Counts(cells=1, cached=1))
    monkeypatch.setattr(suite, "_report", lambda *_: None)
    monkeypatch.setattr(suite, "_show_results", lambda *_: None)
    monkeypatch.setattr("routebench.analysis.open_folder", lambda *_: None)
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


def test_a_run_says_how_many_images_are_taken(call, tmp_path):
    code, out, _ = call("suite", "accuracy", "--preset", "smoke", "--data", "take:500:mnist5k", "--dry-run")
    taken = (
        "takes 500 of the 5,000 images of mnist5k, the same for all methods and seeds; --data take:NUMBER:NAME takes"
    )
    assert code == 0
    assert out.splitlines()[0] == "accuracy, preset smoke, take:500:mnist5k, capsnet-small"
    assert out.splitlines()[1].startswith(taken)
    code, out, _ = call("suite", "accuracy", "--preset", "smoke", "--data", "take:500:mnist5k", "--dry-run", "--json")
    assert (code, json.loads(out)[0]["remarks"][0].startswith(taken)) == (0, True)


def test_trials_say_which_images_they_are_given(call, tmp_path):
    """A name that takes some of them is not followed, and a class may be too rare for every fold."""
    drawn, labels = np.random.default_rng(0), np.where(np.arange(60) < 2, 2, np.arange(60) % 2)
    images = {f"{part}_images": drawn.integers(0, 255, (60, 16, 16), np.uint8) for part in PARTS}
    np.savez(tmp_path / "x.npz", **images, train_labels=labels, test_labels=np.arange(60) % 3)
    code, out, err = call("tune", "accuracy", "--preset", "smoke", "--data", "take:50:npz:x.npz", "--dry-run")
    assert (code, "show these of its 3 classes: 2." in out.splitlines()[0]) == (0, True)
    assert err.startswith("warning: --data take:50:npz:x.npz: settings are chosen for npz:x.npz, by folds of its")


def test_listing_is_what_is_registered(call):
    code, out, _ = call("list", "--json")
    known = json.loads(out)
    assert code == 0
    for kind, registry in EVERY.items():
        assert [entry["name"] for entry in known[kind]] == list(registry)
    assert [entry["name"] for entry in known["suites"]] == sorted(suite_files())
    models = {entry["name"]: entry for entry in known["models"]}
    assert models["capsnet"]["parameters"] == 6_804_224
    assert models["capsnet-reconstruction"]["parameters"] == 8_215_568
    methods = {entry["name"]: entry for entry in known["methods"]}
    assert methods["dynamic"]["hyperparameters"]["iterations"] == 3
    assert "Sabour" in methods["dynamic"]["source"]
    assert methods["dynamic"]["claims"]


def test_presets_are_listed_with_their_runs_and_where_they_are_published(call):
    known = {(one["suite"], one["preset"]): one for one in json.loads(call("list", "presets", "--json").out)}
    assert list(known) == [(name, preset) for name in sorted(suite_files()) for preset in load_suite(name).presets]
    with declared_where_missing():
        for suite_name, preset in [
            ("sparsity", "full"),
            ("parts", "quick"),
            ("tsai-cost", "full"),
            ("accuracy", "full"),
        ]:
            planned = plan(load_suite(suite_name), preset, Choices())
            assert known[suite_name, preset]["runs"] == len(planned.cells)
            assert known[suite_name, preset]["models"] == [*planned.preset.models]
    assert known["standard", "mnist"]["published"] == ["standard"]
    folders = {folder for one in known.values() for folder in one["published"]}
    assert folders == {file.parent.name for file in ROOT.glob("reports/*/records.parquet")}
    rows = [line.split() for line in call("list", "presets").out.splitlines()]
    assert ["viewpoint", "standard", "capsnet-small", "rendered-shapes-small-azimuth", "5", "150", "standard"] in rows


def test_every_command_explains_itself():
    context = click.Context(cli.cli)
    for name in cli.cli.list_commands(context):
        command = cli.cli.get_command(context, name)
        done = CliRunner().invoke(cli.cli, [name, "--help"])
        assert done.exit_code == 0
        assert " ".join(command.help.split()) in " ".join(done.output.split())
        for option in command.params:
            assert getattr(option, "help", None) is not None or option.param_type_name == "argument"


def program(*arguments, cwd, code=0, **environment):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-X", "importtime", "-m", "routebench", *arguments]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def imports(done):
    """The modules that a program and those that it started imported."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_fault_of_routebench_has_an_exit_code_of_its_own(monkeypatch, capsys):
    """1 would say that the gate found a regression."""

    def broken(**_):
        raise ZeroDivisionError

    monkeypatch.setattr(cli.cli, "main", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 70
    assert "ZeroDivisionError" in told and "please report it" in told


def test_without_a_command_the_help_is_shown_in_its_lines(call):
    code, out, err = call()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) > 10
    assert "Error" not in err


@pytest.mark.parametrize("line", ["--help", "suite --help", "list", "list models --json"])
def test_help_and_listing_import_nothing_heavy(tmp_path, line):
    imported = imports(program(*line.split(), cwd=tmp_path))
    assert "routebench.cli" in imported
    assert not imported & {"torch", "numpy", "pandas", "scipy", "matplotlib"}


@pytest.mark.parametrize("line", ["report", "export results --format markdown", "status", "compare results results"])
def test_what_shows_results_does_without_torch(tmp_path, line):
    shutil.copytree(ROOT / "reports" / "grouping-quick", tmp_path / "results")
    program("list", cwd=tmp_path)  # the catalogue is kept from now on
    assert "torch" not in imports(program(*line.split(), cwd=tmp_path))


@pytest.mark.parametrize(
    "line",
    [
        "suite accuracy --method dynamc",
        "suite all --method em[final_lambda=1] --method dynamc",
        "suite acuracy",
        "suite accuracy --preset quik",
        "suite accuracy --data mnist5",
        "tune accuracy --model capsnet-smal",
        "check dynamc",
        "cite dynamc",
    ],
)
def test_an_unknown_name_is_answered_before_torch_is_imported(tmp_path, line):
    program("list", cwd=tmp_path)  # the catalogue is kept from now on
    done = program(*line.split(), cwd=tmp_path, code=2)
    assert done.stderr.splitlines()[-1].startswith("Error: unknown ")
    assert "torch" not in imports(done)


NAMES = """
from routebench.catalogue import catalogue, refuse_unknown
from routebench.errors import UserError
from routebench.registry import routing

catalogue()
refuse_unknown(suite="accuracy", preset="quick", methods=("em[final_lambda=1]", "cnn", "vae"), data="take:5:mnist")
refuse_unknown(suite="all", preset="smoke", methods=("part-sets",), models=("cnn[width=3]",), data="folder:here")
refuse_unknown(suite="own.toml", methods=("mine",))
refuse_unknown(("plugin.py",), suite="theirs", methods=("theirs",))
try:
    refuse_unknown(suite="accuracy", preset="quick", methods=("mine",))
except UserError as refused:
    print(refused)
routing.register("mine")(type("Mine", (routing["dynamic"],), {"__module__": "notebook"}))
refuse_unknown(suite="accuracy", preset="quick", methods=("mine",))
"""


def test_names_that_suites_notebooks_and_plugins_bring_are_not_refused(tmp_path):
    """In a process of its own: files of tests register methods when they are imported."""
    (tmp_path / "own.toml").write_text('[[methods]]\nname = "mine"\n')
    done = subprocess.run(
        [sys.executable, "-c", NAMES], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)
    (line,) = done.stdout.splitlines()
    assert line.startswith("unknown method 'mine'")


def test_a_dry_run_imports_no_compiler(tmp_path):
    """Neither where it plans, nor where a plug-in is loaded, nor where training steps are measured."""
    program("new-method", "own-way", cwd=tmp_path)
    line = "suite accuracy --preset smoke --dry-run --plugin own_way.py --results none"
    done = program(*line.split(), cwd=tmp_path)
    assert "own-way T=3" in done.stdout and "estimated from training steps" in done.stdout
    assert "torch" in imports(done)
    assert not imports(done) & {"torch._dynamo", "torch._inductor"}


def listed(cache, tmp_path):
    """What `list --json` says with this cache folder, and whether it imported torch."""
    done = program("list", "--json", cwd=tmp_path, ROUTEBENCH_CACHE=str(cache))
    return json.loads(done.stdout), "torch" in imports(done)


def test_the_catalogue_is_made_once_for_each_state_of_the_code(tmp_path):
    cache = tmp_path / "cache"
    kept = cache / "catalogue"
    kept.mkdir(parents=True)
    for number in range(10):
        (kept / f"{number:016}.json").write_text("of older code")
        os.utime(kept / f"{number:016}.json", (number, number))
    whole, asked = listed(cache, tmp_path)
    assert asked and whole
    assert listed(cache, tmp_path) == (whole, False)
    (file,) = (file for file in kept.iterdir() if file.stat().st_mtime > 100)
    assert len([*kept.iterdir()]) == 8
    for content in (file.read_bytes()[:-9], file.read_bytes().replace(b"dynamic", b"dynamit")):
        file.write_bytes(content)  # damaged: made again
        assert listed(cache, tmp_path) == (whole, True)
    assert listed(cache, tmp_path) == (whole, False)


def test_without_a_cache_folder_the_registries_are_asked(tmp_path):
    (tmp_path / "file").write_text("")
    whole, asked = listed(tmp_path / "file", tmp_path)
    assert asked and whole
    program("cite", "dynamc", cwd=tmp_path, code=2, ROUTEBENCH_CACHE=str(tmp_path / "file"))


BROKEN = "import absent_module_of_a_user\n"
LEAVES = """
import os

from routebench import routing


@routing.register("leaves")
class Leaves(routing.RoutingMethod):
    def route(self, votes, activations):
        os._exit(0)
"""


def test_a_plugin_that_does_not_import_is_a_failed_cell(call, tmp_path):
    """The others go on, and the exit code says that some failed."""
    (tmp_path / "broken.py").write_text(BROKEN)
    done = small_suite(call, "--plugin", "broken.py", isolated=True)
    assert done.code == 3, done.out + done.error
    assert "absent_module_of_a_user" in done.out
    assert done.error.count("warning: plug-in") == 1
    shown = done.out.partition("Method ")[2]
    assert "Uniform routing" in shown  # in one table
    assert "broken" in shown.lower()
    listed = small_suite(call, "--plugin", "broken.py", "--dry-run", isolated=True).out.splitlines()
    (line,) = [line for line in listed if "broken" in line]
    assert line.split()[0] == "failed"


def test_a_method_that_ends_its_process_does_not_conform(call, tmp_path):
    (tmp_path / "leaves.py").write_text(LEAVES)
    assert call("check", "--plugin", "leaves.py") == (
        1,
        "WRONG: leaves.py: it ended its process with exit code 0, as os._exit does\n",
        "",
    )
    told = json.loads(call("check", "--plugin", "leaves.py", "--json").out)
    assert (told["conforms"], "exit code 0" in told["ended"]) == (False, True)


def test_a_finished_suite_shows_table_and_report_and_status(call, tmp_path):
    done = small_suite(call)
    assert done.code == 0, done.out + done.error
    assert "[4/4]" in done.out
    assert "Uniform routing" in done.out
    page = tmp_path / "results" / "report.html"
    assert f"report: {page.relative_to(tmp_path)}" in done.out
    assert "How bright are digits?" in page.read_text()
    again = small_suite(call)
    assert "4 done before" in again.out
    assert table_of(again.out) == table_of(done.out)


def test_results_whose_place_others_take_are_told_when_that_happens_and_by_status(call):
    """The same settings again, or more seeds of them, set nothing aside."""
    calls = [(("--seeds", "2"), 0), (("--seeds", "3"), 0), (("--set", "training.epochs=2"), 12),
             (("--set", "training.epochs=2"), 0), (("--seeds", "3"), 4)]  # fmt: skip
    for options, count in calls:
        done = small_suite(call, *options)
        assert done.code == 0, done.error
        told = f"not counted from now on, as these runs take their place: {count} results of "
        assert (told in done.out) == ("not counted" in done.out) == bool(count), options
        status = (
            f"not counted, as newer plans have taken their place: {count} results of other code, options or training"
        )
        assert (status in call("status").out) == bool(count) or options[0] == "--set"
    assert json.loads(call("status", "--json").out)["earlier"] == 4


def test_a_method_that_was_given_up_can_be_taken_out(call, tmp_path):
    (tmp_path / "gone.py").write_text("raise ValueError('a slip')\n")
    before = small_suite(call)
    assert small_suite(call, "--plugin", "gone.py", "--method", "gone", isolated=True).code == 3
    told = call("forget", "gone")
    assert (told.code, told.out) == (0, "would remove gone: 1 failed; add --yes to do so\n")
    assert "gone on capsnet-small, seed 0: failed" in call("status").out
    kept = call("forget", "goner", "--yes")
    assert (kept.code, kept.error) == (2, "Error: unknown method 'goner'; did you mean 'gone'?\n")
    assert call("forget", "gone", "--yes").out.startswith("removed gone: 1 failed;")
    assert "gone" not in call("status").out
    assert not any("gone" in file.read_text() for file in (tmp_path / "results" / "records").iterdir())
    again = small_suite(call)
    assert (again.code, table_of(again.out)) == (0, table_of(before.out))
    assert "4 done before" in again.out


def test_doctor_examines_the_machine(call):
    code, out, error = call("doctor", "--device", "cpu")
    assert (code, error) == (0, "")
    assert "ok       back end reference: plain torch" in out
    assert "back end fused" in out
    assert "back end triton" in out
    assert "you can run `routebench suite accuracy`" in out.splitlines()[-1]


PACK = ROOT / "tests" / "packs" / "accuracy-quick"


def completed(words, cwd):
    """The completions of the last word, and the modules that were imported for them."""
    start = "import sys; sys.argv = ['routebench']; from routebench.cli import main; main()"
    asked = {"_ROUTEBENCH_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-X", "importtime", "-c", start]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **asked}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    return done.stdout.split(), imports(done)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("suite acc", ["plain,accuracy"]),
        ("tune standard --preset ful", ["plain,full"]),
        ("suite features --preset ten", ["plain,tenth"]),
        ("suite accuracy --method dyn", ["plain,dynamic"]),
        ("suite accuracy --json --model matrix-capsules-c", ["plain,matrix-capsules-cifar"]),
        ("rank my_idea.p", ["file,my_idea.p"]),
        ("list pre", ["plain,presets"]),
    ],
)
def test_a_shell_completes_names_at_once(tmp_path, line, told):
    catalogue()
    found, imported = completed(["routebench", *line.split()], tmp_path)
    assert found == told
    assert not imported & {"torch", "numpy", "pandas"}


READING = {
    "board": ("--board", "quick"),
    "cite": ("dynamic",),
    "compare": (PACK, PACK),
    "doctor": ("--device", "cpu"),
    "export": (PACK, "--metric", "accuracy"),
    "list": ("presets",),
    "migrate": (ROOT / "tests" / "packs" / "schema-1", "-o", "new"),
    "new-method": ("my-idea",),
    "publish": (PACK, "--unpack", "-o", "new"),
    "rank": ("dynamic", "--dry-run"),
    "reproduce": (min((files_of(PACK) / "records").glob("*.json")),),
    "status": (PACK, "--code"),
    "suite": ("accuracy", "--preset", "smoke", "--dry-run"),
    "tune": ("accuracy", "--preset", "smoke", "--dry-run"),
}
"""What each command is called with; the others train, or read what this test does not have."""
WRITING = {"alternate", "check", "features", "forget", "merge", "report", "submit", "verify"}


@pytest.mark.parametrize("name", READING)
def test_the_answer_of_a_command_is_json_alone_on_standard_output(call, name):
    done = call(name, *READING[name], "--json")
    assert done.code == 0, done.error
    assert json.loads(done.out, parse_constant=pytest.fail)


def test_every_command_takes_the_options_that_say_how_it_speaks():
    context = click.Context(cli.cli)
    names = cli.cli.list_commands(context)
    assert {*names} == READING.keys() | WRITING
    for name in names:
        options = {word for option in cli.cli.get_command(context, name).params for word in option.opts}
        assert {"--json", "--quiet", "-q", "--verbose", "-v"} <= options


def test_what_a_folder_holds_is_told_as_json_from_the_first_run_to_the_last_page(call, tmp_path):
    def told(*arguments, code=0):
        done = call(*arguments, "--json")
        assert done.code == code, done
        return json.loads(done.out, parse_constant=pytest.fail)

    (tmp_path / "grün.py").write_text("raise ValueError('a slip')\n")
    with_slip = small_suite(call, "--plugin", "grün.py", "--json", isolated=True)
    assert with_slip.code == 3 and "[5/5]" in with_slip.error and "report: " not in with_slip.error
    (found,) = json.loads(with_slip.out)["suites"]
    assert json.loads(with_slip.out)["runs"]["failed"] == 1
    rows = {(row["label"], row["iterations"]): row for row in found["networks"][0]["rows"]}
    assert len(rows) == 5 and rows["grün", None]["n"] == 0
    (plan,) = told("status")["plans"]
    assert plan["failed"][0]["label"] == "grün" and plan["runs"] == {"ok": 4, "failed": 1}
    assert told("forget", "grün", "--yes") == {"method": "grün", "runs": {"failed": 1}, "removed": True}
    assert (tmp_path / told("report")["page"]).is_file()
    exported = told("export", "--suite", "small", "--metric", "accuracy")
    assert {row["metric"] for row in exported["rows"]} == {"accuracy"}
    small_suite(call, "--results", "other", "--seeds", "2")
    merged = told("merge", "results", "other", "-o", "both")
    assert (merged["runs"], merged["shared"]) == (8, 4)
    (tmp_path / "empty").mkdir()
    assert told("status", "empty", code=4) == {"plans": [], "earlier": 0, "wanted": []}


def test_quiet_leaves_out_what_is_no_answer_and_verbose_tells_the_calls_behind_an_error(call, monkeypatch):
    monkeypatch.setenv(VERBOSE, "")
    loud = small_suite(call)
    quiet = small_suite(call, "-q", "--results", "other")
    assert "done before" in loud.out and "[4/4]" in loud.out and "read before" in loud.out
    assert not any(told in quiet.out for told in ("done before", "[4/4]", "read before")) and not quiet.error
    assert table_of(quiet.out) == table_of(loud.out) and "report: other" in quiet.out
    (call.folder / "slip.py").write_text("raise ValueError('a slip')\n")
    slipped = small_suite(call, "--plugin", "slip.py", "--results", "third", "-v")
    assert slipped.code == 3 and "Traceback" in slipped.error and "a slip" in slipped.error
    told = call("cite", "dynamc", "-v")
    assert (told.code, told.error.splitlines()[0]) == (2, "Traceback (most recent call last):")
    assert told.error.splitlines()[-1].startswith("Error: unknown routing method 'dynamc'")
    before = call("-q", "list", "methods", "--json")
    assert before.code == 0 and json.loads(before.out) == json.loads(call("--json", "list", "methods").out)
    assert call("-v", "cite", "dynamc").error == told.error
    assert call("-q", "cite", "dynamic", "-v").error == call("cite", "dynamic", "-qv").error
    assert call("cite", "dynamic", "-qv").error == "Error: expected --quiet or --verbose, got both; leave one out\n"


def table_of(out):
    return [line for line in out.splitlines() if "Uniform routing" in line]


def small_suite(call, *arguments, isolated=False):
    """A suite of four cells that need no training, with the plug-in of tests/engine."""
    (call.folder / "small.toml").write_text(
        'question = "How bright are digits?"\nversion = 1\nprotocol = "brightness"\n[[methods]]\nname = "dynamic"\n'
        '[presets.quick]\ndata = "digits200"\nmodel = "capsnet-small"\niterations = [1, 2]\nseeds = 1\n'
    )
    how = ("--jobs", "1") if isolated else ("--jobs", "1", "--no-isolate")
    return call("suite", "small.toml", "--plugin", ROOT / "tests/engine/small_parts.py", *how, *arguments)


def test_status_says_which_code_made_the_results(call):
    told = call("status", str(ROOT / "tests" / "packs" / "accuracy-quick"), "--code").out.splitlines()
    assert told[-1] == "code c79a8ef07150: 39 results of accuracy"
