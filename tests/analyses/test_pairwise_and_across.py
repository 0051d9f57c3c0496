"""Every pair of methods, and several data sets together: verdicts, holes, the page."""

import math
from dataclasses import replace

import numpy as np
import pytest

from analyses.accuracy_pairwise import detectable_in, pairs_of
from routebench import statistics
from routebench.analysis import ALPHA, Verdict, numbers
from routebench.analysis._data_sets import across_data
from routebench.analysis._result import reads, reads_across
from routebench.analysis._table import saved
from routebench.analysis.comparison import comparison_of, difference_between
from routebench.analysis.contenders import ALIKE
from routebench.analysis.figures import to_svg
from routebench.registry import analyses
from routebench.report import _page as page
from routebench.report import write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs
from tests.statistics.test_across_data import DEMSAR

FEW = {name: METHODS[name] for name in ("dynamic", "em", "uniform", "cnn")}


def on(data: str, **options):
    return replace(made_up_runs(**{"methods": FEW, "failures": False, **options}), data=data)


@pytest.mark.parametrize(
    ("p_value", "p_equal", "expected"),
    [
        (0.01, 0.9, Verdict.BETTER),
        (0.01, 0.01, Verdict.BETTER_BY_LITTLE),
        (0.9, 0.01, Verdict.EQUAL),
        (0.9, 0.9, Verdict.OPEN),
        (0.9, math.nan, Verdict.OPEN),
        (math.nan, 0.9, Verdict.UNTESTABLE),
    ],
)
def test_no_difference_shown_is_not_shown_to_be_equal(p_value: float, p_equal: float, expected: str) -> None:
    assert Verdict.of(1.0, p_value, p_equal) == expected


def test_pairs_are_the_comparisons_and_agree_with_its_ranks() -> None:
    runs = on("mnist5k", seeds=8)
    table, found = pairs_of(runs), saved(comparison_of(runs).table)
    assert len(table) == 8 * 7 / 2
    assert (numbers(table["difference"]) >= 0).all()
    known = comparison_of(runs).contenders
    for row in table.head(5).to_dict("records"):
        again = difference_between(runs, known[row["first"]], known[row["second"]])
        assert again.p == pytest.approx(row["difference"].p, nan_ok=True)
    together = statistics.holm([one.p for one in table["difference"]])
    best, gains = found.iloc[0]["name"], found.set_index("name")["gain_p_holm"]
    for row, strict in zip(table.to_dict("records"), together, strict=True):
        names = [row[side].exact for side in ("first", "second")]
        assert row["difference"].p_holm <= strict
        if "uniform" in names:
            (other,) = {*names} - {"uniform"}
            assert row["difference"].p_holm == pytest.approx(gains[other]), "the gain column has the same p"
    behind = [
        row["second"].exact
        for row, strict in zip(table.to_dict("records"), together, strict=True)
        if row["first"].exact == best and strict < ALPHA
    ]
    assert found["rank_high"].iloc[0] == len(found) - len(behind)
    assert {*behind} <= {*found[found["rank_low"] > 1]["name"]}


@pytest.mark.parametrize(
    ("seeds", "spread", "told"),
    [
        (4, 0.3, ["CNN (baseline)", "Uniform routing (baseline)", "better"]),
        (2, 9.0, ["Uniform routing (baseline)", "CNN (baseline)", "not told apart"]),
    ],
)
def test_one_pair_has_its_verdict(seeds, spread, told) -> None:
    methods = {"uniform": FEW["uniform"], "cnn": FEW["cnn"]}
    shown = analyses["accuracy-pairwise"](on("mnist5k", methods=methods, seeds=seeds, spread=spread)).shown()
    assert shown[["First", "Second", "Verdict"]].values.tolist() == [told]


def test_the_same_function_is_compared_once() -> None:
    methods = {name: FEW[name] for name in ("dynamic", "uniform", "cnn")}
    records = made_up_records(seeds=3, failures=False, methods=methods)
    steps = [record for record in records if (record["label"], record["identity"]["iterations"]) == ("dynamic", 1)]
    shares = [record for record in records if record["label"] == "uniform"]
    for one, same in zip(steps, shares, strict=True):
        one["metrics"] = same["metrics"]
    analysis = analyses["accuracy-pairwise"](made_up_runs(records))
    assert len(analysis.table) == 4 * 3 / 2  # of five methods
    saved = {*analysis.numbers["first"], *analysis.numbers["second"]}
    assert saved == {"dynamic T=2", "dynamic T=3", "uniform", "cnn"}
    shown = {*analysis.shown()["First"], *analysis.shown()["Second"]}
    assert "Uniform routing = Dynamic, T = 1 (baseline)" in shown


