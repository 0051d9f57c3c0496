"""What the command prints, in three formats, and with which exit code it ends."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from routebench.commands.compare import command
from routebench.comparing import Tolerance, Wishes, as_json, as_markdown, as_text, compare_folders, read_tolerances
from routebench.comparing._formats import LONGEST_COMMENT
from routebench.errors import UserError
from tests.comparing.planted import COST, headline, lose, write

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    lost, gained = lose(10, "dynamic", np.random.default_rng(0)), lose(-12, "random", np.random.default_rng(1))

    def change(record, arrays):
        lost(record, arrays)
        gained(record, arrays)

    return write(folder / "base", keep=headline), write(folder / "head", change, keep=headline)


@pytest.fixture(scope="module")
def comparison(folders):
    return compare_folders(*folders, Wishes())


def compare(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_text_starts_with_the_verdict_and_a_table_of_what_changed(comparison):
    text = as_text(comparison)
    assert text.startswith("Regression: accuracy of dynamic T=3: −1.00 points (95.83 % → 94.83 %).\n")
    header, *rows = text.splitlines()[2:5]
    assert header.split() == ["Verdict", "Metric", "Of", "BASE", "HEAD", "Change", "p", "(Holm)"]
    assert [row.split()[:2] for row in rows] == [["regression", "accuracy"], ["improvement", "accuracy"]]
    assert "+1.20 points" in rows[1]
    (accuracy,) = [line for line in text.splitlines() if line.startswith("accuracy  ")]
    assert accuracy.endswith("paired by seed and image")
    assert "BASE: c79a8ef07150; cpu on" in text


def test_markdown_has_the_verdict_a_table_and_the_rest_folded(comparison):
    text = as_markdown(comparison)
    assert text.startswith("**❌ Regression: accuracy of dynamic T=3")
    table, folded = text.split("<details>")
    assert table.count("| regression |") == 1
    assert "| improvement |" in table
    assert folded.count("| same |") > 10
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {10}


@pytest.mark.parametrize("longest", [4_000, 1_500, 700])
def test_markdown_is_cut_with_words_where_it_is_too_long(comparison, longest):
    whole, text = as_markdown(comparison), as_markdown(comparison, longest)
    assert len(text) <= longest < len(whole) <= LONGEST_COMMENT
    assert "Cut here" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.startswith("**❌ Regression")


def test_nothing_to_compare_is_no_row(folders, tmp_path):
    def fails(record, arrays):
        record.update(status="failed", reason="no", metrics=[])

    head = write(tmp_path / "head", fails, keep=headline)
    assert "\nRows: none.\n" in as_text(compare_folders(folders[0], head, Wishes()))


def test_reasons_cannot_become_markup(folders, tmp_path):
    def fails(record, arrays):
        if record["label"] == "cnn":
            record.update(status="failed", reason="<b>boom</b> | @everybody\n# no", metrics=[])

    head = write(tmp_path / "head", fails, keep=headline)
    text = as_markdown(compare_folders(folders[0], head, Wishes()))
    assert "&lt;b&gt;boom&lt;/b&gt; \\| &#64;everybody # no" in text
    assert "ok in BASE and without result in HEAD" in text.splitlines()[0]


def test_json_holds_every_row(comparison):
    found = json.loads(as_json(comparison))
    assert found["exit_code"] == 1
    assert len(found["changes"]) == len(comparison.changes)
    (row,) = [row for row in found["changes"] if row["verdict"] == "regression" and row["level"] == "setting"]
    assert (row["metric"], row["name"], row["iterations"]) == ("accuracy", "dynamic T=3", 3)
    assert row["change"] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--gate"], 1),
        (["--gate", "--method", "em"], 0),
        (["--gate", "--tolerance", "accuracy=1.5"], 0),
        (["--gate", "--metric", "loss"], 0),
        (["--gate", "--metric", "parameters"], 4),
    ],
)
def test_the_exit_code_is_the_gates(folders, options, code):
    assert compare(*folders, *options).exit_code == code


def test_a_file_takes_the_whole_and_the_screen_the_verdict(folders, tmp_path):
    done = compare(*folders, "--format", "markdown", "-o", tmp_path / "comparison.md")
    assert done.output.startswith("Regression: accuracy of dynamic T=3")
    assert len(done.output.splitlines()) == 1
    assert (tmp_path / "comparison.md").read_text().startswith("**❌")
    assert isinstance(compare(*folders, "-o", tmp_path / "comparison.md" / "file").exception, UserError)


def test_a_folder_that_is_not_there_is_a_wrong_call(folders, tmp_path):
    missing = compare(folders[0], tmp_path / "nowhere")
    assert isinstance(missing.exception, UserError)
    assert "expected a results folder" in str(missing.exception)


@pytest.mark.parametrize("text", ["accuracy", "accuracy=", "accuracy=-1", "accuracy=much", "=1", "accuracy=inf"])
def test_a_tolerance_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="expected --tolerance METRIC=VALUE"):
        read_tolerances([text])


def test_two_tolerances_of_one_metric_are_refused():
    with pytest.raises(UserError, match="once for each metric, got accuracy twice"):
        read_tolerances(["accuracy=1", "loss=2", "accuracy=3"])


def test_a_tenth_less_is_as_acceptable_as_a_tenth_more():
    tenth = Tolerance(10, percent=True)
    assert np.exp(tenth.as_change(100.0, relative=True)) == pytest.approx(1.1)
    assert np.exp(-tenth.as_change(100.0, relative=True, falls=True)) == pytest.approx(0.9)
    assert Tolerance(100, percent=True).as_change(100.0, relative=True, falls=True) == np.inf


@pytest.mark.parametrize(("share", "code"), [(0.905, 0), (0.895, 1)])
def test_a_tolerance_of_a_tenth_lets_a_fall_of_a_tenth_pass(tmp_path, share, code):
    def fewer(record, arrays):
        for metric in record["metrics"]:
            metric["value"] *= share

    base = write(tmp_path / "base", source=COST, metrics=("largest_batch",))
    head = write(tmp_path / "head", fewer, source=COST, metrics=("largest_batch",))
    wishes = Wishes(tolerances={"largest_batch": Tolerance(10, percent=True)})
    assert compare_folders(base, head, wishes).exit_code == code


def test_tolerances_are_in_the_metrics_unit_or_in_percent_of_base():
    found = read_tolerances(["accuracy=0.5", "training_time=10%", "loss = 5 %"])
    assert found["accuracy"].as_change(96.0, relative=False) == 0.5
    assert found["training_time"].as_change(4.0, relative=True) == pytest.approx(0.0953, abs=1e-4)
    assert found["loss"] == Tolerance(5, percent=True)
    assert Tolerance(1, percent=False).as_change(4.0, relative=True) == pytest.approx(0.2231, abs=1e-4)  # 1 ms of 4 ms
