"""The block of numbers in a page is what `load_results` gives, and what the page computes from it is right."""

import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas import DataFrame

from routebench import load_results, statistics
from routebench.analysis.families import settled
from routebench.analysis.folder import open_folder
from routebench.report._values import CODES, LEFT_OUT, decode, encode, pairs_of, values_of
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records

REPORTS = Path(__file__).parents[2] / "reports"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    write_folder(path, made_up_records(seeds=1, preset="smoke", failures=False), "smoke", time=1)
    return write_folder(path, made_up_records(), "quick", time=2)


def test_the_block_holds_every_value_of_the_folder(path) -> None:
    rows, _ = decode(values_of(open_folder(path)).block)
    results = load_results(path).dropna(subset="value")
    assert len(rows) == len(results)
    keys = ["cell", "metric", "split", "test_iterations", "epoch"]
    ours, theirs = (
        table.astype(object).where(table.notna(), None).set_index(keys).sort_index(key=lambda index: index.map(str))
        for table in (rows, results)
    )
    for column in ("value", "label", "role", "iterations", "seed", "unit", "higher_is_better", "model", "data"):
        assert list(ours[column]) == list(theirs.loc[ours.index, column]), column
    assert set(rows["preset"]) == {"smoke", "quick"}
    assert not LEFT_OUT & set(rows) - {"value"}


def test_what_two_presets_share_is_there_for_each(tmp_path) -> None:
    records = made_up_records(seeds=1, methods={"none": METHODS["none"]}, failures=False)
    for number, preset in enumerate(("quick", "full")):
        write_folder(tmp_path, records, preset, time=number)
    rows = values_of(open_folder(tmp_path)).rows
    assert rows.groupby("preset").size().to_dict() == dict.fromkeys(("quick", "full"), len(records[0]["metrics"]))


def test_presets_come_the_strongest_first(path, tmp_path) -> None:
    assert decode(values_of(open_folder(path)).block)[1]["presets"] == ["quick", "smoke"]
    for preset in ("full", "mine", "quick", "smoke"):
        write_folder(tmp_path, made_up_records(seeds=1, preset=preset, failures=False), preset)
    assert decode(values_of(open_folder(tmp_path)).block)[1]["presets"] == ["full", "mine", "quick", "smoke"]


def test_measures_have_their_declared_titles(path) -> None:
    rows, facts = decode(values_of(open_folder(path)).block)
    assert facts["titles"].keys() == {*rows["metric"]}
    assert facts["titles"]["train_loss"] == "Training loss"
    assert facts["main"][0] == "accuracy"


def test_methods_and_suites_have_the_names_of_the_page(path) -> None:
    _, facts = decode(values_of(open_folder(path)).block)
    assert facts["suite"] == "accuracy"
    assert facts["names"]["suite"] == {"accuracy": "Accuracy"}
    assert facts["names"]["label"]["inverted-attention"] == "Inverted attention"
    published = open_folder(REPORTS / "papers-quick")
    assert decode(values_of(published).block)[1]["names"]["suite"]["hinton-votes"] == "Hinton et al. 2018: Votes"


def test_trials_come_last_as_on_the_page() -> None:
    presets = decode(values_of(open_folder(REPORTS / "routers")).block)[1]["presets"]
    assert presets == ["full", "quick", "full-trials", "quick-trials"]


def test_the_page_has_the_block_and_nothing_in_it_ends_it(written, text: str) -> None:
    (block,) = re.findall(r'<script type="application/octet-stream" id="values">(.*?)</script>', text, flags=re.DOTALL)
    assert block == values_of(written[0]).block
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", block)


