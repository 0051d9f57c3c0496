"""Wrong calls: one line that says what was expected, exit code 2, and nothing is written."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from routebench import cli
from routebench.errors import UserError
from routebench.options import ReportOptions
from tests.command import Command
from tests.data.pictures import save

ROOT = Path(__file__).parents[1]
PACK = ROOT / "reports" / "grouping-quick"
BAD_SEEDS = ("0", "-1", "1.5", "", "a..b", "1...3", "-1..2", "3..", "..3", "1..2..3", "9" * 30)


@pytest.fixture
def call(tmp_path, capfd):
    """Runs the command line in an empty folder."""
    return Command(tmp_path, capfd)


MISTYPED = [
    (("siute", "accuracy"), "'suite'"),
    (("suite", "acuracy"), "'accuracy'"),
    (("suite", "accuracy", "--prest", "smoke"), "--preset"),
    (("suite", "accuracy", "--preset", "smok"), "'smoke'"),
    (("suite", "accuracy", "--method", "dynamc"), "'dynamic'? One of your own needs --plugin FILE.py"),
    (("suite", "all", "--method", "zzz"), "; one of your own needs --plugin FILE.py"),
    (("tune", "accuracy", "--method", "my-dynamic"), "'dynamic'? One of your own needs --plugin FILE.py"),
    (("check", "my-dynamic"), "'dynamic'? One of your own needs --plugin FILE.py"),
    (("cite", "dynamc"), "'dynamic'"),
    (("tune", "accuracy", "--iterations", "3"), "give it with its method: --method 'NAME[iterations=VALUE]'"),
    (("suite", "accuracy", "--iterations=3"), "give it with its method: --method 'NAME[iterations=VALUE]'"),
    (("suite", "accuracy", "--final-lambda", "3"), "--method 'NAME[final_lambda=VALUE]'"),
    (("check", "dynamic", "--iterations", "3"), "give it with its method: 'NAME[iterations=VALUE]'"),
    (("suite", "accuracy", "--learning-rate", "1"), "a suite file sets it, in its table [training]"),
    (("suite", "accuracy", "--zzz", "1"), "No such option '--zzz'."),
    (("tune", "sparsity"), "or tune one of accuracy, budget, features, iterations, overlap"),
    (("tune", "accuracy", "--trials", "3"), "--trials 3 of accuracy.toml"),
    (("tune", "accuracy", "--trials", "0"), "an integer of at least 1, got '0'"),
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
    *((("suite", "accuracy", "--seeds", bad), f"as in 10..19, got {bad!r}") for bad in BAD_SEEDS),
    (("suite", "accuracy", "--jobs", "many"), "many"),
    (("suite", "absent.toml"), "absent.toml"),
    (("suite", "accuracy", "--plugin", "absent.py"), "absent.py"),
    (("suite", "accuracy", "--address", "here:1"), "--executor ray"),
    (("suite", "accuracy", "--gpus-per-run", "0.2"), "--executor ray"),
    (("suite", "accuracy", "--memory-limit", "1MB"), "at least 500MB"),
    (("suite", "accuracy", "--memory-limit", f"{'9' * 400}MB"), "expected a size"),
    (
        ("suite", "accuracy", "--threads", "99999999"),
        "'--threads': expected an integer from 1 to 1024, got '99999999'",
    ),
    (("suite", "accuracy", "--seeds", str(10**12)), "not from 0 to 1,000,000,000"),
    (("suite", "accuracy", "--seeds", "9..3"), "'9..3', which is no seed"),
    (("suite", "accuracy", "--seeds", "1000000"), "fewer, such as with --seeds"),
    (("suite", "iterations", "--seeds", "5..9", "--until", "1"), "such as --seeds 10, got 5..9"),
    (("suite", "iterations", "--until", "nan"), "a number above 0, got 'nan'"),
    (("suite", "accuracy", "--results", ""), "expected a path, got an empty one"),
    (("suite", "accuracy", "--plugin", f"{'a' * 300}.py"), "File name too long"),
    (("tune", "accuracy", "--write", "."), "'.': it is a folder; choose another with -o"),
    (("tune", "accuracy", "-o", "."), "'.': it is a folder; choose another with -o"),
    (("check", "dynamic", "--seed", "9" * 30), "an integer of at most 64 bits"),
    (("compare", "absent", "absent", "--alpha", "nan"), "a number above 0 and below 1, got 'nan'"),
    (("compare", "a" * 300, "absent"), "File name too long"),
    (("reproduce", "a" * 300), "File name too long"),
    (("new-method", "a" * 300), "File name too long"),
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


@pytest.mark.parametrize("name", cli.cli.list_commands(click.Context(cli.cli)))
def test_an_option_that_takes_one_value_is_given_once(call, tmp_path, name):
    for option in cli.cli.get_command(click.Context(cli.cli), name).params:
        if not isinstance(option, click.Option) or option.multiple or (option.is_flag and not option.secondary_opts):
            continue
        twice = (
            (*option.opts, *option.secondary_opts) if option.is_flag else (option.opts[0], "1", option.opts[-1], "2")
        )
        code, out, error = call(name, *twice)
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert error.startswith(f"Error: expected {option.opts[-1]}")
        assert error.endswith(" once, got it 2 times; keep one\n")
    assert list(tmp_path.iterdir()) == []


def test_what_may_stand_twice_may(call, tmp_path):
    words = ("--method", "em", "--method", "dynamic", "-q", "-q", "--json", "--json", "--dry-run", "--dry-run")
    assert call("suite", "accuracy", "--preset", "smoke", *words).code == 0
    code, _, error = call("alternate", "absent", "absent", "--rounds", "2", "--", "--threads", "1", "--threads", "2")
    assert code == 2
    assert "once" not in error  # behind -- are words for `suite`, which refuses them


IN_A_CIRCLE = [
    ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--settings", "circle"),
    ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--plugin", "circle.py"),
    ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--data", "folder:circle"),
    ("suite", "circle.toml"),
    ("check", "dynamic", "--plugin", "circle"),
    *((command, "circle") for command in ("status", "report", "export")),
    ("publish", "circle", "-o", "out"),
    ("reproduce", "a", "--results", "circle"),
    ("compare", "circle", "circle"),
    ("export", PACK, "--format", "csv", "-o", "circle"),
    ("compare", PACK, PACK, "-o", "circle"),
    ("tune", "accuracy", "--dry-run", "-o", "circle"),
    *((command, PACK, "-o", "circle.html") for command in ("report", "board")),
    ("features", "efficientnet-lite0", "mnist5k", "-o", "circle.safetensors"),
    ("new-method", "mine", "-o", "circle"),
]


@pytest.mark.parametrize("arguments", IN_A_CIRCLE, ids=lambda call: " ".join(Path(word).name for word in call))
def test_a_link_in_a_circle_is_one_line_and_stays(call, tmp_path, arguments):
    for name in ("circle", "circle.py", "circle.toml", "circle.html", "circle.safetensors"):
        (tmp_path / name).symlink_to(name)
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "circle" in error
    assert all(path.is_symlink() for path in tmp_path.iterdir())


FILE_IN_THE_WAY = [
    ("suite", "accuracy", "--preset", "smoke", "--results", "file"),
    ("suite", "accuracy", "--preset", "smoke", "--results", "file/below", "--dry-run"),
    ("tune", "accuracy", "--dry-run", "--write", "file/chosen.json"),
    ("publish", PACK, "--unpack", "-o", "file/below"),
    ("export", PACK, "-o", "file/out.csv"),
    ("report", PACK, "-o", "file/page.html"),
    ("rank", "dynamic", "--dry-run", "-o", "file/page.html"),
    ("compare", PACK, PACK, "-o", "file/out.txt"),
    ("alternate", ROOT, ROOT, "--rounds", "2", "--results", "file"),
]


@pytest.mark.parametrize("arguments", FILE_IN_THE_WAY, ids=[call[0] for call in FILE_IN_THE_WAY])
def test_a_file_where_a_folder_must_be_is_named_in_one_line(call, tmp_path, arguments):
    (tmp_path / "file").write_text("kept")
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert re.search("cannot be written to '[^ ]*file", error)
    assert "file' is a file; choose another with -" in error
    assert (tmp_path / "file").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


FOLDERS = [
    ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--results"),
    ("publish", PACK, "--unpack", "-o"),
    ("merge", PACK, PACK.parents[1] / "tests" / "packs" / "cost-quick", "-o"),
    ("new-method", "mine", "-o"),
]


@pytest.mark.parametrize("kind", ["a pipe", "a link to nothing"])
@pytest.mark.parametrize("arguments", FOLDERS, ids=[call[0] for call in FOLDERS])
def test_what_stands_where_a_folder_must_be_is_told_before_anything_is_made(call, tmp_path, arguments, kind):
    os.mkfifo(tmp_path / "there") if kind == "a pipe" else (tmp_path / "there").symlink_to("absent")
    code, out, error = call(*arguments, "there")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "cannot be written to 'there'" in error and f" is {kind}; choose another with -" in error
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


OUTPUTS = [
    ("publish", PACK, "--unpack", "-o", "/proc/new"),
    ("publish", PACK, "--unpack", "-o", "/proc/new/below"),
    ("publish", PACK, "--unpack", "-o", "/proc"),
    ("merge", PACK, PACK.parents[1] / "tests" / "packs" / "cost-quick", "-o", "/proc/new"),
    ("new-method", "mine", "-o", "/proc/new"),
    ("new-method", "mine", "-o", "/proc"),
    ("compare", PACK, PACK, "-o", "/proc/new"),
]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no such folder")
@pytest.mark.parametrize("arguments", OUTPUTS, ids=lambda call: " ".join(Path(word).name for word in call))
def test_a_folder_that_takes_nothing_is_told_with_what_to_do(call, arguments):
    """The system says no sooner than asked to make something there."""
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert re.search(r"Error: [\w ]+ cannot be written to '/proc\S*': .*; choose .*with -o\n$", error), error


def test_a_pipe_in_place_of_a_plug_in_is_told_by_its_kind(call, tmp_path):
    os.mkfifo(tmp_path / "there")
    done = call("check", "mine", "--plugin", "there")
    told = "Error: plug-in 'there': expected a Python file or a folder, got a pipe; name another\n"
    assert (done.code, done.error) == (2, told)


IN_PLACE_OF_RESULTS = [
    ("export", "own", "-o", "own/records.parquet"),
    ("export", "own", "-o", "results/records.parquet"),
    ("export", "own", "-o", "results/records/264e3feaddef9d29.json"),
    ("export", "own", "-o", "results/schema.json"),
    ("export", "own", "-o", "results/a.settings.json"),
    ("export", "own", "--to", "tensorboard", "-o", "results/plans/runs"),
    ("report", "own", "-o", "own/arrays.parquet"),
    ("report", "own", "-o", "link/page.html"),
    ("compare", "own", "own", "--format", "json", "-o", "results/plans/a.json"),
    ("publish", "own", "--unpack", "-o", "results/records/below"),
    ("merge", "own", "other", "-o", "results/damaged/new"),
    ("migrate", "own", "-o", "results/fits/new"),
    ("tune", "accuracy", "--dry-run", "-o", "results/locks/a.json"),
    ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--results", "results/arrays"),
    ("board", "-o", "results/index/b.html"),
    ("rank", "dynamic", "--output", "results/records/b.html"),
    ("rank", "dynamic", "--dry-run", "--output", "results/records/b.html"),
    ("features", "efficientnet-lite0", "mnist5k", "-o", "results/arrays/a.safetensors"),
    ("new-method", "my-idea", "-o", "results/records"),
]


@pytest.mark.parametrize("arguments", IN_PLACE_OF_RESULTS, ids=" ".join)
def test_nothing_is_written_where_results_are_kept(call, tmp_path, arguments):
    for name in ("own", "other"):
        shutil.copytree(PACK, tmp_path / name)
    for part in ("plans", "records"):
        (tmp_path / "results" / part).mkdir(parents=True)
    (tmp_path / "link").symlink_to("results/records")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert re.search(r"cannot be written to '.*choose another with --?\w+\n$", error)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


FILES = [
    ("export", PACK, "-o"),
    ("compare", PACK, PACK, "-o"),
    ("report", PACK, "--output"),
    ("board", "-o"),
    ("rank", "dynamic", "--dry-run", "-o"),
    ("tune", "accuracy", "--dry-run", "--write"),
    ("features", "efficientnet-lite0", "mnist5k", "-o"),
    ("suite", "accuracy", "--dry-run", "--settings"),
]


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("arguments", FILES, ids=[call[0] for call in FILES])
def test_a_file_that_is_named_as_a_folder_is_one_line(call, tmp_path, arguments, is_there):
    """`Path` takes the end away: a file of the folder's name was written."""
    if is_there:
        (tmp_path / "new.html").mkdir()
    code, out, error = call(*arguments, "new.html/")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.endswith(": expected a file, got 'new.html/', which names a folder; name a file in it\n")
    assert [*tmp_path.rglob("*")] == [tmp_path / "new.html"] * is_there


