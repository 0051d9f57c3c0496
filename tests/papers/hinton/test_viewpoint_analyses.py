"""Matching at equal accuracy against a plain computation, and the analyses of the suite `viewpoint`."""

from dataclasses import replace

import numpy as np
import pytest

from routebench import statistics
from routebench.analysis.published_numbers import answers
from routebench.analysis.viewpoints import ABOVE, BELOW, BETWEEN, match, matched_to_reference, summary
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.protocols.base import Measurement, Metric
from routebench.published import load_published
from routebench.registry import analyses
from tests.analyses.measured import parts_of

NAMES = ("viewpoint-table", "viewpoint-curves", "viewpoint-paths")
SEEDS = 3

# label and T: held-out, familiar and novel accuracy after each epoch, in %
CURVES = {
    ("cnn", None): ([50, 85, 90], [55, 84, 88], [40, 62, 70]),
    ("dynamic", 3): ([60, 90.5, 97], [70, 88.6, 96], [50, 76, 74]),  # matched at epoch 2 by both
    ("dynamic", 1): ([30, 40, 46], [35, 44, 48], [20, 30, 33]),  # never as good, not even as cnn at first
    ("uniform", None): ([93, 95, 97], [90, 95, 96], [60, 66, 79]),  # always better
    ("none", None): ([50, 89.2, 90.9], [70, 80, 95], [50, 66, 79]),  # held out: 2; familiar: passes by
}


def measurement(label, iterations, seed):
    """The curves, every seed a little lower; cnn's are the same for all seeds."""
    drop = 0.0 if label == "cnn" else 0.1 * seed
    held_out, familiar, novel = (np.array(curve) - drop for curve in CURVES[label, iterations])
    metrics = [Metric("accuracy", "test", float(novel[-1]), "%", True, test_iterations=iterations)]
    for epoch in range(3):
        for name, curve in (("held_out", held_out), ("familiar", familiar), ("novel", novel)):
            metrics.append(Metric(f"{name}_accuracy", "test", float(curve[epoch]), "%", True, epoch=epoch + 1))
    for azimuth in range(0, 360, 20):
        kind = "familiar" if azimuth <= 40 or azimuth >= 300 else "novel"
        shown = (familiar if kind == "familiar" else novel)[-1] - abs(azimuth - 180) / 90
        where = {"axis": "azimuth", "degrees": azimuth, "viewpoints": kind}
        metrics.append(Metric("accuracy_by_view", "test", float(shown), "%", True, where=where))
    where = {"axis": "elevation", "degrees": 30, "viewpoints": "both"}
    metrics.append(Metric("accuracy_by_view", "test", 80.0, "%", True, where=where))
    return Measurement(metrics)


def folder(path, seeds=SEEDS, without=(), data="rendered-shapes-small-azimuth"):
    chosen = Choices(methods=(parse("dynamic"), parse("none")), seeds=range(seeds), data=data)
    made = plan(load_suite("viewpoint"), "quick", chosen)

    def measured(cell):
        known = (cell.label, cell.identity.iterations)
        return measurement(*known, cell.identity.seed) if known in CURVES and cell.label not in without else None

    (only,) = parts_of(made, path, measured)
    return only


def named(table):
    return table.assign(name=[method.exact for method in table["method"]])


