"""A suite on two networks: every answer names the network it speaks of, both are told, and they are compared."""

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from routebench import statistics
from routebench.analysis import Verdict
from routebench.analysis.folder import open_folder
from routebench.commands import suite
from routebench.engine.running import Follower, prepare
from routebench.engine.running._cell import make_record
from routebench.options import SuiteOptions
from routebench.protocols.base import Measurement
from routebench.registry import analyses
from routebench.report import answers, between_networks, comparison_table, headline, write_report
from routebench.report._scorecard import scorecard_of
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

FEW = {name: METHODS[name] for name in ("none", "uniform", "cnn")}
TWO = {name: METHODS[name] for name in ("dynamic", "em")}
SMALL, LARGE = "capsnet-small", "capsnet"


def records_of(seeds=5, lead=1.0, methods=FEW):
    """The same methods on two networks, of which the second is better; the control cnn is one for both."""
    first = made_up_records(seeds=seeds, methods=methods, failures=False, preset="full")
    second = [record for record in made_up_records(seeds=seeds, methods=methods, failures=False, preset="full")
              if record["label"] != "cnn"]  # fmt: skip
    for record in second:
        record["cell"] = hashlib.sha256(record["cell"].encode()).hexdigest()[:16]
        record["identity"] |= {"model": LARGE}
        for metric in record["metrics"]:
            if metric["metric"] == "accuracy":
                metric["value"] += lead + 0.01 * record["identity"]["seed"]
    for record in (*first, *second):
        if record["label"] == "cnn":
            record["identity"] |= {"model": "cnn-small"}
    return [*first, *second]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("networks") / "results", records_of(), "full")


def test_every_answer_names_its_network_and_both_are_told(folder) -> None:
    found = answers(open_folder(folder))
    assert [one.network for one in found] == [SMALL, LARGE]
    assert all(len(one.table) == 3 for one in found)
    lines = headline(answers(open_folder(folder))).splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("On ")][:2] == [f"On {SMALL}", f"On {LARGE}"]
    table = comparison_table(answers(open_folder(folder)))
    assert [*table.columns[:2]] == ["Network", "Method"]
    assert [*table["Network"]] == [SMALL] * 3 + [LARGE] * 3


def test_one_network_is_told_as_before(tmp_path) -> None:
    records = made_up_records(methods=FEW, failures=False, preset="full")
    path = write_folder(tmp_path / "results", records, "full")
    (only,) = answers(open_folder(path))
    assert only.network == ""
    assert comparison_table([only]).columns[0] == "Method"
    assert not headline([only]).startswith("On ")
    assert between_networks([only]) is None
    assert analyses["between-networks"](open_folder(path).parts) is None


def test_a_plan_on_one_network_does_not_speak_of_older_ones(folder, tmp_path) -> None:
    path = write_folder(tmp_path / "results", [r for r in records_of() if r["identity"]["model"] != LARGE], "full")
    write_folder(path, [r for r in records_of() if r["identity"]["model"] == LARGE], "full", time=1)
    assert [one.runs.model for one in answers(open_folder(path))] == [LARGE]


def test_networks_are_compared_by_method_paired_by_seed(folder) -> None:
    found = analyses["between-networks"](open_folder(folder).parts)
    assert [method.name for method in found.table["method"]] == ["none", "uniform"]  # the CNN is one for both
    row = found.table.iloc[0]
    assert (row["network"], row["against"]) == (LARGE, SMALL)
    values = {
        model: {r["identity"]["seed"]: next(m["value"] for m in r["metrics"] if m["metric"] == "accuracy")
                for r in records_of() if r["label"] == "none" and r["identity"]["model"] == model}
        for model in (SMALL, LARGE)
    }  # fmt: skip
    expected = statistics.paired_difference(values[LARGE], values[SMALL])
    assert (row["difference"].mean, row["difference"].p) == pytest.approx((expected.mean, expected.p_value))
    assert row["difference"].p_holm == pytest.approx(2 * expected.p_value, rel=1e-6)
    assert {one.verdict for one in found.table["difference"]} == {Verdict.BETTER}
    assert between_networks(answers(open_folder(folder))).shown().equals(found.shown())


