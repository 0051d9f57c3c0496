"""What is damaged is set aside and said; what is whole stays, whatever lies beside it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from routebench import load_arrays, load_results
from routebench.analysis import open_folder
from routebench.commands import publish, status
from routebench.declared import NEVER_NEGATIVE
from routebench.engine.results import Store, pack
from routebench.engine.results import _index as index
from routebench.engine.results import _store as engine_store
from routebench.engine.results._checksum import sealed
from routebench.engine.results._folder import Reader
from routebench.engine.running._status import status_of
from routebench.errors import UserError
from routebench.protocols import Measurement, Metric, Protocol
from routebench.registry import EVERY, SHIPPED
from tests.engine.conftest import posing

ROOT = Path(__file__).parents[2]
READ_ONLY = """
import sys
from pathlib import Path
from routebench import load_results
from routebench.engine.results._store import Store
from routebench.errors import UserError
folder = Path(sys.argv[1])
store = Store(folder)
print(len(load_results(folder)), len(store.planned()), len(list(store.records())), len(store.warnings))
try:
    store.prepare()
except UserError as error:
    print(error)
"""


def changed(file, change):
    """The file's JSON with a change, as if it had been written like this."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(sealed(content))


@pytest.fixture
def made(finished):
    return finished[0]


@pytest.fixture
def done(finished, store):
    """A finished run of eight cells."""
    shutil.copytree(finished[1], store.path, dirs_exist_ok=True)
    return finished[0]


@pytest.fixture
def victim(done, store):
    """The record that is going to be damaged."""
    return store.path / "records" / f"{done.cells[2].key}.json"


SHAPES = {
    "a list of metrics that is a table": lambda record: record.update(metrics={"accuracy": 1}),
    "a metric that is a number": lambda record: record.update(metrics=[1.0]),
    "a value that is a word": lambda record: record["metrics"][0].update(value="high"),
    "a metric without a value": lambda record: record["metrics"][0].pop("value"),
    "a metric without a name": lambda record: record["metrics"][0].pop("metric"),
    "coordinates that are a list": lambda record: record["metrics"][0].update(where=[1]),
    "an identity that is a word": lambda record: record.update(identity="dynamic"),
    "an identity without a seed": lambda record: record["identity"].pop("seed"),
    "a seed that is a list": lambda record: record["identity"].update(seed=[1]),
    "half an epoch": lambda record: record["identity"]["training"].update(epochs=1.5),
    "epochs in words": lambda record: record["identity"]["training"].update(epochs="two"),
    "a reason that is a table": lambda record: record.update(reason={}),
    "no provenance": lambda record: record.update(provenance=None),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_of_another_shape_is_set_aside(done, store, victim, shape):
    changed(victim, SHAPES[shape])
    reader = Store(store.path)
    assert len(reader.results()) == 7
    (warning,) = reader.warnings
    assert victim.name in warning
    assert not victim.exists()
    assert sorted(reader.planned()["status"]) == ["not run", *["ok"] * 7]


@pytest.mark.parametrize("shape", SHAPES)
def test_one_cell_is_asked_for_likewise(done, store, victim, shape):
    changed(victim, SHAPES[shape])
    assert store.record(victim.stem) is None
    assert [cell.key for cell in status_of(done, store).to_do] == [victim.stem]


def test_a_folder_in_place_of_a_record_is_set_aside(done, store, victim):
    victim.unlink()
    victim.mkdir()
    (victim / "inside").write_text("")
    assert len(load_results(store.path)) == 7
    assert not victim.exists()


def test_bytes_that_are_no_text_are_set_aside(done, store, victim):
    victim.write_bytes(victim.read_bytes().replace(b"brightness", b"bright\xff\xfe"))
    assert len(load_results(store.path)) == 7


def test_numbers_that_are_none_are_kept(done, store, victim):
    changed(victim, lambda record: record["metrics"][0].update(value=float("nan")))
    assert "NaN" in victim.read_text()
    table = load_results(store.path)
    assert len(table) == 8
    assert table["value"].isna().sum() == 1


def test_a_record_that_another_process_has_replaced_is_not_set_aside(done, store, victim, monkeypatch):
    whole, real = victim.read_text(), os.replace
    victim.write_text("{")

    def replace(source, target):
        if Path(source) == victim:  # the moment between reading and moving
            monkeypatch.undo()
            fresh = victim.with_suffix(".new")
            fresh.write_text(whole)
            real(fresh, victim)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    reader = Store(store.path)
    reader.results()
    assert reader.warnings == []
    assert victim.read_text() == whole
    assert list((store.path / "damaged").iterdir()) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "folder"])
