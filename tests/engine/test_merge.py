"""Results of several people become one comparison: the same tables as if one had made all runs."""

import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import routebench
from routebench.analysis.folder import open_folder
from routebench.engine import merge as module
from routebench.engine.merge import merge, opened
from routebench.engine.results import Store, checksum, digest, distinct, files_of, is_packed, pack, unpack, write_text
from routebench.engine.running import Listener, Queue, RunConfig, run_cells
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan
from routebench.engine.tuning import choose
from routebench.errors import UserError
from routebench.registry import extensions, load_plugin
from routebench.report import origins_of
from tests.command import Command
from tests.engine.conftest import PARTS, ROOT, SUITE
from tests.engine.shown import markdown_of, tables_of

PACKS = ROOT / "tests" / "packs"
NAMED = '[primary]\nagainst = ["uniform"]\nmargin = 0.5\nhalf_width = 0.5'


def measure(path, suite, seeds, **choices):
    """A folder in which these seeds of a suite ran."""
    store = Store(path)
    store.prepare()
    made = plan(load_suite(str(suite)), "quick", Choices(seeds=seeds, **choices))
    write_plan(made, store)
    left = [cell for cell in made.cells if store.record(cell.key) is None]
    run_cells(Queue(left), store, RunConfig("cpu", jobs=1, threads=1), Listener())
    return path


@pytest.fixture(scope="module")
def bright(tmp_path_factory):
    """Folders of seeds of a suite that trains nothing: two of each of three people, one that all share, and all."""
    folder = tmp_path_factory.mktemp("bright")
    (folder / "small.toml").write_text(SUITE.format(protocol="brightness", seeds=2, more=NAMED))
    with extensions.restored():
        load_plugin(str(PARTS))
        made = {
            "a": measure(folder / "a", folder / "small.toml", range(2)),
            "b": measure(folder / "b", folder / "small.toml", range(1, 4)),
            "c": measure(folder / "c", folder / "small.toml", range(4, 6)),
            "whole": measure(folder / "whole", folder / "small.toml", range(6)),
        }
        yield made


@pytest.fixture
def one(bright, tmp_path, parts):
    return shutil.copytree(bright["a"], tmp_path / "one")


@pytest.fixture
def other(bright, tmp_path, parts):
    return shutil.copytree(bright["b"], tmp_path / "other")


@pytest.fixture
def call(tmp_path, capfd, parts):
    return Command(tmp_path, capfd)


def merged(*folders, into):
    return routebench.merge([*folders], into).folder


def rewrite(file, **changes):
    """The file of a record or a plan with other content, as if it had been written so."""
    content = json.loads(file.read_text())
    write_text(file, checksum.sealed({**content, **changes}))
    return content


def record_of(folder, seed, label="dynamic"):
    (found, *_) = [one.cell for one in Store(folder).records() if (one.label, one.identity.seed) == (label, seed)]
    return folder / "records" / f"{found}.json"


def test_three_people_with_two_seeds_each_give_the_tables_of_one_with_six(tmp_path, parts):
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(protocol="accuracy", seeds=2, more=NAMED))
    whole = measure(tmp_path / "whole", suite, range(6))
    people = [measure(tmp_path / f"person{n}", suite, range(n, n + 2)) for n in (4, 0, 2)]
    found = routebench.merge(people, tmp_path / "together")
    assert (found.runs, found.shared, found.fits, found.warnings) == (24, 0, 24, [])
    assert tables_of(found.folder) == tables_of(whole)
    assert markdown_of(found.folder) == markdown_of(whole)
    assert tables_of(merged(*reversed(people), into=tmp_path / "reversed")) == tables_of(whole)
    assert routebench.compare(whole, found.folder).exit_code == 0
    store = Store(found.folder)
    count, intact = store.verify()
    assert (count, intact, store.warnings) == (24, 48, [])  # each with its answers and its network
    key = next(iter(store.records())).cell
    assert routebench.load_fit(found.folder, key) is not None


