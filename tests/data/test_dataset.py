"""Parts, fingerprints and stratified splits."""

import dataclasses

import numpy as np
import pytest
import torch

from routebench.data.dataset import Dataset, Images, TrainingData, fingerprint, stratified_split
from routebench.errors import UserError
from tests import first_calls


def images(n: int, *, classes: int = 3, side: int = 4) -> Images:
    pixels = torch.randint(256, (n, 1, side, side), dtype=torch.uint8)
    return Images(pixels, torch.arange(n) % classes)


@pytest.mark.parametrize(
    ("pixels", "labels", "expected"),
    [
        (torch.rand(4, 1, 2, 2), torch.zeros(4).long(), r"uint8.*got float32 \(4, 1, 2, 2\)"),
        (torch.zeros(4, 2, 2).byte(), torch.zeros(4).long(), r"got uint8 \(4, 2, 2\)"),
        (torch.zeros(4, 1, 2, 2).byte(), torch.zeros(3).long(), r"labels as int64 \(4,\).*got int64 \(3,\)"),
        (torch.zeros(4, 1, 2, 2).byte(), torch.zeros(4).int(), "got int32"),
        (torch.zeros(0, 1, 2, 2).byte(), torch.zeros(0).long(), "at least one image"),
    ],
)
def test_images_of_a_wrong_shape_or_type_are_refused(pixels, labels, expected):
    with pytest.raises(UserError, match=expected):
        Images(pixels, labels)


def test_a_data_set_refuses_parts_of_different_shapes():
    with pytest.raises(UserError, match=r"test images of shape \(1, 4, 4\).*got \(1, 5, 5\)"):
        Dataset.of("x", ("a", "b", "c"), images(30), images(6, side=5), "here")


def test_a_data_set_refuses_labels_without_a_class():
    with pytest.raises(UserError, match="labels from 0 to 1, one per class, got 0 to 2"):
        Dataset.of("x", ("a", "b"), images(30), images(6), "here")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"conditions": {"angle": torch.zeros(5)}}, r"condition 'angle' as \(6,\).*got float32 \(5,\)"),
        ({"objects": torch.zeros(30).long()}, r"objects as \(33,\).*got int64 \(30,\)"),
    ],
)
def test_a_data_set_refuses_what_is_not_one_per_image(given, expected):
    parts = images(30), images(3), images(6)
    with pytest.raises(UserError, match=expected):
        Dataset("x", ("a", "b", "c"), *parts, fingerprint(*parts), "here", **given)


def several(n: int, *, classes: int = 3) -> Images:
    """Each image shows its class of `images` and, every other one, the next class too."""
    one = images(n, classes=classes)
    marked = torch.nn.functional.one_hot(one.labels, classes).bool()
    marked[::2] |= marked[::2].roll(1, dims=1)
    return Images(one.pixels, marked)


def test_images_may_show_several_classes():
    found = several(6)
    assert found.multi_label
    assert not images(6).multi_label
    assert found.at(torch.tensor([1, 0])).labels.int().tolist() == [[0, 1, 0], [1, 1, 0]]
    alone = found.with_one_label()
    assert alone.labels.tolist() == [1, 0, 2]
    assert alone.pixels.equal(found.pixels[1::2])
    assert alone.with_one_label() is alone


@pytest.mark.parametrize("labels", [torch.zeros(4, 3).byte(), torch.zeros(5, 3).bool(), torch.zeros(4).bool()])
def test_labels_of_several_classes_are_bool_one_row_per_image(labels):
    with pytest.raises(UserError, match=r"or as bool \(4, classes\) for several, got (uint8|bool)"):
        Images(torch.zeros(4, 1, 2, 2).byte(), labels)


def test_a_data_set_of_several_classes_has_a_column_for_each():
    with pytest.raises(UserError, match=r"train labels with a column for each of 2 classes, got bool \(27, 3\)"):
        Dataset.of("x", ("a", "b"), several(30), several(6), "here")
    with pytest.raises(UserError, match="test labels of the same kind as in the training part, got int64"):
        Dataset.of("x", ("a", "b", "c"), several(30), images(6), "here")


def test_a_split_of_several_classes_takes_its_share_of_every_set_of_them():
    labels = several(60).labels
    kept, taken = stratified_split(labels, 0.2, seed=0)
    assert sorted(torch.cat([kept, taken]).tolist()) == list(range(60))
    sets, counts = labels[taken].unique(dim=0, return_counts=True)
    assert len(sets) == 6
    assert counts.tolist() == [2] * 6


