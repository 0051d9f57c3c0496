"""Accuracy against cost, with planted fronts and a planted point behind them."""

from dataclasses import replace
from itertools import combinations

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from routebench.analysis.figures import to_svg
from routebench.registry import analyses
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs

find = analyses["pareto"]
# T=1 is cheapest; em T=1 costs as much and is far worse; none costs more than dynamic T=2 and is worse by little
PLANTED = {
    "dynamic": ([1, 2], "method", "capsnet-small", [95.0, 97.0]),
    "em": ([1], "method", "capsnet-small", [91.0]),
    "none": ([None], "control", "capsnet-small", [96.95]),
}
SECONDS = {("dynamic", 1): 10.0, ("dynamic", 2): 20.0, ("em", 1): 10.5, ("none", 0): 25.0}


def accuracy_runs(seeds=5, spread=0.2, methods=PLANTED, **options):
    records = made_up_records(seeds=seeds, spread=spread, failures=False, methods=methods, **options)
    for record in records:
        steps = record["identity"]["iterations"] or 0
        for metric in record["metrics"]:
            if metric["metric"] == "fit_seconds" and (record["label"], steps) in SECONDS:
                metric["value"] = SECONDS[record["label"], steps] + 0.1 * record["identity"]["seed"]
    return made_up_runs(records)


def cost_runs(milliseconds, model="capsnet-small"):
    """Two back ends, of which `slow` takes twice as long, two batches and two repeats."""
    rows, planned = [], []
    for (label, steps), time in milliseconds.items():
        cell = {"cell": f"{label}{steps}", "label": label, "iterations": steps or None, "seed": 0, "role": "method"}
        planned.append({**cell, "status": "ok", "model": model})
        for backend, factor in (("fast", 1), ("slow", 2)):
            for batch in (32, 128):
                for repeat in (0, 1):
                    where = {"part": "network", "backend": backend, "batch": batch, "repeat": repeat}
                    value = time * factor * batch / 128
                    rows += [
                        {**cell, **where, "metric": "training_time", "value": value},
                        {**cell, **where, "metric": "inference_time", "value": value / 4},
                        {**cell, **where, "part": "layers", "metric": "training_time", "value": 0.1},
                    ]
    numbers = {"iterations": "Int64"}
    names = {"suite": "cost", "protocol": "cost", "model": model}
    return replace(
        made_up_runs(seeds=1), **names, results=pd.DataFrame(rows).astype(numbers),
        planned=pd.DataFrame(planned).astype(numbers),
    )  # fmt: skip


def table_of(*parts):
    return find(parts).numbers.set_index("name")


def test_a_method_that_was_timed_with_other_tuned_settings_has_no_cost_and_is_named():
    runs, timed = accuracy_runs(), cost_runs({("dynamic", 1): 5.0, ("dynamic", 2): 9.0, ("em", 1): 6.0})
    here = {cell: {"point": {"loss": "spread", "prior": method.label == "em"}} for cell, method in runs.methods.items()}
    there = {cell: {"point": {"loss": "spread", "prior": False}} for cell in timed.methods}
    analysis = find((replace(runs, tuning=here.__getitem__), replace(timed, tuning=there.__getitem__)))
    assert set(analysis.table["method"].map(str)) == {"Dynamic, T = 1", "Dynamic, T = 2"}
    assert any(note.startswith("No cost with these settings, hence not here: EM") for note in analysis.notes)
    default = find((replace(runs, tuning=here.__getitem__), timed))
    assert any(note.startswith("Cost of dynamic and em: that of the same method with its") for note in default.notes)


def test_a_planted_point_behind_the_front_is_dominated_and_by_whom():
    analysis = find((accuracy_runs(),))
    table, shown = analysis.numbers.set_index("name"), analysis.shown().set_index("Method")
    assert table.loc["em T=1", "verdict"] == "dominated"
    assert table.loc["em T=1", "by"] == "dynamic T=1"
    assert shown.loc["EM, T = 1", "Beaten by"] == "Dynamic, T = 1"
    assert set(table.index[table["verdict"] == "front"]) == {"dynamic T=1", "dynamic T=2"}


def test_several_that_beat_a_method_are_each_named():
    methods = {**PLANTED, "heinsen": ([1], "method", "capsnet-small", [96.0])}
    runs = accuracy_runs(methods=methods)
    fits = runs.results["label"].eq("heinsen") & runs.results["metric"].eq("fit_seconds")
    cheap = replace(runs, results=runs.results.assign(value=runs.results["value"].mask(fits, 10.2)))
    analysis = find((cheap,))
    assert analysis.numbers.set_index("name").loc["em T=1", "by"] == "heinsen T=1, dynamic T=1"
    assert analysis.shown().set_index("Method").loc["EM, T = 1", "Beaten by"] == "Heinsen, T = 1 and Dynamic, T = 1"


def test_a_difference_within_noise_dominates_nothing():
    table = table_of(accuracy_runs(spread=0.6))
    assert table.loc["none", "mean"] < table.loc["dynamic T=2", "mean"]
    assert table.loc["none", "cost"] > table.loc["dynamic T=2", "cost"]
    assert table.loc["none", "verdict"] == "not told apart"
    assert table.loc["none", "by"] == ""


def test_without_the_cost_suite_cost_is_seconds_of_fits_and_says_what_is_wrong_with_it():
    analysis = find((accuracy_runs(),))
    table = analysis.numbers.set_index("name")
    assert table.loc["dynamic T=2", "cost"] == 20.0, "the shortest of 20.0 to 20.4 s"
    assert set(table["unit"]) == {"fit, s"}
    assert any("wall clock" in note for note in analysis.notes)


