"""Comparisons for each number of training images, and few images of a set wherever data sets are counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from analyses.summary_over_tasks import summary_over_tasks
from analyses.training_images import training_images
from routebench.analysis import Verdict, images_in_words, open_folder
from routebench.analysis._data_sets import across_data
from routebench.analysis._verdicts import GAINS
from routebench.analysis.named import named_table
from routebench.report._tabs import place_of_preset
from tests.analyses.test_tuned_comparisons import finals


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return finals(tmp_path_factory.mktemp("results"), seeds=range(5))


def fewer_images(runs, count, change=lambda method: 0.0):
    """The same runs as if on few of the training images, with other accuracies."""
    results = runs.results.copy()
    is_accuracy = results["metric"] == "accuracy"
    moved = [change(runs.methods[cell]) for cell in results.loc[is_accuracy, "cell"]]
    results.loc[is_accuracy, "value"] += moved
    return replace(runs, preset=f"few-{count}", data=f"few:{count}:{runs.data}", results=results)


def test_comparisons_stand_beside_each_other_for_each_number_of_training_images(runs):
    """With 500 images, em loses what it gains with all; with 50, nothing changes but that all is 20 points lower."""
    few = fewer_images(runs, 500, lambda method: -6.0 * (method.label == "em"))
    fewest = fewer_images(runs, 50, lambda method: -20.0)
    found = training_images((fewest, runs, few))
    table, named = found.table, named_table(runs)
    assert len(table) == len(named) and list(found.shown())[2:] == [
        "All images, points",
        "500 images, points",
        "50 images, points",
    ]
    rows = {(row["method"].label, row["against"].label): row for row in table.to_dict("records")}
    whole = {(row["method"].label, row["against"].label): row for row in named.to_dict("records")}
    for pair, row in rows.items():
        assert (
            row["difference all"] == whole[pair]["difference"]
            and row["verdict difference all"] == whole[pair]["verdict"]
        )
        assert row["difference 50"].mean == pytest.approx(row["difference all"].mean)
    em = rows["em", "uniform"]
    assert em["difference 500"].mean == pytest.approx(em["difference all"].mean - 6)
    assert (em["verdict difference all"], em["verdict difference 500"]) == (Verdict.BETTER, Verdict.WORSE)
    shown = found.shown().set_index(["Method", "Against"]).loc["EM, T = 3", "Uniform routing"]
    assert shown["All images, points"].endswith("▲") and shown["500 images, points"].endswith("▼")
    base = [row for row in table.to_dict("records") if row["against"].is_base]
    better = {size: sum(row[f"verdict difference {size}"] in GAINS for row in base) for size in ("all", 500)}
    assert better["all"] == better[500] + 1


def test_numbers_of_training_images_need_two_of_one_data_set(runs):
    few = fewer_images(runs, 500)
    assert training_images((runs,)) is None and training_images((few,)) is None
    assert training_images((runs, replace(few, data="few:500:another", fingerprint="of others"))) is None
    assert training_images((runs, replace(few, model="another"))) is None
    assert training_images((replace(runs, primary={}), few)) is None
    assert training_images((few, fewer_images(runs, 50))) is not None


def test_few_training_images_are_no_further_task(runs):
    few, another = fewer_images(runs, 500), replace(runs, data="another", fingerprint="of others")
    assert summary_over_tasks((runs, few)) is None
    pair, beside = summary_over_tasks((runs, another)), summary_over_tasks((runs, few, another))
    assert pair.shown().equals(beside.shown())
    alone = summary_over_tasks((few, another))
    assert alone.notes[0].startswith("2 tasks: "), "few images of a set that is not there itself are a task"


def test_what_is_not_shown_is_named(runs):
    few, elsewhere = fewer_images(runs, 500), replace(runs, data="another", fingerprint="of others")
    pairs = runs.primary["pairs"]
    fewer = replace(few, primary={**few.primary, "pairs": pairs[1:]})
    found = training_images((runs, fewer, elsewhere, fewer_images(elsewhere, 50)))
    notes = " ".join(found.notes)
    assert f"Suite standard on {runs.data}, capsnet-small." in notes
    assert "Not shown: suite standard on another. A folder with one of them alone shows it." in notes
    assert "Left out, because not every size has them: 1 with all images." in notes
    assert len(found.table) == len(pairs) - 1
    quiet = " ".join(training_images((runs, few)).notes)
    assert "Not shown" not in quiet and "Left out" not in quiet


def test_few_training_images_are_no_further_data_set_and_stand_behind_all(runs):
    few = replace(fewer_images(runs, 500), preset=runs.preset)
    another = replace(runs, data="another", fingerprint="of others")
    assert across_data((few, runs)) == []
    assert across_data((few, runs, another)) == across_data((runs, another)) == [(another, runs)]
    assert across_data((few, another)) == [(another, few)]
    fewest = replace(few, data=f"few:50:{runs.data}")
    assert sorted((fewest, few, runs), key=place_of_preset) == [runs, few, fewest]


def test_data_sets_are_told_apart_by_their_number_of_training_images_where_nothing_else_differs():
    both = ["mnist", "few:5000:mnist"]
    assert [images_in_words(one, both) for one in both] == ["all training images", "5,000 training images"]
    assert images_in_words("few:5000:mnist", [*both, "cifar10"]) == "few:5000:mnist"
    assert images_in_words("mnist", ["mnist"]) == "mnist"


def test_a_method_has_one_row_though_its_best_t_differs_between_numbers_of_images():
    parts = tuple(open_folder(Path("reports/features")).parts)
    found = training_images(parts)
    shown = found.shown().set_index(["Method", "Against"])
    against = [method for method, other in shown.index if other == "Uniform routing"]
    assert len(against) == len({*against}) == 9
    for method in against:
        cells = shown.loc[method, "Uniform routing"]
        steps = [cell.partition("(T = ")[2].rstrip(")") for cell in cells]
        assert all(steps) and len({*steps}) > 1 if "(T = " in " ".join(cells) else not any(steps), method
    assert any("(T = " in cell for cell in shown["All images, points"])
    for size in ("all", 5000, 500):
        for row in found.table.to_dict("records"):
            assert row[f"method difference {size}"].label == row["method"].label
