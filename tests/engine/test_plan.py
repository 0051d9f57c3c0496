"""From suite, preset and choices to cells."""

from collections import Counter
from dataclasses import replace

import pytest

from routebench.data import load
from routebench.engine.results import SETTINGS, digest, distinct
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, cell_of, load_suite, plan
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import load_plugin
from tests.data.pictures import save


def cells_of(made):
    return [(cell.identity.method, cell.identity.iterations, cell.identity.seed) for cell in made.cells]


def test_controls_run_unasked_and_every_method_once_before_any_seed_twice(made):
    once = {("dynamic", 1), ("dynamic", 2), ("uniform", None), ("random", None)}
    found = cells_of(made)
    assert {(method, iterations) for method, iterations, _ in found[:4]} == once
    assert [seed for *_, seed in found] == [0] * 4 + [1] * 4
    roles = {cell.identity.method: cell.identity.role for cell in made.cells}
    assert roles == {"dynamic": "method", "uniform": "control", "random": "control"}


def test_iterations_in_a_spec_fix_the_grid_but_for_the_control(parts, suite_file):
    made = plan(
        load_suite(str(suite_file())), "quick", Choices(methods=(parse("dynamic[iterations=7]"),), seeds=range(1))
    )
    assert [cell.identity.iterations for cell in made.cells if cell.identity.method == "dynamic"] == [1, 7]


SHARED = {"competition": "types", "schedule": "sequential"}


def test_label_and_hyperparameters(parts, suite_file):
    made = plan(load_suite(str(suite_file())), "quick", Choices(methods=(parse("dynamic[detach=true,leaky=false]"),)))
    cell = next(cell for cell in made.cells if cell.identity.method == "dynamic")
    assert cell.label == "dynamic[detach=true]"
    assert cell.identity.method_params == {"detach": True, "bias": False, "leaky": False, **SHARED}


def test_choices_replace_data_and_seeds(parts, suite_file):
    made = plan(load_suite(str(suite_file())), "quick", Choices(data="mnist5k", seeds=range(3)))
    assert Counter(seed for *_, seed in cells_of(made)) == {0: 4, 1: 4, 2: 4}
    assert {cell.identity.data for cell in made.cells} == {"mnist5k"}


def test_a_preset_takes_as_many_images_of_whatever_data_is_named(parts, suite_file):
    file = suite_file()
    file.write_text(file.read_text().replace('data = "digits200"', 'data = "digits200"\ntake = 230'))
    suite = load_suite(str(file))
    whole, some = plan(suite, "quick", Choices()), plan(suite, "quick", Choices(data="mnist5k"))
    assert ({cell.identity.data for cell in whole.cells}, whole.taken) == ({"digits200"}, "")
    assert {cell.identity.data for cell in some.cells} == {cell.request().data for cell in some.cells}
    assert {cell.identity.data for cell in some.cells} == {"take:230:mnist5k"}
    assert {cell.identity.data_fingerprint for cell in some.cells} == {load("take:230:mnist5k").fingerprint}
    assert some.taken == "230 of the 5,000 images of mnist5k, the same for all methods and seeds"
    more = plan(suite, "quick", Choices(data="take:400:mnist5k"))
    assert {cell.identity.data for cell in more.cells} == {"take:400:mnist5k"}


def test_what_a_folder_holds_and_is_not_used_is_told(parts, suite_file, tmp_path):
    for name in ("cat", "dog"):
        save(tmp_path / "pets" / name, 30, (28, 28))
    (tmp_path / "pets" / "cat" / "notes.txt").touch()
    told = "Not used of folder:pets: 1 of kind .txt (such as cat/notes.txt)."
    for data in (f"folder:{tmp_path}/pets", f"take:20:folder:{tmp_path}/pets"):
        made = plan(load_suite(str(suite_file())), "quick", Choices(data=data))
        assert made.left_out == told and told in made.caveat


@pytest.mark.parametrize(
    "name",
    [
        "{}", "take:230:{}", "few:300:{}", "fold:1/3:{}", "take:230:few:300:{}", "fold:1/3:few:300:{}",
        "features:network@32:{}", "take:9:features:a:b/c@32:few:9:{}",
    ],
)  # fmt: skip
def test_a_cell_needs_the_plugin_that_brings_the_set_behind_its_name(parts, suite_file, tmp_path, name):
    (tmp_path / "digits.py").write_text(
        "from routebench.data import Dataset, load\n\ndef my_digits() -> Dataset:\n    return load('mnist5k')\n"
    )
    spec = f"{tmp_path / 'digits.py'}:my_digits"
    load_plugin(spec)
    suite, data = load_suite(str(suite_file())), name.format("my-digits")
    made = plan(suite, "quick", Choices(data="my-digits" if "features:" in name else data))
    assert made.is_foreign
    assert all(spec in cell_of(replace(cell.identity, data=data)).plugins for cell in made.cells)
    assert not any(spec in cell_of(replace(cell.identity, data=name.format("mnist"))).plugins for cell in made.cells)