def test_with_the_cost_suite_cost_is_the_fastest_step_of_the_network_at_the_largest_batch():
    costs = {("dynamic", 1): 8.0, ("dynamic", 2): 12.0, ("em", 1): 6.0}
    analysis = find((accuracy_runs(), cost_runs(costs)))
    table = analysis.numbers.set_index("name")
    assert table.loc["dynamic T=1", "cost"] == pytest.approx(8)
    assert table.loc["dynamic T=2", "inference"] == pytest.approx(3)
    assert set(table["unit"]) == {"training step, ms"}
    assert table.loc["em T=1", "verdict"] == "front"  # now the cheapest
    assert "none" not in table.index
    assert any(note == "No cost with these settings, hence not here: No sharing (baseline)." for note in analysis.notes)


def test_costs_of_another_network_or_data_set_are_not_taken():
    costs = {("dynamic", 1): 8.0, ("dynamic", 2): 12.0, ("em", 1): 6.0}
    others = (cost_runs(costs, model="capsnet"), replace(cost_runs(costs), data="cifar10"))
    assert set(table_of(accuracy_runs(), *others)["unit"]) == {"fit, s"}


def test_settings_borrow_the_cost_of_their_method_and_say_so():
    methods = {**PLANTED, "em[competition=positions]": ([1], "method", "capsnet-small", [92.0])}
    costs = {("dynamic", 1): 8.0, ("dynamic", 2): 12.0, ("em", 1): 6.0}
    analysis = find((accuracy_runs(methods=methods), cost_runs(costs)))
    table = analysis.numbers.set_index("name")
    assert table.loc["em[competition=positions] T=1", "cost"] == pytest.approx(6)
    assert any(note.startswith("Cost of em[competition=positions]: that of") for note in analysis.notes)


def test_several_comparisons_each_have_a_front_and_a_panel():
    one, two = accuracy_runs(), replace(accuracy_runs(), data="other")
    analysis = find((one, two, replace(one, protocol="sparsity", suite="sparsity")))
    assert len(analysis.figure.axes) == 2
    assert set(analysis.numbers["data"]) == {"mnist5k", "other"}
    assert set(analysis.table["title"]) == {f"accuracy, quick, {data}, capsnet-small" for data in ("mnist5k", "other")}


@pytest.mark.parametrize("options", [{"seeds": 1}, {"spread": 0.0}, {"methods": METHODS, "seeds": 2}])
def test_holes_are_no_error_and_nothing_is_random(options):
    one, two = find((accuracy_runs(**options),)), find((accuracy_runs(**options),))
    assert one.shown().equals(two.shown())
    assert not one.shown().isin(["None", "nan", "<NA>"]).any().any()
    assert to_svg(one.figure) == to_svg(two.figure)
    assert one.described == one.alternative


def test_fewer_than_two_results_give_nothing():
    assert find(()) is None
    assert find((accuracy_runs(methods={"none": METHODS["none"]}),)) is None
    runs = accuracy_runs()
    assert find((replace(runs, results=runs.results.head(0)),)) is None


def test_a_method_that_is_far_off_stands_at_the_edge_and_leaves_the_others_room():
    far = {**PLANTED, "self-attention": ([None], "method", "capsnet-small", [12.0])}
    (drawn, told), (plain, untold) = (
        ((found := find((accuracy_runs(methods=methods),))).figure.axes[0], " ".join(found.notes))
        for methods in (far, PLANTED)
    )
    assert drawn.get_ylim()[0] == pytest.approx(plain.get_ylim()[0], abs=0.5)
    assert [text.get_text() for text in drawn.texts if "12" in text.get_text()] == ["Self-attention: 12"]
    assert "At the lower edge, as too far off: " in told and "At the lower edge" not in untold


@pytest.mark.parametrize("methods", [PLANTED, METHODS])
def test_methods_on_the_front_are_named_and_no_text_covers_another(methods):
    analysis = find((accuracy_runs(methods=methods),))
    (axes,) = analysis.figure.axes
    FigureCanvasAgg(analysis.figure).draw()
    front = {row["method"].text for row in analysis.table.to_dict("records") if row["verdict"] == "front"}
    named = {text.get_text() for text in axes.texts} - {"1", "2", "3"}
    assert named == front if methods is PLANTED else named <= front
    assert named
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert all(box.x0 >= axes.bbox.x0 for box in boxes)


def test_among_near_equals_none_is_far_off():
    close = {**PLANTED, "dynamic": ([1, 2], "method", "capsnet-small", [97.0, 97.0])}
    close["em"] = ([1], "method", "capsnet-small", [96.0])  # the median is the best
    found = find((accuracy_runs(methods=close, spread=0.0),))
    assert "At the lower edge" not in " ".join(found.notes)
    assert found.figure.axes[0].get_ylim()[0] < 96


@pytest.mark.parametrize("machines", [1, 2])
def test_fits_of_several_machines_are_told(machines):
    runs = accuracy_runs()
    elsewhere = {cell for cell, method in runs.methods.items() if method.label == "em" and machines > 1}
    found = find((replace(runs, machine=lambda cell: "H100" if cell in elsewhere else "Example CPU"),))
    told = [note for note in found.notes if note.startswith("Fits ran on 2 machines (Example CPU and H100): where two")]
    assert len(told) == machines - 1
