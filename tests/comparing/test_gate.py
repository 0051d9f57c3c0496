"""Planted differences between folders of real records: what the gate has to catch, and what it has to let pass."""

import shutil

import numpy as np
import pytest

from routebench.analysis import Verdict, open_folder
from routebench.comparing import Tolerance, Wishes, as_text, compare_folders
from routebench.comparing._verdicts import ALL, METHOD, SETTING
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report import answers, comparison_table
from tests.comparing.planted import COST, headline, in_turn, lose, set_correct, trained_again, write


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return write(tmp_path_factory.mktemp("published") / "accuracy", keep=headline)


TIMES = ("training_time", "inference_time", "peak_flops")


def few_costs(record):
    """Six cells: dynamic with five T, and em with one."""
    return record["identity"]["method"] == "dynamic" or few_em(record)


def few_em(record):
    return record["identity"]["method"] == "em" and record["identity"]["iterations"] == 3


def unchanged(record, arrays):
    """As published."""


def write_costs(target, edit, metrics=TIMES):
    return write(target, edit, source=COST, keep=few_costs, metrics=metrics)


def found(comparison, verdict):
    return {(change.group.name, change.method) for change in comparison.with_verdict(verdict)}


def test_a_folder_is_the_same_as_itself(published):
    comparison = compare_folders(published, published, Wishes())
    assert {change.verdict for change in comparison.changes} == {Verdict.SAME, Verdict.UNJUDGED}
    assert comparison.exit_code == 0


