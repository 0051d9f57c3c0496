"""The scorecard shows differences to uniform routing, and colours only what is significant; claims come by verdict."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from pandas import DataFrame

from routebench.analysis import Analysis, Estimate, Main, Method, Verdict
from routebench.analysis.folder import open_folder
from routebench.registry import analyses
from routebench.report._paper_claims import claims_of
from routebench.report._scorecard import MIDDLE, WIDTH, scorecard_of
from routebench.report._tabs import place_of_tab
from tests.analysis.made_up_runs import made_up_runs
from tests.report.accuracies import runs_with

GOOD = Estimate(5.0, 4.0, 6.0, 3, p=0.001, p_holm=0.01)
OPEN = Estimate(-1.0, -4.0, 2.0, 3, p=0.3, p_holm=0.6)


def accuracy(runs, part="accuracy"):
    return part, runs, analyses["accuracy-table"](runs)


def other_suite(main: Main, preset: str = "full"):
    """A suite of two methods and uniform routing with the given gains."""
    methods = [Method.of("dynamic", 3), Method.of("em", 3), Method.of("uniform", role="control")]
    table = DataFrame({"method": methods, "x": [Estimate(9.0, 8.0, 10.0), Estimate(2.0), Estimate(3.0)]})
    runs = replace(made_up_runs(seeds=1, preset=preset, failures=False), suite="other", protocol="other")
    return "other", runs, Analysis("x", "x.", table, main=main)


def marks(card, label: str, steps: int | None = None):
    (row,) = (row for row in card.rows if (row.method.label, row.method.iterations) == (label, steps))
    return row.marks


def test_a_cell_is_the_gain_and_is_coloured_where_it_is_significant() -> None:
    runs = runs_with(dynamic=97.5, em=90.02, none=80.0, cnn=99.0, uniform=90.0)
    card = scorecard_of([accuracy(runs)])
    gains = accuracy(runs)[2].main.gains
    for label, kind in (("dynamic", "better"), ("em", "ns"), ("none", "worse"), ("cnn", "better")):
        (mark,) = marks(card, label)
        gain = next(gain for method, gain in gains.items() if method.label == label)
        assert mark.kind == kind
        assert float(mark.text.replace("−", "-")) == pytest.approx(gain.mean, abs=0.06)
        assert (mark.dot > MIDDLE) == (gain.mean > 0)
        assert 0 <= mark.low <= mark.dot <= mark.high <= WIDTH
    (base,) = marks(card, "uniform")
    assert base.dot is None
    assert base.value.startswith("90.")


def test_a_method_that_is_far_off_stands_at_the_edge_and_leaves_the_others_room() -> None:
    near = {"dynamic": 91.0, "em": 90.5, "none": 90.2, "cnn": 91.2, "uniform": 90.0}
    found = [scorecard_of([accuracy(runs_with(**near, random=random))]) for random in (90.1, 20.0)]
    plain, far = ({label: marks(card, label)[0] for label in (*near, "random")} for card in found)
    assert not any(mark.beyond for mark in plain.values())
    assert {label: mark.beyond for label, mark in far.items() if mark.beyond} == {"random": -1}
    assert far["cnn"].dot - MIDDLE > 0.25 * MIDDLE


def test_two_presets_of_one_suite_are_two_questions() -> None:
    runs = runs_with(dynamic=97.5, uniform=90.0)
    card = scorecard_of([accuracy(runs), accuracy(replace(runs, preset="mine"), "mine")])
    assert len({question.title for question in card.questions}) == 2
    assert card.title.startswith("Does routing help? Significantly better in test accuracy (")
    assert "not shown" not in card.title


def test_of_each_method_one_iteration_count_is_shown_unasked_and_those_that_differ() -> None:
    card = scorecard_of([accuracy(made_up_runs(failures=False))])
    shown = {row.method.exact for row in card.rows if row.main}
    last = {"dynamic T=3", "em T=3", "inverted-attention T=3", "none", "uniform", "random", "cnn"}
    assert shown == last | {"inverted-attention T=2"}
    assert card.title == "Does routing help? Significantly better: Inverted attention; Dynamic."
    assert card.has_other_iterations


@pytest.mark.parametrize(("better", "kind"), [(True, "better"), (False, "worse"), (None, "other")])
def test_less_may_be_better_and_neither_may_be(better, kind) -> None:
    gains = {Method.of("dynamic", 3): GOOD, Method.of("em", 3): OPEN}
    card = scorecard_of([other_suite(Main("x", "X", "%", higher_is_better=better, gains=gains))])
    assert [one.kind for label in ("dynamic", "em") for one in marks(card, label, 3)] == [kind, "ns"]


def test_questions_asked_of_few_methods_stand_last() -> None:
    main = Main("x", "X", "%", higher_is_better=True, gains={Method.of("dynamic", 3): GOOD})
    part, runs, analysis = other_suite(main)
    few = replace(analysis, table=analysis.table[analysis.table["method"].map(lambda one: one.name != "em")])
    three = accuracy(made_up_runs(failures=False))
    for found, order in ((analysis, ["other", "accuracy"]), (few, ["accuracy", "other"])):  # of two methods, and of one
        card = scorecard_of([(part, runs, found), three])
        assert [question.runs.suite for question in card.questions] == order


def test_a_question_that_nobody_compared_shows_its_values() -> None:
    card = scorecard_of([other_suite(Main("x", "X", "ms", digits=1))])
    assert not card.compares
    assert [one.value for one in marks(card, "dynamic", 3)] == ["9.0 ± 1.0"]


def test_questions_stand_side_by_side_and_what_is_missing_is_missing() -> None:
    gains = {Method.of("dynamic", 3): GOOD}
    runs = made_up_runs(failures=False)
    card = scorecard_of([accuracy(runs), other_suite(Main("x", "X", "%", higher_is_better=True, gains=gains), "quick")])
    assert [question.title for question in card.questions] == ["Test accuracy", "X"]
    assert marks(card, "none")[1] is None
    assert card.title.startswith("Does routing help? Significantly better in test accuracy (")
    assert card.title.endswith(" and x (Dynamic).")
    told = card.downloaded.set_index(["suite", "method"]).loc[("other", "dynamic T=3")]
    assert (told["mean"], told["gain"], told["p_holm"]) == (9.0, 5.0, 0.01)
    assert math.isnan(card.downloaded.set_index(["suite", "method"]).loc[("other", "em T=3"), "gain"])


def test_what_is_better_and_worse_in_one_question_of_several_names_it_once() -> None:
    gains = {Method.of("dynamic", 3): OPEN}
    runs = runs_with(dynamic=97.5, em=80.0, uniform=90.0)
    card = scorecard_of([accuracy(runs), other_suite(Main("x", "X", "%", higher_is_better=True, gains=gains))])
    assert card.title == (
        "Does routing help? Significantly better in test accuracy (Dynamic); in 1 other tested column it is not shown."
    )
    assert card.said == ("Significantly worse in test accuracy (EM).",)
    told = ["1 better, 1 worse of 2; other images: 1, 1", "no difference shown, of 1"]
    assert [card.tally(question) for question in card.questions] == told


def test_questions_of_the_same_measure_are_told_apart_by_their_data() -> None:
    runs = runs_with(dynamic=97.5, uniform=90.0)
    parts = [("a", runs), ("b", replace(runs, suite="iterations", data="fashion-mnist"))]
    card = scorecard_of([accuracy(one, part) for part, one in parts])
    assert [question.title for question in card.questions] == [
        f"Test accuracy, {runs.data}",
        "Test accuracy, fashion-mnist",
    ]


def test_a_question_is_told_apart_by_one_word_where_one_is_enough() -> None:
    runs = runs_with(dynamic=97.5, uniform=90.0)
    parts = [("a", runs), ("b", replace(runs, suite="iterations")), ("c", replace(runs, data="mnist"))]
    card = scorecard_of([accuracy(one, part) for part, one in parts])
    shared = f"Test accuracy, {runs.data}"
    assert [question.title for question in card.questions] == [
        f"{shared}, {runs.suite}",
        f"{shared}, iterations",
        "Test accuracy, mnist",
    ]


def test_many_methods_are_counted_and_few_are_named() -> None:
    better = dict.fromkeys(("dynamic", "em", "heinsen", "wang-liu"), 97.5)
    card = scorecard_of([accuracy(runs_with(**better, **{"self-routing": 80.0, "uniform": 90.0}))])
    assert card.title == "Does routing help? Significantly better: 4 of 5 methods."
    assert card.said[0] == "Significantly worse: Self-routing."


def test_every_question_with_an_answer_is_named() -> None:
    parts = [(data, replace(runs_with(dynamic=80.0, uniform=90.0), data=data)) for data in ("a", "b", "c", "d")]
    card = scorecard_of([accuracy(one, part) for part, one in parts])
    assert card.said[0] == "Significantly worse in test accuracy (a: Dynamic; b: Dynamic; c: Dynamic; d: Dynamic)."
    assert card.title == "Does routing help? Not shown in any of 4 tested columns."


def test_nothing_shown_is_said_and_ties_are_no_headline() -> None:
    card = scorecard_of([accuracy(runs_with(dynamic=97.5, em=97.5, uniform=97.5, spread=0.0))])
    assert card.title == "Does routing help? Not shown."


@pytest.mark.parametrize("first", [99.1, 95.0])
def test_what_is_better_with_one_iteration_already_is_said(first) -> None:
    methods = {
        "em": ([1, 3], "method", "capsnet-small", [first, 99.0]),
        "uniform": ([None], "control", "capsnet-small", [95.0]),
    }
    runs = made_up_runs(methods=methods, seeds=6, spread=0.1, preset="full", failures=False)
    said = scorecard_of([accuracy(runs)]).said
    assert ("Better with one iteration already: EM." in said) == (first > 99)


def test_a_question_whose_gains_have_no_test_does_not_count() -> None:
    runs = runs_with(dynamic=97.5, em=80.0, uniform=90.0)
    untested = {Method.of("dynamic", 3): replace(GOOD, p=math.nan, p_holm=math.nan)}
    card = scorecard_of([accuracy(runs), other_suite(Main("x", "X", "%", higher_is_better=True, gains=untested))])
    assert card.title == "Does routing help? Significantly better: Dynamic."


@pytest.mark.parametrize("everywhere", [True, False])
def test_methods_that_are_one_function_in_every_question_share_a_row(everywhere) -> None:
    """One iteration of wang-liu is uniform routing in the first suite, and in the other one or not."""
    once, base = Method.of("wang-liu", 1), Method.of("uniform", role="control")
    twins, apart = [replace(base, same=(once,)), Method.of("em", 3)], [base, once, Method.of("em", 3)]

    def suite(name, methods):
        values = {base.label: 3.0, once.label: 4.0, "em": 2.0}
        table = DataFrame({"method": methods, "x": [Estimate(values[one.label]) for one in methods]})
        gains = {one: GOOD for one in methods if one.label != base.label}
        runs = replace(made_up_runs(seeds=1, preset="full", failures=False), suite=name, protocol="other")
        main = Main("x", "X", "%", higher_is_better=True, gains=gains)
        return name, runs, Analysis("x", "x.", table, main=main)

    card = scorecard_of([suite("one", twins), suite("two", twins if everywhere else apart)])
    rows = {row.method.together: row.marks for row in card.rows}
    if everywhere:
        assert {*rows} == {"Uniform routing = Wang-Liu, T = 1", "EM, T = 3"}
        return
    assert {*rows} == {"Uniform routing", "Wang-Liu, T = 1", "EM, T = 3"}
    same, own = rows["Wang-Liu, T = 1"]
    assert (same.value, same.text, same.dot) == (rows["Uniform routing"][0].value, "0.0", MIDDLE)
    assert own.kind == "better"


def test_a_head_counts_every_method_whose_comparison_was_pre_specified() -> None:
    """The best T of a method may be another in each column: Wang-Liu's is 1 with 5,000 images, and 2 with more."""
    parts = [part for part in open_folder(Path(__file__).parents[2] / "reports" / "features").parts if part.primary]
    card = scorecard_of([(part.name, part, found) for part in parts if (found := analyses["accuracy-table"](part))])
    assert len({frozenset(question.named) for question in card.questions}) > 1
    for question in card.questions:
        own = {key for key in question.named if question.counts(key)}
        assert own <= {(row.method.label, row.method.iterations) for row in card.rows if row.main}
        assert f" of {len(own)}" in card.tally(question)


