"""The analyses of the suite `overlap`, on made-up scores whose errors are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.analysis import answer_of
from routebench.analysis._table import saved
from routebench.analysis.comparison import comparison_of
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.papers.tsai.protocols.overlap import Answers, best_threshold, highest
from routebench.protocols.base import Measurement, Metric
from routebench.registry import analyses
from routebench.report._headline import headline_of
from routebench.report._scorecard import scorecard_of
from tests.analyses.measured import parts_of

NAMES = ("overlap-table", "overlap-recall")
ERRORS = {"dynamic": 0.10, "em": 0.12, "uniform": 0.2, "random": 0.45, "none": 0.22, "cnn": 0.15}
IMAGES = 400


def shown_digits():
    """Digit 3 is missed more often than any other."""
    draw = np.random.RandomState(0)
    shown = torch.zeros(IMAGES, 10, dtype=torch.bool)
    for image in range(IMAGES):
        shown[image, torch.from_numpy(draw.permutation(10)[: 1 + (image % 6 > 0)])] = True
    return shown


def made_up_scores(cell, shown):
    """`em` ranks digits as well as the others, and scores them too high for a threshold of one half."""
    draw = np.random.RandomState(cell.identity.seed)
    sure = torch.from_numpy(draw.uniform(size=(IMAGES, 10)))
    wrong = sure < ERRORS[cell.identity.method] * (0.2 + 0.8 * shown * (1 + (torch.arange(10) == 3)))
    scores = torch.where(wrong ^ shown, 0.6 + 0.4 * sure, 0.4 * sure)
    return 0.55 + 0.45 * scores if cell.identity.method == "em" else scores


def measured(cell):
    shown = shown_digits()
    scores = made_up_scores(cell, shown)
    found, steps = Answers(scores > best_threshold(scores.float(), shown), shown), cell.identity.iterations
    percent = {name: found.exact_match() for name in ("accuracy", "exact_match")}
    percent["exact_match_one_digit"] = found.exact_match(of=shown.sum(dim=1) == 1)
    percent["exact_match_two_digits"] = found.exact_match(of=shown.sum(dim=1) == 2)
    percent["exact_match_half"] = Answers(scores > 0.5, shown).exact_match()
    percent["exact_match_given_count"] = Answers(highest(scores, shown.sum(dim=1)), shown).exact_match()
    metrics = [Metric(name, "test", value, "%", True, test_iterations=steps) for name, value in percent.items()]
    careless = Answers(scores > 0.5, shown)
    for digit in range(10):
        for name, value in (("recall", careless.recall(digit)), ("precision", careless.precision(digit))):
            if value is not None:
                metrics.append(Metric(name, "test", value, "%", True, test_iterations=steps, where={"digit": digit}))
    return Measurement(metrics, {"correct": found.correct.to(torch.uint8)})


def folder_of(path, seeds):
    made = plan(load_suite("overlap"), "smoke", Choices(methods=(parse("dynamic"), parse("em")), seeds=range(seeds)))
    (only,) = parts_of(made, path, measured)
    return only


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("overlap"), seeds=3)


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("one"), seeds=1)


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_is_enough(one_seed, name):
    assert not analyses[name](one_seed).shown().empty


def test_a_failed_cell_leaves_a_row(runs):
    lost = runs.planned["label"].eq("uniform")
    broken = replace(
        runs,
        results=runs.results[runs.results["label"] != "uniform"],
        planned=runs.planned.assign(status=np.where(lost, "failed", runs.planned["status"])),
    )
    found = analyses["overlap-table"](broken)
    assert found.numbers.set_index("name").loc["uniform", "n_ok"] == 0
    assert "Gain over uniform routing" not in found.shown()
    assert "uniform" not in set(analyses["overlap-recall"](broken).numbers["name"])


def test_exact_matches_are_compared_as_accuracies_are(runs):
    table = analyses["overlap-table"](runs).numbers
    expected = saved(comparison_of(runs).table)
    assert {"name", "mean", "gain", "rank_low", "rank_high"} <= {*expected}
    for column in expected:
        assert table[column].equals(expected[column])
    own = runs.results.query("metric == 'exact_match' and label == 'dynamic' and iterations == 3")["value"]
    assert table.set_index("name").loc["dynamic T=3", "mean"] == pytest.approx(own.mean())
    assert table.set_index("name").loc["dynamic T=3", "gain"] > 0


def test_gains_stand_with_other_images_too(runs):
    runs = replace(runs, preset="quick")
    found = analyses["overlap-table"](runs)
    assert "With other images" in found.shown()
    table = found.numbers.set_index("name")
    both = {method.exact: one for method, one in found.main.both.items()}
    assert {*both} == {*table.index[table["gain"].notna()]}
    for name, one in both.items():
        assert (table.loc[name, "both_low"], table.loc[name, "both_high"]) == (one.low, one.high)
        assert one.p <= one.p_holm
    card = scorecard_of([("overlap", runs, found)])
    assert "; other images: " in card.tally(card.questions[0])
    assert analyses["overlap-table"](replace(runs, preset="smoke")).main.both == {}


def test_the_table_says_what_that_of_accuracy_says(one_seed):
    notes = analyses["overlap-table"](replace(one_seed, preset="quick")).notes
    assert any("They hold for these trained networks; another seed may order them otherwise." in one for one in notes)


def test_equal_seeds_are_no_certainty_and_allow_no_test(runs):
    results = runs.results.copy()
    accuracy = results["metric"] == "accuracy"
    results.loc[accuracy, "value"] = results[accuracy].groupby("label")["value"].transform("first")
    found = replace(runs, preset="quick", results=results, correct=lambda cell: None)
    notes = " ".join(analyses["overlap-table"](found).notes)
    assert "An interval of width zero comes from seeds that gave the same value; it is no certainty." in notes
    assert "all seeds differ by exactly the same amount. No test is possible there" in notes


def test_the_worst_digit_is_the_one_found_least_often(runs):
    table = analyses["overlap-table"](runs).numbers.set_index("name")
    recalls = runs.results.query("metric == 'recall' and label == 'uniform'").groupby("digit")["value"].mean()
    assert table.loc["uniform", "worst_digit"] == recalls.idxmin() == 3
    assert table.loc["uniform", "worst_recall"] == pytest.approx(recalls.min())


def test_the_sentence_is_the_decisions_and_the_headline_too(runs):
    found = analyses["overlap-table"](runs)
    assert found.numbers["name"].iloc[0] == "dynamic T=1"
    assert found.reading == answer_of(found.main, runs)
    quick = replace(runs, preset="quick")
    headline = headline_of(quick)
    assert " ".join((headline.title, *headline.said)) == analyses["overlap-table"](quick).reading


def test_the_recall_of_each_digit_is_a_mean_over_seeds(runs):
    table = analyses["overlap-recall"](runs).numbers
    own = runs.results.query("metric == 'recall' and label == 'random' and digit == 7")["value"]
    row = table[(table["name"] == "random") & (table["digit"] == 7)].iloc[0]
    assert (row["recall"], row["n"]) == (pytest.approx(own.mean()), 3)


def test_recall_of_who_answers_everything_is_left_aside(runs):
    """`em` answers all ten digits of each image here."""
    found = analyses["overlap-recall"](runs)
    assert (found.numbers.loc[found.numbers["label"].str.startswith("em"), "recall"] == 100).all()
    assert found.notes[-1].startswith("* Most digits")
    names = [label.get_text().replace("\n", "") for label in found.figure.axes[0].get_yticklabels()]
    assert [name for name in names if name.endswith("*")] == names[-2:]
    assert all(name.startswith("EM,") for name in names[-2:])


def test_published_numbers_stand_in_a_note_and_beside_no_row(runs):
    found = analyses["overlap-table"](replace(runs, data="diverse-multimnist"))
    (note,) = [note for note in found.notes if note.startswith("Published by")]
    assert "83.39 % (TSA-053)" in note
    assert "for networks that are not these" in note
    assert not [note for note in analyses["overlap-table"](runs).notes if note.startswith("Published by")]


def test_the_headline_takes_the_reading_that_is_known_already(runs):
    runs = replace(runs, preset="quick")  # a smoke run is not judged
    first = analyses["overlap-table"](runs)
    assert headline_of(runs, {"overlap-table": first}) == headline_of(runs)
    assert headline_of(runs, {"overlap-table": replace(first, reading="Known.")}).title == "Known."
    assert headline_of(runs, {}) is None