def test_a_pair_shown_to_be_equal_is_said_to_be() -> None:
    methods = {
        "dynamic": ([1], "method", "capsnet-small", [97.0]),
        "uniform": ([None], "control", "capsnet-small", [97.0]),
    }
    analysis = analyses["accuracy-pairwise"](on("mnist5k", seeds=10, spread=0.05, methods=methods))
    assert list(analysis.numbers["verdict"]) == [Verdict.EQUAL]
    assert list(analysis.shown()["Verdict"]) == ["equal within 0.5 points"]


def test_one_seed_is_compared_by_image_and_says_so() -> None:
    analysis = analyses["accuracy-pairwise"](on("mnist5k", seeds=1))
    assert set(analysis.numbers["difference_interval"]) == {statistics.OVER_SAMPLES}
    assert analysis.numbers["effect"].isna().all()
    assert any("McNemar" in note for note in analysis.notes)
    assert any(note.startswith("Smallest detectable difference: on the same test images") for note in analysis.notes)
    assert 0.3 < detectable_in(analysis.table) < 5


def test_one_seed_on_views_of_objects_says_so_too() -> None:
    runs = on("mnist5k", seeds=1)
    toys = replace(runs, data="rendered-shapes-small", correct=lambda cell: np.repeat(runs.correct(cell)[:25], 162))
    analysis = analyses["accuracy-pairwise"](toys)
    assert set(analysis.numbers["difference_interval"]) == {statistics.OVER_SAMPLES_ONLY}
    assert any("McNemar" in note for note in analysis.notes)
    assert any(note.startswith("One seed only: gains") for note in analyses["accuracy-table"](toys).notes)


def test_correcting_for_many_pairs_asks_for_more() -> None:
    table = pairs_of(on("mnist5k", seeds=3))
    assert detectable_in(table, len(table)) > 2 * detectable_in(table) > 0


@pytest.mark.parametrize(
    "options", [{"seeds": 1}, {"spread": 0.0}, {"failures": True}, {"methods": METHODS, "seeds": 2}]
)
def test_holes_are_no_error_and_nothing_is_random(options) -> None:
    one, two = (analyses["accuracy-pairwise"](on("mnist5k", **options)) for _ in range(2))
    assert one.shown().equals(two.shown())
    if one.figure is not None and two.figure is not None:  # there is none where nothing is told apart
        assert to_svg(one.figure) == to_svg(two.figure)
    assert not one.shown().isin(["None", "nan", "<NA>"]).any().any()


def test_nothing_measured_gives_nothing() -> None:
    records = made_up_records(seeds=1, methods=FEW)
    for record in records:
        record |= {"status": "oom", "reason": "out of memory", "metrics": []}
    assert analyses["accuracy-pairwise"](made_up_runs(records)) is None


def test_several_data_sets_are_ranked_together() -> None:
    parts = tuple(on(data, seeds=seeds) for data, seeds in (("a", 2), ("b", 3), ("c", 1)))
    analysis = analyses["accuracy-across-data"](parts)
    assert analysis.numbers["rank"].is_monotonic_increasing
    scores = [
        saved(comparison_of(part).table).set_index("name")["mean"][list(analysis.numbers["name"])] for part in parts
    ]
    assert list(analysis.numbers["rank"]) == pytest.approx(list(statistics.friedman(scores).ranks))
    assert any("it can tell nothing apart here" in note for note in analysis.notes)
    assert "<svg" in to_svg(analysis.figure)


def test_methods_missing_on_a_data_set_are_named_and_one_data_set_says_nothing() -> None:
    fewer = {name: FEW[name] for name in ("dynamic", "uniform")}
    analysis = analyses["accuracy-across-data"]((on("a"), on("b", methods=fewer)))
    assert set(analysis.numbers["name"]) == {"dynamic T=1", "dynamic T=2", "dynamic T=3", "uniform"}
    assert any("Left out" in note and "CNN" in note for note in analysis.notes)
    assert analyses["accuracy-across-data"]((on("a"),)) is None


def test_only_runs_that_differ_in_their_data_stand_together() -> None:
    a, b = on("a"), on("b")
    assert across_data([b, replace(a, preset="full"), a]) == [(a, b)]
    assert across_data([a]) == []
    names = ("take:500:a", "features:net@96:a", "take:50:features:net@96:a", "a", "few:10:a")
    parts = [replace(a, data=name) for name in names]
    assert across_data(parts) == [], "the test images are the same, or some of the same"
    assert across_data([*parts, b]) == [(parts[3], b)]
    one, copy = (replace(part, fingerprint="0123456789abcdef") for part in (a, b))
    assert across_data([one, copy]) == []
    features, other = replace(a, data="features:net@96:b", fingerprint="fedcba9876543210"), on("c")
    assert across_data([features, copy, one, other]) == [(copy, other)], "a copy's features are those of the set"
    across = analyses["accuracy-across-data"]
    assert (reads(across, "accuracy"), reads_across(across, "accuracy"), reads_across(across, "cost")) == (0, 1, 0)
    assert not reads_across(analyses["accuracy-table"], "accuracy")


