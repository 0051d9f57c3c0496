"""What the gate must not take for well: cells and numbers that HEAD has no more, and cells that are not compared."""

import json
import math

import numpy as np
import pytest

from routebench.analysis import Verdict
from routebench.comparing import Wishes, as_json, as_markdown, as_text, compare_folders, read_tolerances, verdict
from routebench.errors import UserError
from tests.comparing.planted import COST, headline, in_turn, trained_again, write


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
    assert f"HEAD has not run {missing} of 21 runs that BASE has" in verdict(comparison)
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


@pytest.mark.parametrize("directionless", ["base", "head"])
def test_a_metric_with_a_direction_on_one_side_alone_is_not_passed_over(published, tmp_path, directionless):
    """It passed in silence where BASE had none."""

    def change(record, arrays, without):
        record["metrics"].append(
            {"metric": "margin", "split": "test", "value": 1.0 if without else 0.5, "unit": "",
             "higher_is_better": None if without else True, "test_iterations": None, "epoch": None}
        )  # fmt: skip

    for name in ("base", "head"):
        write(tmp_path / name, lambda *own, name=name: change(*own, name == directionless), keep=headline)
    comparison = compare_folders(tmp_path / "base", tmp_path / "head", Wishes())
    assert comparison.exit_code == 4
    assert "Nothing judged for margin" in verdict(comparison)


@pytest.mark.parametrize(
    ("fact", "other", "told"),
    [("seed", 7, "(cnn, seeds 0 to 2).*(cnn, seed 7)"), ("method", "em", "(cnn, seeds.*(em, seeds")],
)
def test_folders_without_a_common_run_are_told_apart(tmp_path, fact, other, told):
    base = write(tmp_path / "base", keep=lambda record: record["identity"]["method"] == "cnn")

    def change(record, arrays):
        record["identity"][fact] = other

    head = write(tmp_path / "head", change, keep=lambda record: record["identity"]["method"] == "cnn")
    with pytest.raises(UserError, match="nothing in common.*" + told.replace("(", r"\(").replace(")", r"\)")):
        compare_folders(base, head, Wishes())


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
    assert verdict(comparison).endswith(f" 18 of 21 runs not compared: {told}.")
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


def with_metric(values, *, name="static_accuracy", unit="%", higher=True):
    """Each cell with one more metric: `values` gives it by method and seed."""

    def edit(record, arrays):
        value = values(record["identity"]["method"], record["identity"]["seed"])
        record["metrics"].append(
            {
                "metric": name, "split": "test", "value": value, "unit": unit, "higher_is_better": higher,
                "test_iterations": None, "epoch": None, "where": {},
            }
        )  # fmt: skip

    return edit


def compared(tmp_path, base, head, wishes=None, *, keep=headline, **metric):
    """Two folders with one metric beside the published ones, which alone is compared."""
    folders = [
        write(tmp_path / side, with_metric(values, **metric), keep=keep)
        for side, values in (("base", base), ("head", head))
    ]
    name = metric.get("name", "static_accuracy")
    return compare_folders(*folders, Wishes(metrics=(name,)) if wishes is None else wishes)


def one_seed(record):
    return headline(record) and record["identity"]["seed"] == 0


@pytest.mark.parametrize(
    ("unit", "higher", "base", "head"),
    [("count", False, 0.0, 5.0), ("nat", True, -100.0, -300.0), ("points", False, 0.0, 8.0)],
)
def test_what_may_be_zero_or_negative_is_compared_by_difference(tmp_path, unit, higher, base, head):
    comparison = compared(
        tmp_path,
        lambda method, seed: base + 0.01 * seed,
        lambda method, seed: (head if method in ("dynamic", "em") else base) + 0.02 * seed,
        name="found",
        unit=unit,
        higher=higher,
    )
    assert comparison.exit_code == 1
    worse = {change.method.split("[")[0] for change in comparison.with_verdict(Verdict.REGRESSION)}
    assert worse == {"dynamic", "em"}


def test_a_ratio_that_cannot_be_had_leaves_the_gate_undecided(tmp_path):
    def base(method, seed):
        return 0.0 if method == "em" else 5.0

    comparison = compared(tmp_path, base, lambda method, seed: 5.0, name="found", unit="bytes", higher=False)
    assert comparison.exit_code == 4
    assert "no ratio" in verdict(comparison) and verdict(comparison).startswith("Undecided")


