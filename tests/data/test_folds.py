"""Folds of the training images of a data set; and test images that cannot be loaded while settings are tuned."""

import threading
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from routebench.data import load, sealed_test_images
from routebench.data.dataset import SPLIT_SEED
from routebench.data.folds import _split
from routebench.data.mnist5k import mnist5k
from routebench.data.official import official_files
from routebench.data.torchvision_sets import MNIST
from routebench.data_names import unfolded
from routebench.errors import UserError
from routebench.registry import datasets, extensions, load_plugin


def rows(*parts):
    return Counter(image.tobytes() for part in parts for image in part.pixels.numpy())


def test_folds_are_the_training_images_each_tested_on_once():
    whole = load("mnist5k")
    folds = [load(f"fold:{number}/3:mnist5k") for number in (1, 2, 3)]
    official = rows(whole.train, whole.held_out)
    assert rows(*(fold.test for fold in folds)) == official
    for fold in folds:
        assert rows(fold.train, fold.held_out, fold.test) == official  # and so no image in two parts
        assert not rows(fold.train, fold.held_out, fold.test).keys() & rows(whole.test).keys()
        counts = Counter(fold.test.labels.tolist())
        assert max(counts.values()) - min(counts.values()) <= 1
    assert load("fold:1/3:mnist5k").fingerprint == folds[0].fingerprint
    assert len({fold.fingerprint for fold in folds}) == 3


@pytest.mark.parametrize("kind", ["classes", "rare classes", "sets of classes"])
def test_folds_are_those_of_scikit_learn(kind):
    drawn = np.random.default_rng(0)
    share = [0.97, 0.01, 0.01, 0.01] if kind == "rare classes" else [0.25] * 4
    labels = drawn.integers(0, 2, (200, 3)) if kind == "sets of classes" else drawn.choice([7, 3, 0, 5], 200, p=share)
    groups = labels if labels.ndim == 1 else labels @ [4, 2, 1]
    for count in (2, 3, 7):
        known = StratifiedKFold(count, shuffle=True, random_state=SPLIT_SEED)
        with warnings.catch_warnings(action="ignore"):  # where a class has fewer than there are folds
            known = [*known.split(groups, groups)]
        for number in range(count):
            found = _split(torch.from_numpy(labels), number + 1, count)
            assert all(map(np.array_equal, found, known[number]))


def test_some_images_of_a_fold():
    some, fold = load("take:600:fold:2/3:mnist5k"), load("fold:2/3:mnist5k")
    assert [len(part) for part in (some.train, some.held_out, some.test)] == [360, 40, 200]
    assert not rows(some.train, some.held_out, some.test) - rows(fold.train, fold.held_out, fold.test)
    assert unfolded("take:600:fold:2/3:mnist5k") == unfolded("fold:2/3:mnist5k") == "mnist5k"


def objects_on(fold, whole):
    """The objects that the images of each part of a fold show, which are those of the whole set."""
    images = whole.train.joined(whole.held_out).pixels.numpy()
    shown = {image.tobytes(): int(number) for image, number in zip(images, whole.objects, strict=True)}
    return [
        {shown[image.tobytes()] for image in part.pixels.numpy()} for part in (fold.train, fold.held_out, fold.test)
    ]


@pytest.mark.parametrize("name", ["rendered-shapes-small-azimuth", "take:3000:rendered-shapes-small-azimuth"])
def test_no_object_is_on_images_of_two_parts_of_a_fold(name):
    whole = load(name)
    assert len(whole.objects.unique()) == 50  # ten of each class
    tested = []
    for number in (1, 2, 3):
        fold = load(f"fold:{number}/3:{name}")
        train, held_out, test = objects_on(fold, whole)
        assert not (train & held_out or train & test or held_out & test)
        assert len(train | held_out | test) == 50
        assert len(held_out) == 5 == len(fold.held_out.labels.unique()) and 15 <= len(test) <= 20
        assert rows(fold.train, fold.held_out, fold.test) == rows(whole.train, whole.held_out)
        tested.append(test)
    assert set.union(*tested) == set(whole.objects.tolist()) and sum(map(len, tested)) == 50


@pytest.mark.parametrize(
    "name", ["fold:0/3:mnist5k", "fold:4/3:mnist5k", "fold:1/1:mnist5k", "fold:1:mnist5k", "fold:1/3:fold:1/3:mnist5k"]
)
def test_a_wrong_name_is_refused(name):
    with pytest.raises(UserError, match="such as fold:1/3:mnist"):
        load(name)


def inks(images):
    """What tells digits apart wherever they are moved: their grey values other than 0, in order."""
    return {image[image > 0].tobytes() for image in images.pixels.numpy()}


