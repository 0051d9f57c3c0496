"""`routebench export`, as a user meets it."""

import shutil
from functools import partial

import pandas as pd
import pytest

from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import made_up_records
from tests.command import Command


@pytest.fixture
def call(tmp_path, plain, capfd):
    """Runs `export` beside a folder `results`."""
    shutil.copytree(plain, tmp_path / "results")
    return partial(Command(tmp_path, capfd), "export")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--format", "latx"), "did you mean 'latex'?"),
        ((), "--format csv|parquet|markdown|latex"),
        (("-o", "table.doc"), ".tex"),
        (("--format", "parquet"), "-o FILE.parquet"),
        (("absent", "--format", "csv"), "'absent'"),
        (("absent",), "'absent' does not exist"),
        (("file",), "'file' is a file"),
        (("--format", "latex", "-o", "a.csv"), "which stands for csv"),
        (("--format", "csv", "--suite", "cost"), "accuracy (quick)"),
        (("--format", "latex", "--metric", "loss"), "--metric chooses rows"),
        (("--format", "csv", "-o", "results"), "results"),
        (("--format", "csv", "-o", "file/out.csv"), "cannot be written"),
        (("--json", "--format", "csv"), "expected --json or --format csv, got both"),
        (("--to", "tensorboard"), "expected a new folder, got none; name it with -o FOLDER"),
        (("--to", "tensorboard", "-o", "new", "--format", "csv"), "expected a new folder, got --format csv too"),
        (("--to", "mlfow", "-o", "new"), "'mlfow' is not one of 'tensorboard', 'mlflow', 'wandb', 'trackio'"),
    ],
)
def test_a_wrong_call_is_one_line_and_writes_nothing(call, tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert says in error
    assert {path.name for path in tmp_path.iterdir()} == {"results", "empty", "file"}


@pytest.mark.parametrize(
    ("format_", "start"), [("csv", "# "), ("markdown", "<!--"), ("latex", "% suite: accuracy"), ("json", "{")]
)
def test_text_goes_to_standard_output(call, format_, start):
    code, out, error = call("--format", format_)
    assert (code, error) == (0, "")
    assert out.startswith(start)
    assert out.endswith("\n")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.md", "out.tex"])
def test_the_ending_of_the_file_says_the_format(call, tmp_path, name):
    assert call("-o", f"new/{name}")[:2] == (0, f"export: new/{name}\n")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]
    if name.endswith(".parquet"):
        assert "accuracy" in set(pd.read_parquet(tmp_path / "new" / name)["metric"])


def test_an_empty_folder_is_nothing_measured(call, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, error = call("empty", "--format", "csv")
    assert (code, out) == (4, "")
    assert "nothing was planned in 'empty' yet" in error


def test_an_ending_that_no_format_has_is_left_to_the_user(call, tmp_path):
    assert call("--format", "latex", "-o", "a.txt")[0] == 0
    assert (tmp_path / "a.txt").read_text(encoding="utf-8").startswith("% suite: accuracy")


def test_a_cell_whose_arrays_are_damaged_is_not_run_and_never_bold(call, tmp_path):
    records = made_up_records(seeds=1, failures=False)
    write_folder(tmp_path / "one", records)
    (best,) = (record for record in records if (record["label"], record["identity"]["iterations"]) == ("dynamic", 2))
    (tmp_path / "one" / "arrays" / f"{best['cell']}.safetensors").write_text("junk")
    code, out, error = call("one", "--format", "markdown")
    assert code == 0
    assert f"warning: arrays/{best['cell']}.safetensors could not be read" in error
    (row,) = [line for line in out.splitlines() if line.startswith("| Dynamic, T = 2")]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["–", "0 / 1", "–", "–", "–"]


def test_a_plan_without_a_run_is_nothing_measured(call, tmp_path):
    records = [{**record, "status": "not run"} for record in made_up_records(seeds=1)[:2]]
    write_folder(tmp_path / "planned", records)
    for format_ in ("csv", "latex", "markdown"):
        code, out, error = call("planned", "--format", format_)
        assert (code, out, error) == (4, "", "nothing was measured yet\n")
