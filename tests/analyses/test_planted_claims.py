"""Claims whose statistic is a metric of its own: planted as the papers have it, the other way, or hidden by noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench.analysis.component_claims import COMPONENT_CLAIMS
from routebench.analysis.generative_claims import CAPSULES, FROM_START, GENERATIVE_CLAIMS, SWITCHED
from routebench.analysis.judging import FAILS, HOLDS, UNDECIDED
from routebench.analysis.paper_claims import CLAIMS
from tests.analysis.made_up_runs import made_up_runs

EVERY = {claim.claim: claim for claim in (*CLAIMS, *COMPONENT_CLAIMS, *GENERATIVE_CLAIMS)}
CLAMPED = {"inference": "plain", "targets": "label", "free": "classes"}
FGSM = {"attack": "fgsm", "loss": "training", "norm": "linf"}
UPRIGHT = {"kind": "maximal", "angle": 0, "train_angle": 0, "split": "test"}
PLANTED = {
    "Inference without a penalty spreads activity evenly over class capsules": (
        "predictive-coding", {("none", "hoyer"): 0.3}, {("none", "hoyer"): 0.7}, CLAMPED,
    ),
    "The right class capsule stays longer than others without a penalty": (
        "predictive-coding",
        {("none", "right_length"): 0.9, ("none", "other_length"): 0.4},
        {("none", "right_length"): 0.4, ("none", "other_length"): 0.9},
        CLAMPED,
    ),
    "FGSM never takes capsules below chance": (
        "robustness",
        {("em", "attacked_accuracy"): 30.0},
        {("em", "attacked_accuracy"): 5.0},
        FGSM,
    ),
    "Fewer gradients of the input are exactly zero for capsules than for a CNN": (
        "robustness",
        {("em", "zero_gradient_elements"): 1.0, ("cnn", "zero_gradient_elements"): 4.0},
        {("em", "zero_gradient_elements"): 4.0, ("cnn", "zero_gradient_elements"): 1.0},
        {"loss": "training"},
    ),
    "Gradients of the input are two orders of magnitude smaller for capsules than for a CNN": (
        "robustness",
        {("em", "gradient_magnitude"): 1.0, ("cnn", "gradient_magnitude"): 100.0},
        {("em", "gradient_magnitude"): 1.0, ("cnn", "gradient_magnitude"): 10.0},
        {"loss": "training"},
    ),
    "Free-form inference improves classification by presences": (
        "generation",
        {(CAPSULES, "free_form_gain"): 2.0},
        {(CAPSULES, "free_form_gain"): -2.0},
        {"angle": 0},
    ),
    "A full posterior gives a tighter bound where training starts with certain poses": (
        "generation",
        {(SWITCHED, "bound"): 200.0, (FROM_START, "bound"): 180.0},
        {(SWITCHED, "bound"): 180.0, (FROM_START, "bound"): 200.0},
        {"term": "total"},
    ),
}  # fmt: skip


def runs_of(protocol, cells, model="matrix-capsules-small", **known):
    """Runs with three seeds of each `(label, metric, value, where)`; the n-th grows by n/1000 from seed to seed."""
    rows, planned = [], {}
    for place, (label, metric, value, where) in enumerate(cells, start=1):
        steps = {"em": 3, "dynamic": 3, "inverted-attention": 2, "inverted-attention[start=random]": 2}.get(label)
        for seed in range(3):
            cell = {"cell": f"{label}{seed}", "label": label, "iterations": steps, "seed": seed, "model": model}
            planned[cell["cell"]] = {**cell, "method": label.split()[0], "status": "ok", "role": "method"}
            noisy = {"metric": metric, "value": value * (1 + 0.001 * place * seed), "unit": ""}
            rows.append({**cell, "test_iterations": pd.NA, **noisy, **where})
    kinds = {"iterations": "Int64"}
    return replace(
        made_up_runs(seeds=1), model=model, data="rendered-shapes-small-azimuth", **{"protocol": protocol, **known},
        results=pd.DataFrame(rows).astype({**kinds, "test_iterations": "Int64"}),
        planned=pd.DataFrame([*planned.values()]).astype(kinds),
    )  # fmt: skip


def verdict(claim, runs, *others):
    return EVERY[claim].test(runs, (runs, *others)).verdict


@pytest.mark.parametrize("claim", PLANTED)
def test_what_is_planted_is_found(claim):
    protocol, as_claimed, otherwise, where = PLANTED[claim]
    for values, expected in ((as_claimed, HOLDS), (otherwise, FAILS)):
        cells = [(label, metric, value, where) for (label, metric), value in values.items()]
        assert verdict(claim, runs_of(protocol, cells)) == expected


def test_the_lowest_accuracy_at_any_eps_is_what_counts():
    cells = [("em", "attacked_accuracy", value, {**FGSM, "eps": eps}) for value, eps in ((90.0, "0.1"), (5.0, "0.2"))]
    assert verdict("FGSM never takes capsules below chance", runs_of("robustness", cells)) == FAILS


@pytest.mark.parametrize(
    ("both", "presences", "vae", "expected"), [(95, 90, 80, (HOLDS, HOLDS)), (80, 90, 95, (FAILS, FAILS))]
)
def test_what_probes_read(both, presences, vae, expected):
    cells = [
        (label, "probe_accuracy", float(value), {**UPRIGHT, "feature": feature})
        for label, feature, value in (
            (CAPSULES, "both", both),
            (CAPSULES, "presences", presences),
            ("vae", "both", vae),
        )
    ]
    runs = runs_of("linear-probe", cells)
    claims = [claim.claim for claim in GENERATIVE_CLAIMS if "table 1" in claim.source]
    assert tuple(verdict(claim, runs) for claim in claims) == expected


def test_a_variant_is_not_the_plain_model():
    variant = f"{CAPSULES} (absence is free)"
    turned = {**UPRIGHT, "angle": 180, "train_angle": 180}
    cells = [
        (label, "probe_accuracy", value, {**where, "feature": "presences"})
        for label, where, value in ((CAPSULES, UPRIGHT, 90.0), (CAPSULES, turned, 40.0), (variant, turned, 95.0))
    ]
    found = EVERY["Probes on presences read less after training on turned digits"].test(runs_of("linear-probe", cells))
    assert (found.verdict, found.statistic.mean) == (HOLDS, pytest.approx(50, rel=0.01))


@pytest.mark.parametrize(("lost", "expected"), [(0.0, HOLDS), (3.0, FAILS), (0.5, UNDECIDED)])
def test_a_layer_in_between_is_compared_with_the_network_without(lost, expected):
    plain, between = (
        runs_of("sparsity", [("dynamic", "right_answers", value, {})], model=model)
        for model, value in (("capsnet-small", 95.0), ("capsnet-small-intermediate", 95.0 - lost))
    )
    claim = "A layer in between costs no accuracy"
    assert EVERY[claim].test(plain, (plain, between)) is None
    noise = 1 + 0.002 * between.results["seed"]
    between = replace(between, results=between.results.assign(value=between.results["value"] * noise))
    assert verdict(claim, between, plain) == expected
    assert EVERY[claim].test(between, (between, replace(plain, preset="full"))) is None


def test_starts_of_parents():
    epochs = [
        (label, "train_loss", value, {"epoch": epoch})
        for label, values in (("inverted-attention", (1.0, 0.5)), ("inverted-attention[start=random]", (1.4, 0.5)))
        for epoch, value in enumerate(values, start=1)
    ]
    tested = {"split": "test", "test_iterations": 2}
    ends = [
        ("inverted-attention", "accuracy", 95.0, tested),
        ("inverted-attention[start=random]", "accuracy", 94.9, tested),
    ]
    runs = runs_of("accuracy", [*epochs, *ends])
    assert verdict("Parents that start at random learn more slowly", runs) == HOLDS
    assert verdict("Parents that start at random end as good", runs) == HOLDS
    assert EVERY["A learned start of parents is no better than zeros"].test(runs) is None


def test_starts_are_compared_at_an_iteration_count_that_both_have():
    random = "inverted-attention[start=random]"
    tested = {"split": "test", "test_iterations": 2}
    runs = runs_of("accuracy", [("inverted-attention", "accuracy", 95.0, tested), (random, "accuracy", 94.9, tested)])
    further = runs.planned[runs.planned["label"] == random].assign(iterations=3)
    further["cell"] = further["cell"] + "T3"
    runs = replace(runs, planned=pd.concat([runs.planned, further], ignore_index=True))
    assert verdict("Parents that start at random end as good", runs) == HOLDS


TURNS = tuple({"change": f"turn by {degrees}°", "layer": "objects"} for degrees in (90, 15))


@pytest.mark.parametrize(("same", "expected"), [(-0.5, HOLDS), (0.85, FAILS)])
def test_poses_that_hardly_change_are_not_equivariant_and_the_largest_turn_counts(same, expected):
    cells = [
        (label, metric, value, TURNS[0])
        for label, values in ((CAPSULES, (0.9, same)), ("vae", (0.6, -0.5)))
        for metric, value in zip(("pose_r2", "pose_r2_same"), values, strict=True)
    ]
    smaller = [(label, metric, 0.5, TURNS[1]) for label in (CAPSULES, "vae") for metric in ("pose_r2", "pose_r2_same")]
    runs = runs_of("equivariance", [*cells, *smaller])
    found = EVERY["Poses of objects are equivariant, more than latents of a VAE"].test(runs)
    assert found.verdict == expected
    assert found.statistic.mean == pytest.approx((1 - 0.1 / (1 - same)) - (1 - 0.4 / 1.5), abs=0.02)


ITERATING, LARGER = "Training curves jitter more with more iterations", "Training curves jitter less with larger poses"


def curves(deviations):
    """Held-out accuracy over 400 epochs, three seeds: a straight line with noise of a deviation for each method."""
    random = np.random.default_rng(0)
    rows, planned = [], []
    for (label, steps), deviation in deviations.items():
        for seed in range(3):
            known = {"label": label, "iterations": steps, "seed": seed, "model": "tsai-tiny"}
            planned.append(
                {**known, "cell": f"{label}{steps}{seed}", "method": label, "status": "ok", "role": "method"}
            )
            values = np.linspace(20, 90, 400) + deviation * random.standard_normal(400)
            rows += [
                {"cell": planned[-1]["cell"], **known, "metric": "held_out_accuracy", "value": value, "epoch": epoch}
                for epoch, value in enumerate(values, start=1)
            ]
    kinds = {"iterations": "Int64"}
    results = pd.DataFrame(rows).assign(unit="%", test_iterations=pd.NA, split="held-out")
    return replace(
        made_up_runs(seeds=1), model="tsai-tiny", protocol="accuracy",
        results=results.astype({**kinds, "test_iterations": "Int64"}), planned=pd.DataFrame(planned).astype(kinds),
    )  # fmt: skip


@pytest.mark.parametrize(("most", "larger", "expected"), [(2.0, 1.0, (HOLDS, HOLDS)), (0.5, 1.0, (FAILS, FAILS))])
def test_jitter_is_the_deviation_from_a_smooth_curve(most, larger, expected):
    attention = "inverted-attention"
    runs = curves({(attention, 1): 1.0, (attention, 4): most, (f"{attention} (6x6 poses)", 4): larger})
    assert (verdict(ITERATING, runs), verdict(LARGER, runs)) == expected
    for claim in (ITERATING, LARGER):
        assert EVERY[claim].test(runs).statistic.mean == pytest.approx(most - 1.0, abs=0.1)


def test_three_epochs_have_no_jitter():
    runs = curves({("inverted-attention", 1): 1.0, ("inverted-attention", 4): 2.0})
    short = replace(runs, results=runs.results[runs.results["epoch"] <= 3])
    assert EVERY[ITERATING].test(short) is None
