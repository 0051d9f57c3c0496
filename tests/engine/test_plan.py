"""From suite, preset and choices to cells."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from routebench.engine.plan import Cell, Choices, digest, plan
from routebench.engine.suite import load_suite
from routebench.errors import UserError
from routebench.registry import load_plugin
from routebench.routing.spec import parse


def cells_of(made):
    return [(cell.identity["method"], cell.identity["iterations"], cell.identity["seed"]) for cell in made.cells]


def test_controls_run_unasked_and_every_method_once_before_any_seed_twice(made):
    once = {("dynamic", 1), ("dynamic", 2), ("uniform", None), ("random", None)}
    found = cells_of(made)
    assert {(method, iterations) for method, iterations, _ in found[:4]} == once
    assert [seed for *_, seed in found] == [0] * 4 + [1] * 4
    roles = {cell.identity["method"]: cell.identity["role"] for cell in made.cells}
    assert roles == {"dynamic": "method", "uniform": "control", "random": "control"}


def test_shipped_suite_has_every_control():
    made = plan(load_suite("accuracy"), "quick", Choices(methods=(parse("em"),)))
    assert {cell.identity["method"] for cell in made.cells} == {"em", "uniform", "random", "none", "cnn"}
    (cnn,) = {cell.identity["model"] for cell in made.cells if cell.identity["method"] == "cnn"}
    assert cnn == "cnn-small"
    assert {cell.identity["iterations"] for cell in made.cells if cell.identity["method"] == "em"} == {1, 2, 3}


def test_iterations_in_a_spec_fix_the_grid_but_for_the_control(parts, suite_file):
    made = plan(load_suite(str(suite_file())), "quick", Choices(methods=(parse("dynamic[iterations=7]"),), seeds=1))
    assert [cell.identity["iterations"] for cell in made.cells if cell.identity["method"] == "dynamic"] == [1, 7]


def test_label_and_hyperparameters(parts, suite_file):
    made = plan(load_suite(str(suite_file())), "quick", Choices(methods=(parse("dynamic[detach=true,leaky=false]"),)))
    cell = next(cell for cell in made.cells if cell.identity["method"] == "dynamic")
    assert cell.label == "dynamic[detach=true]"
    assert cell.identity["method_params"] == {"detach": True, "bias": False, "leaky": False, "competition": "types"}


def test_choices_replace_data_and_seeds(parts, suite_file):
    made = plan(load_suite(str(suite_file())), "quick", Choices(data="mnist5k", seeds=3))
    assert Counter(seed for *_, seed in cells_of(made)) == {0: 4, 1: 4, 2: 4}
    assert {cell.identity["data"] for cell in made.cells} == {"mnist5k"}


def test_a_method_named_twice_runs_once(parts, suite_file):
    specs = (parse("dynamic"), parse("dynamic[leaky=false]"))
    made = plan(load_suite(str(suite_file())), "quick", Choices(methods=specs, seeds=1))
    assert len({cell.key for cell in made.cells}) == len(made.cells) == 4


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"methods": (parse("dynamc"),)}, "'dynamic'"),
        ({"methods": (parse("dynamic[detahc=true]"),)}, "'detach'"),
        ({"methods": (parse("dynamic[competition=all]"),)}, "competition"),
        ({"methods": (parse("dynamic[iterations=0]"),)}, "iterations"),
        ({"data": "mnist5"}, "'mnist5k'"),
    ],
)
def test_wrong_names_and_values_are_errors_with_suggestions(parts, suite_file, choice, says):
    with pytest.raises(UserError, match=says):
        plan(load_suite(str(suite_file())), "quick", Choices(**choice))


def test_wrong_preset(parts, suite_file):
    with pytest.raises(UserError, match="'quick'"):
        plan(load_suite(str(suite_file())), "quik", Choices())


def test_wrong_model(parts, suite_file):
    file = suite_file()
    file.write_text(file.read_text().replace("capsnet-small", "capsnet-smal"))
    with pytest.raises(UserError, match="'capsnet-small'"):
        plan(load_suite(str(file)), "quick", Choices())


IDENTITY = {
    "suite", "suite_version", "protocol", "options", "method", "method_params", "iterations", "role", "model",
    "model_params", "data", "data_fingerprint", "training", "seed", "source",
}  # fmt: skip


def test_key_depends_on_every_field_of_the_identity_and_on_nothing_else(made):
    cell = made.cells[0]
    assert cell.identity.keys() >= IDENTITY
    changed = [Cell({**cell.identity, field: ["something else"]}).key for field in cell.identity]
    assert len({cell.key, *changed}) == len(cell.identity) + 1
    assert Cell(dict(reversed(cell.identity.items()))).key == cell.key


def test_key_depends_on_every_setting_of_the_recipe(made):
    cell = made.cells[0]
    training = cell.identity["training"]
    changed = [Cell({**cell.identity, "training": {**training, name: "another"}}).key for name in training]
    assert len({cell.key, *changed}) == len(training) + 1


def test_request_carries_what_training_needs(made):
    cell = next(cell for cell in made.cells if cell.identity["iterations"] == 2)
    request = cell.request()
    assert (request.method, request.iterations, dict(request.method_params)) == ("dynamic", 2, {})
    assert (request.data, request.seed, request.recipe.epochs) == ("digits200", 0, 1)
    assert request == replace(request)


def test_the_same_choices_give_the_same_keys(made, suite_file):
    again = plan(load_suite(str(suite_file())), "quick", Choices())
    assert [cell.key for cell in again.cells] == [cell.key for cell in made.cells]
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_defaults_that_json_does_not_know_can_be_planned(tmp_path, parts, suite_file):
    plugin = tmp_path / "odd.py"
    plugin.write_text(
        "from pathlib import Path\nfrom routebench import routing\n"
        "@routing.register('odd')\nclass Odd(routing.RoutingMethod):\n"
        "    def __init__(self, sizes, *, where=Path('x'), both=(1, 2)):\n        super().__init__(sizes)\n"
        "    def route(self, votes, activations): ...\n"
    )
    load_plugin(str(plugin))
    made = plan(load_suite(str(suite_file())), "quick", Choices(added=("odd",), seeds=1))
    assert "odd" in {cell.label for cell in made.cells}


def test_a_back_end_that_is_asked_for_replaces_those_that_a_suite_compares():
    def measured(backend):
        made = plan(load_suite("cost"), "quick", Choices(methods=(parse("dynamic"),), backend=backend))
        return {tuple(cell.identity["options"]["backends"]) for cell in made.cells}

    assert measured("auto") == {("reference", "fused")}
    assert measured("fused") == {("fused",)}


def test_a_back_end_changes_no_cell_of_a_suite_that_does_not_compare_them(parts, suite_file):
    default, forced = (
        plan(load_suite(str(suite_file())), "quick", Choices(backend=name)) for name in ("auto", "reference")
    )
    assert [cell.key for cell in forced.cells] == [cell.key for cell in default.cells]


@pytest.mark.parametrize("suite", ["sparsity", "robustness"])
@pytest.mark.parametrize("preset", ["smoke", "quick", "full"])
def test_a_suite_that_reads_networks_reads_those_that_accuracy_trains(suite, preset, monkeypatch):
    monkeypatch.setattr("routebench.engine.plan.load", lambda _: SimpleNamespace(fingerprint="f"))  # no download
    requests = {
        name: [cell.request() for cell in plan(load_suite(name), preset, Choices()).cells]
        for name in ("accuracy", suite)
    }
    assert requests[suite]
    assert all(request in requests["accuracy"] for request in requests[suite])