@pytest.fixture(scope="module")
def small_data():
    """Planning asks for the fingerprint of the data, which would have to be rendered."""
    from routebench.data import load
    from routebench.engine.suites import _points

    patch = pytest.MonkeyPatch()
    patch.setattr(_points, "_usable", lambda suite, preset: (preset, load("mnist5k")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def runs(tmp_path_factory, small_data):
    return folder(tmp_path_factory.mktemp("viewpoint"))


@pytest.mark.parametrize(
    ("accuracies", "target", "epoch", "gap", "reason"),
    [
        ([50, 80, 90, 91], 90.4, 3, -0.4, ""),
        ([50, 90, 80, 90], 90, 2, 0, ""),  # the first of several
        ([50, 80, 85], 90, None, -5, BELOW),
        ([95, 93, 96], 90, None, 3, ABOVE),
        ([50, 80, 93], 90, None, 3, BETWEEN),
    ],
)
def test_matching_is_by_the_nearest_epoch(accuracies, target, epoch, gap, reason):
    found = match(accuracies, target)
    assert (found.epoch, found.reason) == (epoch, reason)
    assert found.gap == pytest.approx(gap)


@pytest.mark.parametrize(
    ("number", "method", "network", "error"),
    [
        ("HIN-020", "cnn", "cnn-small", 30.0),
        ("HIN-021", "dynamic", "capsnet-small", 24.1),
        ("HIN-023", "dynamic", "capsnet-small", 11.5),
    ],
)
def test_published_errors_are_answered_at_the_matched_epoch(runs, number, method, network, error):
    row = load_published().set_index("id", drop=False).loc[number].to_dict()
    at = replace(runs, data="smallnorb-azimuth", suite="hinton-viewpoint", preset="full")
    (answer,) = answers({**row, "method": method, "model": network}, [at])
    assert answer.mean.mean == pytest.approx(error)
    assert answer.same


def test_a_wider_tolerance_matches_more():
    assert match([50, 80, 93], 90).epoch is None
    assert match([50, 80, 93], 90, tolerance=3).epoch == 3


def test_matched_errors_are_those_of_the_matched_epoch(runs):
    rows = named(matched_to_reference(runs)).set_index(["name", "seed", "matching"])
    row = rows.loc[("dynamic T=3", 2, "held_out")]
    assert (row["epoch"], row["gap"]) == (2, pytest.approx(0.3))
    assert (row["novel"], row["familiar"]) == (pytest.approx(24.2), pytest.approx(11.6))
    assert (row["their_novel"], row["their_familiar"]) == (30, 12)
    assert rows.loc[("dynamic T=3", 0, "last"), "novel"] == pytest.approx(26)
    assert rows.loc[("none", 0, "held_out"), "epoch"] == 2  # 0.8 below, which is nearer than 0.9 above
    assert rows.loc[("none", 0, "familiar"), "reason"] == BETWEEN
    assert rows.loc[("cnn", 1, "familiar"), "epoch"] == 3


def test_the_reduction_is_the_mean_over_seeds_paired_with_the_cnn(runs):
    table = named(summary(runs)).set_index("name")
    reductions = [100 * (1 - (24 + 0.1 * seed) / 30) for seed in range(SEEDS)]
    reduction = table.loc["dynamic T=3", "familiar_reduction"]
    assert reduction.mean == pytest.approx(np.mean(reductions))
    half = 4.302653 * np.std(reductions, ddof=1) / np.sqrt(SEEDS)
    assert reduction.high == pytest.approx(np.mean(reductions) + half, rel=1e-5)
    held_out = table.loc["dynamic T=3", "held_out_reduction"]
    assert held_out.p < held_out.p_holm < 0.05
    assert table.index[0] == "dynamic T=3"
    assert not table.loc["cnn", "held_out_reduction"].known


def test_gains_over_seeds_that_were_added_have_the_interval_of_two_stages(tmp_path, small_data, monkeypatch):
    own = ([60, 85, 90.2], [70, 80, 95], [50, 66, 79])
    monkeypatch.setitem(CURVES, ("uniform", None), own)
    runs = folder(tmp_path, seeds=4)
    for primary, kind in (({}, statistics.OVER_SEEDS), ({"first": 2}, statistics.OVER_SEEDS_TWO_STAGES)):
        wobbly = runs.results.assign(
            value=runs.results["value"] + [0.01 * (7 * n % 5) for n in range(len(runs.results))]
        )
        found = analyses["viewpoint-table"](replace(runs, primary=primary, results=wobbly))
        assert {gain.kind for gain in found.main.gains.values() if gain.n == 4} == {kind}
        assert {one.kind for one in found.table["held_out_reduction"] if one.n == 4} == {kind}


@pytest.mark.parametrize(
    ("held_out", "matched", "is_tested"),
    [([60, 90.9, 97], 3, True), ([60, 70, 80], 2, False), ([95, 96, 97], 2, True), ([60, 70, 97], 2, True)],
    ids=["matched", "never as good", "better from the start", "passing by"],
)
def test_a_gain_for_a_method_that_was_never_as_good_with_some_seeds_is_not_tested(
    tmp_path, small_data, monkeypatch, held_out, matched, is_tested
):
    """Those that are left may be its good ones."""
    monkeypatch.setitem(CURVES, ("uniform", None), ([60, 85, 90.2], [70, 80, 95], [50, 66, 70]))
    runs = folder(tmp_path)
    wobbly = runs.results["value"] + [0.01 * (7 * n % 5) for n in range(len(runs.results))]
    runs = replace(runs, results=runs.results.assign(value=wobbly))
    cells = [cell for cell, method in runs.methods.items() if method.exact == "dynamic T=3"]
    found = runs.results
    own = (found["metric"] == "held_out_accuracy") & found["cell"].isin(cells) & (found["seed"] == 2)
    runs.results.loc[own, "value"] = held_out
    found = analyses["viewpoint-table"](runs)
    known = {method.exact: gain for method, gain in found.main.gains.items()}["dynamic T=3"]
    assert (known.n, known.mean < 0, bool(np.isfinite(known.p))) == (matched, True, is_tested)
    reduced = named(found.table).set_index("name").loc["dynamic T=3", "held_out_reduction"]
    assert (reduced.n, bool(np.isfinite(reduced.p)), bool(np.isfinite(reduced.low))) == (matched, is_tested, is_tested)


def test_who_could_not_be_matched_is_told_and_has_no_number(runs):
    table = analyses["viewpoint-table"](runs).shown().set_index("Method")
    below, above = table.loc["Dynamic, T = 1"], table.loc["Uniform routing (baseline)"]
    assert below["Not matched"] == (
        "held-out match: 3 seeds never as good (44.0 to 44.2 points); "
        "test match: 3 seeds never as good (40.0 to 40.2 points)"
    )
    assert "held-out match: 3 seeds better from the start (2.8 to 3.0 points)" in above["Not matched"]
    assert below["Novel error, %, held-out match"] == above["Novel error, %, test match"] == "–"
    assert below["Novel error, %, last epoch"].startswith("67.1")
    assert table.loc["Dynamic, T = 3", "Not matched"] == "–"


def test_a_seed_without_a_match_is_left_out_of_the_mean_and_counted(tmp_path, small_data, monkeypatch):
    monkeypatch.setitem(CURVES, ("dynamic", 3), ([60, 90.9, 97], [70, 87.06, 96], [50, 76, 74]))
    table = named(summary(folder(tmp_path))).set_index("name")
    assert table.loc["dynamic T=3", "familiar_novel"].n == 1  # 0.94 below; 1.04 and 1.14 with the other seeds
    assert table.loc["dynamic T=3", "familiar_novel"].mean == pytest.approx(24)
    assert table.loc["dynamic T=3", "familiar_unmatched"] == "2 seeds passing between two epochs (1.0 to 1.1 points)"
    assert table.loc["dynamic T=3", "held_out_novel"].n == 3


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("metric", ["held_out_accuracy", "familiar_accuracy", "novel_accuracy", ".*"])
def test_a_seed_without_one_of_the_values_is_left_out_and_all_else_stays(runs, metric, epoch):
    known = runs.results
    lost = known["metric"].str.fullmatch(metric) & (known["epoch"] == epoch) & (known["seed"] == 1)
    lost &= known["label"] == "dynamic"
    some = replace(runs, results=known.assign(value=known["value"].mask(lost)))
    kept = named(matched_to_reference(runs))
    kept = kept[~(kept["name"].str.startswith("dynamic") & (kept["seed"] == 1))]
    left = named(matched_to_reference(some))
    assert left.drop(columns="method").equals(kept.drop(columns="method").reset_index(drop=True))
    assert all(format(one, ".1") for one in summary(some)["held_out_novel"])


def test_a_network_that_is_never_as_good_is_compared_with_an_earlier_cnn(tmp_path, small_data, monkeypatch):
    monkeypatch.setitem(CURVES, ("dynamic", 1), ([60, 80, 85.6], [70, 80, 84.7], [50, 66, 73]))
    rows = named(matched_to_reference(folder(tmp_path))).set_index(["name", "seed", "matching"])
    row = rows.loc[("dynamic T=1", 0, "held_out")]
    assert (row["epoch"], row["their_epoch"], row["gap"], row["reason"]) == (3, 2, pytest.approx(0.6), "")
    assert (row["novel"], row["their_novel"]) == (pytest.approx(27), pytest.approx(38))
    assert rows.loc[("dynamic T=1", 0, "familiar"), "gap"] == pytest.approx(0.7)
    assert rows.loc[("dynamic T=3", 0, "held_out"), "their_epoch"] == 3
    table = named(summary(folder(tmp_path))).set_index("name")
    assert table.loc["dynamic T=1", "held_out_reduction"].mean == pytest.approx(np.mean([1100, 1090, 1080]) / 38)


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_and_a_missing_cnn_are_shown_as_they_are(tmp_path, small_data, name):
    one = analyses[name](folder(tmp_path / "one", seeds=1))
    alone = analyses[name](folder(tmp_path / "alone", without=("cnn",)))
    if name == "viewpoint-table":
        assert one.reading == "How many errors are left on novel viewpoints?"  # nothing to compare with
        assert alone.reading == "Nothing to match to: the CNN was not measured, so that only last epochs are shown."
        assert alone.numbers["held_out_novel"].isna().all()
    assert not alone.shown().empty


def test_azimuths_around_zero_stand_together(runs):
    found = analyses["viewpoint-curves"](runs)
    line = found.numbers[found.numbers["name"] == "cnn"]
    assert list(line["degrees"]) == list(range(-160, 200, 20))
    assert list(line.loc[line["viewpoints"] == "familiar", "degrees"]) == [-60, -40, -20, 0, 20, 40]
    assert set(found.numbers["axis"]) == {"azimuth"}


def test_published_errors_stand_beside_the_same_data_only(tmp_path, small_data, runs):
    assert not any("Published" in note for note in analyses["viewpoint-table"](runs).notes)
    notes = analyses["viewpoint-table"](folder(tmp_path, data="smallnorb-azimuth")).notes
    (novel,) = [note for note in notes if "novel viewpoints, matched" in note]
    assert "cnn 20 % (HIN-020) and em 13.5 % (HIN-021)" in novel
    assert any("familiar viewpoints" in note and "3.7 %" in note for note in notes)


def test_changes_other_than_the_viewpoint_are_called_so(runs):
    by_view = runs.results["metric"] == "accuracy_by_view"
    changed = replace(runs, results=runs.results[~by_view])
    assert analyses["viewpoint-curves"](changed) is None
    table, paths = (analyses[name](changed) for name in ("viewpoint-table", "viewpoint-paths"))
    assert table.title == "Errors on changed images, at equal accuracy on unchanged images"
    assert table.main.title == "Changed images, error"
    told = " ".join((table.reading, *table.notes, *paths.notes))
    assert "changed images" in told and "viewpoint" not in told
    assert "novel viewpoints" in analyses["viewpoint-table"](runs).reading
