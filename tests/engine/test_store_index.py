"""The index of a large folder changes how fast results are read, and nothing else."""

import json
import os
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from routebench import load_results
from routebench.engine.results import Store, beyond_range
from routebench.engine.results import _index as index
from routebench.engine.results._checksum import sealed
from tests.stress.many import make_folder, varied

RECORDS = 150


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("many") / "results", RECORDS, metrics=4)


@pytest.mark.parametrize("seed", [0, 100, 5_000, 100_000])
def test_a_copy_of_a_record_can_be_measured_whatever_its_seed(template, seed):
    real = [json.loads(file.read_text()) for file in sorted((template / "records").iterdir())]
    assert {beyond_range(varied(one, seed, 4)) for one in real} == {""}


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    """A folder of its own, of hard links, which the store never writes through; it is large enough for an index."""
    monkeypatch.setattr(index, "ENOUGH", 100)
    for file in template.rglob("*.json"):
        target = tmp_path / "results" / file.relative_to(template)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, target)
    return tmp_path / "results"


@pytest.fixture
def opened(monkeypatch):
    """The names of records and plans that were opened since it was cleared."""
    names, real = [], os.open

    def noted(path, *arguments, **options):
        if str(path).endswith(".json"):
            names.append(Path(path).name)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", noted)
    return names


def one_record(folder, number=7):
    return sorted((folder / "records").iterdir())[number]


def replaced(file, change):
    """Puts a changed record in the place of one, as old as it was and, where that is possible, as long."""
    content, known = json.loads(file.read_text()), file.stat()
    change(content)
    fresh = file.with_suffix(".new")
    fresh.write_text(sealed(content))
    os.utime(fresh, ns=(known.st_atime_ns, known.st_mtime_ns))
    fresh.replace(file)


def expect_same(folder):
    """What is read with the index is what is read without it."""
    results, planned = load_results(folder), Store(folder).planned()
    saved = {file: file.read_bytes() for file in (folder / "index").iterdir()}
    for file in saved:
        file.unlink()
    pd.testing.assert_frame_equal(load_results(folder), results)
    pd.testing.assert_frame_equal(Store(folder).planned(), planned)
    for file, content in saved.items():
        file.write_bytes(content)
    return results, planned


def test_nothing_is_read_twice(tmp_path, opened):
    folder = make_folder(tmp_path / "results", 1200, metrics=10)
    first = load_results(folder), Store(folder).planned()
    assert len(opened) >= 1200
    assert len(list((folder / "index").iterdir())) == 2
    opened.clear()
    pd.testing.assert_frame_equal(load_results(folder), first[0])
    pd.testing.assert_frame_equal(Store(folder).planned(), first[1])
    assert {*opened} == {"schema.json"}
    expect_same(folder)