def test_a_table_of_costs_alone_has_the_cheapest_first() -> None:
    for part in open_folder(Path(__file__).parents[2] / "reports" / "scale").parts:
        found = analyses["cost-table"](part)
        card = scorecard_of([("cost", part, found)])
        own = {row["method"]: row["mean"].mean for row in found.main.table.to_dict("records")}
        costs = [own[row.method] for row in card.rows]
        assert len(costs) == 13 and costs == sorted(costs) != sorted(costs, reverse=True)


def test_the_users_method_comes_first_and_is_asked_about() -> None:
    runs = replace(made_up_runs(failures=False), yours=frozenset({"em"}))
    card = scorecard_of([accuracy(runs)])
    assert card.rows[0].method.label == "em"
    assert card.title.startswith("Does EM help?")


@pytest.mark.parametrize(("p_value", "told"), [(0.01, "Significantly better: EM."), (0.6, "Not shown.")])
def test_titles_count_only_questions_that_the_users_method_was_in(p_value, told) -> None:
    gains = {Method.of("dynamic", 3): GOOD, Method.of("em", 3): replace(GOOD, p_holm=p_value)}
    part, runs, found = other_suite(Main("x", "X", "%", higher_is_better=True, gains=gains))
    runs = replace(runs, yours=frozenset({"em"}))
    methods = found.table["method"].map(lambda method: replace(method, yours=method.name == "em"))
    mine = replace(found, table=found.table.assign(method=methods))
    others = [accuracy(replace(runs_with(dynamic=97.5, uniform=90.0), data=data), data) for data in ("a", "b", "c")]
    card = scorecard_of([(part, runs, mine), *others])
    assert len(card.questions) == 4
    assert card.title == f"Does EM help? {told}"
    untested = replace(mine, main=replace(mine.main, gains={Method.of("dynamic", 3): GOOD}))
    assert scorecard_of([(part, runs, untested), *others]).title == "Does EM help? Not tested in any column."