def test_what_is_trained_on_is_part_of_an_identity_only_where_it_is_all(made, parts, suite_file):
    suite = load_suite(str(suite_file()))
    every = plan(replace(suite, training={**suite.training, "train_on": "all"}), "quick", Choices())
    assert all(cell.identity.training["train_on"] == cell.request().recipe.train_on == "all" for cell in every.cells)
    assert not any("train_on" in cell.identity.training for cell in made.cells)


@pytest.mark.parametrize("where", ["iterations", "epochs", "method"])
def test_an_integer_that_no_record_can_hold_is_refused(parts, suite_file, where):
    file = suite_file(seeds=1)
    old, new = {"iterations": ("[1, 2]", f"[1, {10**26}]"), "epochs": ("epochs = 1", f"epochs = {10**26}")}.get(
        where, ("", "")
    )
    file.write_text(file.read_text().replace(old, new))
    typed = [f"dynamic[iterations={10**26}]"] if where == "method" else []
    with pytest.raises(UserError, match="expected integers of at most 64 bits"):
        plan(load_suite(str(file)), "quick", Choices(methods=tuple(map(parse, typed))))


def test_an_integer_of_thousands_of_digits_is_one_that_no_record_can_hold(suite_file):
    file = suite_file()
    file.write_text(file.read_text().replace("[1, 2]", f"[{5000 * '9'}]"))
    with pytest.raises(UserError, match="expected integers of at most 64 bits"):
        load_suite(str(file))


def test_a_method_named_twice_runs_once(parts, suite_file):
    specs = (parse("dynamic"), parse("dynamic[leaky=false]"))
    made = plan(load_suite(str(suite_file())), "quick", Choices(methods=specs, seeds=range(1)))
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


TWO_MODELS = """
[[baselines]]
name = "cnn"
models = { capsnet-small = "cnn-small", capsnet-small-intermediate = "cnn-small", capsnet = "cnn" }
[presets.both]
data = "digits200"
model = ["capsnet-small", "capsnet-small-intermediate"]
iterations = [2]
seeds = 2
training = { epochs = 1 }
training_of = { capsnet-small-intermediate = { learning_rate = 0.5 } }
"""


def test_several_models_are_planned_with_their_own_training_and_one_control_that_they_share(parts, suite_file):
    made = plan(load_suite(str(suite_file(more=TWO_MODELS))), "both", Choices())
    found = Counter((cell.identity.model, cell.identity.method) for cell in made.cells)
    small = {("capsnet-small", "dynamic"): 4, ("capsnet-small", "uniform"): 2, ("capsnet-small", "random"): 2}
    assert found == {
        **small, **{("capsnet-small-intermediate", method): count for (_, method), count in small.items()},
        ("cnn-small", "cnn"): 2,
    }  # fmt: skip
    rates = {(cell.identity.model, cell.identity.training["learning_rate"]) for cell in made.cells}
    assert rates == {("capsnet-small", 1e-3), ("capsnet-small-intermediate", 0.5), ("cnn-small", 1e-3)}
    assert made.networks == {"cnn": {name: ["cnn-small"] for name in ("capsnet-small", "capsnet-small-intermediate")}}
    assert [cell.identity.seed for cell in made.cells] == sorted(cell.identity.seed for cell in made.cells)


def test_a_method_may_be_trained_otherwise_in_one_network(parts, suite_file):
    """It goes before the preset's own training of that network, and holds for networks that the user names."""
    own = """
    [[methods]]
    name = "em"
    training = { learning_rate = 0.25 }
    training_of = { capsnet-small-intermediate = { learning_rate = 0.125 } }
    """
    suite = load_suite(str(suite_file(more=own + TWO_MODELS)))

    def rates(choices):
        cells = plan(suite, "both", choices).cells
        return {(cell.identity.model, cell.identity.training["learning_rate"])
                for cell in cells if cell.identity.method == "em"}  # fmt: skip

    assert rates(Choices()) == {("capsnet-small", 0.25), ("capsnet-small-intermediate", 0.125)}
    assert rates(Choices(models=("capsnet-small-intermediate",))) == {("capsnet-small-intermediate", 0.125)}