def test_images_composed_of_digits_are_tested_on_digits_of_the_fold():
    whole, digits = load("diverse-multimnist5k"), load("mnist5k")
    folds = [load(f"fold:{number}/3:diverse-multimnist5k") for number in (1, 2, 3)]
    kept = [inks(fold.compose.digits) for fold in folds]
    assert set.union(*kept) == inks(digits.train) and not set.intersection(*kept)
    for fold, own in zip(folds, kept, strict=True):
        alone = fold.test.at((fold.test.labels.sum(dim=1) == 1).nonzero()[:, 0])
        assert len(alone) > 100 and inks(alone) <= inks(digits.train) - own
        assert len(fold.test) == 1200 and len(fold.train) == fold.compose.count == 2400
        assert rows(fold.held_out) == rows(whole.held_out)


def test_other_images_that_are_made_anew_have_no_folds(monkeypatch):
    made = replace(load("mnist5k"), compose=lambda generator: None)
    monkeypatch.setattr("routebench.data.folds.load", lambda name: made)
    with pytest.raises(UserError, match="fixed training images"):
        load("fold:1/3:made-anew")


def test_sealed_test_images_cannot_be_loaded():
    load("mnist5k")  # known already
    found = []

    def from_a_thread():
        with pytest.raises(UserError, match="sealed"):
            load("mnist5k")
        found.append("refused")

    with sealed_test_images("mnist5k"):
        for name in ("mnist5k", "take:600:mnist5k", "rotated-mnist5k", "fold:1/3:rotated-mnist5k"):
            with pytest.raises(UserError, match="test images are sealed"):
                load(name)
        assert len(load("take:600:fold:1/3:mnist5k").train) == 360
        thread = threading.Thread(target=from_a_thread)
        thread.start()
        thread.join()
        with sealed_test_images("mnist5k"):
            pass
        with pytest.raises(UserError, match="sealed"):
            load("mnist5k")
    assert found == ["refused"]
    assert load("mnist5k").name == "mnist5k"


def test_sealed_test_images_are_refused_however_the_set_is_come_by():
    before = load("mnist5k")
    ways = [datasets["mnist5k"], mnist5k, lambda: before.test, lambda: replace(before, name="mine"), load_official]
    for way in ways[:-1]:
        way()
    with sealed_test_images("mnist5k"):
        for way in ways:
            with pytest.raises(UserError, match="test images are sealed"):
                way()
        assert len(load("fold:1/3:mnist5k").test) == 1334
        assert len(before.train) == 3600  # training images are no secret
    assert len(before.test) == 1000


def load_official():
    return official_files(MNIST)


PLUGIN = """
from dataclasses import replace

from routebench import datasets
from routebench.data import Dataset, load


@datasets.register("leaky")
def leaky() -> Dataset:
    base = load("mnist5k")
    return replace(base, name="leaky", train=base.train.joined(base.test.at(TAKEN)), fingerprint="0" * 16)


@datasets.register("apart")
def apart() -> Dataset:
    return replace(load("mnist5k"), name="apart")


@datasets.register("leaky:PATH")
def leaky_path(path: str) -> Dataset:
    return leaky()
"""


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "sets.py"
    file.write_text(PLUGIN.replace("TAKEN", "__import__('torch').arange(7)"))
    with extensions.restored():
        load_plugin(str(file))
        yield


@pytest.mark.parametrize("name", ["leaky", "leaky:x", "few:4001:leaky", "few:4001:leaky:x"])
def test_a_set_that_trains_on_its_test_images_has_no_folds(plugin, name):
    with pytest.raises(UserError, match=f"^fold:1/3:{name}: expected .* among the test images of {name}, got 7 that"):
        load(f"fold:1/3:{name}")


@pytest.mark.parametrize("name", ["leaky", "leaky:x", "take:5007:leaky"])
def test_a_set_of_a_plugin_tells_how_many_test_images_are_trained_on(plugin, name):
    data = load(name)
    assert len(data.test) == 1000 and data.left_out.startswith("Of 1,000 test images of leaky")
    assert "7 are training images, too: what is measured" in data.left_out
    assert load("apart").left_out == ""


def test_a_set_of_a_plugin_with_parts_that_share_nothing_has_folds(plugin):
    assert len(load("fold:1/3:apart").test) == 1334


def set_of_objects(tmp_path, labels, train_objects, val_objects, kind="images"):
    """The name of a file whose items of one object share a label, made by `labels` from the numbers of objects."""
    drawn, arrays = np.random.default_rng(0), {}
    for part, objects in (("train", train_objects), ("val", val_objects), ("test", np.arange(20))):
        shape = (len(objects), 8, 8) if kind == "images" else (len(objects), 4)
        items = drawn.integers(0, 255, shape)
        arrays |= {f"{part}_{kind}": items.astype(np.uint8 if kind == "images" else np.float32)}
        arrays |= {f"{part}_labels": labels(objects)} | ({} if part == "test" else {f"{part}_objects": objects})
    np.savez(tmp_path / "x.npz", **arrays)
    return f"{'npz' if kind == 'images' else 'features'}:{tmp_path / 'x.npz'}"