def test_a_page_of_two_data_sets_has_a_part_for_both_and_of_one_has_none(tmp_path, monkeypatch) -> None:
    asked = {name: analyses[name] for name in ("accuracy-table", "accuracy-across-data")}
    monkeypatch.setattr(page, "analyses", asked)  # the others have pages of their own
    fewer = {name: FEW[name] for name in ("dynamic", "uniform")}
    records, others = (made_up_records(seeds=2, methods=fewer, failures=False) for _ in range(2))
    write_folder(tmp_path, records)
    alone = write_report(tmp_path).page.read_text(encoding="utf-8")
    for record in others:
        record["identity"] |= {"data": "other", "data_fingerprint": "fedcba9876543210"}
        record["cell"] = record["cell"][::-1]
    write_folder(tmp_path, others, time=1)
    text = write_report(tmp_path).page.read_text(encoding="utf-8")
    assert 'id="accuracy-quick-capsnet-small-across-data"' not in alone
    assert 'id="accuracy-quick-capsnet-small-across-data-accuracy-across-data"' in text
    assert 'href="#accuracy-quick-capsnet-small-across-data"' in text
    assert (tmp_path / "report-figures" / "accuracy-quick-across-data-capsnet-small-accuracy-across-data.svg").exists()


def test_two_data_sets_are_said_to_show_nothing() -> None:
    analysis = analyses["accuracy-across-data"]((on("a", seeds=2), on("b", seeds=2)))
    assert analysis.notes[0].startswith("Two data sets cannot show anything")
    three = analyses["accuracy-across-data"](tuple(on(data, seeds=2) for data in "abc"))
    assert "cannot show" not in "".join(three.notes)


def test_the_diagram_of_demsars_example_is_his() -> None:
    """JMLR 7, 2006, table 6 and figure 1a: AUC of four classifiers on 14 data sets."""
    names, parts = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"), []
    for number, scores in enumerate(DEMSAR):
        known = dict(zip(names, scores, strict=True))
        methods = {name: ([None], "method", "capsnet-small", [100 * score]) for name, score in known.items()}
        records = made_up_records(seeds=1, spread=0, failures=False, methods=methods)
        for record in records:  # to more digits than 1,000 test images give
            for metric in record["metrics"]:
                if metric["metric"] == "accuracy":
                    metric["value"] = 100 * known[record["label"]]
        parts.append(replace(made_up_runs(records), data=f"set-{number:02d}"))
    analysis = analyses["accuracy-across-data"](tuple(parts))
    ranks = analysis.numbers.set_index("name")["rank"]
    assert dict(ranks.round(3)) == {"C4.5+m+cf": 1.964, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert any("critical difference apart: 1.25 ranks" in note for note in analysis.notes)
    assert ">critical difference 1.25</text>" in to_svg(analysis.figure)


def test_seeds_that_all_differ_alike_are_tested_by_images_and_without_them_stay_in_the_family() -> None:
    kept = on("mnist5k", spread=0.0)
    by_images = [one for one in pairs_of(kept)["difference"] if one.mean != 0]
    assert by_images and {one.kind for one in by_images} == {ALIKE}
    assert all(one.low < one.mean < one.high and not math.isnan(one.p_holm) for one in by_images)
    rows = [row for row in pairs_of(kept).to_dict("records") if row["difference"].kind == ALIKE]
    small = min(rows, key=lambda row: abs(row["difference"].mean))
    assert 0 < small["p_equal"] < 1
    (note,) = (note for note in analyses["accuracy-pairwise"](kept).notes if "exactly the same amount" in note)
    assert note.startswith(f"In {len(by_images)} comparisons") and note.endswith("over test images.")
    runs = replace(kept, correct=lambda cell: None)
    table = pairs_of(runs)
    apart = [one.mean != 0 for one in table["difference"]]
    assert any(apart)
    assert set(table.loc[apart, "verdict"]) == {Verdict.UNTESTABLE}
    (note,) = (note for note in analyses["accuracy-pairwise"](runs).notes if "exactly the same amount" in note)
    assert note.startswith(f"In {sum(apart)} comparisons")
