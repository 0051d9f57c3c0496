"""Wrong calls: one line that says what was expected, exit code 2, and nothing is written."""

import pytest

from tests.command import Command
from tests.data.pictures import save


@pytest.fixture
def call(tmp_path, capfd):
    """Runs the command line in an empty folder."""
    return Command(tmp_path, capfd)


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