def test_one_point_of_accuracy_lost_is_a_regression(published, tmp_path, fixed_rng):
    head = write(tmp_path / "head", lose(10, "dynamic", fixed_rng), keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 1
    (change,) = [row for row in comparison.with_verdict(Verdict.REGRESSION) if row.level == SETTING]
    assert (change.group.name, change.name) == ("accuracy", "dynamic T=3")
    assert change.evidence.change == pytest.approx(-1.0)
    assert change.could_see < 1.0


def test_a_declared_measure_has_its_own_direction_whatever_records_say(published, tmp_path, fixed_rng):
    def reversed_with(edit):
        def both(record, arrays):
            edit(record, arrays)
            for metric in record["metrics"]:
                metric["higher_is_better"] = None if metric["higher_is_better"] is None else False

        return both

    base = write(tmp_path / "base", reversed_with(unchanged), keep=headline)
    head = write(tmp_path / "head", reversed_with(lose(100, "dynamic", fixed_rng)), keep=headline)
    for side in (published, base):
        comparison = compare_folders(side, head, Wishes())
        assert comparison.exit_code == 1
        assert ("accuracy", "dynamic") in found(comparison, Verdict.REGRESSION)


def test_one_point_of_accuracy_gained_is_an_improvement(published, tmp_path, fixed_rng):
    head = write(tmp_path / "head", lose(-10, "dynamic", fixed_rng), keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 0
    assert ("accuracy", "dynamic") in found(comparison, Verdict.IMPROVEMENT)


def test_a_tolerance_of_a_point_and_a_half_lets_one_point_pass(published, tmp_path, fixed_rng):
    head = write(tmp_path / "head", lose(10, "dynamic", fixed_rng), keep=headline)
    comparison = compare_folders(published, head, Wishes(tolerances={"accuracy": Tolerance(1.5, percent=False)}))
    assert comparison.exit_code == 0
    assert ("accuracy", "dynamic") in found(comparison, Verdict.NOISE)


def test_two_images_are_no_regression(published, tmp_path, fixed_rng):
    comparison = compare_folders(
        published, write(tmp_path / "head", lose(2, "dynamic", fixed_rng), keep=headline), Wishes()
    )
    assert comparison.exit_code == 0


def test_a_point_lost_by_every_method_is_seen_though_all_weights_are_others(tmp_path):
    rng = np.random.default_rng(3)
    again, methods = trained_again(rng), ("dynamic", "em", "inverted-attention", "uniform", "random", "none", "cnn")

    def worse(record, arrays):
        again(record, arrays)
        for method in methods:
            lose(10, method, rng)(record, arrays)

    base = write(tmp_path / "base", trained_again(rng), keep=headline)
    comparison = compare_folders(base, write(tmp_path / "head", worse, keep=headline), Wishes())
    assert ("accuracy", ALL) in found(comparison, Verdict.REGRESSION)


@pytest.mark.parametrize("draw", range(10))
def test_the_same_methods_with_other_weights_pass(tmp_path, draw):
    rng = np.random.default_rng(draw)
    base, head = (write(tmp_path / name, trained_again(rng), keep=headline) for name in ("base", "head"))
    comparison = compare_folders(base, head, Wishes(metrics=("accuracy",)))
    assert comparison.exit_code == 0
    assert not comparison.with_verdict(Verdict.REGRESSION, Verdict.IMPROVEMENT)
    assert any(change.evidence.change for change in comparison.changes)


@pytest.mark.parametrize("draw", range(3))
def test_times_measured_again_pass(tmp_path, draw):
    folders = in_turn(tmp_path, 6, np.random.default_rng(draw), keep=few_costs)
    comparison = compare_folders(*folders, Wishes())
    assert comparison.exit_code == 0
    assert not comparison.with_verdict(Verdict.REGRESSION, Verdict.IMPROVEMENT)


@pytest.mark.parametrize(
    ("factor", "verdict", "code"), [(1.2, Verdict.REGRESSION, 1), (1 / 1.2, Verdict.IMPROVEMENT, 0)]
)
def test_a_fifth_more_or_less_time_is_seen(tmp_path, factor, verdict, code):
    metrics = "training_time", "inference_time"
    folders = in_turn(tmp_path, 6, np.random.default_rng(0), keep=few_costs, metrics=metrics, worse={"dynamic": factor})
    comparison = compare_folders(*folders, Wishes())
    assert comparison.exit_code == code
    rows = [row for row in comparison.changes if (row.level, row.method) == (METHOD, "dynamic")]
    assert {row.group.name for row in rows} == {
        f"{metric} in {part}" for metric in metrics for part in ("network", "layers", "dense 1152")
    }
    assert {row.verdict for row in rows} == {verdict}
    assert all(np.exp(row.evidence.change) == pytest.approx(factor, rel=0.05) for row in rows)


def test_more_arithmetic_is_a_regression_without_any_test(tmp_path):
    def more(record, arrays):
        for metric in record["metrics"]:
            if metric["metric"] == "training_flops" and record["identity"]["method"] == "em":
                metric["value"] *= 1.01

    base, head = (
        write_costs(tmp_path / "base", unchanged, (*TIMES, "training_flops")),
        write_costs(tmp_path / "head", more, ("training_flops",)),
    )
    comparison = compare_folders(base, head, Wishes(metrics=("training_flops",)))
    assert found(comparison, Verdict.REGRESSION) >= {("training_flops in layers", "em")}
    accepted = Wishes(metrics=("training_flops",), tolerances={"training_flops": Tolerance(2, percent=True)})
    assert compare_folders(base, head, accepted).exit_code == 0


def test_a_metric_without_direction_is_shown_and_never_judged(published, tmp_path):
    def larger(record, arrays):
        for metric in record["metrics"]:
            if metric["metric"] == "parameters":
                metric["value"] *= 2

    comparison = compare_folders(
        published, write(tmp_path / "head", larger, keep=headline), Wishes(metrics=("parameters",))
    )
    assert {change.verdict for change in comparison.changes} == {Verdict.UNJUDGED}
    assert all(change.evidence.change == pytest.approx(change.base) for change in comparison.changes)
    assert comparison.exit_code == 4


def test_seconds_of_training_are_judged_only_against_a_tolerance(published, tmp_path):
    def slower(record, arrays):
        for metric in record["metrics"]:
            if metric["metric"] == "fit_seconds":
                metric["value"] *= 2 + 0.001 * record["identity"]["seed"]

    head = write(tmp_path / "head", slower, keep=headline)
    assert compare_folders(published, head, Wishes(metrics=("fit_seconds",))).exit_code == 4
    tolerances = {"fit_seconds": Tolerance(20, percent=True)}
    assert compare_folders(published, head, Wishes(metrics=("fit_seconds",), tolerances=tolerances)).exit_code == 1


def test_a_cell_that_newly_fails_is_a_regression_and_is_named(published, tmp_path):
    def fails(record, arrays):
        if (record["label"], record["identity"]["seed"]) == ("dynamic", 1):
            record.update(status="diverged", reason="the loss was not finite at step 41", metrics=[])
            arrays.clear()

    comparison = compare_folders(published, write(tmp_path / "head", fails, keep=headline), Wishes())
    (pair,) = comparison.pairs.broken
    assert (pair.base.name, pair.head.status) == ("dynamic T=3 seed 1", "diverged")
    assert comparison.exit_code == 1
    assert compare_folders(published, tmp_path / "head", Wishes(methods=("em",))).exit_code == 0
    assert compare_folders(tmp_path / "head", published, Wishes()).exit_code == 0  # mended


def test_a_cell_that_head_has_not_run_is_told_by_an_exit_code_of_its_own(published, tmp_path):
    head = write(tmp_path / "head", keep=headline, run=lambda record: record["label"] != "cnn")
    comparison = compare_folders(published, head, Wishes())
    assert comparison.exit_code == 3
    assert {pair.base.label for pair in comparison.pairs.missing} == {"cnn"}


def test_times_of_another_machine_are_not_compared_and_accuracy_is(published, tmp_path):
    def elsewhere(record, arrays):
        record["provenance"]["processor"] = "Another CPU, 64 cores"

    head = write(tmp_path / "head", elsewhere, keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert {row.verdict for row in comparison.changes if row.group.metric == "fit_seconds"} == {Verdict.UNCOMPARED}
    assert {row.verdict for row in comparison.changes if row.group.metric == "accuracy"} == {Verdict.SAME}
    assert any("Another CPU" in note for note in comparison.notes)


def test_times_that_were_not_measured_in_turn_are_not_judged(tmp_path):
    """All of BASE and then all of HEAD: a machine that was slower meanwhile cannot be told from slower code."""

    def slower(record, arrays):
        for metric in record["metrics"]:
            metric["value"] *= {"training_time": 1.4, "inference_time": 1.4}.get(metric["metric"], 1)

    base, head = (
        write_costs(tmp_path / "base", unchanged, (*TIMES, "training_flops")),
        write_costs(tmp_path / "head", slower),
    )
    comparison = compare_folders(base, head, Wishes(metrics=("training_time",)))
    assert {change.verdict for change in comparison.changes} == {Verdict.UNJUDGED}
    assert comparison.exit_code == 4
    assert "python -m routebench alternate" in as_text(comparison)


@pytest.mark.parametrize("fact", ["suite_version", "data_fingerprint"])
def test_other_data_and_other_suite_versions_are_not_compared(published, tmp_path, fact):
    head = write(tmp_path / "head", lambda record, arrays: record["identity"].update({fact: "other"}), keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert {row.verdict for row in comparison.changes if row.group.higher_is_better is not None} == {Verdict.UNCOMPARED}
    assert any(fact.replace("_", " ") in note for note in comparison.notes)
    assert comparison.exit_code == 4


def test_other_options_are_named(published, tmp_path):
    def other(record, arrays):
        record["identity"]["options"] = {"test_iterations": [1, 2]}

    comparison = compare_folders(published, write(tmp_path / "head", other, keep=headline), Wishes())
    assert any("options differ: test_iterations [1, 2, 3, 4, 5] → [1, 2]" in note for note in comparison.notes)
    assert comparison.exit_code == 4


def test_another_recipe_is_compared_and_told(published, tmp_path):
    head = write(
        tmp_path / "head", lambda record, arrays: record["identity"]["training"].update(epochs=9), keep=headline
    )
    comparison = compare_folders(published, head, Wishes())
    assert any("epochs 6 → 9" in note for note in comparison.notes)
    assert {row.verdict for row in comparison.changes if row.group.metric == "accuracy"} == {Verdict.SAME}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"method_params": {"competition": "positions"}}, "With other hyperparameters, competition none → positions"),
        (
            {"tuning": {"point": {}, "score": 1.0, "trials": "0123456789abcdef"}},
            "Tuned otherwise, trials none → 0123456789abcdef: ",
        ),
    ],
)
def test_other_hyperparameters_and_another_tuning_are_told(published, tmp_path, changed, told):
    def other(record, arrays):
        identity = record["identity"]
        for name, value in changed.items():
            identity[name] = {**(identity[name] if name == "method_params" else {}), **value}

    head = write(tmp_path / "head", other, keep=headline)
    assert sum(told in note for note in compare_folders(published, head, Wishes()).notes) == 1


