"""The analyses of the protocol `generation`, on what it finds in untrained models, and on numbers made up."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from routebench import published, statistics
from routebench.analysis.figures import to_svg
from routebench.analysis.pictures import first_arrays, on_paper, tiled
from routebench.data import load
from routebench.engine.suites import Choices, load_suite, plan
from routebench.models import build
from routebench.papers.smith.protocols import free_form as free_form_module
from routebench.papers.smith.protocols import generation as module
from routebench.papers.smith.protocols import presences as presences_module
from routebench.papers.smith.protocols.generation import Generation
from routebench.protocols.base import Fit
from routebench.protocols.probe import fit_probe
from routebench.registry import analyses
from tests.analyses.measured import parts_of
from tests.protocols import small_digits
from tests.protocols.small_digits import SMALL, Untrained

NAMES = ("templates", "free-form", "template-arrangement", "bound", "samples")
OURS, FULL = "generative-capsules", "generative-capsules (full posterior)"
READ_OURS, READ_FULL = "Generative capsules", "Generative capsules (full posterior)"  # as readers see them
OPTIONS = {"angles": [0, 90], "images": 3, "steps": 2, "learning_rate": 0.1}
SUITE = """
question = "What do they learn?"
version = 1
protocol = "generation"

[training]
loss = "own"

[[methods]]
name = "generative-capsules"
models = { generative-capsules-small = "generative-capsules-small" }

[[methods]]
name = "generative-capsules"
variant = "full posterior"
models = { generative-capsules-small = "generative-capsules-small" }
model_params = { posterior = "full" }

[[baselines]]
name = "vae"
models = { generative-capsules-small = "vae" }

[presets.smoke]
data = "mnist5k"
model = "generative-capsules-small"
seeds = 2
iterations = [1]
training = { epochs = 1 }
"""


class Fresh(Untrained):
    """Lends untrained networks that are built with what the suite says of them."""

    def fit(self, request):
        torch.manual_seed(request.seed)
        network = build(request.model, shape=load(request.data).train.shape, classes=10, **request.model_params)
        return Fit(network.eval(), [], 0.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two models of generative capsules with two seeds each, and a VAE, whose second seed failed."""
    folder = tmp_path_factory.mktemp("generation")
    (folder / "looked-into.toml").write_text(SUITE)

    def found(cell):
        if cell.label == "vae" and cell.identity.seed == 1:
            return "planted"
        return Generation().measure(cell.request(), OPTIONS, Fresh())

    with pytest.MonkeyPatch.context() as patch:
        small_digits.register(patch)
        for probing in (free_form_module, presences_module):
            patch.setattr(probing, "fit_probe", partial(fit_probe, grid=[0.1]))  # quick
        patch.setattr(module, "LOOKED_AT", 10)
        patch.setattr(free_form_module, "SAMPLES", 2)
        made = plan(load_suite(str(folder / "looked-into.toml")), "smoke", Choices(data=SMALL))
        (only,) = parts_of(made, folder / "results", found)
    return only


def given(runs, metric, values, label=OURS, **where):
    """The runs, with values by seed in place of those of one metric of one model."""
    results = runs.results.copy()
    chosen = (results["metric"] == metric) & (results["label"] == label)
    for column, value in where.items():
        chosen &= (results[column] == value).fillna(False)
    for seed, value in enumerate(values):
        here = chosen & (results["seed"] == seed)
        assert here.any()
        results.loc[here, "value"] = float(value)
    return replace(runs, results=results)


def arrays_of(runs, name, label=OURS):
    """The arrays of the first seed of one model."""
    return next(arrays for method, arrays in first_arrays(runs, name).items() if method.label == label)


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_of_one_model_is_enough(runs, name):
    label, planned = "my-own-model-with-a-very-long-name-indeed[templates=40]", runs.planned
    one = runs.results[(runs.results["label"] == OURS) & (runs.results["seed"] == 0)].assign(label=label)
    planned = planned[planned["cell"].isin(one["cell"])].assign(label=label)
    found = analyses[name](replace(runs, results=one, planned=planned))
    assert set(found.numbers["name"]) == {label}
    assert "±" not in " ".join(found.shown().to_numpy().ravel())
    if found.figure is not None:
        assert "My own model" in to_svg(found.figure)


