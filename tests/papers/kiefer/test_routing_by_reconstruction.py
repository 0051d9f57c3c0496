"""The four conditions of Kiefer et al., appendix A, with planted effects."""

from dataclasses import replace

import numpy as np
import pytest

from routebench import statistics
from routebench.registry import analyses
from tests.analysis.made_up_runs import made_up_records, made_up_runs

find = analyses["routing-by-reconstruction"]
# routing gains 1.0 without the decoder and 3.0 with it; the decoder gains 0.5 without routing and 2.5 with it
PLANTED = {"capsnet-small": (94.0, 93.0), "capsnet-small-reconstruction": (96.5, 93.5)}


def part(model, accuracies, seeds=5, spread=0.05, **changed):
    routed, unrouted = accuracies
    methods = {
        "dynamic": ([1, 3], "method", model, [50.0, routed]),  # T=1 is no condition
        "none": ([None], "control", model, [unrouted]),
    }
    records = made_up_records(
        seeds=seeds, spread=spread, failures=False, methods=methods, preset=model
    )  # noise of its own
    return replace(made_up_runs(records), **{"suite": "reconstruction", "model": model, **changed})


def parts(**options):
    return tuple(part(model, accuracies, **options) for model, accuracies in PLANTED.items())


def values(runs, label, iterations):
    own = runs.results.query("metric == 'accuracy' and label == @label")
    own = own[(own["iterations"].fillna(0) == iterations) & (own["test_iterations"].fillna(0) == iterations)]
    return own.sort_values("seed")["value"].to_numpy(dtype=float)


def test_planted_effects_are_found_with_their_paired_intervals():
    plain, decoded = parts()
    analysis = find((plain, decoded))
    table = analysis.numbers.set_index("what")
    gains = [values(runs, "dynamic", 3) - values(runs, "none", 0) for runs in (plain, decoded)]
    for effect, expected in (
        ("routing", (gains[0] + gains[1]) / 2),
        ("interaction", gains[1] - gains[0]),
    ):
        interval = statistics.mean_interval(expected)
        found = table.loc[effect]
        assert [found["mean"], found["low"], found["high"]] == pytest.approx(
            [interval.mean, interval.low, interval.high]
        )
    assert table.loc["routing", "mean"] == pytest.approx(2, abs=0.3)
    assert table.loc["interaction", "mean"] == pytest.approx(2, abs=0.4)
    assert table.loc["reconstruction", "mean"] == pytest.approx(1.5, abs=0.3)
    raw = table.loc[["routing", "reconstruction", "interaction"], "p"].to_numpy(dtype=float)
    holm = table.loc[["routing", "reconstruction", "interaction"], "p_holm"].to_numpy(dtype=float)
    assert holm == pytest.approx(statistics.holm(raw))
    assert holm.max() < 0.05


def test_effects_over_seeds_that_were_added_have_the_interval_of_two_stages():
    plain, decoded = (replace(one, primary={"first": 3}) for one in parts(seeds=6, spread=0.3))
    table = find((plain, decoded)).table.set_index("what")["mean"]
    gains = [values(runs, "dynamic", 3) - values(runs, "none", 0) for runs in (plain, decoded)]
    for effect, expected in (("routing", (gains[0] + gains[1]) / 2), ("interaction", gains[1] - gains[0])):
        known = statistics.two_stage_difference(dict(enumerate(expected)), dict.fromkeys(range(6), 0.0), 3)
        found = table[effect]
        assert found.kind == known.kind == statistics.OVER_SEEDS_TWO_STAGES
        assert [found.low, found.high, found.p] == pytest.approx([known.low, known.high, known.p_value])


def test_conditions_are_means_over_seeds_at_three_iterations():
    plain, decoded = parts()
    table = find((plain, decoded)).numbers.set_index("what")
    assert table.loc["dynamic T=3, with decoder", "mean"] == pytest.approx(np.mean(values(decoded, "dynamic", 3)))
    assert table.loc["none, without decoder", "n"] == 5


def test_no_effect_is_not_shown():
    same = tuple(part(model, (94.0, 94.0), seeds=3, spread=0.4) for model in PLANTED)
    assert find(same).numbers["p_holm"].dropna().min() > 0.05


@pytest.mark.parametrize(
    ("lost", "tested"),
    [
        ({"capsnet-small": "dynamic", "capsnet-small-reconstruction": "dynamic"}, {"reconstruction"}),
        ({"capsnet-small": "none", "capsnet-small-reconstruction": "none"}, {"routing", "reconstruction"}),
        ({"capsnet-small-reconstruction": "none"}, {"routing"}),
        ({}, {"routing", "reconstruction", "interaction"}),
    ],
)
def test_lost_seeds_speak_for_no_effect(lost, tested):
    def without(runs):
        is_lost = (runs.planned["label"] == lost.get(runs.model)) & (runs.planned["seed"] == 0)
        cells = {*runs.planned.loc[is_lost, "cell"]}
        planned = runs.planned.assign(status=["diverged" if one else "ok" for one in is_lost])
        return replace(runs, planned=planned, results=runs.results[~runs.results["cell"].isin(cells)])

    table = find(tuple(map(without, parts()))).numbers.set_index("what")
    effects = table.loc[["routing", "reconstruction", "interaction"]]
    assert {*effects.index[effects["p"].notna()]} == {*effects.index[effects["low"].notna()]} == tested


def test_one_seed_has_no_interval():
    analysis = find(parts(seeds=1))
    assert analysis.numbers["low"].isna().all()
    assert not analysis.shown().isin(["None", "nan", "<NA>"]).any().any()


def test_a_missing_condition_leaves_a_row_without_a_number_and_no_effect():
    plain, decoded = parts()
    analysis = find((plain, replace(decoded, results=decoded.results[decoded.results["label"] != "none"])))
    assert analysis.numbers.set_index("what").loc["none, with decoder", "n"] == 0
    assert set(analysis.numbers["kind"]) == {"condition"}


def test_only_a_network_and_the_same_with_a_decoder_belong_together():
    plain, decoded = parts()
    assert find((plain,)) is None
    assert find(()) is None
    assert find((plain, replace(decoded, suite="other"))) is None
    assert find((plain, replace(decoded, preset="full"))) is None
    assert find((plain, replace(decoded, model="capsnet-reconstruction"))) is None
    nothing = [replace(runs, results=runs.results.head(0)) for runs in (plain, decoded)]
    assert find(tuple(nothing)) is None


def test_published_numbers_stand_beside_the_same_networks_only():
    full = tuple(
        replace(part(model, accuracies), data="mnist", preset="full", model=model)
        for model, accuracies in {"capsnet": (99.0, 98.0), "capsnet-reconstruction": (99.2, 98.5)}.items()
    )
    shown = find(full).shown().set_index("Condition or effect")
    assert shown.loc["dynamic T=3, with decoder", "Published, %"] == "99.23 (KIE-001)"
    assert shown.loc["none, without decoder", "Published, %"] == "99.29 (KIE-004)"
    assert any(note.startswith("KIE-001: CapsNet trained 13 epochs") for note in find(full).notes)
    assert "Published, %" not in find(parts()).shown()