@pytest.mark.parametrize(("again", "copies"), [(0, 21), (1, 20), (21, 0)])
def test_copies_of_the_measurements_of_base_are_counted(published, tmp_path, again, copies):
    keys = []

    def later(record, arrays):
        keys.append(record["cell"])
        if len(keys) <= again:
            record["provenance"]["finished"] = "2030-01-01T00:00:00+00:00"

    head = write(tmp_path / "head", later, keep=headline)
    told = [note for note in compare_folders(published, head, Wishes()).notes if "very same measurement" in note]
    assert [f"{copies} of 21 runs" in note for note in told] == [True] * bool(copies)


def test_code_and_commit_do_not_have_to_agree(published, tmp_path):
    def newer(record, arrays):
        record["provenance"].update(commit="1" * 40, finished="2030-01-01T00:00:00+00:00")

    head = write(tmp_path / "head", newer, keep=headline)
    comparison = compare_folders(published, head, Wishes())
    assert len(comparison.pairs.measured) == 21
    assert comparison.notes == ()


def test_other_code_of_the_same_versions_is_told_and_so_are_other_versions(published, tmp_path):
    def of(code, versions=None):
        def change(record, arrays):
            record["provenance"].update(code=code, finished=f"2030-01-01T00:00:00+00:00 {code} {versions}")
            if versions is not None:
                record["identity"]["versions"] = versions

        return change

    base = write(tmp_path / "base", of("a" * 16), keep=headline)
    same, raised = (
        compare_folders(base, write(tmp_path / name, of("b" * 16, versions), keep=headline), Wishes())
        for name, versions in (("same", None), ("raised", {"protocol": 2}))
    )
    (note,) = same.notes
    assert note.startswith("The same versions of all parts, other code: what differs should be rounding (21 runs: ")
    (note,) = raised.notes
    assert note.startswith("Of other versions, protocol 1 → 2: ")