@pytest.mark.parametrize("name", NAMES)
def test_without_pictures_numbers_are_left(runs, name):
    found = analyses[name](replace(runs, arrays=lambda cell: {}))
    assert (found is None) == (name == "samples")
    if name in ("templates", "free-form"):
        assert found.figure is None


def test_templates_says_who_collapsed_and_how(runs):
    found = given(given(runs, "collapsed", (1, 0)), "collapsed", (1, 1), FULL)
    found = given(given(found, "template_share", (83, 12)), "template_share", (20, 64), FULL)
    found = given(given(found, "dead_templates", (2, 1)), "dead_templates", (9, 12), FULL)
    found = given(given(found, "idle_objects", (3, 4)), "idle_objects", (0, 0), FULL)
    analysis = analyses["templates"](found)
    table = analysis.numbers.set_index("name")
    assert list(analysis.numbers["name"]) == [FULL, OURS]
    assert table["collapsed_seeds"].to_dict() == {FULL: 2, OURS: 1}
    assert table.loc[OURS, "how"] == "one template draws 83 % of everything"
    assert table.loc[FULL, "how"] == (
        "one template draws 64 % of everything in 1 seed; 9 to 12 of 16 templates are dead in 2 seeds"
    )
    assert analysis.reading == f"{READ_FULL} collapsed in 2 of 2 seeds and {READ_OURS} in 1 of 2."
    assert "COLLAPSED" in to_svg(analysis.figure)
    interval = statistics.mean_interval([9, 12])
    assert table.loc[FULL, ["dead", "dead_low"]].tolist() == pytest.approx([interval.mean, max(interval.low, 0.0)])


def test_templates_without_a_collapse_says_so(runs):
    found = runs
    for label in (OURS, FULL):
        for metric, values in (("collapsed", (0, 0)), ("dead_templates", (0, 1)), ("idle_objects", (0, 2))):
            found = given(found, metric, values, label)
    analysis = analyses["templates"](found)
    assert analysis.reading.endswith("did not collapse with any seed.")
    assert "COLLAPSED" not in to_svg(analysis.figure)
    assert set(analysis.numbers["how"]) == {""}


def test_idle_objects_are_not_overlooked(runs):
    found = given(runs, "collapsed", (0, 0))
    found = given(given(found, "idle_objects", (16, 2)), "idle_objects", (3, 2), FULL)
    analysis = analyses["templates"](found)
    assert (
        analysis.reading
        == f"No model collapsed; {READ_OURS} had all objects idle in 1 of 2 seeds; {READ_FULL} did neither."
    )
    assert "0 of 2; all objects are idle in 1 of 2 seeds" in set(analysis.shown()["Collapsed"])
    third = given(found, "collapsed", (1, 0), FULL)
    assert analyses["templates"](third).reading == (
        f"{READ_FULL} collapsed in 1 of 2 seeds; {READ_OURS} had all objects idle in 1 of 2 seeds."
    )
    assert "ALL OBJECTS IDLE" in to_svg(analysis.figure)