@pytest.mark.parametrize("kinds", [3, 300, 70_000])
def test_columns_of_any_number_of_kinds_come_back(kinds) -> None:
    number = np.arange(kinds + 5) % kinds
    rows = DataFrame({"few": ["a", "b"] * (len(number) // 2) + ["a"] * (len(number) % 2), "many": number})
    rows["missing"] = pd.Series(number, dtype="Int64").where(number % 2 == 0)
    rows["value"] = number / 7
    found, facts = decode(encode(rows, {"t": [1.5]}))
    assert facts == {"t": [1.5]}
    assert list(found["few"]) == list(rows["few"])
    assert list(found["many"]) == list(rows["many"])
    assert list(found["missing"]) == [None if pd.isna(entry) else entry for entry in rows["missing"]]
    assert (found["value"] == rows["value"]).all()


def test_means_and_their_intervals_are_those_of_our_statistics(path) -> None:
    rows, facts = decode(values_of(open_folder(path)).block)
    assert rows["group"].nunique() == len(facts["mean"]) == len(facts["n"])
    for group, own in list(rows.groupby("group"))[::7]:
        whole = 100 if own["unit"].iloc[0] == "%" else None
        found = statistics.mean_interval(own.sort_values("seed")["value"].to_numpy(dtype=float), whole=whole)
        shown = [facts[key][int(group)] for key in ("mean", "low", "high")]
        assert shown == pytest.approx([found.mean, found.low, found.high], rel=1e-6, nan_ok=True)
        assert facts["n"][int(group)] == found.n


def as_shown(facts, place, ours, theirs):
    """The mean difference of a pair, half its interval, and the number of its seeds, as the page reads its data."""
    known = dict(zip(facts["uneven"], zip(facts["apart"], facts["shared"], strict=True), strict=True))
    mean, n = known.get(place, (facts["mean"][ours] - facts["mean"][theirs], facts["n"][ours]))
    return float(mean), float(facts["margins"][place]), int(n)


def worse_with(seeds, records):
    """The records; whatever runs with these seeds is 3 points worse, so that who lost them has a better mean."""
    for record in records:
        if record["identity"]["seed"] in seeds and record["metrics"]:
            record["correct"] = record["correct"] & (np.cumsum(record["correct"]) > 30)
            trained = (None, record["identity"]["iterations"])
            of = [metric for metric in record["metrics"] if (metric["metric"], metric["split"]) == ("accuracy", "test")]
            (one,) = (metric for metric in of if metric["epoch"] is None and metric["test_iterations"] in trained)
            one["value"] = 100 * float(record["correct"].mean())
    return records


@pytest.mark.parametrize("seeds", [3, 6])
def test_every_two_runs_have_their_paired_difference_over_the_seeds_that_both_have(tmp_path, seeds) -> None:
    records = worse_with({1, seeds - 1}, made_up_records(seeds=seeds))
    rows, facts = decode(values_of(open_folder(write_folder(tmp_path, records))).block)
    by_seed = {group: dict(zip(own["seed"], own["value"], strict=True)) for group, own in rows.groupby("group")}
    pairs = [pair for groups in facts["pairs"] for pair in combinations(groups, 2)]
    assert len(pairs) == len(facts["margins"]) > 50
    assert 0 < len(facts["uneven"]) < len(pairs)
    untestable = 0
    for place, (one, other) in enumerate(pairs):
        found = statistics.paired_difference(by_seed[one], by_seed[other])
        mean, margin, n = as_shown(facts, place, one, other)
        assert (mean, n) == (pytest.approx(found.mean, rel=1e-5, abs=1e-4), found.n)
        if found.kind == statistics.CONSTANT and found.mean != 0 and margin > 0:
            continue  # an accuracy, whose interval is over test images
        if math.isnan(margin) and found.n > 1:
            assert facts["verdicts"][place] == 4
            untestable += 1
            continue
        expected = (found.high - found.low) / 2
        assert margin == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)
    assert untestable == 0 if seeds == 3 else untestable > 0


def test_accuracies_differ_as_in_the_table_of_pairs(tmp_path) -> None:
    records = worse_with({1, 5}, made_up_records(seeds=6))  # EM with T = 3 has no result with these
    folder = open_folder(write_folder(tmp_path, records))
    rows, facts = decode(values_of(folder).block)
    (runs,) = folder.parts
    methods = {(one.label, one.iterations): one for one in runs.methods.values()}
    first = rows.drop_duplicates("group").set_index("group")
    seen = 0
    for place, pair in enumerate(pair for groups in facts["pairs"] for pair in combinations(groups, 2)):
        of = first.loc[list(pair)]
        if (of["metric"] == "accuracy").all() and (of["split"] == "test").all():
            one, other = (methods[label, steps] for label, steps in zip(of["label"], of["iterations"], strict=True))
            gap = settled(runs).difference(one, other)
            mean, margin, n = as_shown(facts, place, *pair)
            assert (mean, n) == (pytest.approx(gap.mean, abs=1e-4), gap.n)
            assert facts["verdicts"][place] == CODES[gap.verdict]
            assert margin == pytest.approx(gap.half_width, rel=1e-4, nan_ok=True)
            seen += {one.exact, other.exact} == {"em T=3", "uniform"}
    assert seen == 1


@pytest.mark.parametrize("where", [{"part": "ones"}, {"part": 1}, {"objects": 2, "part": "ones"}])
def test_accuracies_of_some_images_have_differences_of_their_own(tmp_path, where) -> None:
    """Not those of all test images, which the tables have."""
    records = made_up_records(seeds=5, failures=False)
    for number, record in enumerate(records):
        known = {"metric": "accuracy", "split": "test", "unit": "%", "higher_is_better": True, "epoch": None}
        value = 50.0 + 20 * (record["label"] == "em") + number * 7 % 5
        steps = record["identity"]["iterations"]
        record["metrics"].append({**known, "value": value, "test_iterations": steps, "where": where})
    rows, facts = decode(values_of(open_folder(write_folder(tmp_path, records))).block)
    by_seed = {group: dict(zip(own["seed"], own["value"], strict=True)) for group, own in rows.groupby("group")}
    of_some, seen = {*rows.loc[rows["part"].notna(), "group"]}, 0
    for place, pair in enumerate(pair for groups in facts["pairs"] for pair in combinations(groups, 2)):
        if of_some.isdisjoint(pair):
            continue
        found = statistics.paired_difference(*(by_seed[group] for group in pair))
        mean, margin, n = as_shown(facts, place, *pair)
        assert (mean, n, facts["verdicts"][place]) == (pytest.approx(found.mean, abs=1e-4), found.n, 0)
        assert margin == pytest.approx((found.high - found.low) / 2, rel=1e-4, abs=1e-4)
        seen += 1
    assert seen == 13 * 12 / 2


@pytest.mark.parametrize("better", [True, False])
def test_nothing_speaks_for_the_side_that_lost_seeds(tmp_path, better) -> None:
    """Seeds that a plan never had are no loss."""
    few = {name: METHODS[name] for name in ("none", "uniform")}
    records = made_up_records(seeds=6, methods=few, failures=False)
    for record in records:
        name, seed = record["identity"]["method"], record["identity"]["seed"]
        gain = (name == "none") * (1 if better else -1)
        record["metrics"] = [
            {"metric": "mine", "split": "test", "value": gain + seed**2 / 100 * (name == "none"), "unit": "",
             "higher_is_better": True, "test_iterations": None, "epoch": None}
        ]  # fmt: skip
        if (name, seed) == ("none", 2):
            record |= {"status": "diverged", "reason": "the loss was not finite", "metrics": []}
    records = [record for record in records if record["identity"]["seed"] < 5 or record["identity"]["method"] == "none"]
    rows, facts = decode(values_of(open_folder(write_folder(tmp_path, records))).block)
    ((one, other),) = facts["pairs"]
    assert {facts["n"][one], facts["n"][other]} == {5}  # one lost seed 2, the other has no seed 5
    mean, margin, n = as_shown(facts, 0, one, other)
    assert n == 4
    assert (mean > 0) == (better == (rows.loc[rows["group"] == one, "label"].iloc[0] == "none"))
    assert (math.isnan(margin), facts["verdicts"][0]) == ((True, 4) if better else (False, 0))


@pytest.mark.parametrize(
    "made",
    [
        {"device": "cuda"},
        {"commit": "0" * 40},
        {"dirty": True},
        {"seconds": 1.5},
        {"role": "method"},
        {"suite_version": 2},
    ],
    ids=str,
)
def test_seeds_of_one_configuration_are_one_estimate_however_they_were_made(tmp_path, made) -> None:
    few = {name: METHODS[name] for name in ("dynamic", "uniform")}
    records = made_up_records(seeds=6, methods=few, failures=False)
    for record in records:
        if record["identity"]["seed"] >= 3:
            for name, value in made.items():
                (record["identity"] if name in record["identity"] else record["provenance"])[name] = value
    rows, facts = decode(values_of(open_folder(write_folder(tmp_path, records))).block)
    assert set(facts["n"]) == {6}
    assert rows.groupby("label")["role"].nunique().max() == 1


def test_runs_of_methods_without_iterations_alone_are_compared() -> None:
    rows = pd.DataFrame({"metric": "gathered", "group": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "value": [1.0, 2, 3, 5]})
    rows["test_iterations"] = pd.array([None] * 4, "Int64")
    pairs = pairs_of(rows)
    found = statistics.paired_difference({0: 1.0, 1: 2.0}, {0: 3.0, 1: 5.0})
    assert (pairs.groups, list(pairs.n)) == ([[0, 1]], [2])
    assert [*pairs.means, *pairs.margins] == pytest.approx([found.mean, found.half_width])
    assert pairs_of(rows.assign(test_iterations=pd.array([1] * 4, "Int64"))).groups == []


def test_every_method_has_the_colour_of_its_figures(path) -> None:
    folder = open_folder(path)
    _, facts = decode(values_of(folder).block)
    for label, colour in folder.parts[0].colours.items():
        assert facts["paper"][facts["colours"][label]] == colour


def test_a_folder_without_a_value_has_an_empty_block(tmp_path) -> None:
    records = made_up_records(seeds=1)
    for record in records:
        record |= {"status": "not run", "metrics": []}
    rows, _ = decode(values_of(open_folder(write_folder(tmp_path, records))).block)
    assert rows.empty
