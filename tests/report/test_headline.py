"""The answer that opens a report: one sentence that answers the question, never a tie; and what weakens it."""

from dataclasses import replace

import pytest

from routebench.report._headline import headline_of
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs
from tests.report.accuracies import runs_with


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({"dynamic": 97.5, "em": 90.0, "uniform": 90.0}, "Routing helps here: Dynamic gains "),
        ({"dynamic": 90.0, "uniform": 97.0}, "Routing is not shown to help: Dynamic loses to uniform routing."),
        ({"dynamic": 97.56, "em": 97.5, "uniform": 97.5}, "Routing is not shown to help: none of 2 routing config"),
        (
            {"dynamic": 97.0, "em": 96.0},
            "Uniform routing is not part of this preset: nothing here says whether routing",
        ),
        ({"dynamic": 97.0, "cnn": 96.0}, "Dynamic is 1.05 points above CNN [+0.88, +1.22], significant"),
        ({"cnn": 97.0, "uniform": 96.0}, "Whether routing helps was not measured: only baselines have finished."),
    ],
    ids=["gains", "loses", "not shown", "not planned", "another baseline", "controls"],
)
def test_the_title_says_whether_routing_helps(given, title) -> None:
    assert headline_of(runs_with(**given)).title.startswith(title)


@pytest.mark.parametrize(("accuracies", "told"), [([97.5, 96.9], True), ([96.9, 97.5], False)])
def test_a_gain_that_one_iteration_has_is_not_put_down_to_iterating(accuracies, told) -> None:
    em = {"em": ([1, 2], "method", "capsnet-small", accuracies), "uniform": METHODS["uniform"]}
    title = headline_of(made_up_runs(seeds=6, methods=em, failures=False, preset="full")).title
    assert title.startswith("Routing helps here: EM, T = 2 and EM, T = 1 gain ") is not told
    assert title.endswith("points over uniform routing; more iterations are not shown to help EM.") is told


def test_the_users_method_is_the_subject() -> None:
    runs = replace(runs_with(dynamic=97.5, em=90.0, uniform=95.0), yours=frozenset({"em"}))
    title = headline_of(runs).title
    assert title.startswith("★ EM is 5")
    assert "points below uniform routing [−" in title
    assert title.endswith("significant (p < 0.001 after correction).")


def test_the_leader_is_told_once_with_its_gain() -> None:
    found = headline_of(runs_with(dynamic=97.5, em=90.0, uniform=95.0))
    (told,) = (sentence for sentence in found.said if sentence.startswith("Highest mean accuracy: Dynamic"))
    assert "points above uniform routing [+" in told
    assert not any(sentence.startswith("Largest gain") for sentence in found.said)
    apart = headline_of(runs_with(dynamic=96.5, uniform=95.0, cnn=98.0)).said
    assert apart[0].startswith("Largest gain: Dynamic is 1.45 points above")
    assert any(sentence.startswith("Highest mean accuracy: the baseline CNN") for sentence in apart)


def test_what_would_go_unnoticed_is_told() -> None:
    said = " ".join(headline_of(runs_with(dynamic=97.56, em=97.5, uniform=97.5)).said)
    assert "With 6 seeds, differences below 0." in said


def test_one_finished_method_is_compared_with_nothing() -> None:
    for name, title in (("none", "No sharing"), ("cnn", "CNN")):
        said = str(headline_of(made_up_runs(methods={name: METHODS[name]})))
        assert said.startswith(f"Only {title} has finished: nothing can be compared yet.")
        assert "best" not in said


def test_untested_gains_are_said_to_be() -> None:
    runs = made_up_runs(seeds=1, failures=False)
    assert "could not be tested" in headline_of(replace(runs, correct=lambda cell: None)).title


def test_a_smoke_run_gives_no_answer() -> None:
    found = headline_of(made_up_runs(preset="smoke", failures=False))
    assert str(found) == "39 of 39 planned runs finished. A smoke run says nothing about methods."


@pytest.mark.parametrize("ended", [{"em"}, {"em", "dynamic"}])
def test_a_smoke_run_names_the_methods_of_the_user_that_have_no_result(ended) -> None:
    runs = made_up_runs(preset="smoke", failures=False)
    planned = runs.planned.assign(status=runs.planned["status"].mask(runs.planned["label"].isin(ended), "failed"))
    runs = replace(runs, planned=planned, yours=frozenset({"em", "dynamic"}))
    told = str(headline_of(runs)).partition(" planned")[0]
    if ended == {"em"}:
        assert told.startswith("★ Dynamic ran. No result: ★ EM. ")
    else:
        assert told.startswith("No result: ★ Dynamic and ★ EM. ")


def test_small_presets_say_what_they_are_worth() -> None:
    warning = "a first look, not a finding"
    assert warning in str(headline_of(runs_with(preset="quick", dynamic=97.0, uniform=96.0)))
    assert warning not in str(headline_of(runs_with(preset="full", dynamic=97.0, uniform=96.0)))


def test_few_seeds_few_images_and_failures_are_caveats() -> None:
    found = headline_of(made_up_runs())
    assert "37 of 39 planned runs finished." in found.caveats
    assert (
        "1,000 test images: one image is 0.1 points. Intervals over seeds say nothing of other test images."
        in found.caveats
    )
    assert any("Fewer than three seeds" in caveat for caveat in headline_of(made_up_runs(seeds=2)).caveats)
    assert not any("Fewer than three seeds" in caveat for caveat in found.caveats)


def test_a_comparison_that_shares_few_seeds_is_a_caveat_too() -> None:
    records = [r for r in made_up_records() if r["label"] != "uniform" or r["identity"]["seed"] > 0]
    assert "Some comparisons rest on fewer than three seeds." in headline_of(made_up_runs(records)).caveats


def test_one_seed_is_said_to_compare_test_images() -> None:
    assert "on the same test images" in str(headline_of(made_up_runs(seeds=1, failures=False)))
    far = headline_of(runs_with(dynamic=97.5, uniform=80.0, seeds=1))
    alone = [one for one in far.said if "significant" in one]
    assert alone and all("over the test images of one seed" in one.lower() for one in alone)


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


def test_methods_that_are_worse_have_a_sentence_of_their_own_in_the_title() -> None:
    pairs = [
        {"ours": {"label": label, "model": "capsnet-small", "iterations": None},
         "theirs": {"label": "uniform", "model": "capsnet-small", "iterations": None}}
        for label in ("dynamic", "em", "heinsen")
    ]  # fmt: skip
    runs = runs_with(dynamic=97.5, em=89.0, heinsen=80.0, uniform=93.0)
    title = headline_of(replace(runs, primary={"margin": 0.5, "first": 3, "pairs": pairs})).title
    first, second = title.split(". Worse, by ")
    assert first.startswith("Dynamic is better than uniform routing, by ")
    assert second.endswith(" points: Heinsen and EM.")