def test_free_form_gains_are_paired_by_seed(runs):
    found = runs
    values = {"encoder": {0: (90, 80), 90: (50, 60)}, "free-form": {0: (91, 80.5), 90: (70, 72)}}
    for inference, by_angle in values.items():
        for angle, given_ in by_angle.items():
            found = given(found, "free_form_accuracy", given_, inference=inference, angle=angle)
    for inference, seconds in (("encoder", (0.001, 0.002)), ("free-form", (1, 4))):
        found = given(found, "seconds_per_image", seconds, inference=inference, angle=90)
    analysis = analyses["free-form"](found)
    table = analysis.numbers.set_index(["name", "angle"])
    interval = statistics.mean_interval([20, 12])
    row = table.loc[OURS, 90]
    assert row[["accuracy_encoder", "accuracy_free"]].tolist() == pytest.approx([55, 71])
    assert row[["accuracy_gain", "accuracy_gain_low", "accuracy_gain_high"]].tolist() == pytest.approx(
        [interval.mean, interval.low, interval.high]
    )
    assert row["ratio"] == pytest.approx((1000 + 2000) / 2)
    assert table.loc[(OURS, 0), "accuracy_gain"] == pytest.approx(0.75)
    assert table["accuracy_gain_p_holm"].to_numpy() == pytest.approx(
        statistics.holm(table["accuracy_gain_p"].to_numpy(dtype=float), len(table)), nan_ok=True
    )
    assert set(analysis.numbers["name"]) == {OURS, FULL}
    assert "Re-encoded, %" in set(analysis.shown())
    assert analysis.shown()["Accuracy, %"].iloc[1] == "55.0 → 71.0 (+16 [−35, +67])"
    assert analysis.shown()["Time ×"].iloc[1] == "1,500"


def test_published_gain_stands_beside_the_same_model_on_the_same_data_only(runs):
    assert not (analyses["free-form"](runs).numbers["published_id"] != "").any()
    analysis = analyses["free-form"](replace(runs, data="mnist"))
    rows = analysis.numbers[analysis.numbers["published_id"] != ""]
    known = published.load_published().set_index("id")["value"]
    assert rows["published_id"].tolist() == ["SMI-019 and SMI-020"]
    assert rows[["accuracy_gain", "ratio"]].iloc[0].tolist() == [known["SMI-019"], known["SMI-020"]]
    assert list(analysis.numbers["name"])[2] == f"{OURS}, published"
    assert analysis.shown()["Model"].iloc[2] == f"{READ_OURS}, published"
    assert "about +0.5" in set(analysis.shown()["Accuracy, %"])
    assert not analysis.shown().isin(["nan"]).any().any()


def test_each_template_has_a_colour_of_its_own(runs):
    analysis = analyses["template-arrangement"](runs)
    sheet = np.asarray(analysis.figure.axes[1].images[0].get_array())
    parts = arrays_of(runs, "turned_parts")["turned_parts"]
    assert analysis.figure.axes[1].get_title("left").startswith(READ_OURS)
    assert sheet.std(axis=-1).max() > 20  # coloured
    cell = runs.planned.query("label == @OURS and seed == 0")["cell"].iloc[0]
    swapped = {**arrays_of(runs, "turned_parts"), "turned_parts": parts[:, ::-1]}
    again = analyses["template-arrangement"](
        replace(runs, arrays=lambda key: swapped if key == cell else runs.arrays(key))
    )
    assert np.array_equal(np.asarray(again.figure.axes[1].images[0].get_array()), sheet)  # by share, not by number


def test_reuse_is_the_mean_over_seeds(runs):
    analysis = analyses["template-arrangement"](given(runs, "template_reuse", (0.9, 0.5), angle=90))
    row = analysis.numbers.set_index(["name", "angle"]).loc[OURS, 90]
    assert row["mean"] == pytest.approx(0.7)
    upright = replace(runs, results=runs.results[~(runs.results["angle"] == 90).fillna(False)])
    alone = analyses["template-arrangement"](upright)
    assert len(alone.figure.axes) == len(analysis.figure.axes) - 1


def test_bound_keeps_the_two_kinds_apart(runs):
    analysis = analyses["bound"](
        given(given(runs, "bound", (-10, -20), term="total"), "bound", (5, 6), FULL, term="total")
    )
    table = analysis.numbers.set_index("name")
    assert table["poses"].to_dict() == {OURS: "certain", FULL: "normal", "vae": ""}
    assert table.loc[[OURS, FULL], "total"].tolist() == pytest.approx([-15, 5.5])
    assert np.isnan(table.loc["vae", "total"])
    assert "not comparable" in analysis.notes[0]
    for row in (table.loc[OURS], table.loc[FULL]):
        assert isinstance(row["error_90"], float) and row["error_90"] > 0