def test_only_the_strongest_preset_of_a_suite_counts_and_smoke_never() -> None:
    quick, smoke = (made_up_runs(failures=False, preset=preset, seeds=2) for preset in ("quick", "smoke"))
    card = scorecard_of([accuracy(smoke), accuracy(quick)])
    assert [question.runs.preset for question in card.questions] == ["quick"]
    assert scorecard_of([accuracy(smoke)]) is None


def test_a_preset_of_ones_own_stands_beside_full_and_not_in_its_place() -> None:
    full, quick = (made_up_runs(failures=False, preset=preset, seeds=2) for preset in ("full", "quick"))
    other = replace(made_up_runs(failures=False, preset="other-digits", seeds=2), data="mnist")
    card = scorecard_of([accuracy(full), accuracy(other), accuracy(quick)])
    assert [question.title for question in card.questions] == ["Test accuracy, mnist5k", "Test accuracy, mnist"]
    assert sorted((quick, other, full), key=place_of_tab) == [full, other, quick]


def test_an_analysis_without_a_main_measure_is_absent() -> None:
    part, runs, found = accuracy(made_up_runs(failures=False))
    assert scorecard_of([(part, runs, replace(found, main=None))]) is None


def test_claims_against_the_paper_come_first_and_what_was_not_run_is_apart() -> None:
    def row(claim, verdict, mean):
        said = {
            "claim": claim,
            "source": "A et al. 2020, figure 1",
            "tested": "t",
            "on": "s",
            "needs": "routebench suite s",
        }
        return {**said, "verdict": verdict, "why": "2 epochs", "mean": mean}

    rows = [
        row("a", Verdict.HOLDS, GOOD),
        row("b", Verdict.UNDECIDED, OPEN),
        row("c", Verdict.FAILS, OPEN),
        row("d", Verdict.NOT_RUN, Estimate()),
    ]
    card = claims_of([row("e", Verdict.NOT_TESTED, GOOD), *rows])
    assert [one.claim for one in card.rows] == ["c", "a", "b", "e"]
    assert [one.mark.kind for one in card.rows] == ["worse", "better", "ns", "ns"]
    assert card.rows[-1].word == "not tested: 2 epochs"
    assert card.said[0].startswith("1 test more rests on networks that still learned fast")
    assert card.title == "3 tests of claims from one paper, in small-scale replications: 1 fails, 1 holds, 1 undecided."
    assert replace(card, at_own_size=True).title.startswith("3 tests of claims from one paper, at its own size: ")
    assert card.others == (("d", "A et al. 2020, figure 1", "routebench suite s"),)
    assert claims_of(rows[3:]) is None


