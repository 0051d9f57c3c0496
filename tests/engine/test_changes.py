"""`--set KEY=VALUE`: another value for a key of the preset, checked like the file, part of the identity, and told."""

import json
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import routebench
from routebench.analysis.folder import open_folder
from routebench.engine.results import checksum
from routebench.engine.suites import Choices, load_suite, plan
from routebench.engine.suites._changes import changed
from routebench.engine.suites._lineup import line_up
from routebench.errors import UserError
from routebench.notation import parse
from routebench.options import SuiteOptions, options_of
from tests.analyses.measured import parts_of
from tests.command import Command


def test_a_change_counts_as_if_it_stood_in_the_file():
    content = {"version": 1, "presets": {"quick": {"training": {"epochs": 6, "decay": 0.2}, "seeds": 3}, "full": {}}}
    found = changed(
        content, "quick", ["training.epochs=20", "model_params.middle=4", "data=mnist", "iterations=[1, 2]"]
    )
    assert found["presets"]["quick"] == {
        "training": {"epochs": 20, "decay": 0.2},
        "seeds": 3,
        "model_params": {"middle": 4},
        "data": "mnist",
        "iterations": [1, 2],
    }
    assert content["presets"]["quick"]["training"]["epochs"] == 6
    assert found["presets"]["full"] == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("1e-3", 0.001), ("true", True), ('"a b"', "a b"), ("a b", "a b"), ("[1, 2]", [1, 2]),
        ("{a = 1}", {"a": 1}), ("take:5:mnist", "take:5:mnist"), ("[[", "[["),
        ("1\nversion = 9", "1\nversion = 9"), ("a=b", "a=b"),
    ],
)  # fmt: skip
def test_what_follows_the_sign_is_toml_or_text(text, value):
    assert changed({"presets": {"x": {}}}, "x", [f"key={text}"])["presets"]["x"]["key"] == value


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["training.epochs"], "expected KEY=VALUE, such as training.epochs=20"),
        (["=20"], "expected KEY=VALUE"),
        (["training..epochs=20"], "expected KEY=VALUE"),
        (["training.epochs="], "expected KEY=VALUE"),
        (["training.epochs=1", "training.epochs=2"], "each key once, got training.epochs again"),
        (["training.epochs=1", "training={}"], "each key once, got training again"),
        (["seeds.epochs=1"], "expected a table before 'epochs', got 3"),
        (["training.epoch=20"], r"key 'presets.quick.training': .*epoch|unknown.*epochs"),
        (["training.epochs=0"], "epochs"),
        (["training.epochs=many"], "epochs"),
        ([f"training.epochs={5000 * '9'}"], "training.epochs: expected integers of at most 64 bits"),
        (["trainig.epochs=20"], "did you mean 'training'"),
        (["version=2"], "version"),
        (["model_params.width=3"], "unknown argument 'width'"),
        (["iterations=[]"], "iterations"),
        (["data=mnist6k"], "mnist6k"),
    ],
)
def test_a_change_that_is_not_legal_is_told_as_one(changes, expected, tmp_path):
    with pytest.raises(UserError, match=expected) as caught:
        routebench.run_suite("accuracy", changes=changes, results=tmp_path / "results")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("presets", ['["a", "a"]', '""', "[]", "3"])
