"""The analyses of the suite `robustness`, on what its protocol finds in networks that are hardly trained."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from routebench import statistics
from routebench.analysis import Verdict, wording
from routebench.analysis.attacked import (
    budgets,
    compared,
    fired_checks,
    main_eps,
    verdicts,
    with_other_images,
    without_attacks,
)
from routebench.analysis.figures import to_svg
from routebench.analysis.folder import open_folder
from routebench.data import load
from routebench.engine.suites import Choices, load_suite, plan
from routebench.masking import CHECKS
from routebench.notation import parse
from routebench.protocols.base import Fit
from routebench.protocols.robustness import Robustness
from routebench.registry import analyses
from routebench.report._scorecard import scorecard_of
from tests.analyses.measured import parts_of
from tests.attacks.networks import Rounded, honest
from tests.protocols.test_robustness import QUICK

STANDARD = Path(__file__).parents[2] / "reports" / "standard"
NAMES = ("robustness-table", "attack-curves", "attack-verdicts", "transfer-attack", "corruptions")
FEW = {
    **QUICK,
    "attacks": ["noise", "fgsm", "pgd", "apgd-ce"],
    "apgd_steps": 1,
    "steps": 2,
    "restarts": 1,
    "images": 20,
}
ALL = {"attack": "worst", "norm": "linf", "loss": "best"}


class Lends:
    """The honest network; `uniform` hides its gradient."""

    device = torch.device("cpu")

    def __init__(self, label):
        self.label = label

    def fit(self, request):
        return Fit(Rounded() if self.label == "uniform" and request.method else honest(), [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of `dynamic`, and of the controls, all of which are the same CNN underneath."""
    made = plan(load_suite("robustness"), "smoke", Choices(methods=(parse("dynamic"),), seeds=range(2)))
    (only,) = parts_of(
        made,
        tmp_path_factory.mktemp("robustness"),
        lambda cell: Robustness().measure(cell.request(), FEW, Lends(cell.label)),
    )
    return only


