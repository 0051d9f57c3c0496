"""Fair tuning: one budget and one space for every entry, and no test image."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.data import load
from routebench.data_names import unfolded
from routebench.engine.suites import Choices, ChosenPoint, ChosenSettings, load_suite, plan
from routebench.engine.tuning import choose, choose_beside, told_of_kept
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import load_plugin, routing
from tests.engine.conftest import TUNED

ENTRIES = 6  # dynamic T=2; heinsen T=1 and T=2; uniform, random and the CNN
PEEKS = """
from routebench import routing
from routebench.data import Dataset, load
from routebench.registry import datasets

@datasets.register("handed-out")
def handed_out() -> Dataset:
    base = load("digits200")
    return Dataset.of("handed-out", base.classes, base.test, base.train, "test images to train on")

@routing.register("peeks")
class Peeks(routing.RoutingMethod):
    "Looks at the images that it will be tested on."

    def route(self, votes, activations):
        WAY
        raise AssertionError("it has seen them")
"""
DECLARES = """
from typing import Annotated, Literal
from routebench import routing
from routebench.arguments import Among, Positive, Range
from routebench.routing.uniform import Uniform

@routing.register("declares")
class Declares(Uniform):
    "Uniform coupling, with hyperparameters that change nothing."

    def __init__(self, sizes, *, sharpness: Annotated[Positive, Range(0.1, 10.0, "log")] = 1.0,
                 mode: Annotated[Literal["a", "b"], Among(("a", "b"))] = "a", fixed: float = 2.0):
        super().__init__(sizes)
        self.sharpness, self.mode, self.fixed = sharpness, mode, fixed
