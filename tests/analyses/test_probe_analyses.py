"""The analyses of the suite `linear-probe`, on what its protocol finds in untrained networks."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from routebench import published
from routebench.analysis.figures import to_svg
from routebench.analysis.probe import OWN_ANSWER, by_seed, gains, probed, turned_up_to
from routebench.engine.suites import Choices, load_suite, plan
from routebench.notation import parse
from routebench.protocols import linear_probe as module
from routebench.protocols.linear_probe import LinearProbe
from routebench.protocols.probe import fit_probe
from routebench.registry import analyses
from tests.analyses import planted
from tests.analyses.measured import parts_of
from tests.protocols.small_digits import CANVAS, SMALL, Untrained, register

OPTIONS = {"angles": [0, 90], "fixed_angles": [90], "train_angles": [90], "affine": True}
LABELS = ("dynamic", "uniform", "cnn", "vae")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of `dynamic` and of three controls, the second without T = 3; the other controls were not run."""
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        patch.setattr(module, "affine_data", lambda name: CANVAS if name == SMALL else "")
        patch.setattr(module, "fit_probe", partial(fit_probe, grid=[0.1]))  # quick
        made = plan(
            load_suite("linear-probe"),
            "smoke",
            Choices(methods=(parse("dynamic[iterations=3]"),), data=SMALL, seeds=range(2)),
        )
        (only,) = parts_of(made, tmp_path_factory.mktemp("probe"), measured)
    return only


def measured(cell):
    if cell.label not in LABELS:
        return None
    if (cell.identity.iterations, cell.identity.seed) == (3, 1):
        return "planted"
    return LinearProbe().measure(cell.request(), OPTIONS, Untrained())


def rows_of(runs, name, **known):
    found = runs.results[(runs.results["metric"] == "probe_accuracy") & (runs.results["split"] == "test")]
    found = found[found["label"] == name]
    for key, value in known.items():
        found = found[found[key] == value]
    return found


def named(table):
    return table.assign(name=[method.exact for method in table["method"]])


def gained(runs):
    """Values of main features beside uniform routing, by name and angle."""
    found = probed(runs)
    upright = turned_up_to(found[found["main"]])
    return named(upright).assign(gain=gains(by_seed(runs), upright)).set_index(["name", "angle"])["gain"]


def test_probed_is_the_mean_over_seeds(runs):
    table = named(probed(runs))
    found = table.set_index(["name", "feature", "kind", "angle", "train_angle"]).sort_index()["mean"]
    own = rows_of(runs, "uniform", feature="poses", kind="maximal", angle=90, train_angle=0)["value"]
    assert len(own) == 2
    assert found.loc[("uniform", "poses", "maximal", 90, 0)].mean == pytest.approx(own.mean())
    assert set(table.query("unsupervised")["name"]) == {"vae"}
    assert all(method.is_control for method in table.query("name == 'vae'")["method"])
    assert OWN_ANSWER not in set(table.query("name == 'vae'")["feature"])
    assert set(table.query("main")["feature"]) == {"both"}
    assert found.loc[("dynamic T=3", "both", "maximal", 90, 0)].n == 1


def test_trained_alike_is_at_the_same_angle(runs):
    alike = turned_up_to(probed(runs), "alike")
    assert (alike["train_angle"].astype(int) == alike["angle"]).all()
    assert set(alike["angle"]) == {0, 90}
    upright = turned_up_to(probed(runs))
    assert set(upright["train_angle"]) == {0} and set(upright["angle"]) == {0, 90}


def test_gains_are_paired_by_seed(runs):
    found = gained(runs)
    seeds = {
        name: rows_of(runs, name, feature="both", kind="maximal", angle=90, train_angle=0).set_index("seed")["value"]
        for name in ("cnn", "uniform")
    }
    assert found["cnn", 90].mean == pytest.approx((seeds["cnn"] - seeds["uniform"]).mean())
    assert found["cnn", 90].low <= found["cnn", 90].mean
    assert all(gain.mean == 0 for gain in found["uniform"])


def test_seeds_of_probes_know_their_stage(runs):
    staged = by_seed(replace(runs, primary={"first": 2}))
    assert {own.first for own in by_seed(runs).values()} == {None} and {own.first for own in staged.values()} == {2}


