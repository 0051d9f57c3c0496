"""`--set KEY=VALUE`: another value for a key of the preset, checked like the file, part of the identity, and told."""

import json

import pytest

import routebench
from routebench.engine.suites import Choices, load_suite, plan
from routebench.engine.suites._changes import changed
from routebench.errors import UserError
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