def test_a_cell_whose_arrays_are_damaged_counts_as_not_run(done, store, damage):
    key = done.cells[2].key
    file = store.path / "arrays" / f"{key}.safetensors"
    content = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    planned, _ = store.planned(), store.planned()
    moved, lacking = store.warnings
    assert moved == f"arrays/{key}.safetensors could not be read; it was moved to damaged/"
    assert lacking.startswith(f"arrays/{key}.safetensors: gone or damaged, so that its run counts as not run")
    assert planned.set_index("cell").loc[key, ["status", "reason"]].tolist() == [
        "not run", "its raw outputs are gone or damaged",
    ]  # fmt: skip
    again = Store(store.path)
    assert again.arrays(key) == {}
    assert again.record(key) is None
    assert key not in set(again.results()["cell"]) | {record.cell for record in again.records()}
    assert [cell.key for cell in status_of(done, again).to_do] == [key]
    with pytest.raises(UserError, match="holds no arrays"):
        load_arrays(store.path, key)


def test_a_cell_whose_arrays_are_lost_is_measured_again(done, store, run_all):
    for cell in done.cells[:5]:
        (store.path / "arrays" / f"{cell.key}.safetensors").unlink()
    reader = Store(store.path)
    reader.planned()
    (warning,) = reader.warnings  # one sentence, however many
    assert "and 2 more: gone or damaged, so that their runs count as not run" in warning
    run_all(status_of(done, Store(store.path)).to_do)
    fresh = Store(store.path)
    assert set(fresh.planned()["status"]) == {"ok"}
    assert fresh.warnings == []


def test_a_large_folder_looks_into_arrays_once(done, store, monkeypatch):
    monkeypatch.setattr(index, "ENOUGH", 4)
    monkeypatch.setattr(index, "SETTLED", 0.0)
    Store(store.path).planned()
    looked = []
    monkeypatch.setattr(Reader, "arrays_are_whole", lambda _, file: looked.append(file.stem) or False)
    assert set(Store(store.path).planned()["status"]) == {"ok"}
    assert looked == []
    changed = store.path / "arrays" / f"{done.cells[1].key}.safetensors"
    changed.write_text("junk")
    assert sorted(Store(store.path).planned()["status"]) == ["not run", *["ok"] * 7]
    assert looked == [changed.stem]


def test_a_damaged_plan_is_set_aside(done, store):
    (file,) = (store.path / "plans").glob("*.json")
    file.write_bytes(file.read_bytes()[:1000])
    assert store.planned().empty
    assert len(store.warnings) == 1
    assert len(load_results(store.path)) == 8


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"schema": "1"', NESTED, "folder"], ids=["empty", "list", "cut", "nested", "folder"]
)
def test_a_damaged_schema_file_is_written_anew(done, store, damage):
    file = store.path / "schema.json"
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        file.write_text(damage)
    Store(store.path).prepare()
    assert json.loads(file.read_text()) == {"schema": 2}
    assert len(load_results(store.path)) == 8