VARIANTS = """
[[methods]]
name = "em"
iterations = [2]
training = { loss = "spread" }

[[methods]]
name = "em"
variant = "margin loss"
iterations = [2]
training = { loss = "margin" }
"""


def test_entries_that_differ_in_training_alone_are_told_apart_by_their_variant(parts, suite_file):
    suite = load_suite(str(suite_file(more=VARIANTS)))
    for choices in (Choices(seeds=range(1)), Choices(seeds=range(1), methods=(parse("em"),))):
        cells = [cell for cell in plan(suite, "quick", choices).cells if cell.identity.method == "em"]
        assert {(cell.label, cell.settings) for cell in cells} == {("em", ""), ("em (margin loss)", "margin loss")}
        losses = {cell.label: cell.request().recipe.loss for cell in cells}
        assert losses["em (margin loss)"] == "margin" != losses["em"]
    steps = {(cell.label, cell.identity.iterations) for cell in plan(suite, "quick", Choices(seeds=range(1))).cells}
    assert ("em", 1) in steps and ("em (margin loss)", 1) not in steps
    assert plan(suite, "quick", Choices()).cells[-1].identity.model_params == {}
    changed = plan(suite, "quick", Choices(seeds=range(1), methods=(parse("em[final_lambda=0.1]"),))).cells
    assert {cell.label for cell in changed if cell.identity.method == "em"} == {"em[final_lambda=0.1]"}


def test_two_entries_that_read_the_same_are_refused(parts, suite_file):
    with pytest.raises(UserError, match="'em' is there twice"):
        load_suite(str(suite_file(more=VARIANTS.replace('variant = "margin loss"', ""))))
    named = VARIANTS.replace('"spread" }', '"spread" }\nvariant = "margin loss"\nparams = { final_lambda = 0.1 }')
    with pytest.raises(UserError, match="'em' is there twice and reads the same"):
        load_suite(str(suite_file(more=named)))


OWN_NETWORK = """
[[methods]]
name = "em"
models = { capsnet-small = ["capsnet-small", "capsnet-small-intermediate"] }
"""


PLAIN_AND_OWN = """
[[methods]]
name = "em"

[[methods]]
name = "em"
variant = "with a layer in between"
models = { capsnet-small = "capsnet-small-intermediate" }
"""


def test_a_method_may_have_networks_of_its_own_beside_those_of_the_preset(parts, suite_file):
    made = plan(load_suite(str(suite_file(more=OWN_NETWORK))), "quick", Choices(seeds=range(1)))
    networks = {cell.identity.model for cell in made.cells if cell.identity.method == "em"}
    assert networks == {"capsnet-small", "capsnet-small-intermediate"}
    assert {cell.identity.model for cell in made.cells if cell.identity.method == "uniform"} == {"capsnet-small"}
    assert made.networks["em"] == {"capsnet-small": ["capsnet-small", "capsnet-small-intermediate"]}
    both = plan(load_suite(str(suite_file(more=PLAIN_AND_OWN))), "quick", Choices(seeds=range(1)))
    assert both.networks["em"] == {"capsnet-small": ["capsnet-small", "capsnet-small-intermediate"]}
    elsewhere = plan(
        load_suite(str(suite_file(more=OWN_NETWORK))), "quick", Choices(models=("capsnet",), seeds=range(1))
    )
    assert not [cell for cell in elsewhere.cells if cell.identity.method == "em"]
    with pytest.raises(
        UserError, match="no method has a network to stand beside 'capsnet'; choose one of capsnet-small"
    ):
        plan(
            load_suite(str(suite_file(more=OWN_NETWORK))), "quick", Choices(models=("capsnet",), methods=(parse("em"),))
        )


def test_a_model_of_the_user_replaces_those_of_the_preset_and_their_settings(parts, suite_file):
    suite = load_suite(str(suite_file(more=TWO_MODELS)))
    made = plan(suite, "both", Choices(models=("capsnet", "capsnet")))
    assert {cell.identity.model for cell in made.cells} == {"capsnet", "cnn"}
    assert {cell.identity.training["learning_rate"] for cell in made.cells} == {1e-3}
    other = plan(suite, "both", Choices(models=("capsnet-intermediate",)))  # no network is known to stand beside it
    assert {cell.identity.model for cell in other.cells} == {"capsnet-intermediate"}
    with pytest.raises(UserError, match="'capsnet-small'"):
        plan(suite, "both", Choices(models=("capsnet-smal",)))


