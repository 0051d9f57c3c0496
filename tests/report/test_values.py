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
from routebench.analysis.folder import open_folder
from routebench.report._values import LEFT_OUT, decode, encode, pairs_of, values_of
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
    presets = decode(values_of(open_folder(REPORTS / "routers-quick")).block)[1]["presets"]
    assert presets == ["quick", "quick-trials"]


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


def test_every_two_runs_have_the_interval_of_their_paired_difference(path) -> None:
    rows, facts = decode(values_of(open_folder(path)).block)
    by_seed = {group: dict(zip(own["seed"], own["value"], strict=True)) for group, own in rows.groupby("group")}
    pairs = [pair for groups in facts["pairs"] for pair in combinations(groups, 2)]
    assert len(pairs) == len(facts["margins"]) > 50
    for (one, other), margin in zip(pairs, facts["margins"], strict=True):
        found = statistics.paired_difference(by_seed[one], by_seed[other])
        expected = (found.high - found.low) / 2 if set(by_seed[one]) == set(by_seed[other]) else math.nan
        if found.kind == statistics.CONSTANT and found.mean != 0 and margin > 0:
            continue  # an accuracy, whose interval is over test images
        assert margin == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)


def test_runs_of_methods_without_iterations_alone_are_compared() -> None:
    rows = pd.DataFrame({"metric": "gathered", "group": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "value": [1.0, 2, 3, 5]})
    rows["test_iterations"] = pd.array([None] * 4, "Int64")
    pairs, margins = pairs_of(rows)
    found = statistics.paired_difference({0: 1.0, 1: 2.0}, {0: 3.0, 1: 5.0})
    assert (pairs, list(margins)) == ([[0, 1]], pytest.approx([(found.high - found.low) / 2]))
    assert pairs_of(rows.assign(test_iterations=pd.array([1] * 4, "Int64"))) == ([], pytest.approx([]))


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
