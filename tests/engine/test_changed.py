"""What is measured is what was planned: code and images that change meanwhile give no number."""

import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from routebench.engine.origin import Code
from routebench.engine.results import Store
from routebench.engine.running import _cell, _fits
from routebench.engine.running._changed import Changed
from routebench.engine.running._status import status_of
from routebench.engine.suites import Choices, load_suite, plan
from routebench.registry import extensions, load_plugin
from tests.data.pictures import save
from tests.engine.conftest import PARTS


@pytest.fixture
def pictures(tmp_path):
    for name in ("left", "right"):
        save(tmp_path / "pictures" / name, 40, (28, 28))
    return tmp_path / "pictures"


@pytest.fixture
def of_pictures(pictures, parts, suite_file):
    """A plan on a folder of pictures."""
    return plan(load_suite(str(suite_file())), "quick", Choices(data=f"folder:{pictures}"))


def expect_changed(record, told):
    assert (record.status, record.metrics, record.arrays, record.shuffled) == ("changed", [], None, None)
    assert told in record.reason and "run the suite again" in record.reason


def test_images_that_change_before_a_cell_give_no_number(of_pictures, pictures, run_all, store):
    (pictures / "left" / "000.png").unlink()
    (record,) = run_all(of_pictures.cells[:1])
    expect_changed(record, f"the items of folder:{pictures} are others than when the run was planned")
    assert status_of(of_pictures, store).failed == [of_pictures.cells[0]]


def test_images_that_change_during_a_cell_give_no_number(of_pictures, pictures, run_all, monkeypatch):
    @contextmanager
    def meanwhile(cell):
        yield
        (pictures / "left" / "000.png").unlink()

    monkeypatch.setattr(_cell, "_sealed", meanwhile)
    (record,) = run_all(of_pictures.cells[:1])
    expect_changed(record, "the items of")


def test_an_edited_plugin_gives_no_number(suite_file, tmp_path, run_all):
    """Its cells run in other processes, which import it as it is then; the code that was planned counts again."""
    file = shutil.copy(PARTS, tmp_path / "mine.py")
    with extensions.restored():
        load_plugin(str(file))
        made = plan(load_suite(str(suite_file())), "quick", Choices())
        text = file.read_text()
        for edited, status in ((text.replace("100 *", "10 *"), "changed"), (text + "\n# more\n", "ok")):
            file.write_text(edited)
            (record,) = run_all(made.cells[:1], isolate=True)
            assert record.status == status
            if status == "changed":
                expect_changed(record, f"the code of {file} was edited after the run was planned")


def test_a_file_that_a_plugin_reads_later_gives_no_number_once_it_was_written(suite_file, tmp_path, run_all):
    """In a process that imports the plug-in once, for all runs."""
    table = tmp_path / "table.csv"
    table.write_text("1\n")
    file = shutil.copy(PARTS, tmp_path / "mine.py")
    file.write_text(f"import routebench\nTABLE = routebench.own_file(__file__, 'table.csv')\n{file.read_text()}")
    with extensions.restored():
        load_plugin(str(file))
        made = plan(load_suite(str(suite_file())), "quick", Choices())
        for content, status in (("2\n", "changed"), ("1\n", "ok")):
            table.write_text(content)
            (record,) = run_all(made.cells[:1])
            assert record.status == status
            if status == "changed":
                expect_changed(record, f"the code of {file} was edited after the run was planned")


def test_edited_files_of_routebench_give_no_number(made, run_all):
    first, second, third = (replace(cell, code=Code(cell.code.yours, code)) for cell, code in zip(
        made.cells, (made.cells[0].code.shipped, "other", "other"), strict=False))  # fmt: skip
    assert [record.status for record in run_all([first], package="when planned")] == ["ok"]  # a file's time alone
    (record,) = run_all([second], package="when planned")
    expect_changed(record, "files of routebench itself were edited")
    assert third.code != made.cells[2].code


def test_what_was_not_planned_with_any_code_is_not_compared(made, run_all):
    cell = replace(made.cells[0], code=None, identity=replace(made.cells[0].identity, data_fingerprint="another"))
    assert [record.status for record in run_all([cell])] == ["ok"]


def test_a_network_is_not_kept_under_the_name_of_other_images(of_pictures, pictures, store, monkeypatch):
    """Pictures change after the look for a fit, and before it is trained."""
    untrained = _fits.untrained

    def meanwhile(request):
        (pictures / "left" / "000.png").unlink(missing_ok=True)
        return untrained(request)

    monkeypatch.setattr(_fits, "untrained", meanwhile)
    context = _fits.StoreContext(store, _fits.torch.device("cpu"))
    with pytest.raises(Changed, match="edited while the network was trained"):
        context.fit(of_pictures.cells[0].request())
    assert not [*store.path.glob("fits/*/*.safetensors")]


@pytest.mark.parametrize("ending", ["changed", "interrupted"])
def test_no_checkpoint_is_kept_of_images_that_were_overwritten(parts, suite_file, store, tmp_path, ending):
    """Arrays lie in their file: who writes another into it, sees that, and puts the old one back, goes on as before."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    known = {f"{part}_labels": labels for part in ("train", "test")}
    for name in ("mine", "others"):
        features = {f"{part}_features": rng.normal(size=(80, 4, 8)).astype("f4") for part in ("train", "test")}
        np.savez(tmp_path / f"{name}.npz", **known, **features)
    file, content = tmp_path / "mine.npz", (tmp_path / "mine.npz").read_bytes()
    made = plan(
        load_suite(str(suite_file(protocol="accuracy"))),
        "quick",
        Choices(data=f"features:{file}", models=("token-capsules",)),
    )
    request = made.cells[0].request()
    request = replace(request, recipe=replace(request.recipe, epochs=4, batch_size=8))
    whole = _fits.StoreContext(Store(tmp_path / "whole"), _fits.torch.device("cpu")).fit(request).network.state_dict()

    def meanwhile(stage):
        if 0.3 < stage.share < 0.5:  # within the second epoch
            with file.open("r+b") as opened:
                opened.write((tmp_path / "others.npz").read_bytes())
        if ending == "interrupted" and stage.share > 0.55:
            raise KeyboardInterrupt

    context = _fits.StoreContext(store, _fits.torch.device("cpu"), meanwhile)
    with pytest.raises((Changed, KeyboardInterrupt)):
        context.fit(request)
    with file.open("r+b") as opened:
        opened.write(content)
    again = _fits.StoreContext(store, _fits.torch.device("cpu")).fit(request).network.state_dict()
    assert all(_fits.torch.equal(again[name], whole[name]) for name in whole)
