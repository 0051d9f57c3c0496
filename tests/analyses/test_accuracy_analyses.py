"""Each shipped analysis on runs with known effects, on runs with holes, and on nothing."""

import math
from dataclasses import replace

import pytest

from routebench.analysis import Analysis
from routebench.analysis._result import place_of, reads
from routebench.analysis.figures import to_svg
from routebench.registry import analyses
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

FOR_ACCURACY = [
    "accuracy-table",
    "gain-over-uniform",
    "accuracy-pairwise",
    "accuracy-by-iterations",
    "iteration-matrix",
    "training-curves",
    "failures",
]


def test_the_analyses_of_the_accuracy_suite_stand_in_this_order() -> None:
    names = sorted(
        (name for name in analyses if reads(analyses[name], "accuracy")), key=lambda n: place_of(analyses[n])
    )
    # which need named comparisons, methods with variants, and test accuracies of every epoch
    others = ("primary-comparisons", "learning-curves", "ablations", "selection-on-test")
    assert [name for name in names if name not in others] == FOR_ACCURACY
    assert names[1] == "primary-comparisons"
    assert names[names.index("accuracy-by-iterations") :][1:3] == ["ablations", "selection-on-test"]
    assert names[names.index("training-curves") + 1] == "learning-curves"


@pytest.fixture(scope="module")
def found() -> dict[str, Analysis]:
    runs = made_up_runs()
    return {name: analyses[name](runs) for name in FOR_ACCURACY}


@pytest.mark.parametrize("name", FOR_ACCURACY)
@pytest.mark.parametrize(
    "holes", ["one seed", "all failed", "only baselines", "one iteration", "constant", "collapsed"]
)
def test_holes_in_the_results_are_no_error(name: str, holes: str) -> None:
    methods = {name: METHODS[name] for name in ("dynamic", "em", "uniform", "cnn")}
    options = {"one seed": {"seeds": 1}, "constant": {"spread": 0.0}}.get(holes, {})
    records = made_up_records(**{"seeds": 2, "failures": False, "methods": methods, **options})
    if holes == "all failed":
        for record in records:
            record |= {"status": "oom", "reason": "out of memory", "metrics": []}
    if holes == "only baselines":
        records = [record for record in records if record["identity"]["role"] == "control"]
    if holes == "one iteration":
        records = [record for record in records if record["identity"]["iterations"] in (None, 1)]
    if holes == "collapsed":
        for record in records:
            if record["label"] == "em":
                for metric in record["metrics"]:
                    metric["value"] = 10.0 if metric["unit"] == "%" else metric["value"]
    analysis = analyses[name](made_up_runs(records))
    if analysis is None:
        assert name != "failures"
    else:
        assert len(analysis.shown()) == len(analysis.numbers)
        assert analysis.figure is None or "<svg" in to_svg(analysis.figure)


def test_the_table_marks_controls_and_shows_how_many_finished(found: dict[str, Analysis]) -> None:
    shown = found["accuracy-table"].shown().set_index("Method")
    assert shown.loc["Uniform routing (baseline)", "Seeds"] == "3 / 3"
    assert shown.loc["Uniform routing (baseline)", "Gain over uniform routing"] == "–"
    assert shown.loc["EM, T = 3 (1 of 3 seeds)", "Seeds"] == "1 / 3"
    assert shown.loc["Dynamic, T = 2", "Parameters"] == "231,456"
    assert "Published, %" not in shown
    assert any("Smallest detectable difference: with 3 seeds" in note for note in found["accuracy-table"].notes)


def test_published_numbers_stand_in_a_column_of_their_own_with_their_conditions() -> None:
    records = made_up_records(failures=False)
    for record in records:
        record["identity"] |= {"data": "mnist", "model": "capsnet"}
    runs = made_up_runs(records)
    runs = type(runs)(**{**vars(runs), "data": "mnist", "model": "capsnet"})
    analysis = analyses["accuracy-table"](runs)
    shown = analysis.shown().set_index("Method")
    assert shown.loc["Dynamic, T = 3", "Published, %"] == "99.32 (KIE-003)"
    assert shown.loc["Dynamic, T = 2", "Published, %"] == "–"
    assert any(note.startswith("KIE-003: Kiefer") for note in analysis.notes)
    assert any("not comparable" in note for note in analysis.notes)


def test_gains_are_over_uniform_itself_left_out(found: dict[str, Analysis]) -> None:
    table = found["gain-over-uniform"].numbers.set_index("name")
    assert "uniform" not in table.index
    assert table.loc["inverted-attention T=2", "gain"] > 0.5


def test_each_place_says_over_what_p_is_corrected(found: dict[str, Analysis]) -> None:
    assert "what is in none of them, for all pairs" in _explained(found["accuracy-pairwise"])["difference.p_holm"]
    columns = _explained(found["accuracy-table"])
    assert "for this gain alone" in columns["gain"]
    assert "for all gains of this table together" in columns["gain.p_holm"]


def _explained(analysis: Analysis) -> dict[str, str]:
    return {column.key: column.explained for column in analysis.columns}


