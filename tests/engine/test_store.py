"""The results folder survives what happens to folders."""

import json
import os
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from routebench import load_arrays, load_results
from routebench.atomic import StoreFull, write_tensors, write_text
from routebench.engine.results import COLUMNS, Store
from routebench.engine.results._plan_table import PLANNED
from routebench.engine.running._cell import make_record
from routebench.engine.running._status import status_of
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.protocols import Measurement


def tree(folder):
    """Every file with its bytes."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path):
    file, seen, stop = tmp_path / "x.json", set(), threading.Event()
    texts = {letter * 200_000 for letter in "ab"}
    write_text(file, "a" * 200_000)

    def read():
        while not stop.is_set():
            seen.add(file.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        for text in texts:
            write_text(file, text)
    stop.set()
    reader.join()
    assert seen <= texts
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, moment):
    file = tmp_path / "x.json"
    write_text(file, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, moment, full)
    with pytest.raises(StoreFull, match="No space"):
        write_text(file, "new")
    monkeypatch.undo()
    assert tree(tmp_path) == {file.relative_to(tmp_path): b"old"}


def test_arrays_stand_before_the_record_that_names_them(store, made, monkeypatch):
    order = []
    real = os.replace

    def replace(source, target):
        order.append(target.parent.name)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    store.write_record(make_record(made.cells[0], "ok", "", Measurement([]), {}), {"correct": torch.ones(3)})
    assert order == ["arrays", "records"]


def test_tensors_that_share_memory_are_written(tmp_path):
    whole = torch.arange(6.0).reshape(2, 3)
    write_tensors(tmp_path / "x.safetensors", {"whole": whole, "turned": whole.T})
    found = load_file(tmp_path / "x.safetensors")
    assert np.array_equal(found["turned"], whole.T.numpy())


def test_a_finished_run_is_a_table(planned, store, run_all):
    run_all(planned.cells)
    table = load_results(store.path)
    assert set(COLUMNS) <= set(table.columns)
    assert set(table["status"]) == {"ok"}
    assert len(table) == len(planned.cells)
    assert table["value"].between(0, 100).all()
    assert table["value"].nunique() > 2
    cells = store.planned()
    assert set(PLANNED) <= set(cells.columns)
    assert list(cells["cell"]) == [cell.key for cell in planned.cells]
    assert set(cells["status"]) == {"ok"}


def test_planned_cells_without_a_record_are_not_run(planned, store, run_all):
    run_all(planned.cells[:3])
    assert list(store.planned()["status"]) == ["ok"] * 3 + ["not run"] * 5


DAMAGE = ["", "{", '{"schema": 2', "[1]", "null", "\x00\x01", '{"schema": 2, "cell": "x"}', "[" * 100_000]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_record_is_set_aside_and_nothing_else_lost(planned, store, run_all, damage):
    run_all(planned.cells)
    before = load_results(store.path)
    damaged = store.path / "records" / f"{planned.cells[2].key}.json"
    damaged.write_text(damage)
    after = load_results(store.path)
    assert len(after) == len(before) - 1
    assert not damaged.exists()
    assert [file.read_text() for file in (store.path / "damaged").iterdir()] == [damage]
    assert [cell.key for cell in status_of(planned, Store(store.path)).to_do] == [planned.cells[2].key]


def test_damage_is_said(planned, store, run_all):
    run_all(planned.cells)
    (store.path / "records" / f"{planned.cells[0].key}.json").write_text("{")
    reader = Store(store.path)
    assert len(list(reader.records())) == len(planned.cells) - 1
    (warning,) = reader.warnings
    assert planned.cells[0].key in warning
    assert "damaged/" in warning


def test_another_schema_is_refused_and_nothing_touched(tmp_path):
    folder = tmp_path / "results"
    (folder / "records").mkdir(parents=True)
    (folder / "schema.json").write_text('{"schema": 3}')
    (folder / "records" / "0123456789abcdef.json").write_text('{"schema": 3}')
    before, folders = tree(folder), sorted(folder.rglob("*"))
    for attempt in (lambda: Store(folder).prepare(), lambda: load_results(folder), lambda: Store(folder).planned()):
        with pytest.raises(UserError, match="schema"):
            attempt()
    assert tree(folder) == before
    assert sorted(folder.rglob("*")) == folders


def test_a_record_of_another_schema_is_refused_and_not_moved(planned, store, run_all):
    run_all(planned.cells[:2])
    file = store.path / "records" / f"{planned.cells[0].key}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 3}))
    with pytest.raises(UserError, match="schema"):
        load_results(store.path)
    assert file.exists()


@pytest.mark.parametrize("place", ["/proc/routebench-results", "file"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written") as caught:
        Store(tmp_path / place / "results" if place == "file" else place).prepare()
    assert "--results" in str(caught.value)


def test_no_folder_is_said(tmp_path):
    with pytest.raises(UserError, match="expected a results folder"):
        load_results(tmp_path / "absent")
    with pytest.raises(UserError, match="does not exist"):
        load_arrays(tmp_path / "absent", "0123456789abcdef")


def test_a_folder_without_results_says_so(made, store, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match=r"nothing was measured in .*other' yet; run `python -m routebench suite NAME`"):
        load_results(tmp_path / "other")
    write_plan(made, store)
    with pytest.raises(UserError, match="nothing was measured in"):
        load_results(store.path)
    with pytest.raises(UserError, match=r"name a folder in it, such as '.*results'"):
        load_results(tmp_path)


def test_a_failure_is_a_row_without_a_value(parts, suite_file, store, run_all, tmp_path):
    made = plan(load_suite(str(suite_file(more=f'journal = "{tmp_path}"'))), "quick", Choices(seeds=range(1)))
    write_plan(made, store)
    run_all(made.cells)  # the journal is a folder, so that writing to it fails
    table = load_results(store.path)
    assert set(table["status"]) == {"failed"}
    assert table["value"].isna().all()
    assert table["reason"].str.contains("IsADirectoryError").all()
    assert table["reason"].str.contains(r"\(small_parts.py:\d+\)").all()
    assert not table["reason"].str.contains("\n").any()


@pytest.mark.parametrize(("then", "now"), [("epochs = 1", "epochs = 2"), ("seconds = 0.1", "seconds = 0.2")])
def test_the_newest_plan_counts_where_cells_cannot_be_told_apart(parts, suite_file, store, then, now):
    file = suite_file(seeds=1, more="seconds = 0.1")
    old = plan(load_suite(str(file)), "quick", Choices())
    write_plan(old, store)
    file.write_text(file.read_text().replace(then, now))
    new = plan(load_suite(str(file)), "quick", Choices())
    write_plan(new, store)
    assert not {cell.key for cell in old.cells} & {cell.key for cell in new.cells}
    assert list(store.planned()["cell"]) == [cell.key for cell in new.cells]


def test_seeds_of_earlier_settings_are_not_averaged_with_later_ones(parts, suite_file, store, run_all):
    file = suite_file(seeds=3, more="seconds = 0.01")
    old = plan(load_suite(str(file)), "quick", Choices())
    write_plan(old, store)
    run_all(old.cells[:6])
    assert load_results(store.path)["cell"].nunique() == 6
    write_plan(plan(load_suite(str(file)), "quick", Choices(seeds=range(2))), store)
    assert len(store.planned()) == len(old.cells), "fewer seeds of the same code and settings replace nothing"
    file.write_text(file.read_text().replace("epochs = 1", "epochs = 2"))
    new = plan(load_suite(str(file)), "quick", Choices(seeds=range(2)))
    write_plan(new, store)
    assert {*store.planned()["cell"]} == {cell.key for cell in new.cells}
    run_all(new.cells[:2])
    assert {*load_results(store.path)["cell"]} == {cell.key for cell in new.cells[:2]}
    assert store.results()["cell"].nunique() == 8, "nothing is lost"


def test_the_same_plan_again_is_written_once(planned, store, suite_file):
    other = plan(load_suite(str(suite_file(name="other"))), "quick", Choices())
    for made in (planned, other, planned, other):
        write_plan(made, store)
    assert [head["suite"] for head in store.plan_heads()] == ["small", "other"]


@pytest.mark.parametrize(
    ("then", "now", "key"),
    [
        ("margin = 1.0", "margin = 0.1", "margin"),
        ('["uniform"]', '["random"]', "pairs"),
        ("Is it", "Was it", "question"),
    ],
)
def test_a_plan_that_says_something_else_is_written_though_its_runs_are_the_same(
    parts, suite_file, store, then, now, key
):
    file = suite_file(seeds=1)
    text = file.read_text() + '\n[primary]\nmargin = 1.0\nagainst = ["uniform"]\niterations = "each"\n'
    file.write_text(text.replace(re.search("question = .*", text)[0], 'question = "Is it?"'))
    write_plan(plan(load_suite(str(file)), "quick", Choices()), store)
    write_plan(plan(load_suite(str(file)), "quick", Choices()), store)
    file.write_text(file.read_text().replace(then, now))
    write_plan(plan(load_suite(str(file)), "quick", Choices()), store)
    old, new = store.plan_heads()
    assert ({**old, **old["primary"]}[key]) != ({**new, **new["primary"]}[key])


def on_other_images(made, methods=()):
    """The plan, of these methods alone, as if the files of its data set had been exchanged."""
    cells = [
        replace(cell, identity=replace(cell.identity, data_fingerprint="0" * 16))
        for cell in made.cells
        if not methods or cell.label in methods
    ]
    return replace(made, cells=tuple(cells))


def test_runs_on_other_images_of_the_same_name_do_not_count_and_are_told(planned, store, run_all):
    write_plan(planned, store)
    run_all(planned.cells)
    labels = sorted({cell.label for cell in planned.cells})
    assert len(labels) > 1
    write_plan(other := on_other_images(planned, labels[:1]), store)
    assert {*store.planned()["cell"]} == {cell.key for cell in other.cells}
    assert {*store.superseded()} == {cell.key for cell in planned.cells}
    (told,) = store.warnings
    assert f"runs of {', '.join(labels[1:])} do not count: the data 'digits200' have changed since" in told
    assert store.damaged == [], "it is no damage: such a folder is published"
    with pytest.raises(UserError, match="have changed since"):  # of the others, none has a result on the newer images
        load_results(store.path)
    write_plan(on_other_images(planned), again := Store(store.path))
    assert len(again.planned()) == len(planned.cells)
    assert not again.warnings, "every configuration has a place on the newer images"
    write_plan(planned, back := Store(store.path))
    assert {*back.planned()["status"]} == {"ok"}, "who takes the earlier images back has the earlier results back"


def test_raw_outputs_of_a_cell_are_read_back(store, made, run_all):
    (record,) = run_all(made.cells[:1])
    correct = load_arrays(store.path, record.cell)["correct"]
    assert 100 * correct.mean() == pytest.approx(record.metrics[0]["value"])
    with pytest.raises(UserError, match=f"no arrays of a run '{made.cells[1].key}'"):
        load_arrays(store.path, made.cells[1].key)