def test_one_seed_is_tested_by_image(tmp_path, fixed_rng):
    def one(record):
        return headline(record) and record["identity"]["seed"] == 0

    base = write(tmp_path / "base", keep=one)
    many = compare_folders(base, write(tmp_path / "many", lose(15, "em", fixed_rng), keep=one), Wishes())
    few = compare_folders(base, write(tmp_path / "few", lose(3, "em", fixed_rng), keep=one), Wishes())
    assert (many.exit_code, few.exit_code) == (1, 0)


ODD_ANSWERS = {
    "sevens": lambda right: np.full_like(right, 7),
    "halves": lambda right: np.full(right.shape, right.mean()),
    "no numbers": lambda right: np.full(right.shape, np.nan, dtype=np.float32),
    "inverted": lambda right: 1 - right,
    "ten of them": lambda right: right[:10],
    "none": lambda right: right[:0],
    "a scalar": lambda right: right[0],
    "a matrix": lambda right: right.reshape(2, -1),
    "one image more": lambda right: np.where(np.arange(right.size) == right.argmin(), 1, right).astype(np.uint8),
}


@pytest.mark.parametrize("odd", ODD_ANSWERS)
def test_answers_that_contradict_their_record_are_told_and_left_out(published, tmp_path, odd):
    odd_one = min(file.stem for file in (published / "records").iterdir())

    def other(record, arrays):
        if record["cell"] == odd_one:
            arrays["correct"] = np.array(ODD_ANSWERS[odd](arrays["correct"]))

    head = write(tmp_path / "head", other, keep=headline)
    compared = compare_folders(published, head, Wishes(metrics=("accuracy",)))
    assert compared.exit_code == 3
    (told,) = compared.damaged
    assert "HEAD: arrays/" in told and "correct: " in told
    assert not compared.with_verdict(Verdict.REGRESSION, Verdict.IMPROVEMENT)
    folder = open_folder(head)
    assert (
        analyses["accuracy-table"](folder.parts[0])
        .shown()
        .equals(analyses["accuracy-table"](open_folder(published).parts[0]).shown())
    )
    comparison_table(answers(folder))
    assert [told.removeprefix("HEAD: ")] == folder.warnings