@pytest.mark.parametrize("seen", ["alike", "affine"])
def test_without_turned_test_digits_the_main_number_is_about_what_else_was_seen(runs, seen):
    results = runs.results
    trained, angle = (results[column].fillna(-1).astype(int) for column in ("train_angle", "angle"))
    affine = (results["kind"] == "affine").fillna(False)
    upright = (trained == 0) & (angle <= 0) & ~affine
    other = {"alike": trained == 90, "affine": affine}[seen]
    analysis = analyses["probe-table"](replace(runs, results=results[upright | other]))
    assert analysis.reading.endswith("?") and not analysis.main.gains
    assert analysis.main.column.startswith(seen)


def test_the_page_names_networks_whose_features_are_constant(runs):
    assert "constant" not in analyses["probe-table"](runs).reading
    results = runs.results.copy()
    vae = (results["label"] == "vae") & (results["seed"] == 1) & (results["metric"] == "probe_accuracy")
    results.loc[vae, "value"] = 11.35
    told = analyses["probe-table"](replace(runs, results=results)).reading
    assert told.endswith("Features that are constant, so that a probe says one class of every image: VAE with 1 seed.")


def test_digits_as_they_are_need_not_be_upright(runs):
    results = runs.results
    turned, affine = results["angle"].fillna(0).astype(int) > 0, (results["kind"] == "affine").fillna(False)
    trained = results["train_angle"].fillna(0).astype(int) > 0
    results = results[~turned & ~affine & ~trained].copy()
    analysis = analyses["probe-table"](replace(runs, results=results))
    assert "Test digits" in analysis.shown() and analysis.main.title == "Probe, test digits"
    assert analysis.reading.endswith("?")
    vae = (results["label"] == "vae") & (results["seed"] == 1) & (results["metric"] == "probe_accuracy")
    assert len({*results.loc[vae, "feature"]}) > 1
    results.loc[vae, "value"] = 11.35
    told = analyses["probe-table"](replace(runs, results=results)).reading
    assert told.endswith("so that a probe says one class of every image: VAE with 1 seed.")


def test_networks_trained_on_turned_digits_have_a_column_of_their_own(runs):
    analysis = analyses["probe-table"](runs)
    assert "Trained ≤ 90°" in analysis.shown()
    row = analysis.numbers[(analysis.numbers["name"] == "vae") & (analysis.numbers["feature"] == "both")].iloc[0]
    own, upright = (
        rows_of(runs, "vae", feature="both", kind="maximal", angle=90, train_angle=trained)["value"].mean()
        for trained in (90, 0)
    )
    assert row["alike_90"] == pytest.approx(own) and row["maximal_90"] == pytest.approx(upright)


def test_without_uniform_coupling_there_are_curves_but_no_gains(runs):
    without = replace(runs, results=runs.results[runs.results["label"] != "uniform"])
    assert not any(gain.known for gain in gained(without))
    found = analyses["probe-curves"](without)
    assert found.numbers["gain"].isna().all()
    assert "uniform" not in set(found.numbers["name"])


def test_the_table_has_a_column_for_every_view(runs):
    table = analyses["probe-table"](runs).numbers.set_index(["name", "feature"])
    views = ["maximal_0", "maximal_90", "fixed_90", f"affine_{CANVAS}"]
    assert set(views) <= set(table)
    own = rows_of(runs, "cnn", feature="hidden", kind="affine")["value"]
    assert table.loc[("cnn", "hidden"), f"affine_{CANVAS}"] == pytest.approx(own.mean())
    assert not table["published"].any()
    shown = analyses["probe-table"](runs).shown()
    assert {"Upright", "≤ 90°", "= 90°", CANVAS} <= set(shown)
    assert "VAE (baseline, labels unseen)" in set(shown["Method"])
    main = analyses["probe-table"](runs).main
    assert "dynamic T=3" in {method.exact for method in main.table["method"]}
    assert {method.exact for method in main.gains} >= {"cnn", "dynamic T=3"}
    assert "vae" not in {method.exact for method in [*main.gains, *main.table["method"]]}
    assert "= 90°" not in analyses["probe-table"](runs).shown(extra=False)