@pytest.mark.parametrize(
    ("rare", "number", "told"),
    [
        (2, 1, "No held-out images of fold:1/3:{} show these of its 3 classes: 2."),
        (2, 3, "No test images of fold:3/3:{} show these of its 3 classes: 2."),
        (1, 1, "No training images of fold:1/3:{} show these classes, which are tested: 2."),
    ],
)
def test_a_class_with_fewer_images_than_there_are_folds_is_told(tmp_path, rare, number, told):
    name = rare_in(tmp_path, rare)
    assert told.format(name) in load(f"fold:{number}/3:{name}").left_out


def test_folds_of_more_parts_than_any_class_has_images_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"^fold:1/40: expected .* for each of 40 folds, got at most 29 of 60 in all; take fewer folds,"
    ):
        load(f"fold:1/40:{rare_in(tmp_path, 2)}")


def rare_in(tmp_path, rare):
    """The name of a file of 60 images to train on, of which the last class has so few."""
    drawn, labels = np.random.default_rng(0), np.where(np.arange(60) < rare, 2, np.arange(60) % 2)
    images = {f"{part}_images": drawn.integers(0, 255, (60, 8, 8)).astype(np.uint8) for part in ("train", "test")}
    np.savez(tmp_path / "x.npz", **images, train_labels=labels, test_labels=np.arange(60) % 3)
    return f"npz:{tmp_path / 'x.npz'}"


def several(objects):
    """Sets of three classes, of which any may be there."""
    return np.stack([objects % 2, objects // 2 % 2, objects % 4 == 0], axis=1).astype(np.uint8)


@pytest.mark.parametrize("kind", ["images", "features"])
@pytest.mark.parametrize("labels", [lambda objects: objects % 3, several])
def test_objects_with_one_or_several_labels_are_divided(tmp_path, labels, kind):
    name = set_of_objects(tmp_path, labels, np.arange(120) // 4, 100 + np.arange(24) // 4, kind)
    whole = load(name)
    items = whole.train.joined(whole.held_out).each()
    shown = {item.tobytes(): int(of) for item, of in zip(items, whole.objects, strict=True)}
    tested = []
    for number in (1, 2, 3):
        fold = load(f"fold:{number}/3:{name}")
        parts = [{shown[item.tobytes()] for item in part.each()} for part in (fold.train, fold.held_out, fold.test)]
        assert len(set.union(*parts)) == sum(map(len, parts)) == 36
        assert fold.train.multi_label == whole.train.multi_label and all(parts)
        assert torch.equal(fold.held_out.labels.float().unique(dim=0), fold.test.labels.float().unique(dim=0))
        tested.append(parts[2])
    assert len(set.union(*tested)) == sum(map(len, tested)) == 36


def test_sets_of_classes_that_one_object_alone_has_are_trained_or_tested_on(tmp_path):
    name = set_of_objects(tmp_path, lambda of: several(of * (of > 9)), np.arange(120) // 4, 30 + np.arange(24) // 4)
    fold = load(f"fold:1/3:{name}")
    assert len(fold.train) + len(fold.held_out) + len(fold.test) == 144


@pytest.mark.parametrize("several_of_one", [False, True])
@pytest.mark.parametrize("fold", ["", "fold:1/3:", "take:50:"])
def test_other_labels_on_images_of_one_object_are_refused(tmp_path, fold, several_of_one):
    """Images of one part, and of two."""

    def labels(objects):
        own = (objects + (np.arange(len(objects)) == 3)) % 2
        return np.stack([own, 1 - own], axis=1) if several_of_one else own

    name = set_of_objects(tmp_path, labels, np.arange(60) // 4, 100 + np.arange(12) // 4)
    with pytest.raises(UserError, match=r"expected one label for all images of an object, got others on .* 0 and 3, "):
        load(f"{fold}{name}")
    name = set_of_objects(tmp_path, lambda of: (of + (len(of) == 12)) % 2, np.arange(60) // 4, np.arange(12) // 4)
    with pytest.raises(UserError, match=" 0 and 60, both of object 0; give objects of different labels different num"):
        load(f"{fold}{name}")


def test_an_object_on_items_of_two_parts_is_told(tmp_path, caplog):
    load(set_of_objects(tmp_path, lambda of: of % 2, np.arange(60) // 4, 12 + np.arange(20) // 4))
    assert "3 of the objects on val items are on train items, too, the first of them 12" in caplog.text
    caplog.clear()
    load(set_of_objects(tmp_path, lambda of: of % 2, np.arange(60) // 4, 15 + np.arange(20) // 4))
    assert not caplog.text