def test_presets_that_are_no_table_are_told(presets, tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(f'question = "?"\nversion = 1\nprotocol = "accuracy"\npresets = {presets}\n')
    with pytest.raises(UserError, match=r"own\.toml.*presets|presets.*own\.toml") as caught:
        routebench.run_suite(str(file), preset="a", results=tmp_path / "results")
    assert "\n" not in str(caught.value)


def planned(*changes):
    return plan(load_suite("accuracy", "quick", changes), "quick", Choices(changes=changes))


def test_changes_are_part_of_the_identity_and_of_the_caveat():
    before, after = planned(), planned("training.epochs=20", "model_params.weight_std=0.1")
    assert {cell.identity.training["epochs"] for cell in after.cells} == {20}
    routed = [cell.identity for cell in after.cells if cell.identity.routed]
    assert {identity.model_params["weight_std"] for identity in routed} == {0.1}
    assert {cell.key for cell in before.cells}.isdisjoint(cell.key for cell in after.cells)
    assert "Other than in the suite's file: training.epochs=20, model_params.weight_std=0.1." in after.caveat
    assert "Other than" not in before.caveat


SHIPPED = load_suite("accuracy").folder


def copy_of(folder, change=lambda text: text, name="accuracy"):
    """A copy of the suite's file, in which a text was changed."""
    file = folder / f"{name}.toml"
    file.write_text(change((SHIPPED / "accuracy.toml").read_text()))
    return str(file)


def settings_in(folder, change):
    """The settings of the preset in another file, each choice as `change` has it."""
    content = json.loads((SHIPPED / "accuracy.quick.settings.json").read_text())
    content.pop("checksum", None)
    content["choices"] = [*map(change, content["choices"])]
    (folder / "others.settings.json").write_text(json.dumps(content))
    return folder / "others.settings.json"


def slower(choice):
    """Another learning rate of dynamic routing alone."""
    return (
        {**choice, "point": {**choice["point"], "learning_rate": 0.0001}} if choice["method"] == "dynamic" else choice
    )


@pytest.mark.parametrize(
    ("changes", "options", "altered"),
    [
        ((), {}, "none"),
        (("seeds=2",), {}, "none"),
        (("iterations=[1, 2]", "model=capsnet-small"), {}, "none"),
        (("training.epochs=6",), {}, "none"),  # as in the file
        (("training.epochs=20",), {}, "all"),
        (("training={epochs=20}", "seeds=2"), {}, "all"),
        (("model_params.weight_std=0.1",), {}, "some"),  # the CNN has none
        ((), {"loss": "spread"}, "some"),  # trials chose it for others
        ((), {"settings": lambda folder: settings_in(folder, lambda choice: choice)}, "none"),
        ((), {"settings": lambda folder: settings_in(folder, slower)}, "dynamic"),
        (("seeds=2",), {"settings": lambda folder: settings_in(folder, slower)}, "dynamic"),
    ],
)
def test_a_folder_knows_runs_that_were_made_otherwise_than_the_suite_says(tmp_path, changes, options, altered):
    options = {key: value(tmp_path) if callable(value) else value for key, value in options.items()}
    made = plan(load_suite("accuracy", "quick", changes), "quick", Choices(changes=changes, **options))
    (part,) = parts_of(made, tmp_path, lambda cell: None)
    every = {*part.planned["cell"]}
    assert part.altered == every - {cell.key for cell in planned().cells}
    some = {"none": set(), "all": every, "dynamic": {*part.planned.query("label == 'dynamic'")["cell"]}}
    assert part.altered == some.get(altered, part.altered) and (altered != "some" or set() < part.altered < every)
    assert ("loss=spread" in made.caveat) == ("loss" in options)


def test_of_a_plan_that_says_only_what_was_changed_all_runs_count_as_altered(tmp_path):
    """Plans of earlier code did not compare each run with that of the suite's file."""
    changes = ("training.epochs=6",)  # as in the file
    made = plan(load_suite("accuracy", "quick", changes), "quick", Choices(changes=changes))
    (part,) = parts_of(made, tmp_path, lambda cell: None)
    assert not part.altered
    (file,) = (tmp_path / "plans").glob("*.json")
    content = json.loads(file.read_text())
    content.pop(checksum.KEY)
    assert content.pop("altered") == []
    file.write_text(checksum.sealed(content))
    (part,) = open_folder(tmp_path).parts
    assert part.altered == {*part.planned["cell"]}


@pytest.mark.parametrize(
    ("change", "name", "preset", "altered"),
    [
        (lambda text: text, "accuracy", "quick", False),
        (lambda text: text.replace("Does routing help,", "Is routing useful,"), "accuracy", "quick", False),
        (lambda text: text.replace("epochs = 6 }", "epochs = 7 }"), "accuracy", "quick", True),
        (lambda text: text.replace("batch_size = 128", "batch_size = 64", 1), "accuracy", "quick", True),
        (lambda text: text.replace("version = 2", "version = 3", 1), "accuracy", "quick", True),
        (lambda text: text.replace("presets.quick]", "presets.mine]"), "accuracy", "mine", True),
        (
            lambda text: text.replace("epochs = 6 }", "epochs = 7 }"),
            "my-accuracy",
            "quick",
            False,
        ),  # a suite of its own
    ],
)
def test_an_edited_copy_of_a_suite_is_not_taken_for_it(tmp_path, change, name, preset, altered):
    made = plan(load_suite(copy_of(tmp_path, change, name)), preset, Choices())
    (part,) = parts_of(made, tmp_path / "results", lambda cell: None)
    assert part.altered == ({*part.planned["cell"]} if altered else set())
    told = (
        f"This file is not that of suite accuracy: it makes {len(made.altered)} of {len(made.altered)} configurations"
    )
    assert (told in made.caveat) == altered and ("This file" in made.caveat) == altered


def test_a_change_to_the_same_value_changes_no_key():
    same = planned("training.epochs=6")
    assert [cell.key for cell in same.cells] == [cell.key for cell in planned().cells]


def test_options_of_the_protocol_and_other_presets():
    found = planned("test_iterations=[1]")
    assert {tuple(cell.identity.options["test_iterations"]) for cell in found.cells} == {(1,)}
    changed_suite = load_suite("accuracy", "quick", ["training.epochs=20"])
    assert changed_suite.presets["full"] == load_suite("accuracy").presets["full"]


def test_the_command_takes_it_the_page_shows_it_and_reproduce_keeps_it(tmp_path, capfd):
    command = Command(tmp_path, capfd)
    done = command(
        "suite", "accuracy", "--preset", "smoke", "--method", "uniform", "--seeds", "1", "--set", "take=300",
        "--set", "training.epochs=1", "--set", "training.batch_size=64", "--device", "cpu",
    )  # fmt: skip
    assert done.code == 0
    page = (tmp_path / "results" / "report.html").read_text()
    assert "take=300, training.epochs=1, training.batch_size=64" in page
    record = next(json.loads(file.read_text()) for file in (tmp_path / "results" / "records").glob("*.json"))
    assert record["identity"]["training"]["batch_size"] == 64
    again = command("reproduce", record["cell"])
    assert again.code == 0 and "--set training.batch_size=64" in again.out


def test_all_suites_take_no_change(tmp_path):
    with pytest.raises(UserError, match="--set and tuning belong to one suite"):
        routebench.run_suite("all", changes="training.epochs=20", results=tmp_path / "results")


@pytest.mark.parametrize(
    ("options", "change", "says"),
    [
        ({"data": "mnist5k"}, "data=mnist", "expected data once, and --data replaces it as well; keep one"),
        ({"data": "take:500:mnist5k"}, "take=300", "expected take once, and --data take:500:mnist5k replaces it"),
        ({"changes": "data=take:500:mnist5k"}, "take=300", "--set data=take:500:mnist5k replaces it"),
        ({"seeds": 1}, "seeds=5", "--seeds"),
        ({"models": "capsnet"}, "model=cnn", "--model"),
        ({"models": "capsnet"}, "model_params.weight_std=0.7", "keep one, or give model with --set in its place"),
        ({"models": "capsnet-small"}, "training_of.capsnet-small.learning_rate=0.5", "training_of once"),
        ({"loss": "cross-entropy"}, 'training.loss="spread"', "expected training.loss once"),
        ({"loss": "cross-entropy"}, 'training={loss = "spread"}', "expected training.loss once"),
        ({"loss": "spread"}, "training_of.capsnet-small.loss=margin", "keep one, or give training.loss with --set"),
        ({"settings": "mine.json"}, "settings=accuracy.quick.settings.json", "--settings"),
        ({"methods": "dynamic[iterations=2]"}, "iterations=[3]", "--method"),
    ],
)
def test_what_an_option_says_is_not_said_by_a_change_as_well(options, change, says, tmp_path):
    changes = [options.get("changes", "training.epochs=1"), change]
    with pytest.raises(UserError, match=r"^--set .*") as caught:
        routebench.run_suite("accuracy", **{**options, "changes": changes}, results=tmp_path / "results")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_an_option_beside_changes_of_other_keys_is_taken(tmp_path):
    with pytest.raises(UserError, match="unknown data set 'mnist6k'"):
        routebench.run_suite("accuracy", data="mnist6k", seeds=1, loss="spread", results=tmp_path / "results",
                             changes=["training={epochs = 1}", "take=300"])  # fmt: skip


GIVEN = {
    "methods": (parse("em[iterations=2]"),), "data": "mnist", "models": ("capsnet-small-intermediate",),
    "seeds": range(1), "backend": "reference", "loss": "spread", "settings": Path("x.json"), "until": 0.3,
    "changes": ("take=3",),
}  # fmt: skip
TRAINED_APART = 'training_of={capsnet-small = {loss = "margin"}}'


@pytest.mark.parametrize("name", sorted({*options_of(SuiteOptions)} & {one.name for one in fields(Choices)}))
def test_an_option_declares_what_it_writes_into_the_preset(name):
    suite, keys = load_suite("cost", "smoke", [TRAINED_APART]), {"models": "model"}
    before, _ = line_up(suite, "smoke", Choices())
    after, _ = line_up(suite, "smoke", Choices(**{name: GIVEN[name]}))
    written = {one.name for one in fields(before) if getattr(before, one.name) != getattr(after, one.name)}
    written |= {key for key in before.options if before.options[key] != after.options[key]}
    declared = {key.partition(".")[0] for key in options_of(SuiteOptions)[name].writes}
    assert {keys.get(one, one) for one in written} - {"options"} <= declared


def of_network(made, model):
    return [cell.identity for cell in made.cells if cell.identity.model == model]


@pytest.mark.parametrize(("suite", "preset"), [("accuracy", "quick"), ("sparsity", "quick"), ("linear-probe", "quick")])
def test_training_of_a_network_replaces_what_was_tuned(suite, preset):
    changes = ("training_of.capsnet-small.learning_rate=0.5",)
    made = plan(load_suite(suite, preset, changes), preset, Choices(changes=changes))
    assert {known.training["learning_rate"] for known in of_network(made, "capsnet-small")} == {0.5}


def test_the_caveat_counts_what_is_tuned_in_the_plan():
    whole = planned()
    assert "Settings of 13 configurations were tuned" in whole.caveat and "left out" not in whole.caveat
    made = planned("model_params.weight_std=0.7")
    is_tuned = Counter(cell.identity.tuning is not None for cell in made.cells if cell.identity.seed == 0)
    assert is_tuned == {True: 1, False: 12}
    assert "Settings of 1 of 13 configurations were tuned" in made.caveat
    assert "other values than are set here are left out as a whole: of dynamic T=1 on capsnet-small;" in made.caveat
    assert made.caveat.endswith("4 more.")
    none = planned("training.learning_rate=0.5")
    assert "No settings were tuned" in none.caveat and "left out as a whole: of dynamic T=1" in none.caveat
    fewer = plan(load_suite("accuracy"), "quick", Choices(methods=(parse("em"),)))
    assert f"Settings of {len({str(cell).partition(', seed')[0] for cell in fewer.cells})} conf" in fewer.caveat


def test_a_loss_of_the_user_replaces_that_of_one_network():
    suite = load_suite("accuracy", "smoke", [TRAINED_APART])
    made = plan(suite, "smoke", Choices(loss="spread"))
    assert {cell.identity.training["loss"] for cell in made.cells} == {"spread"}
    probes = plan(load_suite("linear-probe"), "smoke", Choices(loss="spread"))
    losses = {cell.identity.model: cell.identity.training["loss"] for cell in probes.cells}
    assert losses["capsnet-small"] == "spread" and losses["vae"] == "own"


@pytest.mark.parametrize(
    ("suite", "change", "says"),
    [
        ("features", "training.reconstruction=0.5", "decoder, such as capsnet-reconstruction, and token-capsules has"),
        ("features", 'training.loss="own"', "expected loss to be one on labels for token-capsules, got 'own'"),
        ("accuracy", "training.reconstruction=0.5", "capsnet-small has none"),
        ("accuracy", 'training.loss="own"', "for capsnet-small, got 'own'"),
    ],
)
def test_training_that_a_network_cannot_take_is_refused_by_the_plan(suite, change, says):
    for _ in range(2):  # what is known of a network is then read from a file
        with pytest.raises(UserError, match=says):
            plan(load_suite(suite, "smoke", [change]), "smoke", Choices(changes=(change,)))
    decoding = ("model=capsnet-small-reconstruction", "training.reconstruction=0.0005")
    made = plan(load_suite("accuracy", "smoke", decoding), "smoke", Choices(changes=decoding))
    assert {known.training["reconstruction"] for known in of_network(made, decoding[0].partition("=")[2])} == {0.0005}