def test_python_takes_no_folder_for_a_file_either():
    with pytest.raises(UserError, match=r"output: expected a file, got 'new\.html/', which names a folder"):
        ReportOptions("results", output="new.html/")
    assert ReportOptions("results/", output="new.html").output == Path("new.html")


def test_a_folder_may_be_named_with_its_end(call, tmp_path):
    assert call("publish", f"{PACK}/", "--unpack", "-o", "new/").code == 0
    assert (tmp_path / "new" / "plans").is_dir()


@pytest.mark.parametrize("command", ["report", "board"])
def test_a_page_is_named_as_one(call, tmp_path, command):
    (tmp_path / "table.csv").write_text("kept")
    code, out, error = call(command, *([PACK] if command == "report" else []), "-o", "table.csv")
    assert (code, out) == (2, "")
    assert error.endswith(": expected a name that ends in .html; choose another with -o\n")
    assert [*tmp_path.iterdir()] == [tmp_path / "table.csv"] and (tmp_path / "table.csv").read_text() == "kept"


def test_a_file_named_as_a_part_of_a_results_folder_is_one_line(call, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "records").write_text("")
    told = "expected records/ to be a folder in it, got a file; put its files there"
    for command in ("status", "report", "export"):
        code, out, error = call(command)
        assert (code, out, error) == (2, "", f"Error: results folder 'results': {told}\n")


