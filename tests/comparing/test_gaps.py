"""What the gate must not take for well: cells and numbers that HEAD has no more, and cells that are not compared."""

import json
import math

import pytest

from routebench.comparing import Wishes, as_json, as_text, compare_folders, verdict
from tests.comparing.planted import COST, headline, write


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return write(tmp_path_factory.mktemp("published") / "accuracy", keep=headline)


def of_dynamic(change):
    def edit(record, arrays):
        if record["identity"]["method"] == "dynamic":
            change(record)

    return edit


@pytest.mark.parametrize(
    ("left", "missing"),
    [
        (lambda record: record["identity"]["method"] != "dynamic", 3),
        (lambda record: record["identity"]["seed"] == 0, 14),
    ],
    ids=["without a method", "with one seed"],
)
def test_cells_that_head_does_not_even_plan_are_missing(published, tmp_path, left, missing):
    head = write(tmp_path / "head", keep=lambda record: headline(record) and left(record))
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 3
    assert len(comparison.pairs.missing) == missing
    assert f"HEAD has not run {missing} of 21 cells that BASE has" in verdict(comparison)
    assert "dynamic T=3 seed 1: not planned" in as_text(comparison)
    assert compare_folders(head, published, Wishes()).exit_code == 0  # what only HEAD has is no loss


def test_a_method_that_was_taken_out_can_be_asked_for_and_others_are_not_touched(published, tmp_path):
    head = write(tmp_path / "head", keep=lambda record: headline(record) and record["identity"]["method"] != "dynamic")
    assert compare_folders(published, head, Wishes(methods=("em",))).exit_code == 0
    assert len(compare_folders(published, head, Wishes(methods=("dynamic",))).pairs.missing) == 3


def nan(record):
    for metric in record["metrics"]:
        metric["value"] = math.nan


def none(record):
    for metric in record["metrics"]:
        metric["value"] = None


def gone(record):
    record["metrics"] = [metric for metric in record["metrics"] if metric["metric"] != "accuracy"]


@pytest.mark.parametrize(("change", "instead"), [(nan, "nan"), (none, "no value"), (gone, "gone")])
def test_a_number_that_head_has_no_more_is_a_regression_and_is_named(published, tmp_path, change, instead):
    comparison = compare_folders(published, write(tmp_path / "head", of_dynamic(change), keep=headline), Wishes())
    assert comparison.exit_code == 1
    told = f"dynamic T=3 seed 0: accuracy: {instead}"
    assert verdict(comparison).startswith(f"Regression: no number in HEAD for {told}")
    assert told in as_text(comparison)
    lost = json.loads(as_json(comparison))["lost"]
    assert {(one["cell"], one["metric"]) for one in lost} >= {
        (f"dynamic T=3 seed {seed}", "accuracy") for seed in range(3)
    }
    assert compare_folders(published, tmp_path / "head", Wishes(methods=("em",))).exit_code == 0
    assert compare_folders(tmp_path / "head", published, Wishes(methods=("em",))).exit_code == 0


def test_a_metric_without_direction_may_go(published, tmp_path):
    def without(record, arrays):
        record["metrics"] = [metric for metric in record["metrics"] if metric["metric"] != "parameters"]

    assert compare_folders(published, write(tmp_path / "head", without, keep=headline), Wishes()).exit_code == 0


def test_a_batch_of_which_nothing_fits_any_more_is_a_regression(tmp_path):
    def nothing(record, arrays):
        for metric in record["metrics"]:
            metric["value"] = 0

    base = write(tmp_path / "base", source=COST, metrics=("largest_batch",))
    head = write(tmp_path / "head", nothing, source=COST, metrics=("largest_batch",))
    assert compare_folders(base, head, Wishes()).exit_code == 1


@pytest.mark.parametrize(
    ("fact", "other", "told"),
    [
        ("data_fingerprint", "other", "data fingerprint differs: 5bd20f0d481eb910 in BASE, other in HEAD"),
        ("suite_version", 9, "suite version differs: 1 in BASE, 9 in HEAD"),
        ("options", {"test_iterations": [3]}, "options differ: test_iterations [1, 2, 3, 4, 5] → [3]"),
    ],
)
def test_one_method_that_is_compared_does_not_speak_for_the_rest(published, tmp_path, fact, other, told):
    def change(record, arrays):
        if record["identity"]["method"] != "cnn":
            record["identity"][fact] = other

    comparison = compare_folders(published, write(tmp_path / "head", change, keep=headline), Wishes())
    assert comparison.exit_code == 3
    assert verdict(comparison).startswith("No regression in what was compared")
    assert verdict(comparison).endswith(f" 18 of 21 cells not compared: {told}.")
    assert compare_folders(published, tmp_path / "head", Wishes(methods=("cnn",))).exit_code == 0


def test_a_metric_of_which_nothing_is_judged_is_told(tmp_path):
    """Times of another machine: the counts are the same, and that says nothing of the times."""

    def elsewhere(record, arrays):
        record["provenance"]["processor"] = "Another CPU, 64 cores"

    metrics = ("training_time", "training_flops")
    base = write(tmp_path / "base", source=COST, metrics=metrics)
    comparison = compare_folders(base, write(tmp_path / "head", elsewhere, source=COST, metrics=metrics), Wishes())
    assert comparison.exit_code == 4
    assert "Nothing judged for training_time in network, training_time in layers and training_time in " in verdict(
        comparison
    )
    assert compare_folders(base, tmp_path / "head", Wishes(metrics=("training_flops",))).exit_code == 0
