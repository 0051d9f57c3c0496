"""Runs for experiment trackers, read back as each tracker reads them."""

import json
import math
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

import routebench
from routebench import export
from routebench.commands.export import command
from routebench.engine.results import Store, ended
from routebench.engine.running._progress import _outcome
from routebench.errors import UserError
from routebench.export._trackers import _Run
from tests.command import Command

Read = dict[str, tuple[list[float], dict[str, str]]]
"""Numbers and settings, by the name of the run."""


@pytest.fixture
def call(tmp_path, plain, capfd):
    """Runs `export` beside a folder `results`."""
    shutil.copytree(plain, tmp_path / "results")
    return partial(Command(tmp_path, capfd), "export")


def skip_without(name: str) -> None:
    """Skips a test whose tracker is not installed, without importing it: trackio settles its folder then."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def in_tensorboard(folder: Path) -> Read:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = {}
    for place in (folder / "accuracy").iterdir():
        events = EventAccumulator(str(place)).Reload()
        numbers = [one.value for tag in events.Tags()["scalars"] for one in events.Scalars(tag)]
        start = HParamsPluginData.FromString(
            events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
        )
        values = start.session_start_info.hparams
        found[place.name] = numbers, {key: str(getattr(values[key], values[key].WhichOneof("kind"))) for key in values}
    return found


def in_mlflow(folder: Path) -> Read:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("accuracy")
    found = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        assert (run.info.status == "FINISHED") == (run.data.tags["status"] == "ok")
        history = [client.get_metric_history(run.info.run_id, key) for key in run.data.metrics]
        found[run.info.run_name] = [one.value for values in history for one in values], run.data.params
    return found


def records_of_wandb(file: Path) -> Iterator[bytes]:
    """The records of a log of LevelDB: blocks of 32 KiB with pieces, each behind a checksum, its length and type."""
    content, whole = file.read_bytes(), b""
    assert content[:4] == b":W&B"
    at = 7
    while at < len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        piece = content[at + 7 : at + 7 + size]
        whole, at = piece if kind in {1, 2} else whole + piece, at + 7 + size
        if kind in {1, 4}:  # whole, or the last piece
            yield whole


def in_wandb(folder: Path) -> Read:
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for file in folder.glob("wandb/offline-run-*/*.wandb"):
        name, numbers, settings = "", [], {}
        for data in records_of_wandb(file):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
                settings |= {one.key: str(json.loads(one.value_json)) for one in record.run.config.update}
            numbers += [json.loads(item.value_json) for item in record.history.item]
        found[name] = numbers, settings
    return found


def in_trackio(folder: Path) -> Read:
    base = sqlite3.connect(folder / "accuracy.db")
    found: Read = {}
    for name, config in base.execute("select run_name, config from configs"):
        found[name] = [], {key: str(value) for key, value in json.loads(config).items()}
    for name, metrics in base.execute("select run_name, metrics from metrics order by step"):
        found[name][0].extend(json.loads(metrics).values())
    return found


READERS: dict[str, Callable[[Path], Read]] = {
    "tensorboard": in_tensorboard, "mlflow": in_mlflow, "wandb": in_wandb, "trackio": in_trackio,
}  # fmt: skip


def test_every_tracker_is_read_back_here_and_named_by_the_command():
    (to,) = (option for option in command.params if option.name == "to")
    assert [*READERS] == [*export.TRACKERS] == [*export.SHOWN_BY] == [*to.type.choices]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own data base
@pytest.mark.parametrize("name", READERS)
def test_a_tracker_reads_the_numbers_and_settings_of_every_run(name, call, tmp_path):
    skip_without(name)
    rows = pd.DataFrame(json.loads(call("--json").out)["rows"])
    # a process of its own, as a tracker keeps its folder, its threads and its handlers
    arguments = [sys.executable, "-m", "routebench", "export", "results", "--to", name, "-o", "far/runs", "--json"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"folder": "far/runs", "runs": rows["cell"].nunique()}
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["runs"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "results"]
    found = {run[-8:]: read for run, read in READERS[name](tmp_path / "far" / "runs").items()}
    assert {*found} == {cell[:8] for cell in rows["cell"]}
    for cell, own in rows.groupby("cell"):
        numbers, settings = found[cell[:8]]
        for value in own["value"].dropna():
            assert any(math.isclose(value, one, rel_tol=1e-6) for one in numbers), (cell, value)
        assert settings["preset"] == "quick"
        assert settings["method"] == own["label"].iloc[0] and float(settings["seed"]) == own["seed"].iloc[0]


def test_runs_whose_place_newer_ones_took_are_left_out_and_told(planned_again, tmp_path, capfd):
    skip_without("tensorboard")
    results = routebench.load_results(planned_again)
    done = Command(tmp_path, capfd)("export", planned_again, "--to", "tensorboard", "-o", "out")
    assert f"export: {results['cell'].nunique()} runs" in done.out + done.error, done
    assert "warning: left out: " in done.error


def test_one_that_is_not_installed_or_known_or_whose_folder_is_taken_is_one_line(call, tmp_path, monkeypatch):
    taken = call("--to", "tensorboard", "-o", "results")
    assert taken.code == 2 and "expected an output that is not there yet" in taken.error
    monkeypatch.setattr("routebench.export._trackers.find_spec", lambda name: None)
    missing = call("--to", "wandb", "-o", "new")
    assert missing.code == 2 and "pip install 'routebench[wandb]'" in missing.error
    assert missing.error.count("\n") == 1 and [path.name for path in tmp_path.iterdir()] == ["results"]
    monkeypatch.setattr("routebench.export._trackers.find_spec", lambda name: name)
    for folder in ("50%", "what?x=1"):
        refused = call("--to", "mlflow", "-o", f"{folder}/runs")
        assert refused.code == 2 and "expected a path without % and ?" in refused.error
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    with pytest.raises(UserError, match="did you mean 'mlflow'"):
        export.Tracker("mlfow", tmp_path / "new")


def test_a_run_is_written_when_it_finishes(tmp_path):
    skip_without("tensorboard")
    seen = []
    track = export.Tracker("tensorboard", tmp_path / "events")

    def follow(progress):
        track(progress)
        if progress.record is not None:
            seen.append((progress.record.cell, len(in_tensorboard(tmp_path / "events"))))

    given = {"methods": "uniform", "seeds": 1, "results": tmp_path / "results"}
    routebench.run_suite("accuracy", preset="smoke", progress=follow, **given)
    stored = [record.cell for record in Store(tmp_path / "results").records()]
    assert [count for _, count in seen] == [*range(1, len(stored) + 1)]
    assert sorted(cell for cell, _ in seen) == sorted(stored)


def test_the_command_that_is_told_next_can_be_pasted(call):
    skip_without("tensorboard")
    told = call("--to", "tensorboard", "-o", "my events").out
    assert told.endswith("; next: `tensorboard --logdir 'my events'`\n")


def test_trackio_keeps_the_folder_that_it_was_loaded_for(tmp_path, plain):
    skip_without("trackio")
    record = next(iter(Store(plain).records()))
    export.Tracker("trackio", tmp_path / "one").write(record)
    with pytest.raises(UserError, match="expected a process in which it has not written elsewhere"):
        export.Tracker("trackio", tmp_path / "two").write(record)


@pytest.mark.parametrize("end", [None, "", "yesterday", "0001-01-01T00:00:00", "9999-12-31T23:59:59", "2026-13-01", 12])
def test_what_a_record_does_not_tell_stops_no_tracker_and_no_progress(plain, end):
    (record, *_) = Store(plain).records()
    metrics = [{**one, "value": None if one["metric"] == "accuracy" else one["value"]} for one in record.metrics]
    origin = {**record.provenance, "finished": end, "seconds": None}
    odd = replace(record, metrics=metrics, provenance=origin)
    run = _Run(odd, None)
    assert (run.began, run.finished) == (0.0, 0.0) and not any(math.isnan(value) for _, value, _ in run.numbers)
    assert len(run.numbers) == sum(one["value"] is not None for one in metrics) < len(metrics)
    assert _outcome(odd, 3.0) == "ok in 3 s" and ended(origin) is None
    assert _outcome(record, 3.0) != "ok in 3 s"


@pytest.mark.parametrize("part", ["method", "model"])
@pytest.mark.parametrize("name", ["schedule", "learning_rate", "seed", "T"])
def test_settings_of_one_name_are_told_apart(plain, part, name):
    (record, *_) = Store(plain).records()
    before = _Run(record, None).settings
    known = replace(record.identity, training={"schedule": "cosine", "learning_rate": 0.1}, method_params={})
    odd = replace(record, identity=replace(known, **{f"{part}_params": {name: 7, "own": 1}}))
    found = _Run(odd, None).settings
    assert (found["schedule"], found["learning_rate"]) == ("cosine", 0.1)
    assert (found[f"{part}_{name}"], found["own"]) == (7, 1)
    assert all(found[key] == before[key] for key in ("method", "model", "data", "seed", "T") if key in before)


@pytest.mark.parametrize(
    "changed",
    [
        {"options": {"test_iterations": [1, 2]}},
        {"options": {"epochs": 3}},  # which the recipe has too
        {"protocol": "cost"},
        {"suite_version": 77},
        {"role": "other"},
        {"variant": "of mine"},
        {"data_fingerprint": "fedcba9876543210"},
        {"source": "0123456789abcdef"},
        {"versions": {"method": 2}},
        {"versions": {"model": 2}},
        {"tuning": {"point": {}, "score": 70.0, "trials": "0123456789abcdef"}},
        {"training": {"epochs": 77}},
        {"method_params": {"own": 1}},
        {"model_params": {"own": 1}},
        {"data": "other"}, {"model": "other"}, {"seed": 77}, {"iterations": 77},
    ],
    ids=str,
)  # fmt: skip
def test_runs_that_are_not_the_same_have_other_settings(plain, changed):
    (record, *_) = Store(plain).records()
    other = replace(record, identity=replace(record.identity, **changed))
    assert other.identity.key != record.identity.key
    assert _Run(other, None).settings != _Run(record, None).settings
    assert other.identity.training == record.identity.training or "training" in changed


@pytest.mark.parametrize("preset", ["", "quick", "quick, smoke"])
def test_a_run_names_the_preset_that_planned_it(plain, preset):
    (record, *_) = Store(plain).records()
    known = replace(record.identity, method_params={"preset": 3})
    found = _Run(replace(record, identity=known), None, preset).settings
    assert (found.get("preset", ""), found["method_preset"]) == (preset, 3)


@pytest.mark.parametrize("letter", ["a", "é"])
def test_a_label_that_no_file_name_holds_is_cut(plain, letter):
    (record, *_) = Store(plain).records()
    name = _Run(replace(record, label=letter * 700), None).file_name
    assert len(name.encode()) <= 200 and name.startswith(letter * 90) and name.endswith(f"-{record.cell[:8]}")


def test_a_full_disk_is_told_as_one_and_leaves_nothing(call, tmp_path, monkeypatch):
    def full(run, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(export.TRACKERS, "tensorboard", full)
    monkeypatch.setattr("routebench.export._trackers.find_spec", lambda name: name)
    done = call("--to", "tensorboard", "-o", "new")
    told = "Error: the export cannot be written to 'new': No space left on device; choose with -o\n"
    assert (done.code, done.out, done.error) == (2, "", told)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