def test_a_folder_that_was_removed_is_one_line(tmp_path):
    """From inside it, torch's libraries end the process, and no relative path leads anywhere."""
    code = "import os, sys; os.rmdir(os.getcwd()); from routebench.cli import main; main()"
    given = {
        "cwd": tmp_path / "gone",
        "env": {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        "capture_output": True,
    }
    (tmp_path / "gone").mkdir()
    done = subprocess.run([sys.executable, "-P", "-c", code, "list"], text=True, check=False, **given)
    told = "Error: the folder that you are in is not there any more; change to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_output_that_a_full_device_refuses_is_one_line():
    with Path("/dev/full").open("wb") as full:
        called = [sys.executable, "-m", "routebench", "list"]
        done = subprocess.run(called, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: output cannot be written: No space left on device\n")


def test_beside_a_device_no_folder_of_figures_is_made(call, tmp_path):
    (tmp_path / "device").symlink_to(os.devnull)
    assert call("report", PACK, "-o", "device") == (0, "report: device\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["device"]


def test_a_plugin_that_ends_its_process_is_no_fault_of_a_method(call, tmp_path):
    (tmp_path / "ends.py").write_text("import os\nos._exit(3)\n")
    code, out, error = call("check", "dynamic", "--plugin", "ends.py")
    assert (code, out) == (2, "")
    assert error.startswith("Error: plug-in ends.py: expected it to be imported, but it ended its process with exit")


def test_all_is_suggested_like_a_suite(call, tmp_path):
    code, _, err = call("suite", "al", "--preset", "smoke", "--results", str(tmp_path / "none"))
    assert (code, err) == (2, "Error: unknown suite 'al'; did you mean 'all'?\n")
    code, _, err = call("suite", "nothing-like-it")
    assert code == 2
    assert "known: accuracy, all, budget, cost" in err


@pytest.mark.parametrize("command", ["report", "export", "status"])
def test_the_results_folder_is_an_argument_or_an_option(call, tmp_path, command):
    as_argument, as_option = call(command, "absent"), call(command, "--results", "absent")
    assert as_argument == as_option
    assert "'absent'" in as_option[2]
    assert call(command, "absent", "--results", "absent") == as_option
    code, _, error = call(command, "one", "--results", "other")
    assert (code, error.count("\n")) == (2, 1)
    assert "'one' and --results 'other'" in error


@pytest.mark.parametrize(("suite", "data"), [("overlap", "mnist5k"), ("robustness", "diverse-multimnist5k")])
def test_data_that_does_not_suit_is_one_line_before_anything_is_trained(call, tmp_path, suite, data):
    code, out, err = call("suite", suite, "--preset", "smoke", "--data", data, "--results", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert "; " in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_images_that_are_too_small_are_one_line_with_the_size_that_will_do(call, tmp_path):
    for label in "ab":
        save(tmp_path / "tiny" / label, 4, (8, 8))
    command = ("suite", "linear-probe", "--preset", "smoke", "--method", "dynamic", "--data")
    code, out, error = call(*command, "folder:tiny")
    assert (code, out) == (2, "")
    assert error == (
        "Error: images of folder:tiny are 8 x 8 pixels, too small for capsnet-small (at least 13 x 13), cnn-small (at "
        "least 13 x 13), scae-small (at least 23 x 23); --data 'folder:tiny?size=23' or more scales them\n"
    )
    assert [place.name for place in tmp_path.iterdir()] == ["tiny"]
    assert call(*command, "folder:tiny?size=23", "--dry-run")[0] == 0