CHANGES = {
    "removed": lambda file: file.unlink(),
    "of the same length and age": lambda file: replaced(
        file, lambda record: record.update(label=record["label"].upper())
    ),
    "failed": lambda file: replaced(file, lambda record: record.update(status="failed", reason="why", metrics=[])),
    "with a coordinate": lambda file: replaced(file, lambda record: record["metrics"][0].update(where={"batch": 8})),
    "damaged": lambda file: replaced(file, lambda record: record.pop("identity")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_record_is_seen(folder, opened, change):
    load_results(folder)
    victim = one_record(folder)
    CHANGES[change](victim)
    opened.clear()
    load_results(folder)
    assert [name for name in opened if name not in {"schema.json", victim.name}] == []
    results, planned = expect_same(folder)
    if change == "failed":
        assert planned["status"].value_counts().to_dict() == {"ok": RECORDS - 1, "failed": 1}
        assert results.loc[results["status"] == "failed", "reason"].tolist() == ["why"]
    if change == "with a coordinate":
        assert results["batch"].dropna().tolist() == [8]
    if change in {"damaged", "removed"}:
        assert planned["status"].value_counts().to_dict() == {"ok": RECORDS - 1, "not run": 1}
        assert victim.stem not in set(results["cell"])


def test_a_value_that_was_changed_in_place_with_the_clock_set_back_is_seen(folder):
    load_results(folder)
    victim = one_record(folder)
    content, known = json.loads(victim.read_text()), victim.stat()
    metric = content["metrics"][0]
    metric["value"] = float(str(metric["value"])[:-1] + "1")
    victim.unlink()
    victim.write_text(sealed(content))
    os.utime(victim, ns=(known.st_atime_ns, known.st_mtime_ns - 10**15))
    results, _ = expect_same(folder)
    own = results[results["cell"] == victim.stem]
    assert own["value"].iloc[0] == pytest.approx(json.loads(victim.read_text())["metrics"][0]["value"], abs=0)


def test_records_are_remembered_only_once_their_clock_has_moved_on(folder, opened):
    now = time.time() + 3600  # also those that seem to come from the future
    for file in sorted((folder / "records").iterdir())[:50]:
        content = file.read_text()
        file.unlink()
        file.write_text(content)
        os.utime(file, (now, now))
    load_results(folder)
    opened.clear()
    load_results(folder)
    assert len([name for name in opened if name != "schema.json"]) == 50
    expect_same(folder)


@pytest.mark.parametrize("enough", [100, 10**6])
@pytest.mark.parametrize("change", [lambda file: file.unlink(), lambda file: replaced(file, dict.clear)])
def test_a_store_opens_a_plan_once_and_sees_that_it_has_changed(folder, opened, monkeypatch, enough, change):
    monkeypatch.setattr(index, "ENOUGH", enough)
    (file,) = (folder / "plans").iterdir()
    os.utime(file, (0, 0))
    store, other = Store(folder), file.with_name("another.2.json")
    assert [len(plan.places) for plan in store.plans()] == [RECORDS]
    opened.clear()
    assert [len(plan.places) for plan in store.plans()] == [RECORDS]
    assert file.name not in opened
    replaced(file, lambda plan: plan["cells"].pop())
    assert [len(plan.places) for plan in store.plans()] == [RECORDS - 1]
    other.write_bytes(file.read_bytes())
    assert [len(plan.places) for plan in store.plans()] == [RECORDS - 1] * 2
    change(file)
    assert [len(plan.places) for plan in store.plans()] == [RECORDS - 1]


@pytest.mark.parametrize("damage", ["empty", "cut", "one bit", "text", "folder", "version"])
def test_a_damaged_index_is_made_anew(folder, damage, monkeypatch):
    before = load_results(folder), Store(folder).planned()
    for file in (folder / "index").iterdir():
        content = bytearray(file.read_bytes())
        if damage == "one bit":
            content[-9] ^= 4
        short = {"empty": b"", "cut": bytes(content[:-100]), "text": b"x" * 100}
        file.unlink()
        file.mkdir() if damage == "folder" else file.write_bytes(short.get(damage, bytes(content)))
    if damage == "version":
        monkeypatch.setattr(index, "VERSION", "another")
    store = Store(folder)
    pd.testing.assert_frame_equal(store.results(), before[0])
    pd.testing.assert_frame_equal(store.planned(), before[1])
    assert store.warnings == []


def test_a_small_folder_has_no_index(planned, store, run_all):
    run_all(planned.cells)
    load_results(store.path)
    assert not (store.path / "index").exists()


def test_results_can_be_read_while_others_write(folder):
    expected = load_results(folder)
    texts = {file: file.read_text() for file in sorted((folder / "records").iterdir())[:100]}
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for file, text in texts.items():
                fresh = file.with_name(f".{file.name}.tmp")
                fresh.write_text(text)
                fresh.replace(file)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            pd.testing.assert_frame_equal(load_results(folder), expected)
            assert set(Store(folder).planned()["status"]) == {"ok"}
    finally:
        stop.set()
        writer.join()
