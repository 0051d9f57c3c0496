"""Image folders: any sizes, grey or colour, with or without a test part."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from routebench.data import load
from routebench.errors import UserError
from tests.data.pictures import rows, save


def test_a_fifth_is_tested_and_a_tenth_of_the_rest_held_out(animals):
    data = load(f"folder:{animals}")
    assert data.name == "folder:animals"
    assert data.classes == ("cat", "dog")
    assert [torch.bincount(part.labels).tolist() for part in (data.train, data.held_out, data.test)] == [
        *([14, 22], [2, 2], [4, 6])
    ]
    assert data.train.shape == (1, 12, 10)
    assert len(set(rows(data.train, data.held_out, data.test))) == 50
    assert data.source == f"50 image files in {animals}"


def test_pixels_and_labels_are_those_of_the_files(animals):
    data = load(f"folder:{animals}")
    files = {np.asarray(Image.open(file)).tobytes(): file.parent.name for file in animals.rglob("*.png")}
    for part in (data.train, data.held_out, data.test):
        assert [files[row] for row in rows(part)] == [data.classes[label] for label in part.labels]


def test_the_same_folder_elsewhere_is_the_same_data(animals, tmp_path):
    here = load(f"folder:{animals}")
    moved = animals.rename(tmp_path / "beasts")
    there = load(f"folder:{moved}")
    assert there.name == "folder:beasts"
    assert there.fingerprint == here.fingerprint
    (moved / "cat" / "000.png").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(moved)  # read anew
        assert load("folder:.").fingerprint != here.fingerprint


def test_parts_of_its_own_stay_what_they_are(tmp_path):
    save(tmp_path / "train" / "a", 10)
    save(tmp_path / "train" / "b", 20)
    save(tmp_path / "test" / "b", 7, first=100)
    data = load(f"folder:{tmp_path}")
    assert (len(data.train), len(data.held_out), len(data.test)) == (27, 3, 7)
    assert data.test.labels.tolist() == [1] * 7


def test_no_image_is_trained_on_and_measured(tmp_path):
    save(tmp_path / "train" / "a", 12)
    save(tmp_path / "train" / "b", 12)
    save(tmp_path / "test" / "a", 5, first=8)  # 008 to 011 are also in train/
    (tmp_path / "train" / "b" / "copy.png").write_bytes((tmp_path / "train" / "b" / "000.png").read_bytes())
    data = load(f"folder:{tmp_path}")
    assert (len(data.train) + len(data.held_out), len(data.test)) == (20, 5)
    assert not set(rows(data.train, data.held_out)) & set(rows(data.test))
    assert "30 image files" in data.source
    assert "5 copies left out" in data.source


def test_classes_called_train_and_test_are_classes(tmp_path):
    for name in ("train", "test", "bus"):
        save(tmp_path / name, 5)
    assert load(f"folder:{tmp_path}").classes == ("bus", "test", "train")


@pytest.mark.parametrize("names", [("Train", "Test"), ("training", "val"), ("TRAIN", "Validation")])
def test_parts_may_be_called_otherwise(tmp_path, names):
    train, test = names
    for label in "ab":
        save(tmp_path / train / label, 10)
        save(tmp_path / test / label, 3, first=100)
    data = load(f"folder:{tmp_path}")
    assert data.classes == ("a", "b")
    assert (len(data.train), len(data.held_out), len(data.test)) == (18, 2, 6)


def test_with_three_parts_selection_is_by_val(tmp_path):
    for label in "ab":
        save(tmp_path / "train" / label, 10)
        save(tmp_path / "val" / label, 4, first=8)  # two of them are in train/ too, and one in test/
        save(tmp_path / "test" / label, 3, first=11)
    data = load(f"folder:{tmp_path}")
    assert (len(data.train), len(data.held_out), len(data.test)) == (16, 6, 6)
    assert len(set(rows(data.train, data.held_out, data.test))) == 28
    assert data.source == f"34 image files in {tmp_path}, 6 copies left out"


def test_copies_in_another_class_are_told(animals):
    (animals / "dog" / "copy.png").write_bytes((animals / "cat" / "000.png").read_bytes())
    assert load(f"folder:{animals}").source.endswith(
        f"51 image files in {animals}, 1 copies left out (1 of them in another class)"
    )


def test_what_is_hidden_or_no_file_is_passed_over(animals):
    save(animals / "cat" / ".thumbnails", 2, first=50)
    save(animals / "cat" / "__MACOSX", 2, first=60)
    save(animals / "cat" / "folder.png", 2, first=70)
    os.mkfifo(animals / "dog" / "pipe.png")
    assert load(f"folder:{animals}").source == f"52 image files in {animals}"
    (animals / "cat" / "nowhere.png").symlink_to(animals / "gone.png")
    (elsewhere := animals.with_name("again")).symlink_to(animals)
    with pytest.raises(UserError, match=r"cannot read the image .*nowhere.png \(.*No such file"):
        load(f"folder:{elsewhere}")
