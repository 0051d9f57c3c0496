"""Losses that no test shows, and what was not judged: the gate must not pass them in silence."""

import datetime as dt

import numpy as np
import pytest

from routebench.analysis import Verdict
from routebench.comparing import Wishes, as_json, as_text, compare_folders, read_tolerances, verdict
from tests.comparing.planted import headline, lose, set_correct, write


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return write(tmp_path_factory.mktemp("published") / "accuracy", keep=headline)


def two_seeds(record):
    return headline(record) and record["identity"]["seed"] < 2


def one_seed(record):
    return headline(record) and record["identity"]["seed"] == 0


def collapsed(*methods):
    """Seed 0 of some methods names one class for all images; of all of them if none is named."""

    def edit(record, arrays):
        if record["identity"]["seed"] == 0 and (not methods or record["identity"]["method"] in methods):
            set_correct(record, arrays, np.arange(arrays["correct"].size) < arrays["correct"].size // 10)

    return edit


def changed(method, metric, change):
    """Another value of a metric after training, by `change(value, seed)`."""

    def edit(record, arrays):
        for one in record["metrics"]:
            if record["identity"]["method"] == method and one["metric"] == metric and one["epoch"] is None:
                one["value"] = change(one["value"], record["identity"]["seed"])

    return edit


@pytest.mark.parametrize("methods", [("uniform",), ("dynamic", "em"), ()], ids=["one", "two", "all"])
def test_a_method_that_collapses_with_one_seed_does_not_hide_it_by_its_own_spread(published, tmp_path, methods):
    head = write(tmp_path / "head", collapsed(*methods), keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 4
    named = {row.method.partition("[")[0] for row in comparison.with_verdict(Verdict.UNDECIDED, Verdict.REGRESSION)}
    assert named >= set(methods or ("dynamic", "uniform", "em"))
    assert "more than BASE's seeds differ by" in verdict(comparison)
    back = compare_folders(head, published, Wishes())
    assert back.exit_code == 0, "what got better needs no more seeds"


def of_dynamic_collapsed(*seeds):
    """Some seeds of one method name one class for all images."""

    def edit(record, arrays):
        if record["identity"]["method"] == "dynamic" and record["identity"]["seed"] in seeds:
            set_correct(record, arrays, np.arange(arrays["correct"].size) < arrays["correct"].size // 10)

    return edit


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [((1,), (0, 2), 4), ((1,), (0, 1), 4), ((0, 1), (0, 1, 2), 4), ((1,), (1,), 0), ((0, 2), (1,), 0), ((1,), (), 0)],
)
def test_where_base_collapses_a_further_collapse_is_no_noise(tmp_path, base, head, code):
    """Its seeds differ by so much that no loss of a share could be told from noise."""
    sides = [write(tmp_path / name, of_dynamic_collapsed(*seeds), keep=headline)
             for name, seeds in (("base", base), ("head", head))]  # fmt: skip
    comparison = compare_folders(*sides, Wishes(metrics=("accuracy",)))
    assert comparison.exit_code == code
    assert ("a loss of any size would count as noise" in verdict(comparison)) == bool(code)


@pytest.mark.parametrize("images", [3, 7, 13])
@pytest.mark.parametrize("draw", range(3))
def test_a_loss_of_as_much_as_is_tolerated_is_none(published, tmp_path, images, draw):
    """Whatever 95.7 - 95.0 is in floating point."""
    head = write(tmp_path / "head", lose(images, "uniform", np.random.default_rng(draw)), keep=headline)

    def code(points):
        tolerances = read_tolerances([f"accuracy={points / 10}"])
        return compare_folders(published, head, Wishes(metrics=("accuracy",), tolerances=tolerances)).exit_code

    assert code(images) == 0
    if images > 7:  # beyond the noise of the images
        assert code(images - 1) == 1


def test_a_loss_ten_times_as_large_is_undecided_with_any_number_of_seeds(published, tmp_path):
    for name, keep in (("three", headline), ("two", two_seeds), ("one", one_seed)):
        base = write(tmp_path / f"base-{name}", keep=keep)
        head = write(tmp_path / name, changed("uniform", "loss", lambda value, seed: 10 * value), keep=keep)
        comparison = compare_folders(base, head, Wishes())
        assert comparison.exit_code in (1, 4), name
        assert {row.method for row in comparison.with_verdict(Verdict.UNDECIDED, Verdict.REGRESSION)} == {"uniform"}


def test_two_seeds_of_few_settings_do_not_weaken_what_one_seed_finds(tmp_path):
    def few(record):
        return record["identity"]["method"] == "uniform" and record["identity"]["seed"] < 2

    worse = changed("uniform", "loss", lambda value, seed: value * (1.5 + seed / 10))
    base, head = write(tmp_path / "base", keep=few), write(tmp_path / "head", worse, keep=few)
    comparison = compare_folders(base, head, Wishes(metrics=("loss",)))
    assert comparison.exit_code == 4
    assert "with two seeds it may be the training" in verdict(comparison)


def test_what_must_be_seen_has_to_be_seen_for_each_method_that_changed(published, tmp_path, fixed_rng):
    head = write(tmp_path / "head", lose(3, "uniform", fixed_rng), keep=headline)
    wishes = Wishes(must_see=read_tolerances(["accuracy=0.1"]))
    assert compare_folders(published, head, Wishes()).exit_code == 0
    comparison = compare_folders(published, head, wishes)
    assert comparison.exit_code == 4
    assert "accuracy too noisy: 0.10 points needs more seeds" in verdict(comparison)
    assert [row.method for seen in comparison.blind for row in seen.unseen] == ["uniform"]


def test_what_could_be_seen_is_told_of_rows_that_changed(published, tmp_path, fixed_rng):
    head = write(tmp_path / "head", lose(3, "uniform", fixed_rng), keep=headline)
    comparison = compare_folders(published, head, Wishes())
    (seen,) = [one for one in comparison.sensitivities if one.group.metric == "accuracy" and not one.group.note]
    (row,) = [one for one in comparison.changes if one.method == "uniform" and one.group == seen.group]
    assert seen.could_see["setting"] == row.could_see > 0


def other_unit(record, arrays):
    for metric in record["metrics"]:
        if metric["metric"] == "accuracy" and record["identity"]["method"] == "uniform":
            metric["unit"] = "fraction"


def test_a_method_that_is_not_judged_beside_others_that_are_leaves_the_gate_undecided(published, tmp_path):
    head = write(tmp_path / "head", other_unit, keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 4
    assert "Nothing judged for accuracy of uniform." in verdict(comparison)
    assert compare_folders(published, head, Wishes(methods=("em",))).exit_code == 0


def at(shift):
    """Records of seeds a minute apart, by so many seconds later."""

    def edit(record, arrays):
        seed = record["identity"]["seed"]
        ended = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=60 * seed + shift)
        record["provenance"].update(finished=ended.isoformat(), seconds=20.0)
        record["metrics"] = [
            {
                "metric": "training_time", "split": "", "value": 10 + seed + repeat / 10, "unit": "ms",
                "higher_is_better": False, "test_iterations": None, "epoch": None, "where": {"repeat": repeat},
            }
            for repeat in range(3)
        ]  # fmt: skip

    return edit


@pytest.mark.parametrize(
    ("shift", "code"), [(30, 1), (10, 4), (0, 4), (10_000, 4)], ids=["in turn", "overlap", "at once", "after"]
)
def test_sides_that_ran_at_one_time_were_not_measured_in_turn(tmp_path, shift, code):
    base = write(tmp_path / "base", at(0), keep=headline)
    head = write(tmp_path / "head", lambda *of: (at(shift)(*of), slower(*of)), keep=headline)
    comparison = compare_folders(base, head, Wishes(metrics=("training_time",)))
    assert comparison.exit_code == code


def slower(record, arrays):
    for metric in record["metrics"]:
        metric["value"] *= 1.5 + record["identity"]["seed"] / 100


@pytest.mark.parametrize("origin", [{"seconds": None}, {"finished": "some day"}, {"finished": "2026-01-01T00:01:30"}])
def test_times_of_runs_that_cannot_be_read_stop_nothing(tmp_path, origin):
    def odd(record, arrays):
        at(30)(record, arrays)
        record["provenance"].update(origin)

    base, head = write(tmp_path / "base", at(0), keep=headline), write(tmp_path / "head", odd, keep=headline)
    assert compare_folders(base, head, Wishes(metrics=("training_time",))).exit_code in (0, 4)


def test_a_long_run_of_one_side_around_short_ones_of_the_other_is_at_one_time(tmp_path):
    def long(record, arrays):
        at(0)(record, arrays)
        if record["identity"]["seed"] == 2:
            record["provenance"]["seconds"] = 1000.0

    base = write(tmp_path / "base", long, keep=headline)
    head = write(tmp_path / "head", lambda *of: (at(30)(*of), slower(*of)), keep=headline)
    assert compare_folders(base, head, Wishes(metrics=("training_time",))).exit_code == 4


def test_one_method_that_was_not_measured_in_turn_leaves_the_gate_undecided(tmp_path):
    def late(record, arrays):
        at(10_000 if record["identity"]["method"] == "uniform" else 30)(record, arrays)
        slower(record, arrays)

    base, head = write(tmp_path / "base", at(0), keep=headline), write(tmp_path / "head", late, keep=headline)
    wishes = Wishes(metrics=("training_time",), tolerances=read_tolerances(["training_time=900%"]))
    comparison = compare_folders(base, head, wishes)
    assert comparison.exit_code == 4
    assert "Nothing judged for training_time of uniform." in verdict(comparison)


def test_a_tolerance_does_not_judge_repeated_times_that_were_not_measured_in_turn(tmp_path):
    base = write(tmp_path / "base", at(0), keep=headline)
    head = write(tmp_path / "head", lambda *of: (at(10_000)(*of), slower(*of)), keep=headline)
    wishes = Wishes(metrics=("training_time",), tolerances=read_tolerances(["training_time=20%"]))
    comparison = compare_folders(base, head, wishes)
    assert comparison.exit_code == 4
    assert not any(row.judged for row in comparison.changes)


def test_a_tolerance_alone_gives_no_probability(tmp_path):
    base = write(tmp_path / "base", keep=one_seed)
    head = write(tmp_path / "head", changed("uniform", "fit_seconds", lambda value, seed: 2 * value), keep=one_seed)
    wishes = Wishes(metrics=("fit_seconds",), tolerances=read_tolerances(["fit_seconds=20%"]))
    (row,) = compare_folders(base, head, wishes).with_verdict(Verdict.REGRESSION)
    assert row.evidence.kind == "accepted" and np.isnan(row.p_value)


def test_runs_without_a_result_in_base_are_told(published, tmp_path):
    base = write(tmp_path / "base", keep=headline, run=lambda record: record["identity"]["seed"] == 0)
    comparison = compare_folders(base, published, Wishes())
    (note,) = [one for one in comparison.notes if "BASE has no result" in one]
    assert note.startswith("Not compared, BASE has no result (not run) and HEAD has one (14 runs: ")
    assert note in as_text(comparison) and "BASE has no result" in as_json(comparison)


def test_a_metric_without_unit_that_seeds_vary_is_not_counted(published, tmp_path):
    """Equal values of all seeds may be chance where other methods' seeds differ; where none differ, they are not."""

    def loss(method, value):
        def edit(record, arrays):
            for one in record["metrics"]:
                if one["metric"] == "loss" and (not method or record["identity"]["method"] == method):
                    one["value"] = value

        return edit

    wishes = Wishes(metrics=("loss",), methods=("uniform",))
    base, head = (
        write(tmp_path / name, loss("uniform", value), keep=headline) for name, value in (("a", 1), ("b", 1.01))
    )
    rows = compare_folders(base, head, wishes).changes
    assert {row.evidence.kind for row in rows} == {"seeds"}
    base, head = (write(tmp_path / name, loss("", value), keep=headline) for name, value in (("c", 1), ("d", 1.01)))
    comparison = compare_folders(base, head, wishes)
    assert {row.evidence.kind for row in comparison.changes} == {"counted"} and comparison.exit_code == 1


@pytest.mark.parametrize("option", ["tolerances", "must_see"])
def test_zero_bytes_on_both_sides_are_the_same(tmp_path, option):
    def nothing(record, arrays):
        for one in record["metrics"]:
            one.update(value=0, unit="bytes")

    folder = write(tmp_path / "zero", nothing, keep=headline, metrics=("loss",))
    comparison = compare_folders(folder, folder, Wishes(**{option: read_tolerances(["loss=100"])}))
    assert comparison.exit_code == 0 and {row.verdict for row in comparison.changes} == {Verdict.SAME}
