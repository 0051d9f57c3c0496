"""The analyses of the suite `parts`, on what its protocol finds in untrained networks."""

import numpy as np
import pytest

from routebench.analysis.figures import to_svg
from routebench.analysis.folder import open_folder
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.registry import analyses
from routebench.studies.parts.protocols.parts import Assignment
from tests.analyses.measured import parts_of
from tests.built import built_once
from tests.studies.parts.test_parts import OPTIONS, Untrained

FIRST = "inference in the true model"


def runs_of(factory):
    """Two seeds of `em` with the true matrices, and of the controls."""

    def measure(folder):
        choices = Choices(methods=(parse("em"),), seeds=range(2), models=("part-capsules-true",))
        made, options = plan(load_suite("parts"), "smoke", choices), {**OPTIONS, "objects": [2, 3]}
        parts_of(made, folder, lambda cell: Assignment().measure(cell.request(), options, Untrained()))

    parts = open_folder(built_once(factory, "parts", measure)).parts
    return next(part for part in parts if part.model == "part-capsules-true")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of(tmp_path_factory)


@pytest.fixture(scope="module")
def found(runs):
    return analyses["parts-table"](runs)


def test_the_figure_shows_every_number_of_objects(runs):
    one, again = (analyses["parts-by-objects"](runs) for _ in range(2))
    assert to_svg(one.figure) == to_svg(again.figure)
    assert set(one.table["objects"]) == {2, 3}
    row = one.numbers.query("name == 'em T=2' and objects == 3")
    rows = runs.results.query("metric == 'ari' and label == 'em' and iterations == 2 and test_iterations == 2")
    own = rows[(rows["objects"] == 3) & (rows["clutter"] == 0)]["value"]
    assert row["mean"].item() == pytest.approx(own.mean())


def test_values_are_those_of_the_same_scenes_at_the_iterations_trained_with(runs, found):
    table = found.numbers.set_index("name")
    rows = runs.results.query("metric == 'ari' and label == 'em' and iterations == 2 and test_iterations == 2")
    for column, objects, clutter in (("ari", 2, 0), ("ari_many", 3, 0), ("ari_cluttered", 2, 2)):
        own = rows[(rows["objects"] == objects) & (rows["clutter"] == clutter)]["value"]
        assert len(own) == 2
        assert table.loc["em T=2", column] == pytest.approx(own.mean())
    last = runs.results.query("metric == 'ari' and label == 'em' and iterations == 2 and test_iterations == 3")["value"]
    assert table.loc["em T=2", "ari_last"] == pytest.approx(last.mean())


def test_inference_in_the_true_model_comes_first_and_equal_shares_have_nothing(found):
    table = found.numbers.set_index("name")
    assert table.index[0] == FIRST
    assert table.loc[FIRST, "ari"] > 0.95 and table.loc[FIRST, "accuracy"] > 90
    assert np.isnan(table.loc[FIRST, "ari_last"])
    assert table.loc["uniform", "ari"] == pytest.approx(0)
    assert np.isnan(table.loc["part-sets", "ari"])
    assert {method.name: method.is_control for method in found.table["method"]}[FIRST]