@pytest.fixture(scope="module")
def one_seed(runs):
    return replace(
        runs, results=runs.results[runs.results["seed"] == 0], planned=runs.planned[runs.planned["seed"] == 0]
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_is_enough(one_seed, name):
    assert not analyses[name](one_seed).table.empty


@pytest.mark.parametrize("name", NAMES)
def test_without_black_box_or_controls_the_rest_stands(runs, name):
    black = (runs.results["attack"] == "transfer").fillna(False).astype(bool)
    results = runs.results[~black & (runs.results["label"] == "dynamic")]
    found = analyses[name](replace(runs, results=results))
    assert (found is None) == (name == "transfer-attack")


def test_budgets_are_those_that_were_run(runs):
    assert budgets(runs) == ["0.05", "0.15"]
    assert main_eps(runs) == "0.05"


def test_the_table_holds_means_over_seeds_and_the_verdict(runs):
    table = analyses["robustness-table"](runs).numbers.set_index("name")
    own = runs.results.query("metric == 'attacked_accuracy' and attack == 'worst' and norm == 'linf' and eps == '0.05'")
    for name, label, steps in (("dynamic T=3", "dynamic", 3), ("uniform", "uniform", None)):
        rows = own[own["label"] == label]
        rows = rows if steps is None else rows[rows["iterations"] == steps]
        assert table.loc[name, "worst"] == pytest.approx(rows["value"].mean())
        assert table.loc[name, "n"] == 2
    assert table.loc["uniform", "verdict"].startswith("suspect: gradients are zero")
    assert table.loc["dynamic T=3", "verdict"] == "believable"
    assert np.isnan(table.loc["uniform", "gain_uniform"])
    assert (table["worst"].diff().dropna() <= 0).all()
    assert (table["worst_0.15"] <= table["worst"]).all()


def test_the_table_says_what_attacks_on_survivors_take_where_they_were_run(runs):
    found = analyses["robustness-table"](runs)
    own = runs.results.query("metric == 'accuracy_taken' and attack == 'apgd-ce' and eps == '0.05' and label == 'cnn'")
    assert found.numbers.set_index("name").loc["cnn", "taken_apgd-ce"] == pytest.approx(own["value"].mean())
    assert [column.title for column in found.columns if "takes" in column.title] == ["APGD-CE takes"]


def test_columns_name_what_methods_are_compared_with_as_readers_do(runs):
    titles = [column.title for column in analyses["robustness-table"](runs).columns]
    told = [title for title in titles if title.startswith("Against") and not title.endswith("other images")]
    assert told == ["Against uniform routing", "Against the CNN"]


def test_the_reading_says_who_and_whether_to_believe_it(runs):
    found = analyses["robustness-table"](runs)
    doubted = [row["method"].text for row in found.table.to_dict("records") if row["verdict"].startswith("suspect")]
    assert "Uniform routing" in doubted and len(doubted) < len(found.table)
    assert found.reading.endswith(f"Checks doubt the numbers of {wording.listed(doubted, 6)}.")


def test_the_reading_names_who_is_significantly_worse():
    (published,) = (part for part in open_folder(STANDARD).parts if part.suite == "robustness")
    found = analyses["robustness-table"](published)
    gains = found.numbers
    worse = found.table["method"][(gains["gain_uniform_p_holm"] < 0.05) & (gains["gain_uniform"] < 0)]
    assert len(worse) > 0
    assert found.reading == (
        "No method is shown to be better than uniform routing (Under attack, ε 0.02, 500 images). "
        f"Worse: {wording.listed([*worse])}. With other test images too: none of these."
    )


def test_a_scorecard_says_what_is_left_of_attacks_with_other_images():
    (published,) = (part for part in open_folder(STANDARD).parts if part.suite == "robustness")
    card = scorecard_of([("a", published, analyses["robustness-table"](published))])
    assert card.questions[0].title == "Under attack, ε 0.02, 500 images"
    assert card.tally(card.questions[0]) == "0 better, 1 worse of 10; other images: 0, 0"


def test_differences_with_other_images_are_over_seeds_and_images(runs):
    where = {**ALL, "eps": "0.15"}
    found = by_name(with_other_images(runs, "cnn", where))
    cells = runs.planned.sort_values("seed").groupby("label")["cell"]
    ours, theirs = (
        np.stack([runs.arrays(cell)["robust"][1] for cell in cells.get_group(label)]).astype(bool)
        for label in ("uniform", "cnn")
    )
    expected = statistics.crossed_difference(ours, theirs)
    told = found["uniform"]
    assert (told.mean, told.low, told.p) == pytest.approx((100 * expected.mean, 100 * expected.low, expected.p_value))
    assert set(found) == set(by_name(compared(runs, "cnn", where)))
    assert with_other_images(runs, "absent", where) == {}
    assert with_other_images(runs, "cnn", {**where, "attack": "pgd"}) == {}  # only the worst case was kept by image
    assert with_other_images(replace(runs, data="rendered-shapes-small"), "cnn", where) == {}
    table = analyses["robustness-table"](runs)
    assert [c.title for c in table.columns if c.title.endswith("other images")] == [
        "Against uniform routing, other images",
        "Against the CNN, other images",
    ]
    assert any("at eps 0.05 alone" in note and "2 budgets would be one family" in note for note in table.notes)


def test_toys_of_unknown_views_are_said_to_tell_nothing_of_other_images(runs):
    notes = analyses["robustness-table"](replace(runs, data="rendered-shapes-small")).notes
    assert any("nothing else here does" in note for note in notes)


@pytest.mark.parametrize(
    ("count", "attacks", "told"),
    [
        (4, ("deepfool", "boundary"), True),
        (20, ("deepfool", "boundary"), False),
        (4, (), False),
        (None, ("boundary",), False),
    ],
)
def test_fewer_images_of_some_attacks_are_told(runs, count, attacks, told):
    first = runs.results.drop_duplicates("cell").assign(metric="queries", value=9.0, norm="l2", eps=None, loss=None)
    rows = [first.assign(attack=attack) for attack in attacks]
    found = replace(runs, results=pd.concat([runs.results, *rows]), options=lambda cell: {"minimal_images": count})
    told_of = [note for note in analyses["robustness-table"](found).notes if "smallest change" in note]
    assert told_of == [f"DeepFool and Boundary look for the smallest change, on {count} of these images."] * told


def test_what_lacks_an_attack_stands_behind_and_is_not_called_better(runs):
    results = runs.results.copy()
    ours = (results["label"] == "uniform") & (results["seed"] == 1)
    worst = (
        (results["metric"] == "attacked_accuracy") & (results["attack"] == "worst") & (results["label"] == "uniform")
    )
    results.loc[worst, "value"] = 90.0 + results.loc[worst, "seed"] / 10
    cut = replace(runs, results=results[~(ours & (results["attack"] == "pgd"))])
    whole = replace(runs, results=results)
    where = {**ALL, "eps": "0.05"}
    assert analyses["robustness-table"](whole).table["method"].iloc[0].name == "uniform"
    table = analyses["robustness-table"](cut).table
    assert table["method"].iloc[-1].name == "uniform"
    assert table["verdict"].iloc[-1] == "suspect: no result of PGD"
    assert np.isfinite(by_name(compared(whole, "cnn", where))["uniform"].p)
    assert np.isnan(by_name(compared(cut, "cnn", where))["uniform"].p)
    assert np.isnan(by_name(compared(cut, "uniform", where))["cnn"].p)
    assert by_name(without_attacks(cut)) == {"uniform": ["pgd"]}
    assert without_attacks(whole) == {}


def by_name(found):
    return {method.exact: told for method, told in found.items()}


def test_differences_of_two_seeds_are_paired_by_seed(runs):
    where = {**ALL, "eps": "0.05"}
    found = by_name(compared(runs, "cnn", where))
    own = runs.results[(runs.results["metric"] == "attacked_accuracy")]
    for column, wanted in where.items():
        own = own[own[column] == wanted]

    def seeds(label):
        rows = own[own["label"] == label].drop_duplicates("seed")
        return dict(zip(rows["seed"], rows["value"], strict=True))

    expected = statistics.paired_difference(seeds("uniform"), seeds("cnn"))
    assert found["uniform"].mean == pytest.approx(expected.mean)
    assert {"uniform", "dynamic T=3"} <= set(found)
    assert "cnn" not in found
    assert compared(runs, "absent", where) == {}


def test_differences_of_one_seed_are_paired_by_image(one_seed):
    where = {**ALL, "eps": "0.15"}
    found = by_name(compared(one_seed, "cnn", where))
    cells = one_seed.planned.set_index("label")["cell"]
    ours, theirs = (one_seed.arrays(cells[label])["robust"][1].astype(bool) for label in ("uniform", "cnn"))
    expected = statistics.paired_samples(ours, theirs)
    assert found["uniform"].mean == pytest.approx(100 * expected.mean)
    assert found["uniform"].p == pytest.approx(expected.p_value)
    toys = replace(one_seed, data="rendered-shapes-small")  # nobody knows which of the attacked images show one toy
    assert np.isnan(by_name(compared(toys, "cnn", where))["uniform"].p)


@pytest.mark.parametrize("change", [lambda kept: 1 - kept, lambda kept: 7 * kept, lambda kept: kept[..., None]])
def test_images_that_contradict_the_accuracy_are_told_and_not_tested(one_seed, change):
    told = []
    changed = replace(
        one_seed,
        arrays=lambda cell: {
            name: change(kept) if name == "robust" else kept for name, kept in one_seed.arrays(cell).items()
        },
        tell_fault=lambda *fault: told.append(fault),
    )
    assert np.isnan(by_name(compared(changed, "cnn", {**ALL, "eps": "0.15"}))["uniform"].p)
    assert {name for _, name, _ in told} == {"robust"} and {cell for cell, *_ in told} <= {*one_seed.planned["cell"]}


def test_one_seed_left_of_two_is_tested_by_no_image(runs):
    where = {**ALL, "eps": "0.15"}
    results = runs.results
    left = replace(runs, results=results[(results["label"] != "uniform") | (results["seed"] == 0)])
    assert np.isfinite(by_name(compared(runs, "cnn", where))["uniform"].p)
    assert np.isnan(by_name(compared(left, "cnn", where))["uniform"].p)


def test_seeds_that_all_differ_alike_are_tested_by_image(runs):
    where, withstood = {**ALL, "eps": "0.15"}, {"uniform": 14, "cnn": 5, "dynamic": 6, "random": 6}
    labels = dict(zip(runs.planned["cell"], runs.planned["label"], strict=True))
    results = runs.results.copy()
    worst = (results["metric"] == "attacked_accuracy") & (results["attack"] == "worst") & (results["eps"] == "0.15")
    results.loc[worst, "value"] = results.loc[worst, "label"].map(withstood) * 5.0

    def arrays(cell):
        kept = dict(runs.arrays(cell))
        return kept | {"robust": np.array([np.arange(20) < withstood[labels[cell]]] * len(kept["robust"]))}

    tied = replace(runs, results=results, arrays=arrays)
    same, other = (by_name(of(tied, "cnn", where))["uniform"] for of in (compared, with_other_images))
    assert same.mean == 45
    assert 0 < same.low < same.mean < same.high
    assert same.p < 0.05
    assert (same.low, same.p, same.n) == (other.low, other.p, 2)


def test_curves_start_without_an_attack_and_state_the_units(runs):
    table = analyses["attack-curves"](runs).numbers
    free = table[(table["eps"] == 0) & (table["name"] == "cnn")]
    clean = runs.results.query("metric == 'clean_accuracy' and label == 'cnn'")["value"].mean()
    assert list(free["mean"]) == pytest.approx([clean] * len(free))
    deviation = float(load("mnist5k").train.pixels.double().div(255).std())
    some = table[table["eps"] == 0.15].iloc[0]
    assert some["eps_std"] == pytest.approx(0.15 / deviation)
    assert some["levels"] == 38
    aimed = table[table["targeted"] & (table["name"] == "cnn") & (table["eps"] == 0.15)]
    own = runs.results.query("metric == 'targeted_success' and label == 'cnn' and eps == '0.15'")
    assert float(aimed["mean"].iloc[0]) == pytest.approx(own["value"].mean())


def test_verdicts_count_seeds(runs):
    table = analyses["attack-verdicts"](runs).numbers
    rows = table[(table["name"] == "uniform") & (table["check"] == "zero-gradients")]
    assert (int(rows["yes"].iloc[0]), int(rows["value_n"].iloc[0]), float(rows["value"].iloc[0])) == (2, 2, 100.0)
    assert set(table["check"]) <= set(CHECKS)
    assert by_name(fired_checks(runs))["uniform"]["zero-gradients"] == 2
    assert by_name(verdicts(runs))["cnn"] == "believable"


def test_transfer_sets_a_second_cnn_beside_capsules(runs):
    found = analyses["transfer-attack"](runs)
    rows = found.numbers[(found.numbers["eps"] == 0.05) & (found.numbers["name"] == "cnn")]
    own = runs.results.query("attack == 'transfer' and label == 'cnn' and eps == '0.05'")
    accuracy = own[own["metric"] == "attacked_accuracy"]
    accuracy = accuracy[accuracy["loss"] == ""]["value"].mean()
    assert float(rows["transfer"].iloc[0]) == pytest.approx(accuracy)
    assert (found.numbers["worst"] <= found.numbers["transfer"]).all()


def test_many_methods_with_long_names_can_be_drawn(runs):
    parts, planned = [runs.results], [runs.planned]
    for number in range(12):
        label = f"a-method-of-the-user[with_a_long_parameter={number}]"
        for kept, every in ((runs.results, parts), (runs.planned, planned)):
            own = kept[kept["label"] == "uniform"]
            every.append(
                own.assign(
                    label=label, cell=[sha256(f"{cell} {number}".encode()).hexdigest()[:16] for cell in own["cell"]]
                )
            )
    many = replace(runs, results=pd.concat(parts), planned=pd.concat(planned))
    for name in NAMES:
        found = analyses[name](many)
        assert found.figure is None or "<svg" in to_svg(found.figure)


def test_corruptions_compare_means_over_severities_with_equal_shares(runs):
    found = analyses["corruptions"](runs).numbers.set_index("name")
    rows = runs.results.query("metric == 'corrupted_accuracy' and label == 'dynamic' and iterations == 3")
    for column, corruption in (("corrupted", "all"), ("clean", "none"), ("contrast", "contrast")):
        of = rows[(rows["corruption"] == corruption) & (rows["severity"] == "mean")]
        assert found.loc["dynamic T=3", column] == pytest.approx(of["value"].mean())
    results = runs.results.copy()
    ours = (results["metric"] == "corrupted_accuracy") & (results["label"] == "dynamic") & (results["iterations"] == 3)
    results.loc[ours, "value"] += 20 + results.loc[ours, "seed"] / 10
    for given, expected in ((runs, set()), (replace(runs, results=results), {"Dynamic, T = 3"})):
        gains = analyses["corruptions"](given).table.set_index("method")["gain"]
        assert {str(method) for method, gain in gains.items() if gain.verdict is Verdict.BETTER} == expected
