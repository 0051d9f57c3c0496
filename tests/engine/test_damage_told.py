"""Every entry point tells what is damaged, every time until it is measured again; none passes over it."""

import json
import logging
import shutil

import pytest
from click.testing import CliRunner

from routebench import cli, load_arrays, load_results
from routebench.analysis import open_folder
from routebench.commands import alternate, compare, export, forget, publish, report, status
from routebench.comparing import Wishes, as_json, as_text, compare_folders, verdict
from routebench.engine.reproduce import arrays_beside
from routebench.engine.results import Store, pack
from routebench.engine.results import _store as engine_store
from routebench.engine.running import Listener, PlannedRun, Queue, RunConfig, run_cells
from routebench.engine.running import _suite as engine_suite
from routebench.engine.running._status import status_of
from routebench.errors import UserError
from routebench.interface import SuiteRun
from routebench.report import answers, comparison_table


@pytest.fixture
def copied(finished, tmp_path, monkeypatch):
    """Makes copies of the folder."""
    monkeypatch.setattr(engine_store, "PAUSE", 0.0)

    def copy(name="results"):
        shutil.copytree(finished[1], tmp_path / name)
        return tmp_path / name

    return copy


def cut(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)


def folder_instead(file):
    file.unlink()
    file.mkdir()


DEEDS = {"cut": cut, "flipped": flip, "empty": lambda file: file.write_bytes(b""), "a folder": folder_instead}
PARTS_OF = ("records", "arrays", "plans")
FLAWS = [(part, deed) for part in PARTS_OF for deed in DEEDS]


def damage(folder, finished, part, deed, number=2):
    """Damages one file; its name."""
    key = finished[0].cells[number].key
    files = {"records": f"{key}.json", "arrays": f"{key}.safetensors"}
    file = folder / part / (files.get(part) or next((folder / "plans").glob("*.json")).name)
    DEEDS[deed](file)
    return file.name


def older_plan(folder):
    """A copy of the plan that is older, so that the folder has one where the newest is damaged."""
    (file,) = (folder / "plans").glob("*.json")
    content = json.loads(file.read_text())
    content["plan"] = content["plan"].replace("quick.", "quick.", 1)
    del content["sequence"], content["checksum"]
    content["plan"] = ".".join([*content["plan"].split(".")[:3], "20000101T000000000000Z", "00000000"])
    (folder / "plans" / f"{content['plan']}.json").write_text(json.dumps(content))
    return file.name


@pytest.mark.parametrize(("part", "deed"), FLAWS)
@pytest.mark.parametrize("side", ["base", "head"])
def test_a_gate_on_damaged_input_never_says_no_regression_and_says_the_same_again(copied, finished, part, deed, side):
    folders = {name: copied(name) for name in ("base", "head")}
    if part == "plans":
        name = older_plan(folders[side])
        DEEDS[deed](folders[side] / "plans" / name)
    else:
        name = damage(folders[side], finished, part, deed)
    codes, words = [], []
    for _ in range(3):
        done = CliRunner().invoke(compare.command, [str(folders["base"]), str(folders["head"]), "--gate"])
        codes.append(done.exit_code)
        words.append(done.stdout.splitlines()[0])
        assert name in done.stderr
        assert not words[-1].startswith("No regression")
    assert codes[0] != 0
    assert len({*codes}) == 1, codes
    assert len({word.partition(":")[0] for word in words}) == 1, words


def test_the_comparison_of_a_program_tells_it_too(copied, finished):
    base, head = copied("base"), copied("head")
    name = damage(base, finished, "arrays", "flipped")
    found = compare_folders(base, head, Wishes())
    assert found.exit_code == 3
    assert any(name in line for line in found.damaged)
    assert verdict(found).startswith("Undecided")
    assert name in as_text(found)
    assert any(name in line for line in json.loads(as_json(found))["damaged"])


def test_a_gate_on_folders_without_a_plan_names_what_was_one(copied, finished):
    base, head = copied("base"), copied("head")
    name = damage(head, finished, "plans", "cut")
    for _ in range(2):
        with pytest.raises(UserError, match=r"nothing was planned .* plans/small\.quick\..*damaged/") as caught:
            compare_folders(base, head, Wishes())
        assert name in str(caught.value)


def test_what_was_measured_again_is_not_told_any_more(copied, finished):
    made, _ = finished
    base, head = copied("base"), copied("head")
    for part, number in (("records", 1), ("arrays", 2)):
        damage(head, finished, part, "cut", number)
    assert compare_folders(base, head, Wishes()).exit_code == 3
    store = Store(head)
    run_cells(Queue(status_of(made, store).to_do), store, RunConfig("cpu", jobs=1, threads=1), Listener())
    found = compare_folders(base, head, Wishes())
    assert (found.exit_code, found.damaged) == (compare_folders(base, base, Wishes()).exit_code, [])
    assert len(list((head / "damaged").iterdir())) == 2


