"""Folds of the training images of a data set; and test images that cannot be loaded while settings are tuned."""

import threading
from collections import Counter
from dataclasses import replace

import pytest

from routebench.data import load, sealed_test_images, unfolded
from routebench.data.mnist5k import mnist5k
from routebench.data.official import official_files
from routebench.data.torchvision_sets import MNIST
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


def test_a_set_of_a_plugin_with_parts_that_share_nothing_has_folds(plugin):
    assert len(load("fold:1/3:apart").test) == 1334