def test_training_data_holds_nothing_of_the_test_part():
    data = Dataset.of("x", ("a", "b", "c"), images(30), images(6), "here")
    seen = data.for_training()
    assert (len(seen.train), len(seen.held_out)) == (27, 3)
    assert {field.name for field in dataclasses.fields(TrainingData)} == {
        *("name", "classes", "train", "held_out", "fingerprint", "compose")
    }
    assert seen.compose is None  # what composes, composes of training images: see test_diverse_multimnist.py
    assert seen.fingerprint == data.fingerprint


def test_a_fingerprint_notices_every_kind_of_change():
    one = images(6)
    pixel = Images(one.pixels.clone(), one.labels)
    pixel.pixels[5, 0, 3, 3] += 1
    label = Images(one.pixels, one.labels.flip(0))
    reshaped = Images(one.pixels.reshape(6, 1, 2, 8), one.labels)
    halves = (one.at(torch.arange(3)), one.at(torch.arange(3, 6)))
    prints = [fingerprint(*parts) for parts in [(one,), (pixel,), (label,), (reshaped,), halves, halves[::-1]]]
    assert len(set(prints)) == 6
    assert prints[0] == fingerprint(Images(one.pixels.clone(), one.labels.clone()))
    assert all(len(digits) == 16 and int(digits, 16) >= 0 for digits in prints)


@pytest.mark.parametrize("part", [0.1, 0.25, 7, 33])
def test_a_split_has_the_exact_size_and_every_class_gives_its_share(part):
    labels = torch.tensor([0] * 50 + [1] * 31 + [2] * 19)[torch.randperm(100)]
    kept, taken = stratified_split(labels, part, seed=3)
    count = part if isinstance(part, int) else round(100 * part)
    assert len(taken) == count
    assert sorted(torch.cat([kept, taken]).tolist()) == list(range(100))
    for label, size in enumerate((50, 31, 19)):
        assert abs(int((labels[taken] == label).sum()) - count * size / 100) < 1


def test_a_split_takes_random_images_that_its_seed_fixes():
    labels = torch.arange(200) % 4
    first, again, other = (stratified_split(labels, 0.2, seed)[1] for seed in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)
    assert first.max() > 150
    assert first[:6].tolist() == [8, 9, 16, 22, 30, 37]  # on every machine and version


def test_a_split_leaves_one_image_of_each_class():
    kept, taken = stratified_split(torch.tensor([0, 1, 1, 1, 1, 1, 1]), 4, seed=0)
    assert 0 in kept
    assert len(taken) == 4
    with pytest.raises(UserError, match="leave one of each class"):
        stratified_split(torch.tensor([0, 1, 2]), 2, seed=0)


@pytest.mark.parametrize("part", [0, 0.0, 10, 1.0, 0.01])
def test_a_split_that_takes_nothing_or_everything_is_refused(part):
    with pytest.raises(UserError, match="at least 1 and at most 9 of 10"):
        stratified_split(torch.arange(10) % 2, part, seed=0)


@pytest.mark.parametrize(
    ("pixels", "labels", "told"),
    [
        (
            np.zeros((3, 1, 4, 4), np.uint8),
            torch.zeros(3, dtype=torch.int64),
            r"^pixels: .* a NumPy array, uint8 \(3, 1",
        ),
        (
            torch.zeros(3, 1, 4, 4, dtype=torch.uint8),
            np.zeros(3, np.int64),
            r"^labels: .* torch.from_numpy\(...\) makes",
        ),
        (
            torch.zeros(3, 1, 4, 4, dtype=torch.uint8),
            [0, 1, 0],
            r"^labels: expected a torch tensor, got list; torch.as_",
        ),
    ],
)
def test_arrays_of_numpy_are_told_to_become_tensors(pixels, labels, told):
    images = object.__new__(Images)  # tests check the types of arguments, which nothing else does
    vars(images).update(pixels=pixels, labels=labels)
    with pytest.raises(UserError, match=told):
        images.__post_init__()


@pytest.mark.parametrize(("part", "seed"), [(float("nan"), 0), (float("inf"), 0), (0.5, -1), (0.5, 1.5), (0.5, 2**32)])
def test_a_part_or_a_seed_that_is_none_is_refused_in_one_line(monkeypatch, part, seed):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    with pytest.raises(UserError, match=r"expected .*, got"):
        stratified_split(torch.arange(20) % 2, part, seed)
