"""Results of schema 1, whose keys held a hash of code, are taken over."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import routebench
from routebench import cli
from routebench.engine import migrate as module
from routebench.engine.migrate import migrate
from routebench.engine.reproduce import commands, read_record
from routebench.engine.results import Store, checksum, digest, is_packed, load_results, pack, unpack
from routebench.engine.suites import Choices, digest_of, load_suite, plan
from routebench.errors import UserError

OLD = Path(__file__).parents[1] / "packs" / "schema-1"
"""The suite accuracy, preset quick, as commit c79a8ef measured it."""


@pytest.fixture
def old(tmp_path):
    unpack(OLD, tmp_path / "old")
    return tmp_path / "old"


def edited(folder, part, change, only=lambda content: True):
    """Changes files of a folder as routebench itself would have written them."""
    for file in sorted((folder / part).glob("*.json")):
        content = json.loads(file.read_bytes())
        if only(content):
            change(content)
            file.write_text(checksum.sealed(content))


def contents(folder, part):
    return [json.loads(file.read_bytes()) for file in sorted((folder / part).glob("*.json"))]


def test_numbers_stay_and_records_hold_what_they_were(old, tmp_path):
    found = migrate(old, tmp_path / "new")
    before = {content["cell"]: content for content in contents(old, "records")}
    after = contents(tmp_path / "new", "records")
    assert len(after) == len(before) == len(found.cells) == 39
    for record in after:
        was = json.loads(record["earlier"])
        assert checksum.unsealed(record["earlier"].encode(), was) and before[was["cell"]]["cell"] == was["cell"]
        assert found.cells[was["cell"]] == record["cell"]
        assert record["metrics"] == was["metrics"]
        assert record["provenance"]["code"] == was["identity"]["source"]
        assert "source" not in {key for key, value in record["identity"].items() if value is not None}
    store = Store(tmp_path / "new")
    assert store.verify()[0] == 39 and store.warnings == []
    assert [store.arrays(key).keys() for key in found.cells.values()]
    assert {*store.planned()["status"]} == {"ok"}
    numbers = load_results(tmp_path / "new")
    assert len(numbers) == sum(len(record["metrics"]) for record in after)


def test_a_pack_becomes_a_pack_and_reads_as_the_folder(old, tmp_path):
    migrate(old, tmp_path / "folder")
    migrate(OLD, tmp_path / "pack")
    assert is_packed(tmp_path / "pack")
    pair = [load_results(tmp_path / name).drop(columns="seconds") for name in ("folder", "pack")]
    assert pair[0].equals(pair[1])
    with pytest.raises(
        UserError, match=r"schema version 1, this routebench reads version 2; `routebench migrate .*schema-1"
    ):
        load_results(OLD)
    with pytest.raises(UserError, match="expected results of schema 1, got schema 2 in "):
        migrate(tmp_path / "pack", tmp_path / "again")


@pytest.mark.parametrize(("suite", "preset"), [("accuracy", "quick"), ("overlap", "smoke"), ("cost", "smoke")])
def test_a_run_of_today_finds_them(tmp_path, no_data, suite, preset):
    """A cell of schema 1 gets the key that today's plan gives to it."""
    made = plan(load_suite(suite), preset, Choices())
    cells = []
    for cell in made.cells:
        known = cell.identity.as_dict()
        for later in ("versions", "defaults"):
            known.pop(later, None)
        known["source"] = "feedfacefeedface"
        cells.append({"cell": digest(known), "label": cell.label, "params": "", "identity": known})
    (tmp_path / "old" / "plans").mkdir(parents=True)
    content = {"schema": 1, "plan": "made", "created": "2026", "suite": suite, "preset": preset, "cells": cells}
    (tmp_path / "old" / "plans" / "made.json").write_text(checksum.sealed(content))
    found = migrate(tmp_path / "old", tmp_path / "new")
    assert [*found.cells.values()] == [cell.key for cell in made.cells]


