"""Presets of the suites that are shipped: who takes part, which images they take, what they leave out and refuse."""

from dataclasses import replace

import pytest

from routebench.engine.suites import Asked, Choices, load_suite, plan
from routebench.engine.suites._planning import plans_of
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import datasets, protocols, suite_files

MNIST = Asked("hinton-table1", "mnist", Choices(), without_data=True)
SEVERAL = "diverse-multimnist5k"


def test_shipped_suite_has_every_control():
    made = plan(load_suite("accuracy"), "quick", Choices(methods=(parse("em"),)))
    assert {cell.identity.method for cell in made.cells} == {"em", "uniform", "random", "none", "cnn"}
    (cnn,) = {cell.identity.model for cell in made.cells if cell.identity.method == "cnn"}
    assert cnn == "cnn-small"
    assert {cell.identity.iterations for cell in made.cells if cell.identity.method == "em"} == {1, 2, 3}


@pytest.mark.parametrize("name", sorted(suite_files()))
def test_small_presets_say_how_many_images_they_take_and_take_all_of_their_own(name):
    suite = load_suite(name)
    for preset in suite.presets.values():
        if preset.name in {"smoke", "quick"} and protocols[suite.protocol].trains:
            own = {} if ":" in preset.data else datasets[preset.data].facts
            whole = sum(own.get(part, 0) for part in ("train", "held_out", "test")) or int(
                preset.data.partition("take:")[2].partition(":")[0]
            )
            assert preset.take == whole or (
                name in {"objects", "parts"} and preset.take < whole
            )  # as many as one asks are drawn


@pytest.mark.parametrize("name", sorted(suite_files()))
def test_every_preset_can_be_planned_without_files(name, monkeypatch, tmp_path):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "nowhere"))
    for preset in load_suite(name).presets:
        assert plans_of(Asked(name, preset, Choices(), without_data=True), {}).plans[0].cells


def test_a_protocol_that_looks_at_no_image_is_planned_without_files(monkeypatch, tmp_path):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "nowhere"))
    assert plan(load_suite("tsai-cost"), "full", Choices(seeds=range(1))).cells
    with pytest.raises(UserError, match="ROUTEBENCH_DATA"):
        plan(load_suite("tsai-table1"), "full", Choices(seeds=range(1)))


def test_a_preset_leaves_out_what_it_names(suite_file, parts):
    cells = plans_of(Asked("smith-probes", "table1", Choices(), without_data=True), {}).plans[0].cells
    assert {(cell.identity.method, cell.identity.variant) for cell in cells} == {
        ("generative-capsules", None),
        ("vae", None),
    }
    cells = plans_of(Asked("reconstruction", "appendix-a", Choices(), without_data=True), {}).plans[0].cells
    assert {(cell.identity.method, cell.identity.iterations, cell.identity.model) for cell in cells} == {
        (method, iterations, model)
        for method, iterations in (("dynamic", 3), ("none", None))
        for model in ("capsnet", "capsnet-reconstruction")
    }
    rates = {(cell.identity.method, cell.identity.training["learning_rate"]) for cell in cells}
    assert rates == {("dynamic", 1e-3), ("none", 1e-4)}
    assert "13 crops" not in {cell.identity.variant for cell in plans_of(MNIST, {}).plans[0].cells}
    file = suite_file()
    file.write_text(file.read_text() + "without = ['fewer']\n")
    with pytest.raises(UserError, match=r"presets\.quick\.without.*'fewer'"):
        load_suite(str(file))


@pytest.mark.parametrize("name", ["linear-probe", "overlap", "smith-inference", "viewpoint"])
def test_a_network_trained_on_held_out_images_is_refused_where_they_choose_something(name):
    suite = replace(load_suite(name).with_entries("smoke"), entries_of="")
    with pytest.raises(UserError, match=r"train_on = 'train', got 'all' .* chooses .* by held-out images"):
        plan(replace(suite, training={**suite.training, "train_on": "all"}), "smoke", Choices())


def test_a_back_end_that_is_asked_for_replaces_those_that_a_suite_compares():
    def measured(backend):
        made = plan(load_suite("cost"), "quick", Choices(methods=(parse("dynamic"),), backend=backend))
        return {tuple(cell.identity.options["backends"]) for cell in made.cells}

    assert measured("auto") == {("reference", "fused")}
    assert measured("fused") == {("fused",)}


@pytest.mark.parametrize(
    ("suite", "data", "told"),
    [
        ("overlap", "mnist5k", "several classes, such as diverse-multimnist5k, got mnist5k"),
        ("viewpoint", "mnist5k", "familiar viewpoints to train on, got mnist5k"),
        ("robustness", SEVERAL, "one class per image, such as mnist5k, got diverse-multimnist5k"),
        ("linear-probe", SEVERAL, "one class per image, such as mnist5k, got diverse-multimnist5k"),
        ("reconstruction", SEVERAL, "capsnet-small-reconstruction is trained with a reconstruction of one capsule"),
    ],
)
def test_data_that_does_not_suit_a_suite_is_told_in_its_plan(suite, data, told):
    with pytest.raises(UserError, match=told):
        plan(load_suite(suite), "smoke", Choices(data=data))


def test_cost_trains_nothing_and_takes_any_data():
    made = plan(load_suite("cost"), "smoke", Choices(data=SEVERAL))
    assert {cell.identity.data for cell in made.cells} == {SEVERAL}
