"""The analyses of the suite `objects`, on what its protocol finds in untrained networks."""

from pathlib import Path

import numpy as np
import pytest

from routebench.analysis.figures import to_svg
from routebench.analysis.folder import open_folder
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.registry import analyses
from routebench.report._scorecard import scorecard_of
from routebench.studies.objects.protocols.objects import ObjectDiscovery
from tests.analyses.measured import parts_of
from tests.built import built_once
from tests.studies.objects.test_objects import OPTIONS, Untrained

PUBLISHED = Path(__file__).parents[3] / "reports/grouping-quick"
CLUSTERS, NEIGHBOURS = "k-means by place and colour", "neighbours of one colour"


def runs_of(factory):
    """Two seeds of a method, and of the controls."""

    def measure(folder):
        choices = Choices(methods=(parse("inverted-attention"), parse("max-pooling")), seeds=range(2))
        made = plan(load_suite("objects"), "smoke", choices)
        parts_of(made, folder, lambda cell: ObjectDiscovery().measure(cell.request(), OPTIONS, Untrained()))

    (found,) = open_folder(built_once(factory, "objects", measure)).parts
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of(tmp_path_factory)


def test_values_are_those_of_pictures_with_so_many_shapes(runs):
    found = analyses["objects-table"](runs)
    table = found.numbers.set_index("name")
    rows = runs.results.query("label == 'inverted-attention' and iterations == 3")
    for column, metric, objects in (
        ("found", "fg_ari", 4),
        ("coupled", "fg_ari_coupling", 4),
        ("found_2", "fg_ari", 2),
        ("error", "squared_error", 4),
    ):
        own = rows[(rows["metric"] == metric) & (rows["objects"] == objects)]["value"]
        assert len(own) == 2
        assert table.loc["inverted-attention T=3", column] == pytest.approx(own.mean())
    assert np.isnan(table.loc["max-pooling", "coupled"])


def test_clustering_comes_first_and_is_no_method(runs):
    found = analyses["objects-table"](runs)
    table = found.numbers.set_index("name")
    assert [*table.index[:2]] == [CLUSTERS, NEIGHBOURS]
    own = runs.results.query("metric == 'baseline_kmeans' and objects == 4")["value"]
    assert table.loc[CLUSTERS, "found"] == pytest.approx(own.iloc[0])
    assert np.isnan(table.loc[CLUSTERS, "error"])
    assert {method.name: method.is_control for method in found.table["method"]}[CLUSTERS]


def test_clusters_of_pixels_that_beat_all_networks_stand_first_on_the_first_screen():
    (published,) = open_folder(PUBLISHED).parts
    card = scorecard_of([("objects", published, analyses["objects-table"](published))])
    assert card.rows[0].method.name == CLUSTERS and card.rows[0].method.is_control and card.rows[0].main
    assert str(card.rows[0].method) == "K-means by place and colour"
    assert card.title == "Does routing help? Not shown."


def test_only_the_most_iterations_of_a_method_are_pictured():
    (published,) = open_folder(PUBLISHED).parts
    told = to_svg(analyses["objects-pictures"](published).figure)
    assert "Inverted attention, T = 3" in told and "Inverted attention, T = 1" not in told


def test_pictures_show_every_method_and_count_its_slots(runs):
    one, again = (analyses["objects-pictures"](runs) for _ in range(2))
    assert to_svg(one.figure) == to_svg(again.figure)
    for method, slots in zip(one.table["method"], one.table["slots"], strict=True):
        cell = next(cell for cell, known in runs.methods.items() if known == method and runs.arrays(cell))
        arrays = runs.arrays(cell)
        counts = []
        for masks, owners in zip(arrays["example_masks"], arrays["example_owners"], strict=True):
            own = masks[owners != 255]
            counts.append(sum((own == slot).mean() >= 0.05 for slot in range(5)))
        assert slots == pytest.approx(np.mean(counts))