READERS = {
    "load_results": load_results,
    "status": lambda folder: CliRunner().invoke(status.command, [str(folder)], catch_exceptions=False),
    "records": lambda folder: list(Store(folder).records()),
}
CONTENTS = {
    "a lone surrogate": (("reason",), r'"no file a\udc80.png"'),
    "iterations of 10^26": (("identity", "iterations"), "1" + 26 * "0"),
    "a value of 10^400": (("metrics", 0, "value"), "1" + 400 * "0"),
    "a value that is true": (("metrics", 0, "value"), "true"),
    "a value of 2^64 - 1": (("metrics", 0, "value"), "18446744073709551615"),
    "a value of 2^63": (("metrics", 0, "value"), str(2**63)),
    "a time of 10^11 seconds": (("provenance", "seconds"), "1e11"),
    "an end that is a table": (("provenance", "finished"), "{}"),
    "an end on some day": (("provenance", "finished"), '"yesterday"'),
    "an end before all days": (("provenance", "finished"), '"0001-01-01T00:00:00+14:00"'),
    "a value that is none": (("metrics", 0, "value"), "null"),
    "a value that is an integer": (("metrics", 0, "value"), "12"),
    "an integer that Python will not read": (("metrics", 0, "value"), 5000 * "9"),
    "an infinite value": (("metrics", 0, "value"), "Infinity"),
    "a seed of 10^30": (("identity", "seed"), "1" + 30 * "0"),
    "an infinite time": (("provenance", "seconds"), "Infinity"),
    "provenance that is a list": (("provenance",), '["x"]'),
    "versions that are a list": (("provenance", "versions"), '["x"]'),
    "training that is a list": (("identity", "training"), "[]"),
    "a metric without a name": (("metrics", 0, "metric"), "null"),
    "no metrics": (("metrics",), "null"),
    "a schema of 10^400": (("schema",), "1" + 400 * "0"),
    "tables within tables": (("identity", "options"), 900 * '{"a":' + "1" + 900 * "}"),
    "a key that leads elsewhere": (("cell",), '"../../victim"'),
}
KEPT = {
    "a lone surrogate", "an infinite value", "an end on some day", "an end before all days", "a value that is none",
    "a value that is an integer",
}  # fmt: skip


