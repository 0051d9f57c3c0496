"""Runs with settings that trials chose: what they are made with, and what they replace."""

import json
from codecs import BOM_UTF8
from dataclasses import replace

import pytest

from routebench.data import load
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import FIRST_SEED, Choices, ChosenSettings, plan
from routebench.errors import UserError


def test_settings_on_disk_are_what_runs_are_made_with(suite, settings, tmp_path, run_all):
    file = tmp_path / "chosen.json"
    settings.write(file)
    assert ChosenSettings.read(file, "tuned") == settings
    made = plan(suite(), "quick", Choices(settings=file))
    by_entry = {choice.entry: choice for choice in settings.choices}
    for cell in made.cells:
        known, choice = cell.identity, by_entry[cell.label, cell.identity.model, cell.identity.iterations]
        assert known.tuning == {"point": choice.point, "score": choice.score, "trials": settings.digest}
        assert known.training["learning_rate"] == choice.point["learning_rate"]
        assert known.seed < FIRST_SEED  # seeds are fresh
    assert (
        "Settings of 6 configurations were tuned with one budget: each has the best of 4 trials" in made.caveat
        and settings.digest in made.caveat
    )
    assert "their code is refused test images, unless it reads files itself (trials" in made.caveat
    assert "images of digits200 are not compared with the test images here" in settings.told("mnist5k").told
    (record,) = run_all(made.cells[:1])
    assert record.identity.tuning["trials"] == settings.digest
    assert "No settings were tuned" in plan(suite(), "quick", Choices()).caveat


def test_a_plan_names_no_folder_of_its_settings(suite, settings, tmp_path, store):
    settings.write(tmp_path / "chosen.json")
    write_plan(plan(suite(), "quick", Choices(settings=tmp_path / "chosen.json")), store)
    (file,) = (store.path / "plans").glob("*.json")
    assert json.loads(file.read_text())["settings"]["settings"] == "chosen.json"
    assert str(tmp_path) not in file.read_text()


def test_runs_with_earlier_settings_are_not_averaged_with_later_ones(suite, settings, tmp_path, store):
    later = [
        replace(one, point={**one.point, **({} if "cnn" in one.model else {"model.weight_std": 0.777})})
        for one in settings.choices
    ]
    for name, told in (("first", settings), ("then", replace(settings, choices=later, digest="another"))):
        told.write(tmp_path / f"{name}.json")
        made = plan(suite(), "quick", Choices(settings=tmp_path / f"{name}.json", seeds=range(2)))
        write_plan(made, store)
        assert {*store.planned()["cell"]} == {cell.key for cell in made.cells}
    untuned = plan(suite(), "quick", Choices(seeds=range(2)))
    write_plan(untuned, store)
    assert {*store.planned()["cell"]} == {cell.key for cell in untuned.cells}


def test_an_entry_without_settings_is_refused(suite, settings, tmp_path):
    file = tmp_path / "chosen.json"
    replace(settings, choices=settings.choices[:1]).write(file)
    with pytest.raises(UserError, match="no configuration for heinsen"):
        plan(suite(), "quick", Choices(settings=file))
    with pytest.raises(UserError, match="tune tuned"):
        plan(suite(), "quick", Choices(settings=tmp_path / "missing.json"))
    file.write_text(json.dumps({"suite": "tuned"}))


def test_what_no_tuning_wrote_is_refused_by_its_key(suite, settings, tmp_path):
    file = tmp_path / "chosen.json"
    settings.write(file)
    written = json.loads(file.read_text())
    del written["checksum"]  # as of settings that were written before there was one
    first = written["choices"][0]
    for wrong, says in (
        ([1], "expected a table"),
        ({"suite": "tuned"}, "key 'suite_version': expected an integer of at least 1, got nothing"),
        ({**written, "trials": "4"}, "key 'trials'"),
        ({**written, "choices": [[]]}, r"key 'choices\[0\]': expected a table"),
        ({**written, "choices": [{**first, "point": [1]}]}, r"key 'choices\[0\].point': expected a table, got \[1\]"),
        ({**written, "choices": [{**first, "point": {"learning_rat": 1}}]}, "did you mean 'learning_rate'"),
        ({**written, "choices": [{**first, "point": {"learning_rate": "1"}}]}, "learning_rate': expected a number"),
        ({**written, "trials": 9999}, f"key 'trials': expected at most the {settings.planned} planned, got 9999"),
        ({**written, "planned": settings.trials - 1}, f"expected at most the {settings.trials - 1} planned, got"),
        (
            {**written, "choices": [{**first, "trial": settings.trials}]},
            r"choices\[0\].trial.: expected one of \d+ tri",
        ),
        ({**written, "trials": 10**400}, "key 'trials': expected integers of at most 64 bits"),
        ({**written, "choices": [{**first, "score": float("nan")}]}, "score': expected a number, got nan"),
        ({**written, "choices": [{**first, "point": {"method.sizes": 1}}]}, "has no hyperparameter 'sizes'"),
        ({**written, "choices": [{**first, "point": {"model.shape": 1}}]}, "'shape' is no argument that a suite sets"),
    ):
        file.write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=says) as caught:
            plan(suite(), "quick", Choices(settings=file))
        assert str(caught.value).startswith(f"settings {file}: ")
    for wrong in ("{", "[" * 100_000):
        file.write_text(wrong)
        with pytest.raises(UserError, match="expected JSON, as `routebench tune` writes it"):
            plan(suite(), "quick", Choices(settings=file))