def test_what_is_not_known_is_not_guessed(old, tmp_path):
    methods = Counter(content["identity"]["method"] for content in contents(old, "records"))
    edited(
        old, "records", lambda record: record["provenance"].update(commit="1" * 40), lambda record: _is(record, "em")
    )
    edited(
        old, "records", lambda record: record["provenance"].update(dirty=True), lambda record: _is(record, "dynamic")
    )
    edited(
        old, "records", lambda record: record["identity"].update(method="mine"), lambda record: _is(record, "random")
    )
    found = migrate(old, tmp_path / "new")
    assert found.unknown == {
        "their code is of no known commit": methods["em"],
        "their code differed from its commit": methods["dynamic"],
        "their method is of a plug-in": methods["random"],
    }
    kept = [record for record in contents(tmp_path / "new", "records") if record["identity"].get("source")]
    assert Counter(record["identity"]["method"] for record in kept) == {
        "em": methods["em"], "dynamic": methods["dynamic"], "mine": methods["random"],
    }  # fmt: skip
    assert {*Store(tmp_path / "new").planned()["status"]} <= {"ok", "not run"}


def _is(record, method):
    return record["identity"]["method"] == method


def test_a_part_whose_numbers_moved_keeps_its_older_version(old, tmp_path, monkeypatch):
    known = json.loads(module.KNOWN.read_text())
    known[0]["versions"]["method uniform"] = 3
    monkeypatch.setattr(module, "KNOWN", tmp_path / "known.json")
    module.KNOWN.write_text(json.dumps(known))
    module._known.cache_clear()
    try:
        found = migrate(old, tmp_path / "new")
    finally:
        module._known.cache_clear()
    of = {
        record["identity"]["method"]: record["identity"].get("versions")
        for record in contents(tmp_path / "new", "records")
    }
    assert of["uniform"] == {"method": 3} and of["em"] is None
    assert [*found.older] == ["method uniform, version 3"]


def test_digests_follow_the_keys_of_trials(old, tmp_path):
    """Of a set of trials that is in the folder; that of another stays."""
    edited(old, "plans", lambda content: [cell["identity"].update(tuning={"point": {}}) for cell in content["cells"]])
    edited(old, "records", lambda content: content["identity"].update(tuning={"point": {}}))
    trials = [content["cell"] for content in contents(old, "records")]
    (content,) = contents(old, "plans")
    runs = [{**cell, "cell": f"{number:016x}"} for number, cell in enumerate(content["cells"])]
    for number, cell in enumerate(runs):
        digest = digest_of(trials) if number else "feedfacefeedface"
        cell["identity"] = {**cell["identity"], "tuning": {"point": {}, "score": 90.0, "trials": digest}}
    (old / "plans" / "runs.json").write_text(checksum.sealed({**content, "plan": "runs", "cells": runs}))
    found = migrate(old, tmp_path / "new")
    now = digest_of([found.cells[key] for key in trials])
    assert found.digests == {digest_of(trials): now}
    told = json.loads((tmp_path / "new" / "plans" / "runs.json").read_bytes())
    assert Counter(cell["identity"]["tuning"]["trials"] for cell in told["cells"]) == {
        now: len(runs) - 1, "feedfacefeedface": 1,
    }  # fmt: skip