TWICE = {
    "metrics": lambda text: text.replace('"status"', '"metrics": [], "status"'),
    "seed": lambda text: text.replace('"seed"', '"seed": 7, "seed"'),
    "value": lambda text: text.replace('"value"', '"value" : 1.0, "value"', 1),
    "status": lambda text: text.replace('"status"', '"st\\u0061tus": "failed", "status"'),
    "cell": lambda text: text.replace('"cells"', '"cells": [], "cells"').replace('"cell":', '"cell": "0", "cell":', 1),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_is_there_twice_is_damage(done, store, victim, name):
    content = {key: value for key, value in json.loads(victim.read_text()).items() if key != "checksum"}
    victim.write_text(json.dumps(content))
    assert len(load_results(store.path)) == 8
    victim.write_text(TWICE[name](json.dumps(content)))
    reader = Store(store.path)
    assert len(reader.results()) == 7
    assert f"records/{victim.name} could not be read (the key '{name}' is there twice); it was moved" in str(
        reader.warnings
    )


@pytest.mark.parametrize("name", CONTENTS)
def test_no_content_of_a_record_stops_a_reader(done, store, victim, name):
    where, text = CONTENTS[name]
    content = inner = json.loads(victim.read_text())
    del content["checksum"]
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = "HERE"
    whole = json.dumps(content).replace('"HERE"', text)
    for reader in READERS.values():
        victim.write_text(whole)
        reader(store.path)
    victim.write_text(whole)
    fresh = Store(store.path)
    assert len(fresh.results()) == (8 if name in KEPT else 7)
    assert [victim.name in warning for warning in fresh.warnings] == ([] if name in KEPT else [True])
    "".join(fresh.results()["reason"]).encode()


@pytest.mark.parametrize("where", [("cells", 0, "cell"), ("cells", 1, "identity"), ("settings",), ("sequence",)])
def test_no_content_of_a_plan_stops_a_reader(done, store, where):
    (file,) = (store.path / "plans").glob("*.json")
    content = inner = json.loads(file.read_text())
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = ["../../victim"]
    file.write_text(sealed(content))
    assert store.planned().empty
    (warning,) = store.warnings
    assert file.name in warning


PLANS = {
    "a number": lambda plan: plan.update(primary=5),
    "a list": lambda plan: plan.update(primary=[]),
    "other keys": lambda plan: plan.update(primary={"a": 1}),
    "a first stage in words": lambda plan: plan.update(primary={"first": "x", "margin": 0.5}),
    "a margin in words": lambda plan: plan.update(primary={"first": 1, "margin": "x"}),
    "a margin of nothing": lambda plan: plan.update(primary={"first": 1, "margin": 0}),
    "a margin above all points": lambda plan: plan.update(primary={"first": 1, "margin": 1e300}),
    "a first stage of fewer than no seeds": lambda plan: plan.update(primary={"first": -3, "margin": 0.5}),
    "a plan before the first": lambda plan: plan.update(sequence=-1),
    "fewer than no views": lambda plan: plan.update(told={"data": "mnist", "views": -3}),
    "fewer than no trials": lambda plan: plan.update(
        tuned={"data": "mnist", "kept": "", "told": "", "trials": -5, "planned": 1, "finalists": 0, "repeats": 0}
    ),
    "a width in words": lambda plan: plan.update(primary={"first": 1, "margin": 0.5, "half_width": "x"}),
    "a pair that is a number": lambda plan: plan.update(primary={"first": 1, "margin": 0.5, "pairs": [5]}),
    "a pair of one": lambda plan: plan.update(primary={"first": 1, "margin": 0.5, "pairs": [{"ours": {}}]}),
    "no suite": lambda plan: plan.pop("suite"),
    "no text for a suite": lambda plan: plan.update(suite=[1]),
    "a point that is a number": lambda plan: plan["cells"][0]["identity"].update(tuning={"point": 5}),
    "a score in words": lambda plan: plan["cells"][0]["identity"].update(tuning={"score": "x"}),
    "a score that is a list": lambda plan: plan["cells"][0]["identity"].update(tuning={"score": [1]}),
}


@pytest.mark.parametrize("sealing", [sealed, json.dumps], ids=["sealed", "without a checksum"])
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_another_form_is_set_aside(done, store, name, sealing):
    (file,) = (store.path / "plans").glob("*.json")
    content = json.loads(file.read_text())
    del content["checksum"]
    PLANS[name](content)
    file.write_text(sealing(content))
    with pytest.raises(UserError, match=re.escape(f"plans/{file.name} could not be read")):
        open_folder(store.path)


VALUES = {
    "more than all": ("accuracy", "%", 150.0), "less than nothing": ("accuracy", "%", -5.0),
    "a little more": ("accuracy", "%", 100.01), "far too much": ("accuracy", "%", 1e308),
    "seconds before": ("fit_seconds", "s", -1.0), "a share of two": ("dead_share", "", 2),
    "an index below": ("gini", "", -0.1), "an integer": ("parameters", "count", -3),
    "a loss below its least": ("loss", "", -3.0), "an entropy below": ("coupling_entropy", "", -0.5),
    "no number squared": ("train_loss", "", 1e200), "nor one's own": ("brightness", "lux", -1e200),
}  # fmt: skip
POSSIBLE = {
    "rounding below": ("t_score", "", -2.3e-16), "rounding above": ("accuracy", "%", 100.00001),
    **dict.fromkeys(("a loss of one's own", "a network's own loss", "what routing adds"), ("train_loss", "", -3.0)),
    "another unit": ("accuracy", "points", 150.0),
    "another name": ("brightness", "%", -150.0), "all": ("accuracy", "%", 100.0), "none": ("accuracy", "%", 0),
}  # fmt: skip


OF_LOSSES = {
    "a loss of one's own": lambda record: record["identity"]["training"].update(loss="mine[scale=2]"),
    "a network's own loss": lambda record: record["identity"]["training"].update(loss="own"),
    "what routing adds": lambda record: record["metrics"].append({**record["metrics"][0], "metric": "added_loss"}),
}


@pytest.mark.parametrize("kind", [*VALUES, *POSSIBLE])
def test_a_value_beyond_its_range_is_damage(done, store, victim, kind):
    metric, unit, value = {**VALUES, **POSSIBLE}[kind]
    edit = {"metric": metric, "unit": unit, "value": value}
    changed(victim, lambda record: record["metrics"].append({**record["metrics"][0], **edit}))
    changed(victim, OF_LOSSES.get(kind, lambda record: record["identity"]["training"].update(loss="spread")))
    kept = victim.read_bytes()
    assert len({*store.results()["cell"]}) == (7 if kind in VALUES else 8)
    victim.write_bytes(kept)
    assert (Store(store.path).record(victim.stem) is None) == (kind in VALUES)
    assert [f"records/{victim.name} holds {metric}" in told for told in store.warnings] == [True] * (kind in VALUES)


def test_losses_that_are_never_negative_are_those_of_routebench():
    assert {*NEVER_NEGATIVE} == {name for name in EVERY["losses"] if EVERY["losses"].origin(name) == SHIPPED} - {"own"}


@pytest.mark.parametrize("status", ["", "OK", "okay", "not run", "failed", "diverged"])
def test_a_status_that_no_run_has_or_that_its_values_contradict_is_damage(done, store, victim, status):
    changed(victim, lambda record: record.update(status=status))
    kept = victim.read_bytes()
    assert victim.stem not in {*store.results()["cell"]}
    victim.write_bytes(kept)
    assert Store(store.path).record(victim.stem) is None
    assert [f"records/{victim.name}" in told for told in store.warnings] == [True]


def test_a_run_that_failed_has_no_values(done, store, victim):
    changed(victim, lambda record: record.update(status="diverged", reason="at once", metrics=[], arrays=None))
    assert store.planned().set_index("cell").loc[victim.stem, "status"] == "diverged"
    assert store.warnings == []


@pytest.mark.parametrize("key", ["seed", "suite", "data", "iterations", "method", "data_fingerprint", "label"])
@pytest.mark.parametrize("part", ["records", "plans"])
def test_without_a_checksum_what_is_said_of_a_run_has_to_be_of_it(done, store, victim, part, key):
    file = victim if part == "records" else next((store.path / "plans").glob("*.json"))
    content = json.loads(file.read_text())
    del content["checksum"]
    file.write_text(json.dumps(content))
    assert len(Store(store.path).results()) == len(Store(store.path).planned()) == 8
    run = content if part == "records" else content["cells"][2]
    known = run if key == "label" else run["identity"]
    known[key] = 7 if key in ("seed", "iterations") else "other"
    file.write_text(json.dumps(content))
    assert len(store.results() if part == "records" else store.planned()) == (7 if part == "records" else 0)
    assert f"{part}/{file.name} has no checksum, and what it says of run {done.cells[2].key}" in store.warnings[0]


def test_arrays_that_are_gone_are_told_by_every_reader(done, store, caplog):
    key = done.cells[2].key
    (store.path / "arrays" / f"{key}.safetensors").unlink()
    assert len({*load_results(store.path)["cell"]}) == 7
    assert f"arrays/{key}.safetensors: gone or damaged" in caplog.text
    packed, again = store.path.parent / "packed", store.path.parent / "again"
    for words in ([store.path, "-o", packed], [packed, "--unpack", "-o", again]):
        if "--unpack" in words:
            pack(store.path, packed)  # as no command does
        told = CliRunner().invoke(publish.command, [*map(str, words)], catch_exceptions=False)
        assert told.stderr.count(f"arrays/{key}.safetensors: gone or damaged") == 1


def test_a_stranger_among_records_is_no_plan(done, store):
    (store.path / "records" / "x.y.json").write_text("{}")
    assert len(load_results(store.path)) == 8
    store.tell_gone()
    assert store.warnings == []


def test_what_steers_a_terminal_is_shown(done, store, victim):
    changed(
        victim,
        lambda record: record.update(status="failed", metrics=[], reason="\x1b[2J\x07\x00 \x9b a\u202eb é 中\u3000"),
    )
    told = READERS["status"](store.path).output
    assert r"failed: \x1b[2J\x07\x00 \x9b a\u202eb é 中" in told


def test_an_edited_number_is_told(done, store, victim):
    victim.write_text(victim.read_text().replace('"seed": 0', '"seed": 1'))
    reader = Store(store.path)
    assert len(reader.results()) == 7
    (warning,) = reader.warnings
    assert warning.startswith(
        f"records/{victim.name} is not what was written (its checksum does not hold); it was moved"
    )


def test_a_record_of_before_there_were_checksums_is_read(done, store, victim):
    content = {key: value for key, value in json.loads(victim.read_text()).items() if key not in {"checksum", "files"}}
    victim.write_text(json.dumps(content))
    assert len(load_results(store.path)) == 8
    assert len(load_arrays(store.path, victim.stem)) == 1


def test_ends_of_lines_do_not_break_a_checksum(done, store, victim):
    victim.write_bytes(victim.read_bytes().replace(b"\n", b"\r\n"))
    assert len(load_results(store.path)) == 8


def test_a_flipped_bit_in_raw_outputs_is_told(done, store, monkeypatch):
    monkeypatch.setattr(engine_store, "PAUSE", 0.0)
    key = done.cells[2].key
    file = store.path / "arrays" / f"{key}.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    told = CliRunner().invoke(status.command, [str(store.path), "--verify"], catch_exceptions=False)
    assert f"arrays/{key}.safetensors is not what was written" in told.stderr
    assert "verified: 8 records, and 7 files that they name, are as they were written" in told.stdout
    with pytest.raises(UserError, match="holds no arrays"):
        load_arrays(store.path, key)


def test_a_missing_network_is_told_by_verifying(done, store, victim):
    content = json.loads(victim.read_text())
    content["files"] = {**(content.get("files") or {}), f"fits/{16 * 'a'}/weights.safetensors": 64 * "0"}
    victim.write_text(sealed(content))
    told = CliRunner().invoke(status.command, [str(store.path), "--verify"], catch_exceptions=False)
    assert told.stderr == (
        f"warning: fits/{16 * 'a'}/weights.safetensors is not there; what needs a network trains it again\n"
    )


@pytest.mark.parametrize("part", ["records", "arrays", "plans"])
def test_a_link_in_a_circle_stops_no_reader(done, store, part):
    name = f"{16 * 'a'}{'.safetensors' if part == 'arrays' else '.json'}"
    (store.path / part / name).symlink_to(name)
    assert len(load_results(store.path)) == 8
    assert store.verify()[0] == 8
    told = CliRunner().invoke(status.command, [str(store.path)], catch_exceptions=False)
    assert (told.exit_code, "8 ok" in told.stdout) == (0, True)


def test_a_copy_of_a_record_is_no_second_result(done, store, victim):
    shutil.copy(victim, victim.with_name(f"{victim.stem} (1).json"))
    assert len(load_results(store.path)) == 8


@pytest.mark.parametrize("key", ["../../victim", "", "0" * 15, "0" * 16 + "\n", "G" * 16, "/etc/passwd"])
def test_what_is_no_key_leads_nowhere(done, store, key):
    outside = store.path.parent / "victim.safetensors"
    outside.write_text("precious")
    for look in (
        store.arrays,
        store.record,
        lambda key: store.lock("fit", key),
        lambda key: load_arrays(store.path, key),
    ):
        with pytest.raises(UserError, match="expected a run's key, 16 hex digits"):
            look(key)
    assert outside.read_text() == "precious"


def read_only(folder, target):
    """A command that runs another one where a folder can only be read; None if this machine cannot do that."""
    if os.geteuid() != 0 and os.access(folder, os.W_OK):
        folder.chmod(0o555)
        for inner in folder.rglob("*"):
            inner.chmod(0o555 if inner.is_dir() else 0o444)
        return target
    place = shlex.quote(str(folder))
    mount = f'mount --bind {place} {place} && mount -o remount,bind,ro {place} && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        return None
    return [*command, *target]


def test_a_folder_that_can_only_be_read_is_read(done, store, victim):
    victim.write_text("{")
    command = read_only(store.path, [sys.executable, "-c", READ_ONLY, str(store.path)])
    if command is None:
        pytest.skip("root, and no mount of its own may be made here")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    counts, refused = done.stdout.splitlines()
    assert counts == "7 8 7 1"
    assert "cannot be written" in refused
    assert victim.read_text() == "{"


RUN_READ_ONLY = """
import sys
from dataclasses import replace
from routebench.engine.suites import Cell
from routebench.engine.running._queue import Queue
from routebench.engine.running._run import run_cells
from routebench.engine.running._config import Listener, RunConfig
from routebench.engine.results import Store, StoreFull

if __name__ == "__main__":
    cell = Cell(replace(next(iter(Store(sys.argv[1]).records())).identity, seed=99))
    for isolate in (True, False):
        try:
            run_cells(Queue([cell]), Store(sys.argv[1]), RunConfig("cpu", 1, 1, isolate=isolate), Listener())
        except StoreFull as error:
            print(error.exit_code, error)
"""


def test_a_folder_that_can_only_be_read_from_now_on_ends_the_run_in_one_line(done, store, tmp_path):
    """What a folder becomes in the middle of a run, for a cell in this process and in another."""
    (tmp_path / "code.py").write_text(RUN_READ_ONLY)
    command = read_only(store.path, [sys.executable, str(tmp_path / "code.py"), str(store.path)])
    if command is None:
        pytest.skip("root, and no mount of its own may be made here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        assert line.startswith("3 results folder: ")
        assert line.endswith("finished runs are kept: let it be written, then run the same command again")
    assert len(done.stdout.splitlines()) == 2


class Odd(Protocol):
    """Measures what the test says."""

    found: ClassVar[Any] = None

    def measure(self, request, options, context):
        if isinstance(self.found, Exception):
            raise self.found
        return Measurement([Metric("accuracy", "test", self.found, "%", True)])


def test_a_measurement_that_no_record_can_hold_is_a_failure(made, store, run_all, monkeypatch):
    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Odd))
    monkeypatch.setattr(Odd, "found", 10**400)
    (record,) = run_all(made.cells[:1])
    assert record.status == "failed"
    assert record.reason.startswith("its protocol measured what no record can hold")
    assert store.record(made.cells[0].key).reason == record.reason


@pytest.mark.parametrize("name", ["data", "seed", "label", "test_iterations", "value"])
def test_a_coordinate_never_stands_in_a_column_of_all_results(made, store, run_all, monkeypatch, name):
    found = Measurement([Metric("accuracy", "test", 50.0, "%", True, where={name: "rotated"})])
    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Odd))
    monkeypatch.setattr(Odd, "measure", lambda *_: found)
    (record,) = run_all(made.cells[:1])
    assert record.status == "failed"
    assert "coordinates that are named otherwise than columns of all results" in record.reason


def test_a_message_with_a_name_that_is_no_text_is_kept(made, store, run_all, monkeypatch):
    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Odd))
    monkeypatch.setattr(Odd, "found", OSError(os.fsdecode(b"no file a\x80.png\x1b[2J\x07")))
    (record,) = run_all(made.cells[:1])
    assert record.reason.startswith(r"OSError: no file a\udc80.png\x1b[2J\x07 (")
    assert store.record(made.cells[0].key).reason == record.reason