def test_accuracy_by_iterations_has_a_panel_for_each_method_with_iterations(
    found: dict[str, Analysis],
) -> None:
    analysis = found["accuracy-by-iterations"]
    assert list(analysis.numbers[analysis.numbers["label"] == "dynamic"]["iterations"]) == [1, 2, 3]
    heads = [axes.get_title("left").lower().replace("\n", "-").replace(" ", "-") for axes in analysis.figure.axes]
    assert heads == [label for label, (counts, *_) in METHODS.items() if counts != [None]]


def test_accuracy_by_iterations_names_a_collapsed_mean_and_keeps_the_scale_of_the_others() -> None:
    plain = {**METHODS, "dynamic": ([1, 2], "method", "capsnet-small", [95.0, 95.5])}
    fallen = {**METHODS, "dynamic": ([1, 2], "method", "capsnet-small", [95.0, 12.0])}
    sets = [made_up_runs(made_up_records(methods=methods, failures=False)) for methods in (plain, fallen)]
    whole, cut = ([*analyses["accuracy-by-iterations"](runs).figure.axes] for runs in sets)
    assert cut[0].get_ylim()[0] == pytest.approx(whole[0].get_ylim()[0], abs=0.5)
    assert [text.get_text() for axes in cut for text in axes.texts if "↓" in text.get_text()] == ["↓ 12"]
    assert not any("↓" in text.get_text() for axes in whole for text in axes.texts)


def test_accuracy_by_iterations_has_no_panel_of_a_method_with_one_t() -> None:
    records = [one for one in made_up_records() if one["label"] != "em" or one["identity"]["iterations"] == 2]
    analysis = analyses["accuracy-by-iterations"](made_up_runs(records))
    assert list(analysis.numbers[analysis.numbers["label"] == "em"]["iterations"]) == [2]
    assert "EM" not in [axes.get_title("left") for axes in analysis.figure.axes]
    once = [one for one in made_up_records() if one["identity"]["iterations"] in (None, 2)]
    assert analyses["accuracy-by-iterations"](made_up_runs(once)) is None


def test_iteration_matrix_is_the_mean_over_seeds(found: dict[str, Analysis]) -> None:
    table = found["iteration-matrix"].numbers.set_index(["label", "iterations", "test_iterations"])
    records = [r for r in made_up_records() if r["label"] == "dynamic" and r["identity"]["iterations"] == 1]
    values = [
        m["value"] for r in records for m in r["metrics"] if m["metric"] == "accuracy" and m["test_iterations"] == 5
    ]
    assert table.loc[("dynamic", 1, 5), "accuracy"] == pytest.approx(sum(values) / 3)
    assert table.loc[("em", 3, 3), "seeds"] == 1


def test_training_curves_never_hold_test_data(found: dict[str, Analysis]) -> None:
    assert set(found["training-curves"].numbers["metric"]) == {"held_out_accuracy", "train_loss"}
    assert "still gaining over half a point" in found["training-curves"].notes[0]


def test_one_epoch_is_no_curve() -> None:
    runs = made_up_runs()
    first = runs.results["epoch"].isna() | (runs.results["epoch"] == 1)
    analysis = analyses["training-curves"](replace(runs, results=runs.results[first]))
    assert analysis.figure is None
    assert analysis.reading.startswith("One epoch was trained")


def test_where_all_images_train_there_is_no_held_out_curve_and_that_is_said() -> None:
    runs = made_up_runs()
    analysis = analyses["training-curves"](
        replace(runs, results=runs.results[~runs.results["metric"].str.startswith("held_out")])
    )
    assert analysis.figure is None and set(analysis.numbers["metric"]) == {"train_loss"}
    assert any(note.startswith("All images trained, and none were held out") for note in analysis.notes)


def test_failures_name_each_cell_and_its_reason(found: dict[str, Analysis]) -> None:
    shown = found["failures"].shown()
    assert list(shown["Status"]) == ["diverged", "not run"]
    others = {method.rpartition(", T")[0] or method for method in found["accuracy-table"].shown()["Method"].dropna()}
    assert all(any(other.startswith(method) for other in others) for method in shown["Method"]), "its name elsewhere"
    assert "the loss was not finite at step 41" in set(shown["Reason"])
    complete = analyses["failures"](made_up_runs(failures=False))
    assert complete.numbers.empty
    assert complete.title == "Nothing is missing" and not complete.notes


def test_a_heat_map_value_that_is_missing_stays_missing() -> None:
    records = made_up_records(failures=False)
    for record in records:
        if record["label"] == "dynamic" and record["identity"]["iterations"] == 2:
            record["metrics"] = [metric for metric in record["metrics"] if metric["test_iterations"] != 5]
    table = analyses["iteration-matrix"](made_up_runs(records)).numbers
    dynamic = table[table["label"] == "dynamic"].set_index(["iterations", "test_iterations"])["accuracy"]
    assert (2, 5) not in dynamic.index
    assert not any(math.isnan(value) for value in dynamic)