def test_a_preset_names_settings_and_what_lacks_them_has_the_defaults(suite, settings, tmp_path):
    chosen = [choice for choice in settings.choices if choice.method != "heinsen"]
    replace(settings, suite="another", choices=chosen).write(tmp_path / "chosen.json")
    named = suite()
    named = replace(named, presets={"quick": replace(named.preset("quick"), settings="chosen.json")})
    made = plan(named, "quick", Choices())
    for cell in made.cells:
        assert (cell.identity.tuning is None) == (cell.identity.method == "heinsen")
    assert (
        f"Settings of {len(chosen)} of {len(settings.choices)} configurations were tuned with one budget: "
        in made.caveat
    )
    elsewhere = plan(named, "quick", Choices(models=("capsnet-small-intermediate",)))
    assert all(cell.identity.tuning is None for cell in elsewhere.cells if cell.identity.model != "cnn-small")


def test_what_the_user_sets_is_not_overwritten_by_settings(suite, settings, tmp_path):
    settings.write(tmp_path / "chosen.json")
    named = suite()
    named = replace(named, presets={"quick": replace(named.preset("quick"), settings="chosen.json")})
    for cell in plan(named, "quick", Choices(loss="spread")).cells:
        assert cell.identity.training["loss"] == "spread"
        chosen = next(
            one for one in settings.choices if one.entry == (cell.label, cell.identity.model, cell.identity.iterations)
        )
        assert (cell.identity.tuning is not None) == (chosen.point["loss"] == "spread")
    with pytest.raises(UserError, match="no configuration for"):
        plan(suite(), "quick", Choices(loss="cross-entropy", settings=tmp_path / "chosen.json"))


def test_settings_of_an_entry_that_are_there_twice_are_refused(settings, tmp_path):
    file = tmp_path / "chosen.json"
    replace(settings, choices=(*settings.choices, replace(settings.choices[0], trial=3))).write(file)
    with pytest.raises(UserError, match="expected one choice for dynamic, T = 2 on capsnet-small, got two"):
        ChosenSettings.read(file, "tuned")
    settings.write(file)
    file.write_text(file.read_text().replace('"trials":', '"trials": 9, "trials":', 1))
    with pytest.raises(UserError, match="the key 'trials' is there twice"):
        ChosenSettings.read(file, "tuned")


@pytest.mark.parametrize("changed", [0.25, 0.5, 0.9])
def test_settings_that_changed_since_they_were_written_are_refused(suite, settings, tmp_path, changed):
    file = tmp_path / "chosen.json"
    settings.write(file)
    whole = file.read_bytes()
    for kept in (whole.replace(b"\n", b"\r\n"), BOM_UTF8 + whole, whole + b"\n"):
        file.write_bytes(kept)
        assert ChosenSettings.read(file, "tuned") == settings
    digit = next(place for place in range(int(changed * len(whole)), len(whole)) if whole[place : place + 1].isdigit())
    file.write_bytes(whole[:digit] + (b"1" if whole[digit : digit + 1] != b"1" else b"2") + whole[digit + 1 :])
    with pytest.raises(UserError, match=r"its checksum does not hold.*remove its line 'checksum'"):
        plan(suite(), "quick", Choices(settings=file))


@pytest.mark.parametrize("taken", ["", "take:180:", "few:150:"])
def test_settings_that_were_chosen_on_other_images_are_told(suite, settings, tmp_path, taken):
    assert settings.fingerprint == load("digits200").fingerprint
    made, file = suite(), tmp_path / "chosen.json"

    def caveat(**changed):
        replace(settings, **changed).write(file)
        return plan(made, "quick", Choices(settings=file, data=f"{taken}digits200")).caveat

    told = "digits200 has changed since (0123456789abcdef then, "
    assert f"{told}{settings.fingerprint} now)" in caveat(fingerprint="0123456789abcdef")
    for changed in ({}, {"fingerprint": ""}, {"fingerprint": "0123456789abcdef", "data": "mnist5k"}):
        assert "has changed since" not in caveat(**changed)
    assert ("fingerprint" in file.read_text()) == bool(changed["fingerprint"])