def test_damage_is_told_and_the_rest_is_taken_over(old, tmp_path):
    first, second, *_ = sorted((old / "records").glob("*.json"))
    sealed = checksum.sealed(json.loads(first.read_bytes()))
    first.write_text(sealed.replace('"ok"', '"OK"', 1))
    second.write_bytes(b"\xff{")
    done = CliRunner().invoke(cli.cli, ["migrate", str(old), "-o", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert f"warning: left out: records/{first.name} is not what was written" in done.output
    assert f"warning: left out: records/{second.name} could not be read" in done.output
    assert "migrated: 39 of 39 runs in" in done.output
    assert len(contents(tmp_path / "new", "records")) == 37


def test_nothing_is_left_half_written_and_nothing_is_overwritten(old, tmp_path, monkeypatch):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        migrate(old, tmp_path / "taken")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="found no plan and no record"):
        migrate(tmp_path / "empty", tmp_path / "new")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_plans", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            migrate(old, tmp_path / "new")
    assert not (tmp_path / "new").exists() and not [*tmp_path.glob(".*.tmp")]
    assert len(migrate(old, tmp_path / "new").cells) == 39


def _interrupted(*_):
    raise KeyboardInterrupt


def test_the_later_of_two_records_of_one_cell_is_kept(old, tmp_path):
    """Two codes may have measured the same cell, which is one now."""
    file = min((old / "records").glob("*.json"))
    content = json.loads(file.read_bytes())
    content["cell"], content["identity"]["source"] = "0" * 16, "another code"
    content["provenance"]["finished"] = "2099-01-01T00:00:00+00:00"
    content["metrics"] = content["metrics"][:1]
    content["arrays"] = None
    (old / "records" / f"{'0' * 16}.json").write_text(checksum.sealed(content))
    found = migrate(old, tmp_path / "new")
    assert any(file.stem in told and "0" * 16 in told for told in found.left_out)
    (record,) = [one for one in contents(tmp_path / "new", "records") if one["cell"] == found.cells["0" * 16]]
    assert len(record["metrics"]) == 1


@pytest.mark.parametrize(
    ("earlier", "later", "kept"),
    [("ok", "failed", "ok"), ("failed", "ok", "ok"), ("ok", "timeout", "ok"), ("diverged", "ok", "diverged"),
     ("ok", "diverged", "diverged"), ("diverged", "failed", "diverged"), ("oom", "failed", "failed")],
)  # fmt: skip
def test_of_two_records_of_one_run_the_one_that_merge_would_keep_is_kept(old, tmp_path, earlier, later, kept):
    """A result counts before a later failure, but not before a divergence."""
    file = min((old / "records").glob("*.json"))
    content = json.loads(file.read_bytes())
    for key, status, year in ((content["cell"], earlier, 2000), ("0" * 16, later, 2099)):
        content["cell"], content["status"], content["reason"] = key, status, "" if status == "ok" else "why"
        content["provenance"]["finished"] = f"{year}-01-01T00:00:00+00:00"
        content["identity"]["source"] = f"code of {year}"
        if status != "ok":
            content = {**content, "metrics": [], "arrays": None}
            (old / "arrays" / f"{key}.safetensors").unlink(missing_ok=True)
        (old / "records" / f"{key}.json").write_text(checksum.sealed(content))
        content = json.loads(file.read_bytes())
    found = migrate(old, tmp_path / "new")
    (record,) = [one for one in contents(tmp_path / "new", "records") if one["cell"] == found.cells["0" * 16]]
    (told,) = [one for one in found.left_out if "0" * 16 in one]
    assert record["status"] == kept
    assert ("is later" in told, f"counts before it: {kept}" in told) == (earlier == later, earlier != later)
    assert (tmp_path / "new" / "arrays" / f"{record['cell']}.safetensors").exists() == bool(record["arrays"])


@pytest.mark.parametrize("name", ["../../outside", "other", "/outside"])
def test_a_plan_writes_no_file_but_its_own(old, tmp_path, name):
    """A folder may come from anybody."""
    (file,) = (old / "plans").glob("*.json")
    file.write_text(checksum.sealed({**json.loads(file.read_bytes()), "plan": name}))
    before = {*tmp_path.rglob("*")}
    found = migrate(old, tmp_path / "new")
    assert found.left_out == [f"plans/{file.name} is not what was written"]
    made = {*tmp_path.rglob("*")} - before
    assert all(one.is_relative_to(tmp_path / "new") for one in made) and not [*(tmp_path / "new" / "plans").iterdir()]


SUITE = """
question = "Q?"
version = 1
protocol = "accuracy"
[[methods]]
name = "uniform"
[presets.quick]
data = "take:100:mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = { epochs = 1 }
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a trained network, as schema 1 had it, and the key that its cell has now."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "own.toml").write_text(SUITE)
    run = routebench.run_suite(str(folder / "own.toml"), preset="quick", results=folder / "now", report=False, jobs=1)
    old, fit = folder / "old", "f" * 16
    (key,) = run.results.query("method == 'uniform'")["cell"].unique()
    shutil.copytree(folder / "now", old)
    record = json.loads((old / "records" / f"{key}.json").read_bytes())
    shutil.rmtree(old / "records")  # of a control as well
    (old / "records").mkdir()
    known = {name: one for name, one in record["identity"].items() if name not in {"versions", "defaults"}}
    known["source"] = "feedfacefeedface"
    before = digest(known)
    (old / "arrays" / f"{key}.safetensors").rename(old / "arrays" / f"{before}.safetensors")
    (network,) = {name.split("/")[1] for name in record["files"] if name.startswith("fits/")}
    (old / "fits" / network).rename(old / "fits" / fit)
    files = {name.replace(key, before).replace(network, fit): one for name, one in record["files"].items()}
    then = {**record, "schema": 1, "cell": before, "identity": known, "files": files}
    then["arrays"] = f"arrays/{before}.safetensors"
    commit = json.loads(module.KNOWN.read_text())[-1]["commits"][0]
    then["provenance"] = {**record["provenance"], "commit": commit, "dirty": False}
    (old / "records" / f"{before}.json").write_text(checksum.sealed(then))
    edited(old, "plans", lambda content: content.update(schema=1))
    edited(old, "plans", lambda content: content["cells"].pop(content["cells"][0]["cell"] == key))
    edited(old, "plans", lambda content: content["cells"][0].update(cell=before, identity=known))
    (old / "schema.json").write_text('{"schema": 1}')
    return folder, key


def test_a_trained_network_is_used_again(trained, tmp_path):
    folder, key = trained
    found = migrate(folder / "old", tmp_path / "new")
    assert ([*found.cells.values()], found.fits, found.left_out) == ([key], 1, [])
    assert routebench.load_fit(tmp_path / "new", key) is not None
    store = Store(tmp_path / "new")
    assert store.verify() == (1, 2) and store.warnings == []
    (tmp_path / "new" / "records" / f"{key}.json").unlink()
    (weights,) = (tmp_path / "new" / "fits").rglob("weights.safetensors")
    before = weights.stat().st_mtime_ns
    routebench.run_suite(str(folder / "own.toml"), preset="quick", results=tmp_path / "new", report=False, jobs=1)
    assert weights.stat().st_mtime_ns == before  # it was not trained again


@pytest.mark.parametrize("damage", ["a pipe", "a link", "no notes", "other notes", "a link to the folder"])
def test_a_damaged_network_is_left_out_and_told(trained, tmp_path, damage):
    folder, key = trained
    shutil.copytree(folder / "old", tmp_path / "old")
    fit = tmp_path / "old" / "fits" / ("f" * 16)
    weights, notes = fit / "weights.safetensors", fit / "fit.json"
    match damage:
        case "a pipe":
            weights.unlink()
            os.mkfifo(weights)
        case "a link":
            weights.unlink()
            weights.symlink_to(folder / "own.toml")
        case "no notes":
            notes.unlink()
        case "other notes":
            notes.write_text(notes.read_text().replace('"epoch": 1', '"epoch": 2'))
        case _:
            shutil.move(fit, tmp_path / "elsewhere")
            fit.symlink_to(tmp_path / "elsewhere")
    found = migrate(tmp_path / "old", tmp_path / "new")
    assert ([*found.cells.values()], found.fits) == ([key], 0)
    (told,) = found.left_out
    assert told.startswith(f"fits/{fit.name} could not be read: ")
    assert not (tmp_path / "new" / "fits").exists()


def test_damaged_settings_are_left_out_and_told(old, tmp_path):
    (old / "accuracy.quick.settings.json").write_text("{")
    (told,) = migrate(old, tmp_path / "new").left_out
    assert "accuracy.quick.settings.json" in told


def test_packed_again_it_is_the_same(old, tmp_path):
    migrate(old, tmp_path / "new")
    pack(tmp_path / "new", tmp_path / "packed")
    shutil.rmtree(tmp_path / "new")
    assert len(load_results(tmp_path / "packed")["cell"].unique()) == 39


def test_a_record_is_reproduced_by_the_key_that_its_code_knew(old, tmp_path):
    found = migrate(old, tmp_path / "new")
    was, key = next(iter(found.cells.items()))
    record = read_record(tmp_path / "new" / "records" / f"{key}.json")
    commit = record.provenance["commit"]
    (checkout, line), (again,) = (commands(record, {"commit": other}) for other in ("f" * 40, commit))
    assert checkout == f"git checkout {commit}"
    assert f"--run {was} " in line and f"--run {key} " in again