def test_the_best_of_the_first_question_stand_first_with_their_ranks() -> None:
    runs = runs_with(dynamic=97.5, em=80.0, none=85.0, cnn=99.0, uniform=90.0)
    card = scorecard_of([accuracy(runs)])
    assert [row.method.label for row in card.rows] == ["cnn", "dynamic", "uniform", "none", "em"]
    assert [card.rank_of(row.method) for row in card.rows] == ["1", "2", "3", "4", "5"]
    main = Main("x", "X", "%", higher_is_better=False, gains={Method.of("dynamic", 3): OPEN})
    fewer = scorecard_of([other_suite(main)])
    assert [row.method.label for row in fewer.rows] == ["em", "uniform", "dynamic"]  # 2, 3 and 9
    assert not fewer.ranks


def test_cost_stands_second_as_a_multiple_and_is_no_merit() -> None:
    dynamic, em = Method.of("dynamic", 3), Method.of("em", 3)
    main = Main(
        "x", "Training step", "ms", explained="× uniform routing", shown={dynamic: "3 ×"}, small={dynamic: "9 MB"}
    )
    gains = {dynamic: GOOD, em: OPEN}
    questions = [accuracy(runs_with(dynamic=97.5, uniform=90.0))]
    questions += [other_suite(Main("x", "X", "%", higher_is_better=True, gains=gains))]
    part, runs, timed = other_suite(main)
    card = scorecard_of([*questions, (part, replace(runs, suite="cost"), timed)])
    assert [question.main.title for question in card.questions] == ["Test accuracy", "Training step", "X"]
    assert card.questions[1].told == "× uniform routing"
    mark = next(row.marks[1] for row in card.rows if row.method.label == "dynamic" and row.marks[1])
    assert (mark.value, mark.small) == ("3 ×", "9 MB")


