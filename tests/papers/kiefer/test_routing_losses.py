"""Losses with routing and without, in which the paper's conclusions were planted, or the opposite."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench import statistics
from routebench.analysis.figures import to_svg
from routebench.analysis.judging import every_claim
from routebench.registry import analyses
from tests.analysis.made_up_runs import made_up_records, made_up_runs

find = analyses["routing-losses"]
MODELS = ("capsnet-small", "capsnet-small-reconstruction")


def part(model, loss=0.05, routed=94.0, seeds=8, **changed):
    """`loss` is added to every loss of `none`, and a little more per seed; routing gains `routed` less 94."""
    methods = {
        "dynamic": ([1, 3], "method", model, [50.0, routed]),  # T=1 is no condition
        "none": ([None], "control", model, [94.0]),
    }
    records = made_up_records(seeds=seeds, spread=0.1, failures=False, methods=methods, preset=model)
    for record in records:
        seed = record["identity"]["seed"]
        training = [metric for metric in record["metrics"] if metric["metric"] == "train_loss"]
        record["metrics"] += [{**metric, "metric": "held_out_loss", "split": "held-out"} for metric in training]
        for metric in record["metrics"]:
            if metric["metric"] in ("train_loss", "held_out_loss", "loss") and record["label"] == "none":
                metric["value"] += loss * (1 + 0.05 * seed)
    return replace(made_up_runs(records), **{"suite": "reconstruction", "model": model, **changed})


def parts(**options):
    return tuple(part(model, **options) for model in MODELS)


def test_losses_are_compared_by_seed_within_one_decoder():
    plain, decoded = parts()[0], part(MODELS[1], loss=-0.05)
    analysis = find((plain, decoded))
    table = analysis.numbers.set_index(["decoder", "what"])
    rows = plain.results.query("metric == 'train_loss' and epoch == 5").sort_values("seed")
    ours = rows[(rows["label"] == "dynamic") & (rows["iterations"] == 3)]["value"].to_numpy(dtype=float)
    gain = rows[rows["label"] == "none"]["value"].to_numpy(dtype=float) - ours
    interval = statistics.mean_interval(gain)
    found = table.loc[(False, "training loss, last epoch")]
    assert found["routed"] == pytest.approx(ours.mean())
    assert [found["gain"], found["gain_low"], found["gain_high"]] == pytest.approx(
        [interval.mean, interval.low, interval.high]
    )
    test_gain = [0.05 * (1 + 0.05 * seed) for seed in range(8)]
    assert table.loc[(False, "test loss"), "gain"] == pytest.approx(np.mean(test_gain))
    assert set(table.loc[False, "verdict"]) == {"holds here"}
    losses = table.loc[True].drop("accuracy, %")
    assert set(losses["verdict"]) == {"does not hold here"}
    assert table.loc[(True, "accuracy, %"), "verdict"] == "holds here"


def test_routing_that_gains_accuracy_contradicts_the_paper():
    table = find(parts(routed=97.0)).numbers.set_index("what")
    assert set(table.loc["accuracy, %", "verdict"]) == {"does not hold here"}
    assert table.loc["accuracy, %", "gain"].to_numpy() == pytest.approx([3, 3], abs=0.3)


def test_survivors_decide_no_conclusion():
    plain, decoded = parts()
    lost = (plain.planned["label"] == "dynamic") & (plain.planned["iterations"] == 3) & (plain.planned["seed"] == 2)
    cells = {*plain.planned.loc[lost, "cell"]}
    plain = replace(
        plain,
        planned=plain.planned.assign(status=plain.planned["status"].mask(lost, "diverged")),
        results=plain.results[~plain.results["cell"].isin(cells)],
    )
    table = find((plain, decoded)).numbers.set_index("decoder")
    assert {*table.loc[False, "verdict"]} == {"undecided: 1 seed without a result, which may be the bad ones"}
    assert not table.loc[True, "verdict"].str.contains("undecided").any()


def test_the_figure_has_training_and_held_out_losses_of_both_networks_on_logarithmic_axes():
    analysis = find(parts())
    assert [axes.get_yscale() for axes in analysis.figure.axes] == ["log"] * 4
    assert [len(axes.lines) for axes in analysis.figure.axes] == [2] * 4
    assert to_svg(analysis.figure) == to_svg(find(parts()).figure)


def test_networks_that_were_trained_on_all_training_images_have_no_held_out_loss():
    trained_on_all = tuple(
        replace(runs, results=runs.results[runs.results["metric"] != "held_out_loss"]) for runs in parts()
    )
    found = find(trained_on_all)
    assert not found.numbers["what"].str.contains("held-out").any()
    assert set(found.numbers["verdict"]) == {"holds here"}
    assert len(found.figure.axes) == 2
    assert "no held-out loss" in found.notes[-1]
    assert "held-out" not in found.alternative
    assert "held-out" in find(parts()).alternative


def test_one_seed_decides_nothing_and_a_missing_condition_is_said():
    one = find(parts(seeds=1))
    assert set(one.numbers["verdict"]) == {"undecided"}
    assert one.numbers["gain_low"].isna().all()
    plain, decoded = parts()
    half = find((plain, replace(decoded, results=decoded.results[decoded.results["label"] != "none"])))
    assert set(half.numbers[half.numbers["decoder"]]["verdict"]) == {"not run"}
    assert not half.shown().isin(["None", "nan", "<NA>"]).any().any()


def test_nothing_gives_nothing():
    assert find(()) is None
    assert find(parts()[:1]) is None
    assert find(tuple(replace(runs, results=runs.results.head(0)) for runs in parts())) is None


@pytest.mark.parametrize("rises", [0.0, 10.0], ids=["learned", "still learning"])
@pytest.mark.parametrize("routed", [93.0, 94.1, 97.0])
def test_the_table_and_the_claim_have_one_verdict(routed, rises):
    def with_training_accuracy(runs):
        rows = runs.results.query("metric == 'train_loss'").assign(metric="train_accuracy", unit="%")
        rows["value"] = 90 + rises * (rows["epoch"] == rows["epoch"].max())
        return replace(runs, results=pd.concat([runs.results, rows], ignore_index=True))

    both = tuple(map(with_training_accuracy, parts(routed=routed)))
    (claim,) = (one for one in every_claim() if one.claim == "Routing gains no accuracy")
    table = find(both).numbers.query("what == 'accuracy, %'").set_index("decoder")["verdict"]
    for decoder, runs in enumerate(both):
        assert table[bool(decoder)].startswith(claim.test(runs, both).verdict)
    assert table.str.startswith("not tested: networks still learn after").all() == bool(rises)
