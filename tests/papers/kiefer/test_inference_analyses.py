"""The analyses of the suite `kiefer-sparsity`, on what its protocol finds in untrained networks."""

from dataclasses import replace

import numpy as np
import pytest

from routebench import statistics
from routebench.analysis.figures import to_svg
from routebench.engine.suites import Choices, load_suite, plan
from routebench.papers.kiefer.claims import CLAIMS
from routebench.papers.kiefer.protocols.predictive_coding import PredictiveCoding
from routebench.registry import analyses
from tests.analyses.measured import parts_of
from tests.protocols import small_digits
from tests.protocols.small_digits import SMALL, Untrained

find = analyses["inferred-capsules"]
STEPS = {"steps": 20, "step_size": 0.2, "free": ["classes"]}


def runs_of(folder, seeds, measure=None):
    with pytest.MonkeyPatch.context() as patch:
        small_digits.register(patch)
        made = plan(load_suite("kiefer-sparsity"), "smoke", Choices(seeds=range(seeds), data=SMALL))

        def found(cell):
            told = measure(cell) if measure else None
            return told or PredictiveCoding().measure(cell.request(), STEPS, Untrained())

        (runs,) = parts_of(made, folder, found)
        return runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return runs_of(tmp_path_factory.mktemp("inference"), 2)


def hoyer(runs, label, inference, targets="none", free="none", iterations=None):
    own = runs.results.query("metric == 'hoyer' and label == @label and inference == @inference")
    own = own[(own["targets"] == targets) & (own["free"] == free)]
    own = own[own["iterations"].isna() if iterations is None else own["iterations"] == iterations]
    return own.sort_values("seed")["value"].to_numpy(dtype=float)


def test_differences_to_no_routing_are_paired_by_seed(runs):
    table = find(runs).numbers.set_index(["condition", "targets", "free"])
    base = hoyer(runs, "none", "forward")
    for key, own in (
        (("No sharing + inference, L1", "label", "classes"), hoyer(runs, "none", "l1", "label", "classes")),
        (("Dynamic, T = 3", "none", "none"), hoyer(runs, "dynamic", "forward", iterations=3)),
    ):
        interval = statistics.mean_interval(own - base)
        found = table.loc[key]
        assert found["hoyer"] == pytest.approx(own.mean())
        assert [found["gain"], found["gain_low"], found["gain_high"]] == pytest.approx(
            [interval.mean, interval.low, interval.high]
        )
    assert np.isnan(table.loc[("No sharing", "none", "none"), "gain"])


def test_rows_are_in_order_and_named(runs):
    analysis = find(runs)
    table = analysis.numbers
    assert list(table["inference"]).index("plain") == (table["inference"] == "forward").sum()
    assert list(table["targets"].iloc[-8:]) == ["label"] * 3 + ["predicted"] * 3 + ["none"] * 2
    assert not analysis.shown().isin(["nan", "None", "<NA>"]).any().any()
    shown = analysis.shown()["Class capsules of"]
    assert {"No sharing (baseline)", "Uniform routing (baseline)"} <= set(
        shown
    ) and "No sharing + inference, L1" in set(shown)
    assert not any("+ inference" in name and "(control)" in name for name in shown)
    assert set(table.loc[table["inference"] != "forward", "role"]) == {"method"}
    assert set(analysis.main.table["condition"]) >= {"Dynamic, T = 3", "No sharing", "Uniform routing"}


def test_the_figure_has_two_images_of_every_condition(runs):
    figure = find(runs).figure
    assert len(figure.axes) == 2 * len(["dynamic", "none", "plain", "l1", "l2"])
    assert to_svg(figure) == to_svg(find(runs).figure)
    assert [axes.get_title("left") for axes in figure.axes[::2]] == [
        "Dynamic, T = 3", "No sharing", "No sharing + inference", "No sharing + inference, L1",
        "No sharing + inference, L2",
    ]  # fmt: skip


def test_the_paper_s_claim_is_tested_by_seed(runs):
    (claim,) = (claim for claim in CLAIMS if claim.claim.startswith("Inference in place"))
    found = claim.test(runs)
    gain = hoyer(runs, "none", "l1", "label", "classes") - hoyer(runs, "none", "plain", "label", "classes")
    assert found.statistic.mean == pytest.approx(gain.mean())
    assert found.statistic.n == 2
    assert claim.test(replace(runs, results=runs.results.head(0))) is None


def test_one_seed_has_no_interval(tmp_path):
    analysis = find(runs_of(tmp_path, 1))
    assert analysis.numbers["gain_low"].isna().all()
    assert "[" not in "".join(analysis.shown()["Hoyer less none"])


def test_without_none_there_is_no_difference_and_no_figure(tmp_path):
    analysis = find(runs_of(tmp_path, 2, lambda cell: "it broke" if cell.identity.method == "none" else None))
    assert analysis.numbers["gain"].isna().all()
    assert analysis.figure is None
    assert set(analysis.numbers["inference"]) == {"forward"}


def test_the_toy_needs_no_results(runs):
    analysis = analyses["toy-inference"](replace(runs, results=runs.results.head(0)))
    assert analysis.numbers["share"].tolist() == pytest.approx(
        [0.4815, 0.3333, 0.1852, 1, 0, 0, 0.4259, 0.3333, 0.2407], abs=1e-4
    )
    assert to_svg(analysis.figure) == to_svg(analyses["toy-inference"](runs).figure)