COMMANDS = {
    "status": lambda folder, out: (status.command, [str(folder)]),
    "status --verify": lambda folder, out: (status.command, [str(folder), "--verify"]),
    "export": lambda folder, out: (export.command, [str(folder), "--format", "csv"]),
    "report": lambda folder, out: (report.command, [str(folder)]),
    "publish": lambda folder, out: (publish.command, [str(folder), "-o", str(out)]),
    "forget": lambda folder, out: (forget.command, ["random", str(folder)]),
}


@pytest.mark.parametrize("part", ["records", "arrays"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_it_every_time(copied, finished, tmp_path, part, name):
    folder = copied()
    file = damage(folder, finished, part, "flipped" if part == "records" else "cut")
    for turn in range(2):
        command, words = COMMANDS[name](folder, tmp_path / f"out{turn}")
        done = CliRunner().invoke(command, words, catch_exceptions=False)
        assert file in done.stderr, (name, done.output)


@pytest.mark.parametrize(("part", "deed"), FLAWS)
@pytest.mark.parametrize("name", ["status --verify", "publish"])
def test_what_is_damaged_is_neither_published_nor_verified(copied, finished, tmp_path, name, part, deed):
    """Every time, until it is deleted or measured again."""
    folder = copied()
    file = older_plan(folder) if part == "plans" else damage(folder, finished, part, deed)
    if part == "plans":
        DEEDS[deed](folder / "plans" / file)
    for turn in range(2):
        command, words = COMMANDS[name](folder, tmp_path / "out")
        done = CliRunner().invoke(command, words, catch_exceptions=False)
        assert done.exit_code == 3 and file in done.stderr, (turn, done.output)
    assert not (tmp_path / "out").exists()
    shutil.rmtree(folder / "damaged", ignore_errors=True)
    for gone in (folder / "records" / f"{file.partition('.')[0]}.json", folder / part / file):
        if gone.is_dir():
            gone.rmdir()
        gone.unlink(missing_ok=True)
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0 and not done.stderr, done.output


def test_networks_that_are_not_there_are_published_without_and_verified(copied):
    folder = copied()
    shutil.rmtree(folder / "fits")
    for words in (["status", str(folder), "--verify"], ["publish", str(folder), "-o", str(folder / "out")]):
        done = CliRunner().invoke(cli.cli, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output


def test_a_pack_that_holds_damage_is_unpacked_and_said_so(copied, finished, tmp_path):
    folder = copied()
    file = damage(folder, finished, "records", "cut")
    pack(folder, tmp_path / "packed")
    words = ["publish", str(tmp_path / "packed"), "--unpack", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.cli, words, catch_exceptions=False)
    assert done.exit_code == 3 and file in done.stderr and "unpacked: " in done.output


@pytest.mark.parametrize("command", ["suite", "tune"])
def test_a_dry_run_tells_what_is_damaged_of_other_presets(copied, finished, monkeypatch, command):
    monkeypatch.setattr(engine_suite, "MEASURING", 0.0)
    folder = copied()
    file = damage(folder, finished, "plans", "cut")
    for _ in range(2):
        words = [command, "accuracy", "--preset", "smoke", "--dry-run", "--results", str(folder)]
        done = CliRunner().invoke(cli.cli, words, catch_exceptions=False)
        told = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
        assert [file in line for line in told] == [True], done.output


NOTHING_LEFT = {
    "forget": ("forget", "random", "FOLDER"),
    "export": ("export", "FOLDER", "--format", "csv", "--suite", "small"),
    "report": ("report", "FOLDER"),
    "compare": ("compare", "FOLDER", "FOLDER"),
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_an_error_that_damage_may_be_the_cause_of_drops_no_warning(copied, finished, name):
    folder = copied()
    file = damage(folder, finished, "plans", "cut")
    for _ in range(2):
        words = [str(folder) if word == "FOLDER" else word for word in NOTHING_LEFT[name]]
        done = CliRunner().invoke(cli.cli, words)
        assert done.exit_code != 0
        assert file in f"{done.stderr} {done.exception}", done.output


@pytest.mark.parametrize("part", ["records", "arrays"])
def test_results_of_a_run_tell_what_has_been_damaged_or_lost_since(copied, finished, caplog, part):
    made, _ = finished
    folder = copied()
    known = status_of(made, Store(folder))
    planned = PlannedRun(made, known, RunConfig("cpu", jobs=1, threads=1), Queue(known.to_do), Store(folder))
    run = SuiteRun(folder, (planned,), planned.run(Listener()), None)
    if part == "records":
        file = damage(folder, finished, "records", "cut")
    else:
        lost = next((folder / "arrays").iterdir())
        file = lost.name
        lost.unlink()
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "routebench"):
            assert len({*run.results["cell"]}) == 7
        assert file in caplog.text


PROGRAMS = {
    "load_results": lambda folder, key: load_results(folder),
    "load_arrays": load_arrays,
    "arrays_beside": lambda folder, key: arrays_beside(folder / "records" / f"{key}.json", key),
    "comparison_table": lambda folder, key: comparison_table(answers(open_folder(folder))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_function_tells_it(copied, finished, caplog, name):
    folder = copied()
    part = "records" if name == "load_results" else "arrays"
    file = damage(folder, finished, part, "cut")
    key = file.partition(".")[0]
    for turn in range(2 if name in ("load_results", "comparison_table") else 1):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "routebench"):
            if name == "load_arrays":
                with pytest.raises(UserError, match="holds no arrays"):
                    PROGRAMS[name](folder, key)
            else:
                PROGRAMS[name](folder, key)
        assert file in caplog.text, turn


def test_before_rounds_are_added_it_is_told(copied, finished, capsys):
    folder = copied()
    file = damage(folder, finished, "records", "cut", 0)
    assert alternate.rounds_in(folder, "small", "quick") == 0
    assert file in capsys.readouterr().err


def test_an_earlier_plan_of_the_same_suite_in_damaged_is_no_loss(copied, finished):
    folder = copied()
    name = older_plan(folder)
    (older,) = (file for file in (folder / "plans").glob("*.json") if file.name != name)
    cut(older)
    first, second = Store(folder), Store(folder)
    first.planned()
    second.planned()
    assert (len(first.warnings), second.warnings) == (1, [])


def test_verifying_tells_of_results_that_no_plan_names(copied):
    folder = copied()
    assert Store(folder).verify()[0] and not Store(folder).warnings
    (file,) = (folder / "plans").glob("*.json")
    content = json.loads(file.read_text())
    (lost, *_), kept = content["cells"][:1], content["cells"][1:]
    del content["checksum"]
    file.write_text(json.dumps({**content, "cells": kept}))
    store = Store(folder)
    store.verify()
    assert any(f"records/{lost['cell']}.json: no plan names its run" in told for told in store.warnings)
    assert store.damaged == [], "it is no damage"
    for command, exit_code in (([folder, "-o", folder.with_name("pack")], 0), ([folder, "--verify"], 0)):
        asked = status.command if "--verify" in command else publish.command
        done = CliRunner().invoke(asked, [*map(str, command)])
        assert (done.exit_code, "no plan names its run" in done.stderr) == (exit_code, True)


def test_a_damaged_plan_whose_runs_no_other_plan_names_is_told_every_time(copied, finished):
    folder = copied()
    (file,) = (folder / "plans").glob("*.json")
    content = json.loads(file.read_text())
    del content["sequence"], content["checksum"]
    name = ".".join([*content["plan"].split(".")[:3], "29990101T000000000000Z", "00000000"])
    newer = {**content, "plan": name, "cells": content["cells"][:1]}
    (folder / "plans" / f"{name}.json").write_text(json.dumps(newer))
    cut(file)
    for _ in range(3):
        store = Store(folder)
        assert len(store.planned()) == 1
        assert file.name in " ".join(store.warnings)
    Store(folder).write_plan(name.replace("00000000", "11111111"), {**content, "plan": name[:-8] + "11111111"})
    last = Store(folder)
    assert (len(last.planned()), last.warnings) == (len(content["cells"]), []), "the same command makes it again"


@pytest.mark.parametrize(("part", "deed"), [("records", "cut"), ("records", "flipped"), ("arrays", "cut")])
@pytest.mark.parametrize("number", [0, 5])
def test_a_suite_whose_cell_is_gone_at_the_end_counts_it_as_failed(copied, finished, part, deed, number):
    made, _ = finished
    folder = copied()
    again = folder / "records" / f"{made.cells[7].key}.json"
    again.unlink()
    store = Store(folder)
    known = status_of(made, store)
    assert len(known.to_do) == 1
    planned = PlannedRun(made, known, RunConfig("cpu", jobs=1, threads=1), Queue(known.to_do), store)
    file = damage(folder, finished, part, deed, number)  # after the plan was made, as if in mid-run
    counts = planned.run(Listener())
    assert (counts.cells, counts.cached, counts.run, counts.failed) == (8, 6, 2, 1)
    assert any(file in warning for warning in store.warnings)
