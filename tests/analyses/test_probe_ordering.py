"""What is said of the ordering (t0, A0) > t0 > VAE, and of training on turned digits, on accuracies made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench import published, statistics
from routebench.analysis import Runs, Verdict
from routebench.analysis.figures import to_svg
from routebench.analysis.palette import colours_of
from routebench.registry import analyses

OURS, VAE, SCAE = "generative-capsules", "vae", "scae"
READ_OURS = "Generative capsules"  # as readers see it
NOISE = np.array([0.0, 0.4, -0.3, 0.1, -0.2])
AT = {  # upright, up to 45, 90 and 180 degrees; trained upright
    (OURS, "both"): (97, 90, 77, 65),
    (OURS, "presences"): (96, 78, 56, 44),
    (VAE, "both"): (94, 69, 50, 44.1),
    (SCAE, "both"): (98, 80, 60, 50),
}
ALIKE = {  # trained and tested on digits turned as far: upright, 90, 180
    (OURS, "both"): (97, 88, 80),
    (OURS, "presences"): (96, 60, 45),
    (VAE, "both"): (94, 82, 70),
    (SCAE, "posterior"): (98, 65, 50),
}


def runs_of(seeds=5, at=AT, alike=ALIKE, data="mnist", labels=None):
    """Probes of models without labels; seeds differ, by some noise that they share and some that they do not."""
    rows, labels, random = [], labels or {}, np.random.default_rng(0)

    def add(name, feature, train, angle, value):
        for seed in range(seeds):
            noise = NOISE[seed] + 0.2 * random.normal()
            label = labels.get(name, name)
            rows.append({
                "cell": f"{label}-{seed}", "label": label, "iterations": pd.NA, "seed": seed, "split": "test",
                "metric": "probe_accuracy", "value": value + noise, "feature": feature, "train_angle": train,
                "angle": angle, "kind": "maximal", "tested_on": pd.NA, "unit": "%",
            })  # fmt: skip

    for (name, feature), values in at.items():
        for angle, value in zip((0, 45, 90, 180), values, strict=True):
            add(name, feature, 0, angle, value)
    for (name, feature), values in alike.items():
        for angle, value in zip((90, 180), values[1:], strict=True):
            add(name, feature, angle, angle, value)
    results = pd.DataFrame(rows).astype({"angle": "Int64", "train_angle": "Int64", "iterations": "Int64"})
    cells = results.drop_duplicates("cell")[["cell", "label", "seed"]]
    planned = cells.assign(role="control", status="ok", iterations=pd.NA, model=cells["label"], data=data, reason="")
    return Runs(
        "smith-probes", "full", data, OURS, "linear-probe", results, planned, colours=colours_of(results["label"])
    )


def test_a_lead_of_a_model_that_lost_seeds_is_not_shown():
    whole = runs_of()
    lost = (whole.planned["label"] == OURS) & (whole.planned["seed"] == 2)
    runs = replace(
        whole,
        planned=whole.planned.assign(status=whole.planned["status"].mask(lost, "diverged")),
        results=whole.results[~whole.results["cell"].isin({*whole.planned.loc[lost, "cell"]})],
    )
    for one, own, beside in ((whole, "yes", "yes"), (runs, "yes", "not shown")):
        found = analyses["probe-ordering"](one)
        table = found.numbers.set_index(["view", "pair"])["holds"]
        assert (table["up to 90°", "(t0, A0) > t0"], table["up to 90°", "t0 > VAE"]) == (own, beside)
        assert any("the side that is ahead lost seeds" in note for note in found.notes) == (beside == "not shown")


@pytest.fixture(scope="module")
def runs():
    return runs_of()


def values_of(runs, label, feature, angle, train=0):
    own = runs.results.query("label == @label and feature == @feature and angle == @angle and train_angle == @train")
    return own.set_index("seed")["value"].to_dict()


def test_leads_are_paired_by_seed_and_corrected(runs):
    table = analyses["probe-ordering"](runs).numbers
    row = table.set_index(["view", "pair"]).loc["up to 90°", "t0 > VAE"]
    found = statistics.paired_difference(values_of(runs, OURS, "presences", 90), values_of(runs, VAE, "both", 90))
    assert row[["gain", "gain_low", "gain_high", "gain_p"]].tolist() == pytest.approx(
        [found.mean, found.low, found.high, found.p_value]
    )
    assert table["gain_p_holm"].to_numpy() == pytest.approx(statistics.holm(table["gain_p"].to_numpy(dtype=float)))
    assert (row["first"], row["second"]) == pytest.approx(
        (
            np.mean([*values_of(runs, OURS, "presences", 90).values()]),
            np.mean([*values_of(runs, VAE, "both", 90).values()]),
        )
    )
    assert len(table) == 4 * 3 and set(table["name"]) == {OURS}


def test_each_pair_holds_is_reversed_or_is_not_shown_at_each_angle(runs):
    analysis = analyses["probe-ordering"](runs)
    holds = analysis.numbers.set_index(["view", "pair"])["holds"]
    assert holds["up to 45°", "t0 > VAE"] == "yes" and holds["up to 180°", "t0 > VAE"] == "not shown"
    turned = analyses["probe-ordering"](runs_of(at={**AT, (VAE, "both"): (94, 69, 50, 60)}))
    assert turned.numbers.set_index(["view", "pair"])["holds"]["up to 180°", "t0 > VAE"] == "reversed"


def test_published_leads_stand_beside_ours_on_the_same_data_only(runs):
    table = analyses["probe-ordering"](runs).numbers.set_index(["view", "pair"])
    known = published.load_published().set_index("id")["value"]
    assert table.loc[("up to 45°", "(t0, A0) > t0"), "published_gain"] == pytest.approx(
        100 * (known["SMI-008"] - known["SMI-002"])
    )
    assert table.loc[("up to 180°", "t0 > VAE"), "published_ids"] == "SMI-005, SMI-017"
    assert table.loc[("up to 180°", "(t0, A0) > VAE"), "published_gain"] == pytest.approx(
        100 * (known["SMI-011"] - known["SMI-017"])
    )
    elsewhere = analyses["probe-ordering"](runs_of(data="mnist5k")).numbers
    assert elsewhere["published_gain"].isna().all()


def test_affnist_has_a_row_of_its_own():
    more = {(OURS, "both"): 92.0, (OURS, "presences"): 88.0, (VAE, "both"): 40.0}
    base = runs_of()
    affine = base.results[(base.results["angle"] == 0) & (base.results["train_angle"] == 0)].copy()
    affine["value"] += [
        more.get((label, feature), 0) - 100 for label, feature in zip(affine["label"], affine["feature"], strict=True)
    ]
    affine = affine.assign(kind="affine", angle=pd.NA, tested_on="affnist").astype({"angle": "Int64"})
    analysis = analyses["probe-ordering"](replace(base, results=pd.concat([base.results, affine])))
    row = analysis.numbers.set_index(["view", "pair"]).loc["affnist", "(t0, A0) > t0"]
    assert row["published_ids"] == "SMI-012, SMI-006"
    upright = base.results[(base.results["angle"] == 0) & (base.results["train_angle"] == 0)]
    still = analyses["probe-ordering"](replace(base, results=pd.concat([upright, affine])))
    assert set(still.numbers["view"]) == {"upright", "affnist"}
    assert analyses["probe-ordering"](replace(base, results=upright)) is None


def test_one_seed_shows_nothing_and_missing_models_have_no_rows():
    one = analyses["probe-ordering"](runs_of(seeds=1))
    assert set(one.numbers["holds"]) == {"not shown"}
    without = runs_of(at={key: values for key, values in AT.items() if key[0] != VAE})
    found = analyses["probe-ordering"](without)
    assert set(found.numbers["pair"]) == {"(t0, A0) > t0"}
    assert analyses["probe-ordering"](runs_of(at={(VAE, "both"): AT[VAE, "both"]}, alike={})) is None


def test_variants_are_models_of_their_own():
    long = f"{OURS} (full posterior from the start)"
    found = analyses["probe-ordering"](runs_of(labels={OURS: long}))
    assert set(found.numbers["name"]) == {long}


def test_probe_table_has_the_published_rows_of_both_features_and_of_the_vae(runs):
    table = analyses["probe-table"](runs).numbers
    rows = table[table["published"]].set_index(["label", "feature"])
    assert set(rows.index) == {(OURS, "presences"), (OURS, "both"), (VAE, "both")}
    known = published.load_published().set_index("id")["value"]
    for key, first in (((OURS, "presences"), 1), ((OURS, "both"), 7), ((VAE, "both"), 13)):
        views = ("maximal_0", "maximal_45", "maximal_90", "maximal_180")
        ids = [f"SMI-{first + place:03d}" for place in (0, 1, 2, 4)]
        assert rows.loc[key, list(views)].tolist() == pytest.approx([100 * known[one] for one in ids])
    order = list(table[table["label"] == OURS]["feature"])
    assert order == ["both", "both", "presences", "presences"]
    names = set(analyses["probe-table"](runs).shown()["Method"])
    assert {f"{READ_OURS}, published", "VAE, published"} <= names
    notes = " ".join(analyses["probe-table"](runs).notes)
    assert "SMI-001" in notes and "SMI-007" in notes and "SMI-013" in notes


def test_leads_over_the_vae_are_paired_at_each_training_angle(runs):
    table = analyses["probe-rotated-training"](runs).numbers.set_index(["name", "feature", "angle"])
    found = statistics.paired_difference(
        values_of(runs, OURS, "presences", 180, 180), values_of(runs, VAE, "both", 180, 180)
    )
    row = table.loc[OURS, "presences", 180]
    assert row[["gain", "gain_p"]].tolist() == pytest.approx([found.mean, found.p_value])
    assert table.loc[VAE]["gain"].isna().all()
    assert set(table.index.get_level_values("angle")) == {0, 90, 180}
    assert table["gain_p_holm"].dropna().max() <= 1


def test_features_are_ahead_of_the_vae_or_behind_it(runs):
    analysis = analyses["probe-rotated-training"](runs)
    last = analysis.table[analysis.table["angle"] == 180].to_dict("records")
    leads = {(row["method"].label, row["feature"]): row["gain"].verdict for row in last}
    assert (leads[OURS, "both"], leads[OURS, "presences"]) == (Verdict.BETTER, Verdict.WORSE)
    drawn = to_svg(analysis.figure)
    assert "all features of VAE" not in drawn
    assert drawn == to_svg(analyses["probe-rotated-training"](runs).figure)


def test_one_training_angle_is_not_enough(runs):
    assert analyses["probe-rotated-training"](runs_of(alike={})) is None
    one = analyses["probe-rotated-training"](runs_of(seeds=1))
    assert Verdict.BETTER not in {gain.verdict for gain in one.table["gain"]}
    alone = runs_of(alike={key: values for key, values in ALIKE.items() if key[0] != VAE})
    table = analyses["probe-rotated-training"](alone).table
    assert not any(gain.known for gain in table.loc[table["angle"] == 180, "gain"])