def test_the_users_questions_come_first_and_the_file_has_every_method() -> None:
    runs = runs_with(dynamic=97.5, uniform=90.0)
    mine = replace(runs_with(em=97.5, uniform=90.0), data="mine", yours=frozenset({"em"}))
    card = scorecard_of([accuracy(replace(runs, data=data), data) for data in "abcdefgh"] + [accuracy(mine, "mine")])
    assert [question.runs.data for question in card.questions] == ["mine", *"abcdef"]
    assert card.rows[0].method.label == "em"
    other = scorecard_of([accuracy(replace(runs, data=data), data) for data in "abcdefg"] + [accuracy(mine, "mine")])
    assert {"dynamic", "em", "uniform"} == {*other.downloaded["method"]}
    few = [replace(runs_with(heinsen=97.5, uniform=90.0), data="few")]
    card = scorecard_of([accuracy(replace(runs, data=data), data) for data in "abcdefg"] + [accuracy(few[0], "few")])
    assert "heinsen" in {*card.downloaded["method"]} - {row.method.exact for row in card.rows}


def test_more_questions_than_fit_stand_on_their_own_pages() -> None:
    runs = runs_with(dynamic=97.5, uniform=90.0)
    card = scorecard_of([accuracy(replace(runs, data=data), data) for data in "abcdefghi"])
    assert len(card.questions) == 7 and [question.runs.data for question in card.left] == ["h", "i"]
    assert {*card.downloaded["question"]} == {question.title for question in (*card.questions, *card.left)}