def test_a_network_that_lost_seeds_is_not_the_better_one() -> None:
    parts = []
    for number, model in enumerate((SMALL, LARGE)):
        own = [r for r in records_of() if r["identity"]["model"] == model]
        for record in own if number else ():
            if record["identity"]["seed"] == 4:
                record |= {"status": "diverged", "reason": "no", "metrics": []}
        parts.append(replace(made_up_runs(own, preset="full"), model=model))
    found = analyses["between-networks"](tuple(parts))
    assert {one.verdict for one in found.table["difference"]} == {Verdict.UNTESTABLE}


def test_a_page_speaks_of_both_networks_and_compares_them(folder, tmp_path) -> None:
    page = write_report(folder, tmp_path / "report.html").page.read_text()
    title = page.partition("<h1")[2].partition("</h1>")[0]
    assert f"On {SMALL}: " in title.replace("&#8209;", "-").replace("\N{NON-BREAKING HYPHEN}", "-")
    assert "Between networks" in page


def test_the_terminal_tells_both_networks_and_compares_them(tmp_path) -> None:
    methods = {**FEW, "dynamic": ([3], "method", SMALL, [96.0])}
    path = write_folder(tmp_path / "results", records_of(methods=methods))
    (planned,) = prepare(SuiteOptions("accuracy", models=(SMALL, LARGE), methods=("dynamic",), results=path))
    console = Console(width=300, record=True)
    suite._show_results(console, planned, open_folder(planned.store.path))
    lines = [line.strip() for line in console.export_text().splitlines()]
    for model in (SMALL, LARGE):
        assert f"On {model}:" in lines
        assert any(line.startswith(f"on {model}: Dynamic, T = 3: ") for line in lines)
    assert "The same methods between networks:" in lines
    compared = lines[lines.index("The same methods between networks:") :]
    assert any(line.startswith("Dynamic, T = 3") and SMALL in line and LARGE in line for line in compared)


def test_progress_names_the_network(tmp_path) -> None:
    options = SuiteOptions("accuracy", preset="smoke", methods=("dynamic",), models=(SMALL, LARGE), results=tmp_path)
    (planned,) = prepare(options)
    cells = [cell for cell in planned.queue.left if cell.label == "dynamic"]
    assert {cell.identity.model for cell in cells} == {SMALL, LARGE}
    assert len({*map(str, cells)}) == len(cells)
    told = Follower(planned).finished(
        cells[0], make_record(cells[0], "failed", "no", Measurement([]), {"seconds": 1.0})
    )
    assert f" on {cells[0].identity.model}, seed 0: failed" in str(told)


@pytest.mark.parametrize("name", ["iteration-matrix", "training-curves"])
def test_a_method_in_two_networks_of_one_part_is_not_averaged_over_them(name) -> None:
    small, large = ([record for record in records_of(lead=20.0, methods=TWO) if record["identity"]["model"] == model]
                    for model in (SMALL, LARGE))  # fmt: skip
    both, *alone = (analyses[name](made_up_runs(records)).table for records in ([*small, *large], small, large))
    values = "accuracy" if "accuracy" in both else "mean"
    assert sorted(both[values]) == sorted(pd.concat(alone)[values])
    assert both["label"].nunique() == 2 * alone[0]["label"].nunique()


def test_a_method_in_two_networks_of_one_part_has_two_rows_on_the_first_screen_and_two_pictures() -> None:
    methods = {"dynamic": METHODS["dynamic"], "uniform": METHODS["uniform"]}
    runs = made_up_runs(records_of(lead=-20.0, methods=methods), preset="full")
    card = scorecard_of([("a", runs, analyses["accuracy-table"](runs))])
    values = {row.method.exact: row.marks[0].value for row in card.rows if row.marks[0]}
    assert {*values} == {f"dynamic ({model}) T={steps}" for model in (SMALL, LARGE) for steps in (1, 2, 3)} | {
        f"uniform ({model})" for model in (SMALL, LARGE)
    }
    assert all((float(value.split()[0]) < 90) is (f"({LARGE})" in name) for name, value in values.items())
    kept = replace(runs, arrays=lambda cell: {"poses": np.zeros(1)})
    assert {(one.model, one.iterations) for one in kept.examples("poses", iterative=True)} == {(SMALL, 3), (LARGE, 3)}