def test_zeros_on_both_sides_are_the_same(tmp_path):
    comparison = compared(
        tmp_path, lambda method, seed: 0.0, lambda method, seed: 0.0, name="found", unit="bytes", higher=False
    )
    assert (comparison.exit_code, verdict(comparison)) == (0, "No regression.")


def test_a_large_loss_with_one_seed_is_not_passed_though_another_method_is_the_same(tmp_path):
    comparison = compared(
        tmp_path, lambda method, seed: 90.0, lambda method, seed: 50.0 if method == "dynamic" else 90.0, keep=one_seed
    )
    assert comparison.exit_code == 4
    assert verdict(comparison).startswith("Undecided: static_accuracy of dynamic T=3: −40.00 points")


def test_a_seed_without_a_number_in_base_hides_no_other(tmp_path):
    def base(method, seed):
        return math.nan if (method, seed) == ("dynamic", 0) else 90.0 + seed / 10

    comparison = compared(tmp_path, base, lambda method, seed: 60.0 if method == "dynamic" else 90.0 + seed / 10)
    assert comparison.exit_code != 0
    (note,) = [note for note in comparison.notes if "has no number" in note]
    assert note.startswith("static_accuracy of dynamic T=3: BASE has no number for 1 seed")


def test_a_tolerance_settles_the_same_change_with_every_seed(tmp_path):
    def less(method, seed):
        return 90.0 + seed / 10 - (0.1 if method == "dynamic" else 0.0)

    def comparison(folder, **accepted):
        wishes = Wishes(
            metrics=("static_accuracy",), tolerances=read_tolerances([f"{k}={v}" for k, v in accepted.items()])
        )
        return compared(tmp_path / folder, lambda method, seed: 90.0 + seed / 10, less, wishes)

    assert comparison("without").exit_code == 4
    assert comparison("with", static_accuracy=0.5).exit_code == 0


def test_what_must_be_seen_and_has_no_verdict_is_undecided(published):
    wishes = Wishes(must_see=read_tolerances(["fit_seconds=10%"], "--must-see"))
    comparison = compare_folders(published, published, wishes)
    assert comparison.exit_code == 4
    assert "Nothing judged for fit_seconds" in verdict(comparison)


@pytest.mark.parametrize("option", ["must_see", "tolerances"])
def test_a_metric_without_direction_cannot_be_wished_for(published, option):
    with pytest.raises(UserError, match="parameters: neither direction of it is better"):
        compare_folders(published, published, Wishes(**{option: read_tolerances(["parameters=1%"])}))


def test_a_method_with_its_network_in_brackets_keeps_its_broken_cells(published, tmp_path):
    head = write(
        tmp_path / "head", of_dynamic(lambda record: record.update(status="failed", metrics=[])), keep=headline
    )
    model = compare_folders(published, published, Wishes()).pairs.measured[0].address.model
    for name in ("dynamic", f"dynamic ({model})"):
        comparison = compare_folders(published, head, Wishes(methods=(name,)))
        assert (comparison.exit_code, len(comparison.pairs.broken)) == (1, 3)


def test_two_rounds_show_no_size_that_no_number_holds(tmp_path, fixed_rng):
    base, head = in_turn(
        tmp_path, 2, fixed_rng, spread=0.1, metrics=("training_time", "inference_time", "training_cpu_time")
    )
    comparison = compare_folders(base, head, Wishes())
    assert comparison.exit_code == 4
    json.loads(as_json(comparison))
    for told in (as_text(comparison), as_markdown(comparison)):
        assert "e+" not in told and "unknown" in told


def test_fewer_than_half_identical_networks_are_not_at_least_half(tmp_path):
    rng = np.random.default_rng(3)
    again = trained_again(rng)

    def edit(record, arrays):
        if record["identity"]["method"] != "uniform":
            again(record, arrays)

    def three(record):
        return one_seed(record) and record["identity"]["method"] in ("uniform", "em", "dynamic")

    base, head = write(tmp_path / "base", keep=three), write(tmp_path / "head", edit, keep=three)
    floors = {
        change.name: change.evidence.floor
        for change in compare_folders(base, head, Wishes(metrics=("accuracy",))).changes
        if change.evidence.kind == "samples" and len(change.series) == 1
    }
    assert len(floors) == 3 and min(floors.values()) > 1.5  # one point, if one network of three were half of them