def test_neither_order_nor_brackets_nor_repeats_change_a_table(bright, tmp_path, parts):
    a, b, c = (bright[name] for name in "abc")
    wanted = tables_of(bright["whole"])
    number = itertools.count()

    def into():
        return tmp_path / str(next(number))

    for order in itertools.permutations((a, b, c)):
        assert tables_of(merged(*order, into=into())) == wanted
    left, right = merged(a, b, into=into()), merged(b, c, into=into())
    assert tables_of(merged(left, c, into=into())) == tables_of(merged(a, right, into=into())) == wanted
    assert tables_of(merged(left, right, into=into())) == wanted
    again = merged(left, shutil.copytree(left, into()), into=into())
    assert tables_of(again) == tables_of(left)
    assert sorted(file.name for file in again.rglob("*.json")) == sorted(file.name for file in left.rglob("*.json"))
    assert (read(again / "records"), read(again / "arrays")) == (read(left / "records"), read(left / "arrays"))


def read(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_pack_grows(bright, tmp_path, call):
    pack(bright["a"], tmp_path / "pack")
    assert call("merge", tmp_path / "pack", bright["b"], "-o", tmp_path / "new").code == 0
    done = call("publish", tmp_path / "new", "-o", tmp_path / "grown")
    assert done.code == 0 and is_packed(tmp_path / "grown")
    merged(tmp_path / "grown", bright["c"], into=tmp_path / "newer")
    assert tables_of(tmp_path / "newer") == tables_of(bright["whole"])
    pack(bright["c"], tmp_path / "others")
    merged(tmp_path / "grown", tmp_path / "others", into=tmp_path / "of packs")
    assert tables_of(tmp_path / "of packs") == tables_of(bright["whole"])


def test_the_command_says_what_it_merged(one, other, call, tmp_path):
    done = call("merge", one, other, "-o", tmp_path / "new")
    assert done == (
        0,
        f"merged: 16 runs of 2 folders, 4 of them in several with equal numbers, in {tmp_path / 'new'}\n",
        "",
    )
    assert call("status", tmp_path / "new").out.startswith("small, preset quick, digits200: 16 ok of 16 runs\n")
    assert sorted(part.name for part in tmp_path.iterdir() if part.name.startswith(".")) == []


def test_results_that_newer_ones_of_another_folder_replace_are_told(one, bright, call, tmp_path):
    """One seed that was trained otherwise would else stand for two in silence."""
    suite = tmp_path / "small.toml"
    suite.write_text((bright["a"].parent / "small.toml").read_text().replace("epochs = 1", "epochs = 2"))
    newer = measure(tmp_path / "newer", suite, range(1))
    done = call("merge", newer, one, "-o", tmp_path / "new")
    told = "small, preset quick: 8 results of dynamic T=1, dynamic T=2, uniform, random, of other training\n"
    assert done.code == 0 and f"do not count beside newer ones of another folder:\n  {told}" in done.out
    assert len(Store(tmp_path / "new").planned()) == 4
    (warning,) = [line for line in open_folder(one, newer).warnings if "do not count" in line]
    assert warning == f"do not count beside newer ones in the other folder: {told.strip()}"


def test_times_and_machines_may_differ(one, other, tmp_path):
    file = record_of(other, 1)
    content = json.loads(file.read_text())
    timed = {
        "metric": "training_time",
        "split": "",
        "unit": "s",
        "higher_is_better": False,
        "test_iterations": None,
        "epoch": None,
    }
    for place, value in ((file, 1.0), (one / "records" / file.name, 2.0)):
        rewrite(place, metrics=[*content["metrics"], {**timed, "value": value}])
    rewrite(file, provenance={**content["provenance"], "processor": "another", "seconds": 1e6})
    assert routebench.merge([one, other], tmp_path / "new").shared == 4


def test_other_numbers_stop_it_and_name_both_files(one, other, tmp_path, call):
    file = record_of(other, 1)
    (first, *more) = json.loads(file.read_text())["metrics"]
    rewrite(file, metrics=[{**first, "value": first["value"] + 1}, *more])
    done = call("merge", one, other, "-o", tmp_path / "new")
    assert (done.code, done.out, done.error.count("\n")) == (2, "", 1)
    assert str(file) in done.error and str(one / "records" / file.name) in done.error
    assert f"accuracy test T={first['test_iterations']} is {first['value']} and {first['value'] + 1}" in done.error
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*.tmp"))


def test_other_answers_stop_it_too(one, other, tmp_path):
    import torch

    store, key = Store(other), record_of(other, 1).stem
    answers = 1 - torch.from_numpy(store.arrays(key)["correct"].copy())
    store.write_record(replace(store.record(key), files=None), {"correct": answers})
    with pytest.raises(UserError, match="50 of 50 values of correct differ"):
        routebench.merge([one, other], tmp_path / "new")


def test_what_is_no_number_on_both_sides_is_equal(one, other, tmp_path):
    for folder in (one, other):
        file = record_of(folder, 1)
        (first, *more) = json.loads(file.read_text())["metrics"]
        rewrite(file, metrics=[{**first, "metric": "loss", "value": None}, first, *more])
    assert routebench.merge([one, other], tmp_path / "new").shared == 4


def test_a_result_counts_before_a_failure(one, other, tmp_path, call):
    store, key = Store(one), record_of(one, 1).stem
    (cell,) = [cell for plan in store.plans() for cell in plan.cells if cell.cell == key]
    record = replace(store.record(key), status="failed", reason="boom", metrics=[], arrays=None, files=None)
    store.write_record(record, {})
    for order, name in (((one, other), "new"), ((other, one), "new too")):
        done = call("merge", *order, "-o", tmp_path / name)
        assert done.code == 0
        assert f"failed in one folder, with a result in another, which counts (1):\n  {cell.label}" in done.out
        assert Store(tmp_path / name).record(key).status == "ok"
    both = shutil.copytree(one, tmp_path / "both")
    merged(one, both, into=tmp_path / "failed")
    assert Store(tmp_path / "failed").record(key).reason == "boom"  # a failure is kept and shown


@pytest.mark.parametrize("status", ["diverged", "oom", "timeout", "failed"])
def test_a_result_beside_does_not_replace_a_divergence_and_is_told(one, other, tmp_path, call, status):
    """A machine's failure may be made good elsewhere, a method's own may not."""
    store, key = Store(one), record_of(one, 1).stem
    failed = replace(store.record(key), status=status, reason="boom", metrics=[], arrays=None, files=None)
    store.write_record(failed, {})
    stays = status == "diverged"
    third = shutil.copytree(other, tmp_path / "third")
    crashed = Store(shutil.copytree(one, tmp_path / "crashed"))
    crashed.write_record(replace(failed, status="failed"), {})
    for name, order in {"new": (one, other), "new too": (other, one)}.items():
        done = call("merge", *order, "-o", tmp_path / name)
        assert done.code == (3 if stays else 0) and ("count as diverged (1)" in done.out) is stays
        assert Store(tmp_path / name).record(key).status == ("diverged" if stays else "ok")
    for number, order in enumerate(itertools.permutations((one, third, crashed.path))):
        left = merged(*order[:2], into=tmp_path / f"left{number}")
        found = merged(left, order[2], into=tmp_path / f"all{number}")
        assert Store(found).record(key).status == ("diverged" if stays else "ok"), order
    told = open_folder(one, other).warnings
    assert len(told) == 1 and ("it counts as diverged" if stays else "which counts") in told[0]


def test_a_plan_that_says_otherwise_in_two_folders_is_told_and_the_order_of_folders_changes_nothing(
    one, tmp_path, call
):
    other = shutil.copytree(one, tmp_path / "otherwise")
    store = Store(other)
    plan = store.plans()[-1]
    cells = [cell.as_dict() for cell in plan.cells]
    store.write_plan(plan.head["plan"], {**plan.head, "question": "Another?", "caveat": "", "cells": cells})
    heads = []
    for name, order in {"new": (one, other), "new too": (other, one)}.items():
        done = call("merge", *order, "-o", tmp_path / name)
        assert done.code == 3 and "says otherwise in two folders: " in done.error and "question" in done.error
        heads.append(Store(tmp_path / name).plan_heads())
    assert heads[0] == heads[1]
    assert ["says otherwise" in one for one in open_folder(one, other).warnings] == [True]


@pytest.fixture
def bad(one, other, tmp_path):
    """Calls that cannot be followed, by name: the folders, the new one, and what is told."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(one)
    newer = shutil.copytree(one, tmp_path / "newer")
    (newer / "schema.json").write_text('{"schema": 3}')
    torn = tmp_path / "torn"
    pack(one, torn)
    (torn / "records.parquet").write_bytes((torn / "records.parquet").read_bytes()[:-9])
    odd = tmp_path / "odd"
    pack(one, odd)
    os.mkfifo(odd / "o.settings.json")
    for folder, text in ((one, "1"), (other, "2")):
        (folder / "other.settings.json").write_text(text)
    new = tmp_path / "new"
    return {
        "none": ((), new, "expected two results folders or packs, or more, got 0"),
        "alone": ((one,), new, "expected two results folders or packs, or more, got 1"),
        "twice": ((one, tmp_path / "link"), new, "are the same folder; name it once"),
        "absent": ((one, tmp_path / "absent"), new, "does not exist"),
        "a file": ((one, tmp_path / "file"), new, "is a file"),
        "no results": ((one, tmp_path / "empty"), new, "has no plan and no record"),
        "a newer schema": ((one, newer), new, "has schema version 3"),
        "a torn pack": ((one, torn), new, "expected a file of a packed results folder"),
        "taken": ((one, other), newer, "is not empty; name another folder with -o"),
        "inside": ((one, other), one / "new", "which is merged; name another with -o"),
        "in place of a file": ((one, other), tmp_path / "file", "is a file"),
        "other settings": ((one, other), new, "hold different settings; nothing was merged"),
        "no settings": ((odd, other), new, "/o.settings.json': it is a pipe, not a file; take it away"),
    }  # fmt: skip


def test_settings_beside_a_pack_are_those_of_now(one, other, tmp_path):
    """They may come, change and go after the pack was first read, and copied."""
    (one / "a.settings.json").write_text("of the pack")
    pack(one, tmp_path / "packed")
    for number, texts in enumerate(({"a": "of the pack"}, {"a": "changed", "b": "added"}, {})):
        for file in (tmp_path / "packed").glob("*.settings.json"):
            file.unlink()
        for name, text in texts.items():
            (tmp_path / "packed" / f"{name}.settings.json").write_text(text)
        merged = merge(opened([tmp_path / "packed", other]), tmp_path / f"new{number}").folder
        assert {file.name[0]: file.read_text() for file in merged.glob("*.settings.json")} == texts
        unpack(tmp_path / "packed", tmp_path / f"unpacked{number}")
        assert len([*(tmp_path / f"unpacked{number}").glob("*.settings.json")]) == len(texts)
    assert not [*files_of(tmp_path / "packed").glob("*.settings.json")]


def test_each_bad_call_is_one_line_and_writes_nothing(bad, call, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    for name, (folders, output, told) in bad.items():
        done = call("merge", *folders, "-o", output)
        assert (done.code, done.out, done.error.count("\n")) == (2, "", 1), (name, done)
        assert told in done.error, name
        with pytest.raises(UserError):
            routebench.merge([*folders], output)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_damaged_is_told_and_the_rest_is_merged(one, other, call, tmp_path):
    record, answers = record_of(one, 0), record_of(one, 0, "uniform")
    record.write_text(record.read_text().replace("ok", "OK"))
    arrays = one / "arrays" / f"{answers.stem}.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"\7")
    done = call("merge", one, other, "-o", tmp_path / "new")
    assert (done.code, "merged: 14 runs" in done.out) == (3, True), done
    for line in (f"records/{record.name} is not what was written", f"arrays/{arrays.name} is not what was written"):
        assert line in done.error
    assert f"warning: {one}: " in done.error
    store = Store(tmp_path / "new")
    assert {*store.planned().query("status != 'ok'")["cell"]} == {record.stem, answers.stem}
    assert store.verify()[0] == 14


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        (lambda file: file.write_bytes(b"z"), "is not what was written"),
        (lambda file: file.unlink(), "is not there"),
        (lambda file: (file.unlink(), file.mkdir()), "cannot be read"),
    ],
)
def test_a_network_that_was_changed_stays_behind(one, other, call, tmp_path, deed, why):
    for folder, text in ((one, b"x"), (other, b"y")):
        fit = folder / "fits" / ("a" * 16)
        fit.mkdir(parents=True)
        (fit / "weights.safetensors").write_bytes(text)
        sums = {"weights.safetensors": checksum.of_file(fit / "weights.safetensors")}
        write_text(fit / "fit.json", checksum.sealed({"epochs": [], "files": sums}))
        (fit / "unfinished.tmp").write_text("")
    deed(one / "fits" / ("a" * 16) / "weights.safetensors")
    done = call("merge", one, other, "-o", tmp_path / "new")
    assert done.code == 3 and f"weights.safetensors {why}; its network is left out" in done.error
    kept = tmp_path / "new" / "fits" / ("a" * 16)
    assert sorted(file.name for file in kept.iterdir()) == ["fit.json", "weights.safetensors"]
    assert (kept / "weights.safetensors").read_bytes() == b"y"


def limited():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))


def test_a_full_disk_leaves_nothing(one, other, tmp_path):
    command = [sys.executable, "-m", "routebench", "merge", str(one), str(other), "-o", str(tmp_path / "new")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=limited,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "takes no more" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*.tmp"))


def test_a_run_that_is_measured_meanwhile_stops_it(one, other, tmp_path, monkeypatch):
    """A failure was chosen, and the result that takes its place has answers, which nobody copies."""
    file, store, reads = record_of(one, 0), Store(one), module.read_plain
    result, record = file.read_text(), store.record(file.stem)
    store.write_record(replace(record, status="failed", reason="boom", metrics=[], arrays=None, files=None), {})

    def meanwhile(path, *others):
        if path == file:
            write_text(file, result)
        return reads(path, *others)

    monkeypatch.setattr(module, "read_plain", meanwhile)
    with pytest.raises(UserError, match=rf"{file.name}' changed while it was merged"):
        merged(one, other, into=tmp_path / "new")
    assert {*tmp_path.iterdir()} == {one, other}


def test_an_interrupt_leaves_nothing(one, other, tmp_path, heard):
    code = (
        "import os, signal, sys\nfrom routebench import cli\nfrom routebench.engine import merge\n"
        "write = merge.write_text\n"
        "def interrupted(*args, **how):\n    write(*args, **how)\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "merge.write_text = interrupted\n"
        f"sys.argv[1:] = ['merge', {str(one)!r}, {str(other)!r}, '-o', {str(tmp_path / 'new')!r}]\ncli.main()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, ""), done
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*.tmp"))


def aged(folder):
    """The folder as if heinsen had been measured when it had version 1."""
    keys = {}
    for file in (*(folder / "records").iterdir(), *(folder / "plans").iterdir()):
        content = json.loads(file.read_text())
        cells = content.get("cells", [content])
        for cell in cells:
            if cell["label"] == "heinsen":
                known = cell["identity"]
                known["versions"] = {
                    key: number for key, number in known["versions"].items() if key != "method"
                } or None
                if known["versions"] is None:
                    del known["versions"]
                key = keys[cell["cell"]] = digest(distinct(known))
                cell["cell"] = key
        if "cells" not in content and file.stem in keys:
            new = keys[file.stem]
            before = folder / "arrays" / f"{file.stem}.safetensors"
            before.rename(before.with_name(f"{new}.safetensors"))
            content["arrays"] = f"arrays/{new}.safetensors"
            content["files"] = {f"arrays/{new}.safetensors": checksum.of_file(before.with_name(f"{new}.safetensors"))}
            file.unlink()
        write_text(file.with_name(f"{content.get('cell', file.stem)}.json"), checksum.sealed(content))
    return folder


@pytest.fixture
def heinsen(tmp_path, parts):
    file = tmp_path / "small.toml"
    file.write_text(SUITE.format(protocol="brightness", seeds=2, more="").replace('"dynamic"', '"heinsen"'))
    return file


def versions_in(folder):
    (runs,) = open_folder(folder).parts
    records = [Store(folder).record(cell) for cell in runs.planned.query("label == 'heinsen'")["cell"]]
    return [None if record is None else (record.identity.versions or {}).get("method", 1) for record in records]


def test_a_newer_version_takes_the_place_of_an_older_one_whenever_that_ran(heinsen, tmp_path):
    now = measure(tmp_path / "now", heinsen, range(2))
    before = aged(measure(tmp_path / "before", heinsen, range(3)))  # by somebody who has not updated
    assert versions_in(before) == [1] * 6
    for order, name in (((now, before), "one"), ((before, now), "other")):
        new = merged(*order, into=tmp_path / name)
        assert versions_in(new) == [2] * 4
        assert len(list((new / "records").iterdir())) == 6 + 2 + 4 + 4  # older results stay in the folder


def test_results_of_an_older_version_stay_until_they_are_measured_again(heinsen, tmp_path):
    before = aged(measure(tmp_path / "before", heinsen, range(2)))
    now = tmp_path / "now"
    store = Store(now)
    store.prepare()
    made = plan(load_suite(str(heinsen)), "quick", Choices(seeds=range(2)))
    write_plan(made, store)  # and nothing of heinsen was made
    run_cells(
        Queue([cell for cell in made.cells if cell.label != "heinsen"]),
        store,
        RunConfig("cpu", jobs=1, threads=1),
        Listener(),
    )
    for order, name in (((now, before), "one"), ((before, now), "other")):
        new = merged(*order, into=tmp_path / name)
        assert versions_in(new) == [1] * 4
    measure(new, heinsen, range(2))
    assert versions_in(new) == [2] * 4


def test_results_of_an_older_version_are_marked(tmp_path):
    new = open_folder(merged(PACKS / "accuracy-quick", PACKS / "cost-quick", into=tmp_path / "new"))
    told = {
        runs.suite: " ".join(origins_of(runs, new.plans[runs.name], new.records(runs), None).told) for runs in new.parts
    }
    mark = "Measured with an older version of protocol cost (1, now 2); a run of today measures it anew."
    assert mark in told["cost"] and "older" not in told["accuracy"]


def test_a_method_that_was_forgotten_in_one_comes_back_from_the_other(one, tmp_path):
    copy = shutil.copytree(one, tmp_path / "copy")
    Store(copy).forget("random")
    for order, name in (((one, copy), "new"), ((copy, one), "new too")):
        assert tables_of(merged(*order, into=tmp_path / name)) == tables_of(one)


def test_trials_and_chosen_settings_come_along(suite, tried, settings, store, tmp_path):
    halves = []
    for name, parity in (("even", 0), ("odd", 1)):
        half = Store(tmp_path / name)
        half.prepare()
        write_plan(tried, half)
        for cell in tried.cells[parity::2]:
            half.write_record(store.record(cell.key), {})
        halves.append(half.path)
    settings.write(halves[0] / "tuned.quick.settings.json")
    new = Store(merged(*halves, into=tmp_path / "new"))
    assert choose(tried, new) == settings
    found = load_suite(str(tmp_path / "tuned.toml"))
    made = plan(found, "quick", Choices(settings=new.path / "tuned.quick.settings.json", seeds=range(1)))
    assert any(cell.identity.tuning for cell in made.cells)


def test_a_plan_cannot_be_written_outside(one, other, tmp_path):
    (file,) = (other / "plans").iterdir()
    rewrite(file, plan="../../../escaped")
    found = routebench.merge([one, other], tmp_path / "new")
    assert not list(tmp_path.rglob("escaped*")) and not list(tmp_path.parent.glob("escaped*"))
    assert any("could not be read" in warning for warning in found.warnings)


def test_what_was_forgotten_can_be_planned_again(bright, one):
    before = tables_of(one)
    Store(one).forget("random")
    assert "random" not in {*Store(one).planned()["label"]}
    assert tables_of(measure(one, bright["a"].parent / "small.toml", range(2))) == before


@pytest.mark.parametrize("reached", range(5))
def test_what_was_forgotten_in_part_is_forgotten_by_the_same_command(one, monkeypatch, reached):
    """Else results stay that no table shows, and a later suite takes them for done."""
    keys = {*Store(one).planned().query("label == 'random'")["cell"]}
    deeds = iter(range(99))

    def removed(file, *, really=Path.unlink, **more):
        if file.suffix in (".json", ".safetensors") and next(deeds) == reached:
            raise KeyboardInterrupt
        really(file, **more)

    monkeypatch.setattr(Path, "unlink", removed)
    with pytest.raises(KeyboardInterrupt):
        Store(one).forget("random")
    monkeypatch.undo()
    assert sum(Store(one).forget("random").values()) == len(keys)
    assert not keys & {file.stem for part in ("records", "arrays") for file in (one / part).iterdir()}
    assert "random" not in {*Store(one).planned()["label"]}


def left_alone(folder):
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_results_beside_are_shown_as_in_one_folder_and_stay_as_they_are(bright, one, other, tmp_path, call):
    together, before = merged(one, other, into=tmp_path / "new"), left_alone(other)
    plain, both = (call("export", *of, "--format", "csv").out for of in ((together,), (one, "--beside", other)))
    assert re.sub("^#.*\n", "", both, flags=re.MULTILINE) == re.sub("^#.*\n", "", plain, flags=re.MULTILINE)
    done = call("report", one, "--beside", other)
    assert (done.code, done.error) == (0, "") and "6 runs" not in done.out
    page = (one / "report.html").read_text()
    assert f"{one}</code>" not in page and f"{one} and {other}</code>" in page
    assert call("report", together).code == 0
    told = (together / "report.html").read_text().replace(str(together), f"{one} and {other}")
    assert page == told, "a page of both is the page of the folder that they make"
    assert left_alone(other) == before
    assert [*tmp_path.glob("routebench-*")] == []


def test_a_pack_can_stand_beside_and_a_suite_shows_it(bright, tmp_path, call, parts):
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(protocol="brightness", seeds=2, more=NAMED))
    pack(bright["b"], tmp_path / "pack")
    done = call(
        "suite", suite, "--preset", "quick", "--results", tmp_path / "own", "--plugin", PARTS, "--no-isolate",
        "--beside", tmp_path / "pack",
    )  # fmt: skip
    assert done.code == 0 and "4 / 4" in done.out, done
    run = routebench.run_suite(suite, preset="quick", results=tmp_path / "own", plugins=PARTS, beside=tmp_path / "pack")
    assert "4 / 4" in str(run) and "16 of 16" in run.report.read_text()
    assert Store(tmp_path / "own").planned()["seed"].nunique() == 2, "nothing was written into one's own folder"


def test_results_of_another_machine_are_not_paired(one, other, call):
    file = record_of(other, 1)
    (first, *more) = json.loads(file.read_text())["metrics"]
    rewrite(file, metrics=[{**first, "value": first["value"] + 1}, *more])
    for command in (("report", one), ("export", one)):
        done = call(*command, "--beside", other)
        assert (done.code, done.out, done.error.count("\n")) == (2, "", 1)
        assert str(file) in done.error and "`rank` compares gains over uniform routing" in done.error


def test_results_that_share_no_run_are_shown_with_a_warning(one, bright, tmp_path, call):
    done = call("report", one, "--beside", bright["c"], "-o", tmp_path / "page.html")
    assert done.code == 0 and "nothing tells whether their machines agree" in done.error


def test_bad_folders_beside_are_told_in_one_line(one, tmp_path, call):
    for wrong in (tmp_path / "nothing", tmp_path, one):
        done = call("report", one, "--beside", wrong)
        assert (done.code, done.out, done.error.count("\n")) == (2, "", 1), done
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(protocol="brightness", seeds=2, more=NAMED))
    for wrong in (tmp_path / "nothing", tmp_path):
        done = call("suite", suite, "--plugin", PARTS, "--results", tmp_path / "own", "--beside", wrong)
        assert (done.code, done.error.count("\n")) == (2, 1), done
        with pytest.raises(UserError):
            routebench.run_suite(suite, plugins=PARTS, results=tmp_path / "own", beside=wrong)
    assert not (tmp_path / "own").exists(), "it is told before anything is trained"
