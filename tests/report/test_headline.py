"""The answer that opens a report: how sure it is, what it compares, and what keeps it from being more."""

from dataclasses import replace

import pytest

from routebench.analysis import wording
from routebench.analysis.comparison import compare
from routebench.registry import analyses
from routebench.report._headline import headline_of
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs
from tests.report.accuracies import runs_with


def answer(**given: float) -> str:
    return str(headline_of(runs_with(**given)))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"dynamic": 97.5, "em": 92.0, "uniform": 90.0}, "routing gains 7."),
        ({"dynamic": 90.0, "uniform": 97.0}, "routing loses 7."),
        ({"dynamic": 97.56, "em": 97.5, "uniform": 97.5}, "a gain over uniform coupling is not shown."),
        ({"dynamic": 97.0, "em": 96.0}, "whether routing matters was not measured."),
    ],
    ids=["gains", "loses", "not shown", "not measured"],
)
def test_the_title_says_whether_routing_matters(given, verdict) -> None:
    assert headline_of(runs_with(**given)).title.rpartition("; ")[2].startswith(verdict)


def test_methods_are_counted_that_are_better_and_worse_than_uniform() -> None:
    found = headline_of(runs_with(dynamic=97.5, em=92.0, uniform=90.0))
    assert "2 are significantly better than uniform and none is significantly worse" in found.matters[1]


def test_what_would_go_unnoticed_is_told_where_nothing_is_shown() -> None:
    assert "would likely go unnoticed here" in answer(dynamic=97.56, em=97.5, uniform=97.5)


@pytest.mark.parametrize(("dynamic", "cnn", "gap"), [(97.5, 95.0, "less."), (95.0, 99.0, "more.")])
def test_the_plain_network_is_named_with_its_gap(dynamic, cnn, gap) -> None:
    (said,) = [
        one for one in headline_of(runs_with(dynamic=dynamic, cnn=cnn, uniform=94.0)).which if "plain CNN" in one
    ]
    assert f"reaches {cnn:.0f}"[:-1] in said and said.endswith(f"points {gap}")


def test_what_a_leading_control_reaches_is_told() -> None:
    found = headline_of(runs_with(dynamic=10.0, cnn=99.0, uniform=97.0))
    assert any(one.startswith("The control cnn reaches 9") for one in found.which)


def test_peers_are_named_as_in_the_reading_of_the_table() -> None:
    runs = made_up_runs(failures=False)
    table = compare(runs).table
    peers = list(table.loc[table["group"] == table["group"].iloc[0], "name"][1:])
    assert f"It cannot be told apart from {wording.listed(peers, 5)}." in headline_of(runs).which
    assert wording.listed(peers, 5) in analyses["accuracy-table"](runs).reading


def test_one_finished_method_is_compared_with_nothing() -> None:
    for name in ("none", "cnn"):
        said = str(headline_of(made_up_runs(methods={name: METHODS[name]})))
        assert said.startswith(f"Only {name} has finished: nothing can be compared yet.")
        assert "best" not in said
        assert "points less" not in said


def test_only_controls_are_no_answer() -> None:
    said = answer(cnn=97.0, uniform=96.0)
    assert said.startswith("Only controls have finished: which routing is best was not measured.")


def test_untested_gains_are_said_to_be() -> None:
    runs = made_up_runs(seeds=1, failures=False)
    found = headline_of(replace(runs, correct=lambda cell: None))
    assert found.title.endswith("whether routing matters could not be tested.")


def test_the_terminal_is_told_what_each_number_of_the_table_is_for() -> None:
    found = headline_of(made_up_runs())
    assert "an interval is for one number alone, p (Holm) for all 12 gains together" in str(found).splitlines()[-1]
    assert "of this gain alone; corrected p" in " ".join(found.matters)


@pytest.mark.parametrize(
    ("preset", "warning"), [("smoke", "only shows that everything runs"), ("quick", "a first look, not a finding")]
)
def test_small_presets_say_what_they_are_worth(preset: str, warning: str) -> None:
    assert warning in answer(preset=preset, dynamic=97.0, uniform=96.0)
    assert warning not in answer(preset="full", dynamic=97.0, uniform=96.0)


def test_few_seeds_few_images_and_failures_are_caveats() -> None:
    found = headline_of(made_up_runs())
    assert "37 of 39 planned runs finished." in found.caveats
    assert "1,000 test images: one image is 0.1 points." in found.caveats
    assert any("Fewer than three seeds" in caveat for caveat in headline_of(made_up_runs(seeds=2)).caveats)
    assert not any("Fewer than three seeds" in caveat for caveat in found.caveats)


def test_a_comparison_that_shares_few_seeds_is_a_caveat_too() -> None:
    records = [r for r in made_up_records() if r["label"] != "uniform" or r["identity"]["seed"] > 0]
    assert "Some comparisons rest on fewer than three seeds." in headline_of(made_up_runs(records)).caveats


def test_one_seed_is_said_to_compare_test_images() -> None:
    assert "95 % interval over test images, one seed" in str(headline_of(made_up_runs(seeds=1, failures=False)))


def test_iterating_is_compared_with_one_iteration_of_the_same_method() -> None:
    said = str(headline_of(made_up_runs(seeds=6, failures=False)))
    assert "Against a single iteration of the same method: +1." in said
    assert "points, a difference." in said


def test_nothing_measured_is_no_answer() -> None:
    records = made_up_records(methods={"dynamic": METHODS["dynamic"]})
    for record in records:
        record |= {"status": "failed", "reason": "RuntimeError: no", "metrics": []}
    found = headline_of(made_up_runs(records))
    assert found.title == "Nothing was measured yet."
    assert found.caveats == ("0 of 9 planned runs finished.",)


def test_another_protocol_has_no_headline_of_accuracy() -> None:
    runs = made_up_runs()
    assert headline_of(type(runs)(**{**vars(runs), "protocol": "sparsity"})) is None