def test_terms_sum_to_the_bound(runs):
    table = analyses["bound"](runs).numbers.set_index("name").loc[[OURS, FULL]]
    assert table[["pixels", "parts", "objects"]].sum(axis=1).to_numpy() == pytest.approx(table["total"].to_numpy())


def test_generative_numbers_stand_beside_the_published_limit(runs):
    analysis = analyses["bound"](runs)
    shown = analysis.shown().set_index("Model")["Generative"]
    assert shown[READ_OURS].endswith("(as published: < 30000)")
    assert "published" not in shown[READ_FULL] and shown["VAE (1 of 2 seeds) (baseline)"] == "–"
    larger = analyses["bound"](given(runs, "generative_parameters", (31000, 31000)))
    assert "(more than published: < 30000)" in larger.shown().set_index("Model")["Generative"][READ_OURS]


def test_samples_that_are_all_alike_have_no_spread(runs):
    def alike(cell):
        arrays = dict(runs.arrays(cell))
        if "samples" not in arrays:
            return arrays
        return {key: np.repeat(arrays[key][:1], 5, axis=0) for key in ("samples", "samples_again")}

    analysis = analyses["samples"](replace(runs, arrays=alike))
    assert analysis.numbers["spread"].to_numpy() == pytest.approx(0)
    assert (analysis.numbers["samples"] == 5).all()
    grey = arrays_of(runs, "samples")["samples"] / 255
    rows = analyses["samples"](runs).numbers.set_index(["name", "made_from"])
    row = rows.loc[OURS, "nothing"]
    assert row["brightness"] == pytest.approx(100 * grey.mean())
    assert row["spread"] == pytest.approx(np.sqrt(grey.var(axis=0).mean()))
    again = arrays_of(runs, "samples")["samples_again"] / 255
    assert rows.loc[(OURS, "objects of training images"), "brightness"] == pytest.approx(100 * again.mean())
    dark = analyses["samples"](replace(runs, arrays=lambda cell: {"samples": np.zeros((4, 1, 8, 8), dtype=np.uint8)}))
    assert (dark.numbers["empty"] == 4).all()


def test_the_first_finished_seed_is_shown_methods_first(runs):
    planned = runs.planned.copy()
    planned.loc[(planned["label"] == OURS) & (planned["seed"] == 0), "status"] = "failed"
    found = first_arrays(replace(runs, planned=planned), "turned")
    assert {method.exact: int(arrays["seed"]) for method, arrays in found.items()} == {OURS: 1, FULL: 0, "vae": 0}
    assert [method.exact for method in found] == [OURS, FULL, "vae"]


def test_pictures_become_one_sheet():
    pictures = np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1) * np.ones((5, 1, 2, 3), dtype=np.uint8)
    ink = on_paper(pictures)
    assert ink.shape == (5, 2, 3, 3) and ink[4].max() == 251
    sheet = tiled(ink, 3, gap=1, between=7, empty=9)
    assert sheet.shape == (5, 11, 3)
    assert (sheet[0:2, 4:7] == ink[1]).all() and (sheet[3:5, 0:3] == ink[3]).all()
    assert (sheet[2, :8] == 7).all() and (sheet[3:5, 8:] == 9).all()
    assert tiled(ink[:2], 8).shape == (2, 7, 3)


def test_many_models_are_all_in_the_table(runs):
    labels = {number: f"another-model-of-my-own-{number}" for number in range(5)}
    tables = {}
    for table in ("results", "planned"):
        every = getattr(runs, table)
        own = every[every["label"] == OURS]
        copies = [own.assign(label=label, cell=own["cell"] + f"-{number}") for number, label in labels.items()]
        tables[table] = pd.concat([every, *copies])
    many = replace(runs, **tables, arrays=lambda cell: runs.arrays(cell[:16]))
    for name in ("templates", "free-form", "template-arrangement", "bound"):
        found = analyses[name](many)
        assert set(labels.values()) <= set(found.numbers["name"])
        if found.figure is not None:
            to_svg(found.figure)
