"""Kills, full disks and clocks that are wrong: nothing finished is lost, and nothing half-written stays."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from routebench.atomic import OLD, clear_leftovers, write_text
from routebench.engine.results import Store
from routebench.engine.running import _suite
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan

ROOT = Path(__file__).parents[2]
WRITES = """
import json, sys, torch
from dataclasses import replace
from pathlib import Path
from routebench.engine.results import Record, Store, StoreFull
store = Store(sys.argv[1])
store.prepare()
record = Record.read(json.loads(Path(sys.argv[2]).read_text()))
for number in range(1000):
    record = replace(record, cell=f"{number:016x}")
    try:
        store.write_record(record, {"correct": torch.full((4000,), number, dtype=torch.int32)})
    except StoreFull as error:
        print(number)
        print(error)
        break
"""


def run_code(code, *arguments, before=(), preexec=None):
    command = [*before, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, preexec_fn=preexec)


@pytest.fixture
def record_file(store, made, run_all):
    run_all(made.cells[:1])
    return store.path / "records" / f"{made.cells[0].key}.json"


def expect_all_but_the_last(folder, done):
    """What was written before the disk was full is whole, and nothing of what came then is there."""
    count, message = done.stdout.splitlines()
    assert "finished runs are kept: make room" in message
    store = Store(folder)
    keys = [record.cell for record in store.records()]
    assert keys == [f"{number:016x}" for number in range(int(count))]
    assert int(count) > 3
    assert all((store.arrays(key)["correct"] == number).all() for number, key in enumerate(keys))
    assert sorted(file.stem for file in (folder / "arrays").iterdir()) == keys
    assert not list(folder.rglob("*.tmp"))
    assert store.warnings == []


def test_a_full_disk(tmp_path, record_file):
    disk = tmp_path / "disk"
    disk.mkdir()
    kept = tmp_path / "kept"  # the disk goes with its name space
    mount = f"mount -t tmpfs -o size=400k none {disk}"
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no mount of its own may be made here")
    before = [*unshare, f'{mount} && "$@" && cp -r {disk}/results {kept}', "sh"]
    done = run_code(WRITES, disk / "results", record_file, before=before)
    expect_all_but_the_last(kept, done)


def test_a_file_larger_than_the_system_allows_is_a_full_disk(tmp_path, record_file):
    # the record is longer than the limit, the arrays are not
    content = record_file.read_text()
    record_file.write_text(content[:-1].rstrip() + ' , "padding": "' + "x" * 60_000 + '"}')

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = run_code(WRITES, tmp_path / "small", record_file, preexec=limit)
    assert done.stdout.splitlines()[0] == "0"
    left = [file for file in (tmp_path / "small").rglob("*") if file.is_file()]
    assert [file.name for file in left] == ["schema.json"]  # the arrays went with their record


def test_a_process_that_is_killed_while_it_writes_leaves_nothing(store):
    code = """
    import os, sys, time
    from pathlib import Path
    from routebench import atomic
    os.fsync = lambda _: (print("writing", flush=True), time.sleep(60))
    atomic.write_text(Path(sys.argv[1]), "new")
    """
    file = store.path / "records" / "x.json"
    write_text(file, "old")
    command = [sys.executable, "-c", textwrap.dedent(code), file]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        Store(store.path).prepare()
        assert len(list(file.parent.glob(".*.tmp"))) == 1, "a file that is being written stays"
        writer.kill()
    Store(store.path).prepare()
    assert [left.name for left in file.parent.iterdir()] == ["x.json"]
    assert file.read_text() == "old"


def test_unfinished_files_of_other_machines_stay_until_they_are_old(tmp_path):
    young, old, ahead = (tmp_path / f".{name}.json.00000000.12345678.tmp" for name in ("young", "old", "ahead"))
    for file, age in ((young, 60), (old, OLD + 60), (ahead, -OLD)):
        file.write_text("{")
        os.utime(file, (time.time() - age, time.time() - age))
    mine = tmp_path / ".notes.tmp"
    mine.write_text("the user's own")
    os.utime(mine, (0, 0))
    clear_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == [ahead, mine, young]


def test_what_a_killed_training_left_is_cleared_unless_it_goes_on(store):
    folders = [store.path / "fits" / name for name in ("a" * 16, "b" * 16)]
    for folder in folders:
        folder.mkdir()
        (folder / "checkpoint.safetensors").write_text("")
        (folder / "checkpoint.safetensors.12345.tmp").write_text("")
    with store.lock("fit", "a" * 16):
        Store(store.path).prepare()
    assert len(list(folders[0].iterdir())) == 2
    assert [file.name for file in folders[1].iterdir()] == ["checkpoint.safetensors"]


class Earlier(_suite.datetime):
    """A clock that was set back by ten years."""

    @classmethod
    def now(cls, tz=None):
        found = super().now(tz)
        return found.replace(year=found.year - 10)


def test_a_clock_that_goes_backwards_makes_no_old_plan_the_newest(parts, suite_file, store, monkeypatch):
    file = suite_file(seeds=1)
    write_plan(plan(load_suite(str(file)), "quick", Choices()), store)
    file.write_text(file.read_text().replace("epochs = 1", "epochs = 2"))
    monkeypatch.setattr(_suite, "datetime", Earlier)
    newer = plan(load_suite(str(file)), "quick", Choices())
    write_plan(newer, store)
    one, two = store.plans()
    assert one.head["created"] > two.head["created"]
    assert [one.head["sequence"], two.head["sequence"]] == [1, 2]
    assert list(store.planned()["cell"]) == [cell.key for cell in newer.cells]


def test_plans_of_before_there_were_numbers_are_the_oldest(store, planned):
    (file,) = (store.path / "plans").glob("*.json")
    first = json.loads(file.read_text())
    old = {**{key: value for key, value in first.items() if key != "sequence"}, "created": "2099", "plan": "old"}
    del old["checksum"]
    write_text(store.path / "plans" / "old.json", json.dumps(old))
    assert [head["plan"] for head in store.plan_heads()] == ["old", first["plan"]]


def test_plans_written_at_once_have_different_numbers(store, planned):
    code = """
    import sys
    from routebench.engine.results._store import Store
    store = Store(sys.argv[1])
    (plan,) = [plan for plan in store.plans() if plan.head["sequence"] == 1]
    content = {**plan.head, "cells": [cell.as_dict() for cell in plan.cells]}
    for number in range(10):
        name = f"{sys.argv[2]}.{number}"
        store.write_plan(name, {**content, "plan": name})
    """
    command = [sys.executable, "-c", textwrap.dedent(code), store.path]
    started = [subprocess.Popen([*command, name], cwd=ROOT) for name in "ab"]
    assert [process.wait() for process in started] == [0, 0]
    heads = store.plan_heads()
    assert [head["sequence"] for head in heads] == list(range(1, 22))
    assert {head["plan"][0] for head in heads[1:]} == {"a", "b"}
