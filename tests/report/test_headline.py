from dataclasses import replace

import pytest

from routebench.analysis import wording
from routebench.analysis.comparison import compare
from routebench.registry import analyses
from routebench.report.headline import headline_of
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs


def answer(preset: str = "full", seeds: int = 6, spread: float = 0.15, **methods: float) -> str:
    """The headline for methods without iterations and their true accuracies; names may not hold dashes."""
    grid = {
        name: ([None], "control" if name in ("uniform", "cnn") else "method", "capsnet-small", [value])
        for name, value in methods.items()
    }
    return str(headline_of(made_up_runs(seeds=seeds, spread=spread, methods=grid, preset=preset)))


def test_a_clear_winner_that_beats_uniform_is_said_to() -> None:
    said = answer(dynamic=97.5, em=92.0, uniform=90.0)
    assert said.startswith("dynamic is best here; routing gains 7.")
    assert "cannot be told apart" not in said
    assert "2 are significantly better than uniform and none is significantly worse" in said


def test_a_lead_within_noise_is_not_called_one() -> None:
    said = answer(dynamic=97.56, em=97.5, uniform=97.5)
    assert "no lead that these runs can confirm" in said
    assert "a gain over uniform coupling is not shown" in said
    assert "cannot be told apart from" in said
    assert "would likely go unnoticed here" in said


def test_a_better_control_does_not_split_equal_methods() -> None:
    said = answer(seeds=3, dynamic=90.0, em=90.0, cnn=91.0, uniform=90.0)
    assert "is best here" not in said
    assert said.startswith("The control cnn has the highest mean accuracy; ")
    assert "the highest among routing methods, cannot be told apart from it" in said


def test_routing_that_harms_is_said_to() -> None:
    said = answer(dynamic=90.0, uniform=97.0)
    assert "routing loses" in said
    assert "points against uniform coupling" in said


def test_without_uniform_the_question_stays_open() -> None:
    said = answer(dynamic=97.0, em=96.0)
    assert "whether routing matters was not measured" in said
    assert "has no finished run to compare with" in said


def test_the_plain_network_is_named_with_its_gap() -> None:
    assert "less." in answer(dynamic=97.5, cnn=95.0, uniform=97.0)
    assert "more." in answer(dynamic=95.0, cnn=99.0, uniform=94.0)


def test_a_control_that_leads_is_said_to() -> None:
    said = answer(dynamic=10.0, cnn=99.0, uniform=97.0)
    assert said.startswith(
        "The control cnn has the highest mean accuracy; dynamic, the only routing method, is behind it; routing loses"
    )
    assert "The control cnn reaches 9" in said
    assert "is best" not in said


def test_a_control_that_is_as_good_is_among_the_peers() -> None:
    said = answer(seeds=3, spread=0.0, dynamic=96.3, uniform=96.3)
    assert said.startswith("dynamic has the highest mean accuracy, but no lead that these runs can confirm; ")
    assert "It cannot be told apart from uniform." in said


def test_peers_are_the_rank_group_of_the_table() -> None:
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


def test_untested_methods_are_never_beaten() -> None:
    runs = made_up_runs(seeds=1, failures=False)
    said = str(headline_of(replace(runs, correct=lambda cell: None)))
    assert "has the highest mean accuracy, but not every other could be tested against it" in said
    assert "whether routing matters could not be tested" in said


def test_a_winner_over_what_is_not_complete_is_one_of_those_that_finished() -> None:
    methods = {"dynamic": 97.5, "uniform": 90.0, "em": 80.0}
    grid = {
        name: ([None], "control" if name == "uniform" else "method", "capsnet-small", [value])
        for name, value in methods.items()
    }
    records = made_up_records(seeds=6, failures=False, methods=grid)
    for record in records:
        if record["label"] == "em":
            record |= {"status": "oom", "reason": "no memory", "metrics": []}
    assert headline_of(made_up_runs(records)).title.startswith("dynamic is best of those that finished; ")


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