def test_answers_of_no_metric_are_not_used(tmp_path):
    def other(record, arrays):
        arrays["correct"] = 1 - arrays["correct"]

    base, head = write(tmp_path / "base", other, keep=headline), write(tmp_path / "head", other, keep=headline)
    kinds = {change.evidence.kind for change in compare_folders(base, head, Wishes(metrics=("accuracy",))).changes}
    assert kinds == {"seeds"}


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        (Wishes(metrics=("acuracy",)), "unknown metric 'acuracy'; did you mean 'accuracy'"),
        (Wishes(methods=("dynamics",)), "unknown method 'dynamics'; did you mean 'dynamic'"),
        (Wishes(tolerances={"los": Tolerance(1, percent=False)}), "unknown metric 'los'; did you mean 'loss'"),
    ],
)
def test_a_wish_for_what_was_not_measured_is_answered_with_the_nearest(published, wishes, told):
    with pytest.raises(UserError, match=told):
        compare_folders(published, published, wishes)


def test_nothing_in_common_is_one_line(published, tmp_path):
    with pytest.raises(
        UserError, match=r"nothing in common: .* holds accuracy quick on mnist5k \(.*\), .* holds cost quick"
    ):
        compare_folders(published, write_costs(tmp_path / "head", unchanged), Wishes())


def test_flips_that_cancel_are_no_change(published, tmp_path, fixed_rng):
    """As many images right anew as wrong anew: the accuracy is the same, and nothing is said."""

    def both(record, arrays):
        correct = arrays["correct"].astype(bool)
        flipped = [fixed_rng.choice(np.flatnonzero(correct == state), 10, replace=False) for state in (True, False)]
        correct[np.concatenate(flipped)] ^= True
        set_correct(record, arrays, correct)

    comparison = compare_folders(published, write(tmp_path / "head", both, keep=headline), Wishes())
    assert not comparison.with_verdict(Verdict.REGRESSION, Verdict.IMPROVEMENT)


def test_a_damaged_array_file_is_told_and_its_cell_is_missing(published, tmp_path):
    head = tmp_path / "head"
    shutil.copytree(published, head)
    damaged = min((head / "arrays").glob("*.safetensors"))
    damaged.write_text("junk")
    found = compare_folders(published, head, Wishes())
    assert [pair.base.key for pair in found.pairs.missing] == [damaged.stem]
    assert found.exit_code == 3
    assert any("damaged" in warning for warning in found.head.warnings)