def test_what_a_suite_did_not_name_is_marked_and_no_verdict() -> None:
    dynamic, em = Method.of("dynamic", 3), Method.of("em", 3)
    main = Main("x", "X", "%", higher_is_better=True, gains={dynamic: GOOD, em: GOOD}, named={em})
    card = scorecard_of([other_suite(main)])
    assert [(one.kind, one.explored) for one in marks(card, "dynamic", 3)] == [("better", True)]
    assert [(one.kind, one.explored) for one in marks(card, "em", 3)] == [("better", False)]
    assert card.title == "Does routing help? Significantly better: EM."
    assert "explored" in card.kinds
    assert marks(card, "dynamic", 3)[0].said.endswith("exploratory, significant, better")
    assert card.downloaded.set_index("method")["exploratory"].to_dict() == {
        "dynamic T=3": True, "em T=3": False, "uniform": False,
    }  # fmt: skip
    (alone,) = marks(scorecard_of([other_suite(replace(main, named={dynamic}))]), "em", 3)
    assert alone.explored


def turned(main: Main, suite: str):
    """Another suite on the data and network of `other_suite`."""
    _, runs, analysis = other_suite(main)
    return suite, replace(runs, suite=suite), analysis


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        (replace(GOOD, mean=-5.0, low=-6.0, high=-4.0), "Dynamic, T = 3 is significantly worse (mnist5k)."),
        (GOOD, ""),  # no contradiction
        (OPEN, ""),  # not shown is not otherwise
    ],
)
def test_a_suite_that_finds_the_opposite_on_the_same_images_is_named_on_the_first_screen(theirs, told) -> None:
    dynamic = Method.of("dynamic", 3)
    ours, others = (Main("x", "X", "%", higher_is_better=True, gains={dynamic: gain}) for gain in (GOOD, theirs))
    said = " ".join(scorecard_of([turned(ours, "first"), turned(others, "second")]).said)
    assert ("Otherwise in the suite second, on the same images: " in said) == bool(told)
    assert told in said
    part, runs, analysis = turned(others, "second")
    elsewhere = part, replace(runs, data="another"), analysis
    assert "Otherwise" not in " ".join(scorecard_of([turned(ours, "first"), elsewhere]).said)


def test_a_method_that_cannot_be_tested_is_counted_and_named_so() -> None:
    untested = Estimate(4.0, 1.0, 7.0, 3)
    gains = {Method.of("dynamic", 3): GOOD, Method.of("em", 3): untested}
    card = scorecard_of([other_suite(Main("x", "X", "%", higher_is_better=True, gains=gains))])
    assert card.tally(card.questions[0]) == "1 better, 0 worse of 2; 1 not testable"