IDENTITY = {
    "suite", "suite_version", "protocol", "options", "method", "method_params", "iterations", "role", "model",
    "model_params", "data", "data_fingerprint", "training", "seed", "routed", "source",
}  # fmt: skip


def test_key_depends_on_every_field_of_the_identity_and_on_nothing_else(made):
    cell = made.cells[0]
    known = cell.identity.as_dict()
    assert known.keys() == IDENTITY | {"defaults"}
    changed = [digest({**distinct(known), field: ["something else"]}) for field in IDENTITY]
    assert len({cell.key, *changed}) == len(IDENTITY) + 1
    assert replace(cell.identity, versions={"method": 2}).key != cell.key
    assert replace(cell.identity, source="feedfacecafebeef").key != cell.key
    assert digest(distinct(dict(reversed(known.items())))) == cell.key


@pytest.mark.parametrize("table", SETTINGS)
def test_key_depends_on_every_setting_that_is_not_its_default(made, table):
    cell = made.cells[0]
    settings = getattr(cell.identity, table)
    changed = [replace(cell.identity, **{table: {**settings, name: "another"}}).key for name in settings]
    assert len({cell.key, *changed}) == len(settings) + 1
    for name, default in cell.identity.defaults.get(table, {}).items():
        without = {key: value for key, value in settings.items() if key != name}
        told = replace(cell.identity, **{table: {**without, name: default}})
        assert told.key == replace(cell.identity, **{table: without}).key


def test_the_settings_of_a_cell_are_chosen_among_its_defaults_too(made):
    """A learning rate that tuning chose is not taken for the recipe's own."""
    known = made.cells[0].identity
    assert known.training["learning_rate"] == known.defaults["training"]["learning_rate"]
    tuned = replace(known, training={**known.training, "learning_rate": 5e-4})
    assert tuned.key != known.key


def test_request_carries_what_training_needs(made):
    cell = next(cell for cell in made.cells if cell.identity.iterations == 2)
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
    made = plan(load_suite(str(suite_file())), "quick", Choices(added=("odd",), seeds=range(1)))
    assert "odd" in {cell.label for cell in made.cells}


def test_a_back_end_changes_no_cell_of_a_suite_that_does_not_compare_them(parts, suite_file):
    default, forced = (
        plan(load_suite(str(suite_file())), "quick", Choices(backend=name)) for name in ("auto", "reference")
    )
    assert [cell.key for cell in forced.cells] == [cell.key for cell in default.cells]


SEVERAL = "diverse-multimnist5k"


def test_images_of_several_classes_do_not_suit_a_loss_of_one(suite_file):
    entry = '[training]\nloss = "cross-entropy"\n'
    with pytest.raises(UserError, match=r"with the loss cross-entropy, .* choose a loss for several, such as margin"):
        plan(load_suite(str(suite_file("accuracy", more=entry))), "quick", Choices(data=SEVERAL))


def test_images_of_several_classes_do_not_suit_a_decoder_of_one_capsule(suite_file):
    entry = '[training]\nloss = "margin"\nreconstruction = 0.1\n'
    with pytest.raises(UserError, match=r"with a reconstruction of one capsule, .* set reconstruction to 0"):
        plan(load_suite(str(suite_file("accuracy", more=entry))), "quick", Choices(data=SEVERAL))


def test_images_of_several_classes_suit_a_suite_whose_losses_take_them(suite_file):
    entry = '[training]\nloss = "margin"\n'
    made = plan(load_suite(str(suite_file("accuracy", more=entry))), "quick", Choices(data=SEVERAL))
    assert {cell.identity.training["loss"] for cell in made.cells} == {"margin"}


def test_a_million_seeds_are_refused_at_once(parts, suite_file):
    with pytest.raises(UserError, match=r"expected at most 200,000 runs, got 4,000,000; take fewer"):
        plan(load_suite(str(suite_file())), "quick", Choices(seeds=range(1_000_000)))


@pytest.mark.parametrize(
    ("data", "told"), [("mnist5k", True), ("take:400:mnist5k", True), ("few:400:mnist5k", True), ("digits200", False)]
)
def test_a_caveat_of_one_data_set_is_told_of_that_one_alone(parts, suite_file, store, data, told):
    suite = load_suite(str(suite_file(more='[caveat_on]\nmnist5k = "Chosen on the same 5,000 images."\n')))
    write_plan(plan(suite, "quick", Choices(data=data)), store)
    (head,) = store.plan_heads()
    assert ("on the same 5,000 images" in head["caveat"]) is told
