"""The analyses of the suite `sparsity`, on what its protocol finds in untrained networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.analysis import Verdict
from routebench.analysis.folder import open_folder
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.protocols.sparsity import Sparsity
from routebench.registry import analyses
from tests.analyses.measured import parts_of
from tests.built import built_once
from tests.protocols.test_sparsity import OPTIONS, Untrained


def runs_of(factory):
    """Two seeds of `dynamic`, and of the controls."""

    def measure(folder):
        made = plan(load_suite("sparsity"), "smoke", Choices(methods=(parse("dynamic"),), seeds=range(2)))
        parts_of(made, folder, lambda cell: Sparsity().measure(cell.request(), OPTIONS, Untrained()))

    parts = open_folder(built_once(factory, "sparsity", measure)).parts
    return next(part for part in parts if part.model == "capsnet-small")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of(tmp_path_factory)


def test_the_table_takes_coupling_at_the_iterations_trained_with(runs):
    table = analyses["sparsity-table"](runs).numbers.set_index("name")
    rows = runs.results.query("metric == 't_score' and layer == 'classes' and label == 'dynamic' and iterations == 3")
    own = rows[rows["test_iterations"] == 3]["value"].mean()
    assert table.loc["dynamic T=3", "t_score"] == pytest.approx(own)
    assert table.loc["uniform", "t_score"] == pytest.approx(0, abs=1e-6)  # and dynamic with T=1, which is the same
    assert np.isnan(table.loc["cnn", "t_score"])


def test_convergence_follows_methods_with_iterations_only(runs):
    table = analyses["convergence"](runs).numbers
    assert set(table["name"]) == {"dynamic T=1", "dynamic T=3"}
    assert table[table["test_iterations"] == 1]["residual"].isna().all()
    assert table[table["test_iterations"] > 1]["residual"].notna().all()


def test_capsules_of_networks_without_poses_are_left_out(runs):
    table = analyses["capsule-activity"](runs).numbers
    assert "cnn" not in set(table["name"])
    assert set(table["label"]) == {0, 1}
    dynamic = table[table["name"] == "dynamic T=3"]
    assert list(dynamic["score"]) == pytest.approx(list(dynamic["length"]), abs=1e-5)


def test_maps_of_coupling_are_drawn_but_where_all_are_the_same(runs):
    drawn = analyses["coupling-pictures"](runs)
    assert {"dynamic T=3", "uniform", "random"} <= set(drawn.numbers["name"]) and "cnn" not in set(
        drawn.numbers["name"]
    )
    titles = [axes.get_title(loc="left") for axes in drawn.figure.axes]
    assert any("Dynamic" in title for title in titles) and not any("Uniform" in title for title in titles)
    uniform = drawn.numbers[drawn.numbers["name"] == "uniform"]
    assert list(uniform["to_right"]) == pytest.approx([0.1] * len(uniform))
    cell = runs.planned.query("label == 'dynamic' and iterations == 3 and seed == 0")["cell"].iloc[0]
    maps = runs.arrays(cell)["coupling_maps"]
    dynamic = drawn.numbers[drawn.numbers["name"] == "dynamic T=3"]
    assert list(dynamic["to_other"]) == pytest.approx([float(one[1].mean()) for one in maps])


def test_distances_are_means_of_the_histograms(runs):
    table = analyses["vote-distances"](runs).numbers
    cell = runs.planned.query("label == 'dynamic' and iterations == 3 and seed == 0")["cell"].iloc[0]
    arrays = runs.arrays(cell)
    counts = sum(arrays["vote_distances"][2, image, label] for image, label in enumerate(arrays["vote_labels"]))
    edges = torch.linspace(0, float(arrays["vote_distances_edges"][-1]), 61)
    middle = ((edges[1:] + edges[:-1]) / 2).numpy()
    assert table["own"].iloc[2] == pytest.approx(float((counts * middle).sum() / counts.sum()), rel=1e-4)
    assert ((table["near"] > 0) & (table["near"] <= 1.001)).all()


def test_static_coupling_says_what_is_lost_and_by_whom(runs):
    table = analyses["static-coupling"](runs).numbers.set_index("name")
    rows = runs.results.query("metric == 'static_loss' and label == 'dynamic' and iterations == 3")
    assert table.loc["dynamic T=3", "lost"] == pytest.approx(rows["value"].mean())
    assert table.loc["uniform", "share_between"] == pytest.approx(0, abs=1e-9)
    assert "cnn" not in table.index

    def losing(value):
        results = runs.results.copy()
        changed = (results["metric"] == "static_loss") & (results["label"] == "dynamic") & (results["iterations"] == 3)
        results.loc[changed, "value"] = value + results.loc[changed, "seed"] / 10
        table = analyses["static-coupling"](replace(runs, results=results)).table
        return {str(row["method"]): row["lost"] for row in table.to_dict("records")}["Dynamic, T = 3"]

    assert losing(30.0).mean == pytest.approx(30.05) and losing(30.0).verdict == Verdict.BETTER
    assert losing(-30.0).verdict == Verdict.WORSE


def test_methods_whose_coupling_cannot_change_do_not_make_the_correction_stricter(runs):
    def p_of(loss_of_uniform):
        results = runs.results.copy()
        seeds = results["seed"]
        for label, base in (("dynamic", 2.0), ("uniform", loss_of_uniform)):
            own = (results["metric"] == "static_loss") & (results["label"] == label)
            results.loc[own, "value"] = base + (seeds[own] / 5 if base else 0)
        table = analyses["static-coupling"](replace(runs, results=results)).table
        return {str(row["method"]): row["lost"].p_holm for row in table.to_dict("records")}

    with_constant, with_another = p_of(0.0), p_of(1.0)
    assert math.isnan(with_constant["Uniform routing"])
    assert with_constant["Dynamic, T = 3"] < with_another["Dynamic, T = 3"] < 1