def test_published_numbers_stand_beside_the_same_model_on_the_same_data_only(runs):
    results = runs.results.assign(angle=runs.results["angle"].replace({90: 45}), tested_on="affnist")
    table = analyses["probe-table"](replace(runs, data="mnist", results=results)).numbers
    rows = table[table["published"]]
    assert list(rows["name"]) == ["vae, published"]
    row = rows.iloc[0]
    known = published.load_published().set_index("id")["value"]
    assert (row["feature"], row["published_id"]) == ("both", "SMI-013 to SMI-018")
    assert (row["maximal_0"], row["maximal_45"]) == pytest.approx((94, 69))
    assert row["affine_affnist"] == pytest.approx(100 * known["SMI-018"])
    assert row["maximal_45_high"] - row["maximal_45"] == pytest.approx(1)
    assert np.isnan(row["fixed_45"])
    notes = analyses["probe-table"](replace(runs, data="mnist", results=results)).notes
    assert any("standard deviation over 5 runs" in note for note in notes)


def test_one_seed_of_one_method_is_enough(runs):
    one = runs.results[(runs.results["label"] == "dynamic") & (runs.results["seed"] == 0)]
    for name in ("probe-table", "probe-curves"):
        found = analyses[name](replace(runs, results=one))
        assert set(found.numbers["name"]) == {"dynamic T=1", "dynamic T=3"}
        assert found.reading.endswith((".", "?"))


def test_one_view_is_enough_for_a_table(runs):
    one = runs.results[runs.results["kind"].isin(["affine"]) | runs.results["kind"].isna()]
    assert analyses["probe-table"](replace(runs, results=one)).main.column == f"affine_{CANVAS}"
    assert analyses["probe-curves"](replace(runs, results=one)) is None


def test_reconstructions_tell_the_error_of_what_is_shown(runs):
    table = analyses["reconstructions"](runs).numbers
    cell = runs.planned.query("label == 'vae' and seed == 0")["cell"].iloc[0]
    arrays = runs.arrays(cell)
    gaps = (arrays["example_images"][1] / 255.0 - arrays["example_reconstructions"][1] / 255.0) ** 2
    assert table.loc[1, "angle"] == 90
    assert table.loc[1, "error"] == pytest.approx(gaps.mean())
    assert set(table["model"]) == {"vae"}


def test_a_long_name_above_reconstructions_is_wrapped(runs):
    label = "my-own-model-with-a-very-long-name-indeed[templates=40]"
    cells = {name: getattr(runs, name).replace({"label": {"vae": label}}) for name in ("results", "planned")}
    found = analyses["reconstructions"](replace(runs, **cells))
    assert found.figure.axes[0].get_title("left") == "My own model with a very long name indeed\n(templates 40)"
    assert "Error per pixel" in found.shown()


def test_long_names_of_many_methods_are_all_drawn(runs):
    tables = {}
    for table in ("results", "planned"):
        every = getattr(runs, table)
        own = every[every["label"] == "cnn"]
        copies = [
            own.assign(label=f"my-own-method-with-a-long-name-{number}[width=3]", cell=own["cell"] + f"-{number}")
            for number in range(12)
        ]
        tables[table] = pd.concat([every, *copies])
    found = analyses["probe-curves"](replace(runs, **tables))
    to_svg(found.figure)
    heads = {axes.get_title("left").replace("\n", " ") for axes in found.figure.axes}
    assert {f"My own method with a long name {number} (width 3)" for number in range(12)} <= heads


@pytest.mark.parametrize(("lead", "is_tested"), [(2.0, False), (-2.0, True)])
def test_a_lead_of_what_lost_seeds_is_not_tested(lead, is_tested):
    values = {"generative-capsules": 70.0 + lead, "dynamic": 70.0 + lead, "vae": 70.0, "uniform": 70.0}
    views = [(angle, trained) for angle in (0, 90) for trained in {0, angle}]
    cells = [
        (label, "probe_accuracy", value, {"split": "test", "feature": "both", "kind": "maximal", "angle": angle,
                                          "train_angle": trained, "tested_on": pd.NA})
        for label, value in values.items() for angle, trained in views
    ]  # fmt: skip
    runs = planted.measured("linear-probe", cells, lost={"generative-capsules": {2}, "dynamic": {2}})
    for name in ("probe-rotated-training", "probe-curves"):
        table = analyses[name](runs).table
        gains = [gain for method, gain in zip(table["method"], table["gain"], strict=True) if method.label == "dynamic"]
        known = [gain for gain in gains if gain.known]
        assert known
        assert {gain.has_limits for gain in known} == {is_tested}