"""


def entry_of(cell):
    return cell.label, cell.identity.iterations


def point_of(cell):
    return cell.identity.tuning["point"]


def test_every_entry_has_as_many_trials(tried):
    counts = Counter(map(entry_of, tried.cells))
    assert len(counts) == ENTRIES and set(counts.values()) == {4}
    assert ("dynamic", 1) not in counts  # the same function as uniform
    assert len({cell.key for cell in tried.cells}) == 4 * ENTRIES


def test_all_entries_try_the_same_points_in_what_they_share(tried):
    for number in range(4):
        points = [point_of(cell) for cell in tried.cells if cell.identity.options["trial"] == number]
        assert len({(point["learning_rate"], point["loss"]) for point in points}) == 1
        assert len({point["model.weight_std"] for point in points if "model.weight_std" in point}) == 1
    cnn = next(cell for cell in tried.cells if cell.identity.method == "cnn")
    assert set(point_of(cnn)) == {"learning_rate", "loss"}  # it has no transformation matrices


def test_points_do_not_depend_on_who_takes_part(suite, tried):
    alone = plan(suite(), "quick", Choices(methods=(parse("heinsen"),), tuning=True))
    assert {cell.key for cell in alone.cells} < {cell.key for cell in tried.cells}


def test_more_knobs_cost_no_trials_and_move_no_other_point(suite, tried):
    more = plan(suite("[tuning.methods.heinsen]\npresence = ['learned', 'activations']"), "quick", Choices(tuning=True))
    assert len(more.cells) == len(tried.cells)
    shared = {(*entry_of(cell), cell.identity.seed): point_of(cell)["learning_rate"] for cell in tried.cells}
    assert {(*entry_of(cell), cell.identity.seed): point_of(cell)["learning_rate"] for cell in more.cells} == shared
    assert any(point_of(cell).get("method.presence") == "activations" for cell in more.cells)


def test_the_user_may_want_another_number_of_trials(suite, tried):
    fewer = plan(suite(), "quick", Choices(tuning=True, trials=2))
    counts = Counter(map(entry_of, fewer.cells))
    assert len(counts) == ENTRIES and set(counts.values()) == {2}
    with pytest.raises(UserError, match=r"--trials 3 of tuned.toml.*a multiple of the 2 studies.*got 3"):
        plan(suite(), "quick", Choices(tuning=True, trials=3))


def bring(made, tried, folder, **changes):
    """The suite with settings of all its entries, as if they had been tuned before."""
    choices = {
        entry_of(cell): ChosenPoint(
            cell.label, cell.identity.model, cell.identity.iterations, 0, 50.0, 0, 0, point_of(cell)
        )
        for cell in tried.cells
        if cell.identity.options["trial"] == 0
    }
    whole = ChosenSettings(made.name, 1, "quick", "digits200", 4, 4, "d", tuple(choices.values()))
    replace(whole, **changes).write(folder / "brought.json")
    preset = replace(made.preset("quick"), settings="brought.json")
    return replace(made, folder=folder, presets={"quick": preset})


def test_entries_that_the_user_did_not_name_keep_settings_of_the_same_budget(suite, tried, tmp_path, run_all, store):
    made = bring(suite(), tried, tmp_path)
    mine = plan(made, "quick", Choices(methods=(parse("heinsen"),), tuning=True))
    assert {cell.identity.method for cell in mine.cells} == {"heinsen"}
    assert "the settings that suite tuned brings are kept for 3 configurations" in told_of_kept(mine)
    run_all([cell for cell in mine.cells if cell.identity.options["trial"] < 2])
    with pytest.raises(UserError, match=r"expected 4 trials .* as 3 other configurations had, got 2 and 0 so far"):
        choose(mine, store)
    run_all(mine.cells)
    found = choose(mine, store)
    assert {choice.entry for choice in found.choices} == {
        *(("heinsen", "capsnet-small", T) for T in (1, 2)),
        *((name, "capsnet-small", None) for name in ("uniform", "random")),
        ("cnn", "cnn-small", None),
    }
    assert found.trials == 4 and found.digest != "d"
    assert {choice.trials for choice in found.choices} == {""}  # as in submissions: the digest has the earlier one
    beside = choose_beside(mine, store)
    assert {choice.trials for choice in beside.choices if choice.method != "heinsen"} == {"d"}  # as they were chosen
    assert {choice.trials for choice in beside.choices if choice.method == "heinsen"} == {""}
    found.write(tmp_path / "mine.json")
    final = Choices(methods=(parse("heinsen"),), settings=tmp_path / "mine.json")
    assert all(cell.identity.tuning for cell in plan(made, "quick", final).cells)


def test_what_tuning_again_leaves_as_it_was_keeps_its_results(suite, tried, settings, tmp_path, store):
    """The suite brings settings of other trials, which chose the same for all entries but the CNN."""
    cnn, *others = sorted(settings.choices, key=lambda choice: choice.method != "cnn")
    earlier = replace(settings, digest="earlier", choices=(replace(cnn, score=cnn.score / 2), *others))
    earlier.write(tmp_path / "brought.json")
    made = suite()
    made = replace(made, folder=tmp_path, presets={"quick": replace(made.preset("quick"), settings="brought.json")})
    found = choose_beside(replace(tried, suite=made), store)
    assert {choice.trials for choice in found.choices if choice.method != "cnn"} == {"earlier"}
    assert [choice.trials for choice in found.choices if choice.method == "cnn"] == [""]
    assert f"(trials earlier for 5, {settings.digest} for 1)" in found.told("digits200").told
    found.write(tmp_path / "found.json")
    assert ChosenSettings.read(tmp_path / "found.json", "tuned") == found
    (tmp_path / "brought.json").rename(tmp_path / "away.json")
    assert choose_beside(replace(tried, suite=made), store) == choose(tried, store)
    (tmp_path / "away.json").rename(tmp_path / "brought.json")
    before, now = (plan(made, "quick", Choices(settings=tmp_path / name)) for name in ("brought.json", "found.json"))
    keys = [{cell.label: cell.key for cell in one.cells if cell.identity.seed == 0} for one in (before, now)]
    assert {label for label in keys[0] if keys[0][label] != keys[1][label]} == {"cnn"}


@pytest.mark.parametrize("changes", [{"trials": 2}, {"data": "mnist5k"}, {"suite_version": 2}, {"repeats": 1}])
def test_settings_chosen_otherwise_lend_no_name(settings, changes):
    assert settings.as_before(replace(settings, digest="earlier", **changes)) == settings
    assert settings.as_before(settings) == settings


@pytest.mark.parametrize(
    ("changes", "choices"),
    [
        ({"trials": 2, "planned": 2}, {}),
        ({"data": "mnist5k"}, {}),
        ({"preset": "full"}, {}),
        ({"finalists": 2, "repeats": 1}, {}),
        ({}, {"trials": 2}),
        ({}, {"loss": "margin"}),  # so that fewer hyperparameters are tried
        ({}, {"methods": ()}),  # nothing in particular was asked for
    ],
)
def test_all_entries_are_tuned_beside_settings_of_another_budget(suite, tried, tmp_path, changes, choices):
    made = bring(suite(), tried, tmp_path, **changes)
    found = plan(made, "quick", Choices(**{"methods": (parse("heinsen"),), "tuning": True, **choices}))
    assert {"heinsen", "uniform", "random", "cnn"} <= {cell.identity.method for cell in found.cells}
    assert told_of_kept(found) == ""


def test_the_values_of_a_point_are_what_the_cell_is_trained_with(tried):
    for cell in tried.cells:
        request, point = cell.request(), point_of(cell)
        assert (request.recipe.learning_rate, request.recipe.loss) == (point["learning_rate"], point["loss"])
        assert request.model_params.get("weight_std") == point.get("model.weight_std")
        if cell.identity.method == "dynamic":
            assert request.method_params.get("detach", False) == point["method.detach"]
            assert cell.label == "dynamic"  # tables name it without


def test_points_fill_the_space_evenly(suite):
    cells = plan(suite(trials=16), "quick", Choices(tuning=True)).cells
    rates = [point_of(cell)["learning_rate"] for cell in cells if cell.identity.method == "uniform"]
    for study in (rates[:8], rates[8:]):  # one point in each eighth of the range
        assert sorted((8 * np.log(np.array(study) / 3e-4) / np.log(100)).astype(int)) == list(range(8))
    assert set(rates[:8]) != set(rates[8:])


def test_what_the_user_or_the_preset_sets_is_not_tuned(suite, tried):
    one_loss = plan(suite(), "quick", Choices(tuning=True, loss="margin"))
    assert all("loss" not in point_of(cell) and cell.identity.training["loss"] == "margin" for cell in one_loss.cells)
    rates = [point_of(cell)["learning_rate"] for cell in one_loss.cells]
    assert rates == [point_of(cell)["learning_rate"] for cell in tried.cells]
    fixed = plan(suite(), "quick", Choices(methods=(parse("dynamic[detach=true]"),), tuning=True))
    mine = [cell for cell in fixed.cells if cell.identity.method == "dynamic"]
    assert all(cell.identity.method_params["detach"] and "method.detach" not in point_of(cell) for cell in mine)


def test_a_method_declares_its_knobs_in_its_class(suite, tmp_path):
    file = tmp_path / "declares.py"
    file.write_text(DECLARES)
    made = suite()
    load_plugin(str(file))
    cells = plan(made, "quick", Choices(added=("declares",), tuning=True)).cells
    mine = [cell for cell in cells if cell.identity.method == "declares"]
    assert len(mine) == 4
    for cell in mine:
        point = point_of(cell)
        assert 0.1 <= point["method.sharpness"] <= 10 and point["method.mode"] in {"a", "b"}
        assert "method.fixed" not in point


def test_a_trial_sees_no_test_image(tried):
    official = {image.numpy().tobytes() for image in load("digits200").test.pixels}
    for name in {cell.identity.data for cell in tried.cells}:
        seen = load(name)
        assert unfolded(name) == "digits200"
        for part in (seen.train, seen.held_out, seen.test):
            assert not official & {image.numpy().tobytes() for image in part.pixels}


@pytest.mark.parametrize(
    "way", ['load("digits200").test', 'datasets["digits200"]().test', 'load("fold:1/2:handed-out").train']
)
def test_a_method_that_reads_test_images_gets_an_error_tuned_or_not(suite, tmp_path, run_all, way):
    file = tmp_path / "peeks.py"
    file.write_text(PEEKS.replace("WAY", way))
    made = suite()
    load_plugin(str(file))
    cells = plan(made, "quick", Choices(added=("peeks",), tuning=True)).cells
    (record,) = run_all([next(cell for cell in cells if cell.identity.method == "peeks")])
    assert record.status == "failed"
    assert "test images are sealed" in record.reason
    final = next(
        cell for cell in plan(made, "quick", Choices(added=("peeks",))).cells if cell.identity.method == "peeks"
    )
    (record,) = run_all([final])
    assert "test images are sealed" in record.reason  # while a network runs, what it is given is all that it sees


def test_the_best_trial_of_every_entry_is_chosen(tried, settings, store):
    assert (settings.trials, settings.data, settings.preset) == (4, "digits200", "quick")
    assert len(settings.choices) == ENTRIES
    for choice in settings.choices:
        own = [
            cell for cell in tried.cells if (cell.label, cell.identity.model, cell.identity.iterations) == choice.entry
        ]
        scores = [
            next(one["value"] for one in store.record(cell.key).metrics if one["metric"] == "score") for cell in own
        ]
        assert choice.score == pytest.approx(max(scores), abs=1e-4)
        assert choice.trial == int(np.argmax(scores))
        assert choice.point == point_of(own[choice.trial])


def lose(cells, store):
    """Takes away the records of trials, as if they had not been made."""
    for cell in cells:
        (store.path / "records" / f"{cell.key}.json").unlink()


def test_only_trials_that_all_entries_have_count(tried, settings, store):
    lost = [cell for cell in tried.cells if cell.identity.options["trial"] >= 2 and cell.identity.method == "cnn"]
    lose(lost, store)
    found = choose(tried, store)
    assert (found.trials, found.planned) == (2, 4)
    assert all(choice.trial < 2 for choice in found.choices)
    assert "best of 2 of 4 planned trials" in found.told("digits200").told


def test_nothing_is_chosen_before_every_entry_was_tried(tried, settings, store):
    lose([cell for cell in tried.cells if cell.identity.method == "cnn"], store)
    with pytest.raises(UserError, match="no trial of cnn"):
        choose(tried, store)


def endlessly(cell):
    """The trial with a learning rate that no training survives."""
    training = {**cell.identity.training, "learning_rate": 1e30, "epochs": 3}
    return replace(cell, identity=replace(cell.identity, training=training))


def test_a_trial_that_diverges_or_fails_scores_chance(tried, settings, run_all, store, monkeypatch):
    def exploding(weights):
        raise RuntimeError("boom")

    heinsen = [cell for cell in tried.cells if cell.identity.method == "heinsen"]
    others = [cell for cell in tried.cells if cell.identity.method != "heinsen"]
    endless = [endlessly(cell) for cell in others if cell.identity.method == "cnn"]
    others = [cell for cell in others if cell.identity.method != "cnn"]
    run_all(endless)
    lose(heinsen, store)
    with monkeypatch.context() as patched:
        patched.setattr(routing["heinsen"], "route", exploding)
        run_all(heinsen)
    found = choose(replace(tried, cells=(*others, *endless, *heinsen)), store)
    by_name = {choice.method: choice for choice in found.choices}
    assert (by_name["heinsen"].score, by_name["heinsen"].failed, by_name["heinsen"].trial) == (10.0, 4, 0)
    assert (by_name["cnn"].score, by_name["cnn"].diverged) == (10.0, 4)
    assert by_name["uniform"].score > 10


def scored(record, score):
    """The record with another score; None for a failure, NaN for a run that diverged."""
    if score is None:
        return replace(record, status="failed", metrics=[])
    new = {"score": 10.0 if np.isnan(score) else score, "diverged": float(np.isnan(score))}
    return replace(record, metrics=[{**one, "value": new.get(one["metric"], one["value"])} for one in record.metrics])


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([None, 6.4, 8.1, 7.0], (2, 8.1)),  # chance is 10
        ([np.nan, 6.4, None, 7.0], (3, 7.0)),
        ([None, np.nan, 0.0, None], (2, 0.0)),
        ([np.nan, None, np.nan, None], (0, 10.0)),
        ([12.0, 99.0, None, 99.0], (1, 99.0)),
    ],
)
@pytest.mark.parametrize("finalists", [1, 2])
def test_no_trial_that_broke_is_chosen_while_another_ended(
    tried, settings, store, scores, chosen, finalists, monkeypatch
):
    records = {cell.key: scored(store.record(cell.key), scores[cell.identity.options["trial"]]) for cell in tried.cells}
    tuning = replace(tried.suite.tuning, finalists=finalists)
    monkeypatch.setattr(type(store), "record", lambda _, key: records[key])
    found = choose(replace(tried, suite=replace(tried.suite, tuning=tuning)), store)
    assert {(choice.trial, choice.score) for choice in found.choices} == {chosen}
    broke = sum(score is None or bool(np.isnan(score)) for score in scores)
    assert {choice.diverged + choice.failed for choice in found.choices} == {broke}


def test_nothing_guesses_several_classes(tried, settings, store, monkeypatch):
    records = {cell.key: scored(store.record(cell.key), [np.nan, None][cell.identity.options["trial"] % 2])
               for cell in tried.cells}  # fmt: skip
    assert (tried.chance, load("digits200").chance, load("diverse-multimnist5k").chance) == (10, 10, 0)
    monkeypatch.setattr(type(store), "record", lambda _, key: records[key])
    found = choose(replace(tried, chance=0.0), store)
    assert {choice.score for choice in found.choices} == {0.0}


def test_folds_are_averaged(suite, run_all, store):
    tried = plan(suite(scored=2), "quick", Choices(tuning=True))
    assert len(tried.cells) == 2 * 4 * ENTRIES
    assert {cell.identity.data for cell in tried.cells} == {"fold:1/3:digits200", "fold:2/3:digits200"}
    run_all(tried.cells)
    choice = choose(tried, store).choices[0]
    cells = [cell for cell in tried.cells if entry_of(cell) == (choice.method, choice.iterations)]
    scores = [
        next(one["value"] for one in store.record(cell.key).metrics if one["metric"] == "score")
        for cell in cells
        if cell.identity.options["trial"] == choice.trial
    ]
    assert choice.score == pytest.approx(np.mean(scores), abs=1e-4)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("[tuning.methods.em]\nfinal_lamda = [1.0, 2.0]", None),  # em does not take part
        ("[tuning.methods.heinsen]\npresense = ['learned', 'activations']", "'presence'"),
        ("[tuning.methods.heinsen]\npresence = ['learned', 'never']", "one of learned, activations"),
    ],
)
def test_knobs_are_checked_before_anything_runs(suite, more, says):
    made = suite(more)
    if says is None:
        assert plan(made, "quick", Choices(tuning=True)).cells
        return
    with pytest.raises(UserError, match=says):
        plan(made, "quick", Choices(tuning=True))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("trials = 4", "trials = 5", "multiple of the 2 studies"),
        ("scored = 1", "scored = 4", "at most the number of folds"),
        ("folds = 3", "folds = 1", "at least 2"),
        ("folds = 3", "folds = 3\nfinalists = 5", "at most the number of trials, 4"),
        ("folds = 3", "folds = 3\nrepeats = 2", "finalists of 2 or more"),
        ("low = 3e-4", "low = 0.0", "above 0"),
        ("low = 3e-4", "low = 3e4", "to a larger one"),
        ('"margin", "spread"', '"margin", "sprad"', "'sprad'"),
        ("learning_rate =", "learningrate =", "learning_rate"),
        ("weight_std =", "weight_sd =", "no network of this preset"),
        ("low = 0.03", "low = -0.03", "tuning.model.weight_std.*above 0"),
        ("low = 0.03", "low = '0.03'", "tuning.model.weight_std.*to a larger one, got '0.03' to 1.0"),
        ("low = 0.03", "low = [0.03]", "tuning.model.weight_std.*to a larger one, got "),
        ("low = 0.03", "low = false", "tuning.model.weight_std.*to a larger one, got False"),
        ("high = 1.0", "high = true", "tuning.model.weight_std.*to a larger one, got 0.03 to True"),
        ("high = 1.0", "high = 1e300", "tuning.model.weight_std.*float32"),
        ('{ low = 0.03, high = 1.0, scale = "log" }', '[0.1, "wide"]', "tuning.model.weight_std.*'wide'"),
    ],
)
def test_a_space_is_read_strictly(parts, tmp_path, old, new, says):
    file = tmp_path / "tuned.toml"
    text = TUNED.format(more="", trials=4, scored=1, again="")
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=says):
        plan(load_suite(str(file)), "quick", Choices(tuning=True))


def test_a_suite_without_a_space_is_not_tuned(parts, suite_file):
    with pytest.raises(UserError, match=r"\[tuning\]"):
        plan(load_suite(str(suite_file(protocol="accuracy"))), "quick", Choices(tuning=True))


def test_one_iteration_of_dynamic_is_equal_coupling_to_the_last_bit():
    """Why suite standard runs it once."""
    from routebench.models import build

    images = torch.rand(4, 1, 28, 28)
    found = []
    for method, params in (("uniform", {}), ("dynamic", {"iterations": 1})):
        torch.manual_seed(0)
        network = build("capsnet-small", shape=(1, 28, 28), classes=10, method=method, method_params=params)
        output = network(images)
        output.logits.sum().backward()
        found.append((output.logits, network.layers[0].weight.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_larger_budget_begins_with_the_trials_of_the_smaller_one():
    """`budget` says so of `standard`: the same space, folds and recipe, and 32 settings after its 16."""
    more, fewer = load_suite("budget"), load_suite("standard")
    assert (more.tuning.trials, fewer.tuning.trials) == (48, 16)
    assert replace(more.tuning, trials=16, studies=2) == fewer.tuning and more.training == fewer.training
    first = plan(fewer, "smoke", Choices(tuning=True))
    points = {(entry_of(cell), cell.identity.options["trial"]): point_of(cell) for cell in first.cells}
    larger = plan(more, "smoke", Choices(tuning=True)).cells
    shared = [cell for cell in larger if (entry_of(cell), cell.identity.options["trial"]) in points]
    assert Counter(map(entry_of, larger)) == Counter(dict.fromkeys(map(entry_of, larger), 48))
    assert len(shared) == 16 * len({*map(entry_of, larger)})
    for cell in shared:
        assert point_of(cell) == points[entry_of(cell), cell.identity.options["trial"]]
