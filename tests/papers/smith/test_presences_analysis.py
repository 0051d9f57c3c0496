"""The table of what presences say, on what the protocol finds in untrained generative capsules."""

from dataclasses import replace

import pytest

from routebench.engine.suites import Choices, load_suite, plan
from routebench.protocols import linear_probe as module
from routebench.protocols.linear_probe import LinearProbe
from routebench.registry import analyses
from tests.analyses.measured import parts_of
from tests.protocols.small_digits import CANVAS, SMALL, Untrained, register


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    def measured(cell):
        options = {"angles": [0], "train_angles": [90], "affine": True}
        return LinearProbe().measure(cell.request(), options, Untrained()) if "caps" in cell.label else None

    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        patch.setattr(module, "affine_data", lambda name: CANVAS if name == SMALL else "")
        made = plan(load_suite("smith-probes"), "smoke", Choices(data=SMALL, seeds=range(2)))
        (only,) = parts_of(made, tmp_path_factory.mktemp("presences"), measured)
    return only


def test_each_network_has_a_row_for_what_it_was_trained_on(runs):
    analysis = analyses["presences"](runs)
    shown = analysis.shown()
    assert list(shown["Trained on"].groupby(shown["Model"]).nunique()) == [3] * shown["Model"].nunique()
    assert {"upright", "≤ 90°", f"as {CANVAS}"} == set(shown["Trained on"])
    for row in analysis.table.to_dict("records"):  # a page sorts by every column
        assert all(column.value(row) is not None for column in analysis.columns)
    assert "top-down-capsules" not in "".join(shown["Model"])  # which has no presences
    upright = analysis.table[(analysis.table["train_angle"] == 0) & analysis.table["tested_on"].isna()]
    values = runs.values("presence_information", layer="objects", train_angle=0)
    own = values[values["tested_on"].isna()].groupby("cell")["value"].first()
    by_name = own.groupby([str(runs.methods[cell]) for cell in own.index]).mean()
    assert sorted(float(one.mean) for one in upright["objects"]) == pytest.approx(sorted(by_name))


def test_without_generative_capsules_there_is_nothing_to_say(runs):
    without = runs.results[runs.results["metric"] != "presence_information"]
    assert analyses["presences"](replace(runs, results=without)) is None
