"""What the protocol reports is what the stored images show, and its checks fire on networks that hide something."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save

from routebench.data import corrupted, load
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.masking import CHECKS
from routebench.models import build
from routebench.protocols.attacking.corrupting import calibration_error
from routebench.protocols.attacking.settings import Settings, balanced
from routebench.protocols.base import Fit, FitRequest
from routebench.protocols.robustness import Robustness, source_request
from routebench.recipe import Recipe
from tests.attacks.networks import Misled, Noisy, Rounded, honest

QUICK = {
    "images": 20,
    "eps": [0.05, 0.15],
    "main_eps": 0.05,
    "steps": 4,
    "restarts": 2,
    "apgd_steps": 3,
    "further_starts": 2,
    "square_queries": 20,
    "attacks": ["noise", "fgsm", "bim", "pgd", "apgd-ce", "apgd-t", "fab-t", "square"],
    "losses": ["training", "difference"],
    "targeted": ["fgsm"],
    "targets": 2,
    "transfer_from": "cnn-small",
    "minimal_images": 4,
    "minimal_steps": 5,
    "queries": 30,
    "transfer_rate": 0.002,
    "transfer_recipe": "",
    "corruptions": ["gaussian-noise", "contrast"],
    "severities": [1, 5],
    "corrupted_images": 50,
    "l2_eps": [1.0],
}


class Lends:
    """Lends one network for the cell, and the honest one to make black-box images with."""

    device = torch.device("cpu")

    def __init__(self, network):
        self.network, self.asked = network, []

    def fit(self, request):
        self.asked.append(request)
        return Fit(self.network if request.seed == 0 else honest(), [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


def request(method=None, iterations=None, model="cnn-small", loss="cross-entropy"):
    recipe = Recipe(epochs=1, loss=loss)
    return FitRequest(model=model, data="mnist5k", recipe=recipe, seed=0, method=method, iterations=iterations)


def measure(network, asked=None, **options):
    return Robustness().measure(asked or request(), {**QUICK, **options}, Lends(network))


def value(found, metric, **where):
    (one,) = [each for each in found.metrics if each.metric == metric and dict(each.where).items() >= where.items()]
    return one.value


def fired(found):
    return {each.where["check"] for each in found.metrics if each.metric == "check_fired" and each.value}


@pytest.fixture(scope="module")
def measured():
    return measure(honest())


WORST = {"attack": "worst", "norm": "linf"}


def test_numbers_are_those_of_the_stored_images(measured):
    kept = load_tensors(save(measured.arrays))
    test = load("mnist5k").test
    pixels, labels = test.pixels[kept["places"]], test.labels[kept["places"]]
    assert torch.equal(labels, kept["labels"])
    with torch.no_grad():
        clean, attacked = (
            honest()(images.float() / 255).scores.argmax(dim=1) == labels for images in (pixels, kept["adversarial"])
        )
    assert value(measured, "attacked_accuracy", **WORST, eps="0.05") == 100 * float(attacked.double().mean())
    assert value(measured, "clean_accuracy") == 100 * float(clean.double().mean())
    assert torch.equal(kept["robust"][0].bool(), attacked)
    assert (kept["adversarial"].int() - pixels.int()).abs().max() == 12


def test_the_worst_case_is_below_every_attack_and_falls_with_eps(measured):
    for eps in ("0.05", "0.15"):
        worst = value(measured, "attacked_accuracy", **WORST, eps=eps)
        alone = [each.value for each in measured.metrics if each.metric == "attacked_accuracy"
                 and each.where["norm"] == "linf" and each.where["eps"] == eps]  # fmt: skip
        assert worst <= min(alone)
    assert (measured.arrays["robust"][1] <= measured.arrays["robust"][0]).all()


def test_an_honest_network_is_believed(measured):
    assert fired(measured) <= {"training-loss", "small-gradients"}
    assert value(measured, "suspicions") == 0
    made = {each.where["check"] for each in measured.metrics if each.metric == "check"}
    assert made == {*CHECKS} - {"around-routing", "decision-based", "failed-attacks"}


def test_the_same_cell_gives_the_same_numbers(measured):
    again = measure(honest())
    assert again.metrics == measured.metrics
    assert all(torch.equal(again.arrays[name], kept) for name, kept in measured.arrays.items())


def test_a_masked_gradient_is_found_out():
    found = measure(Rounded())
    assert {"zero-gradients", "black-box"} <= fired(found)
    assert value(found, "attacked_accuracy", attack="bim", loss="best", eps="0.15") == value(found, "clean_accuracy")
    assert value(found, "suspicions") >= 2


def test_a_gradient_of_the_wrong_sign_is_found_out():
    found = measure(Misled())
    assert "black-box" in fired(found)
    assert value(found, "attacked_accuracy", attack="bim", loss="best", eps="0.15") == value(found, "clean_accuracy")


def test_attacks_on_survivors_have_no_accuracy_of_their_own_but_what_they_take(measured):
    for attack in ("apgd-ce", "apgd-t", "fab-t", "square"):
        assert {each.metric for each in measured.metrics if each.where.get("attack") == attack} == {"accuracy_taken"}
        for eps in ("0.05", "0.15"):
            assert value(measured, "accuracy_taken", attack=attack, eps=eps) >= 0


def test_scores_alone_find_out_a_gradient_of_the_wrong_sign():
    found = measure(Misled(), attacks=["bim", "apgd-ce", "square"], square_queries=100, transfer_from="", targeted=[])
    assert value(found, "accuracy_taken", attack="square", eps="0.15") > value(
        found, "accuracy_taken", attack="apgd-ce", eps="0.15"
    )
    assert "black-box" in fired(found)


def test_decisions_come_closer_than_a_masked_gradient():
    found = measure(Rounded(), attacks=["pgd", "deepfool", "hop-skip-jump"], minimal_images=8)
    assert "decision-based" in fired(found)
    assert value(found, "attack_success", attack="deepfool", norm="l2") < 100


def test_a_random_network_is_found_out_and_not_asked_for_decisions():
    found = measure(Noisy(), attacks=["fgsm", "hop-skip-jump"])
    assert "stochastic" in fired(found)
    assert not [each for each in found.metrics if each.where.get("attack") == "hop-skip-jump"]


def test_a_network_that_is_always_wrong_cannot_be_attacked():
    class Wrong(torch.nn.Module):
        def forward(self, pixels):
            output = honest()(pixels)
            return replace(output, scores=-output.scores)

    with pytest.raises(ValueError, match="nothing to attack"):
        measure(Wrong())


@pytest.mark.parametrize(("method", "iterations", "loss"), [("dynamic", 2, "margin"), ("uniform", None, "margin"),
                                                            ("em", 2, "spread")])  # fmt: skip
def test_capsules_are_attacked_too(method, iterations, loss):
    torch.manual_seed(0)
    steps = {} if iterations is None else {"iterations": iterations}
    network = build("capsnet-small", shape=(1, 28, 28), classes=10, method=method, method_params=steps).eval()
    asked = request(method, iterations, "capsnet-small", loss)
    found = measure(network, asked, images=40, eps=[0.05], steps=2, targeted=[], attacks=["fgsm", "pgd"])
    made = {each.where["check"] for each in found.metrics if each.metric == "check"}
    assert ("around-routing" in made) == (iterations is not None)
    assert {each.where["loss"] for each in found.metrics if each.metric == "gradient_magnitude"} == {
        "training",
        "difference",
    }


OTHERS = {
    "images": 30,
    "eps": [0.05, 0.1],
    "main_eps": 0.15,
    "steps": 1,
    "restarts": 4,
    "apgd_steps": 1,
    "further_starts": 0,
    "square_queries": 100,
    "attacks": ["noise", "fgsm", "bim"],
    "losses": ["difference"],
    "targeted": ["bim"],
    "targets": 3,
    "transfer_from": "",
    "minimal_images": 2,
    "minimal_steps": 1,
    "queries": 80,
    "l2_eps": [2.0],
    "corruptions": ["pixelate"],
    "severities": [2],
    "corrupted_images": 90,
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_option_changes_something(name):
    base = {"eps": [0.05, 0.15], "attacks": ["pgd"], "steps": 2, "restarts": 1, "targeted": ["fgsm"], "images": 10}
    if name in ("minimal_images", "minimal_steps", "queries", "l2_eps"):
        base |= {"attacks": ["deepfool", "hop-skip-jump"], "images": 20, "targeted": [], "minimal_images": 8}
    if name == "restarts":
        base |= {"steps": 1, "images": 80, "eps": [0.08, 0.1, 0.12], "main_eps": 0.1, "targeted": []}
    if name == "further_starts":
        base |= {"attacks": ["apgd-t"], "eps": [0.05, 0.08, 0.1], "images": 60, "targeted": []}
        base |= {"apgd_steps": 1, "further_starts": 40}
    if name in ("apgd_steps", "square_queries"):
        base |= {"attacks": ["apgd-ce" if name == "apgd_steps" else "square"], "eps": [0.05, 0.3], "targeted": []}
    one, other = measure(honest(), **base), measure(honest(), **{**base, name: OTHERS[name]})
    assert [(each.metric, each.where, each.value) for each in one.metrics] != [
        (each.metric, each.where, each.value) for each in other.metrics
    ] or any(not torch.equal(kept, other.arrays[key]) for key, kept in one.arrays.items())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"attacks": ["fgms"]}, "did you mean 'fgsm'"),
        ({"losses": ["margin"]}, "loss to attack"),
        ({"targeted": ["noise"]}, "targeted attack"),
        ({"eps": [0.1, 0.05]}, "eps must rise"),
        ({"eps": [0.001]}, "at least 1/255"),
        ({"main_eps": 0.3}, "main_eps must be one of eps"),
        ({"corruptions": ["fog"]}, "unknown corruption 'fog'"),
        ({"severities": [6]}, "severities must be from 1 to 5"),
    ],
)
def test_wrong_options_are_told(wrong, told):
    with pytest.raises(UserError, match=told):
        Settings.of({**QUICK, **wrong})


def test_every_setting_is_an_option():
    assert {*Robustness.options} == {*Settings.__dataclass_fields__} == {*QUICK}


@pytest.mark.parametrize("preset", ["smoke", "quick", "full"])
def test_black_box_images_come_from_one_network_of_another_seed(preset, no_data):
    cells = plan(load_suite("robustness"), preset, Choices(seeds=range(3))).cells
    sources = {}
    for cell in cells:
        options = cell.identity.options
        asked = source_request(cell.request(), options["transfer_from"], options.get("transfer_rate", 0.0))
        assert asked.recipe.loss == "cross-entropy" and asked.model.startswith("cnn")
        assert asked.seed != cell.identity.seed
        assert sources.setdefault(cell.identity.seed, asked) == asked
    assert len(sources) == 3


def test_the_rate_of_the_black_box_network_is_the_cells_or_the_suites():
    (cell, *_) = plan(load_suite("robustness"), "quick", Choices()).cells
    assert source_request(cell.request(), "cnn-small", 0.0).recipe.learning_rate == cell.request().recipe.learning_rate
    assert source_request(cell.request(), "cnn-small", 0.25).recipe.learning_rate == 0.25


def test_one_recipe_makes_one_source_for_networks_of_several():
    """`hinton-attacks` trains EM and its CNN by other recipes, and attacks both by images of one network."""
    suite = load_suite("hinton-attacks")
    for preset in map(suite.preset, ("smoke", "quick", "full")):
        cnn = next(entry for entry in suite.controls if entry.name == "cnn")
        recipes = [suite.recipe(preset.training), suite.recipe(preset.training, cnn.training)]
        assert recipes[0].learning_rate != recipes[1].learning_rate
        asked = [replace(request(), recipe=one, model=f"m{place}") for place, one in enumerate(recipes)]
        of = preset.options["transfer_from"], 0.0, preset.options["transfer_recipe"]
        assert source_request(asked[0], *of) == source_request(asked[1], *of)
        assert source_request(asked[0], *of[:2]) != source_request(asked[1], *of[:2])
    with pytest.raises(UserError, match=r"unknown recipe 'smallnorb-cn'.*smallnorb-cnn"):
        source_request(request(), "cnn-small", 0.0, "smallnorb-cn")


def test_corrupted_images_are_judged_by_answers_and_their_confidence(measured):
    test = load("mnist5k").test
    chosen = test.at(balanced(test.labels, 50))
    for name, severity in (("none", "mean"), ("gaussian-noise", "5"), ("contrast", "1")):
        pixels = chosen.pixels if name == "none" else corrupted(chosen.pixels, name, int(severity))
        with torch.no_grad():
            output = honest()(pixels.float() / 255)
        right = output.scores.argmax(dim=1) == chosen.labels
        confidence = output.logits.softmax(dim=1).gather(1, output.scores.argmax(dim=1)[:, None])[:, 0]
        where = {"corruption": name, "severity": severity}
        assert value(measured, "corrupted_accuracy", **where) == 100 * float(right.double().mean())
        expected = 0.0
        for low in range(15):
            inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
            if inside.any():
                gap = right[inside].double().mean() - confidence[inside].double().mean()
                expected += 100 * float(abs(gap)) * int(inside.sum()) / 50
        assert value(measured, "calibration_error", **where) == pytest.approx(expected, abs=1e-4)
    of = {each.where["corruption"]: [] for each in measured.metrics if each.metric == "corrupted_accuracy"}
    for each in measured.metrics:
        if each.metric == "corrupted_accuracy" and each.where["severity"] != "mean":
            of[each.where["corruption"]].append(each.value)
    assert {name: len(values) for name, values in of.items()} == {
        "none": 0,
        "gaussian-noise": 2,
        "contrast": 2,
        "all": 0,
    }
    every = [*of["gaussian-noise"], *of["contrast"]]
    assert value(measured, "corrupted_accuracy", corruption="all", severity="mean") == pytest.approx(np.mean(every))
    assert value(measured, "corrupted_accuracy", corruption="contrast", severity="mean") == np.mean(of["contrast"])
    assert not [each for each in measure(honest(), corruptions=[]).metrics if each.metric == "corrupted_accuracy"]


def test_confidence_that_says_how_often_it_is_right_has_no_error():
    confidence = torch.full((1000,), 0.8)
    assert calibration_error(confidence, torch.arange(1000) < 800) == pytest.approx(0, abs=1e-4)
    assert calibration_error(confidence, torch.arange(1000) < 500) == pytest.approx(30)
    assert calibration_error(torch.ones(10), torch.zeros(10, dtype=torch.bool)) == 100


def test_images_are_even_over_classes():
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2])
    assert balanced(labels, 3).tolist() == [0, 4, 6]
    assert balanced(labels, 7).tolist() == [0, 1, 2, 4, 5, 6, 7]
    assert balanced(labels, 100).tolist() == [*range(9)]
    test = load("mnist5k").test
    assert (np.bincount(test.labels[balanced(test.labels, 80)]) == 8).all()


def test_versions_are_those_of_the_attacks_and_corruptions_that_are_run(monkeypatch):
    assert Robustness().versions(QUICK) == {}
    raised = {"attack": {"pgd": 2, "boundary": 2}, "corruption": {"contrast": 3, "pixelate": 2}}
    monkeypatch.setattr(Robustness, "part_versions", raised)
    assert Robustness().versions({"attacks": ["pgd"], "corruptions": ["contrast"]}) == {
        "attack pgd": 2,
        "corruption contrast": 3,
    }
