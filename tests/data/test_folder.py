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
    assert load(f"folder:{moved}").fingerprint != here.fingerprint


@pytest.mark.parametrize("name", ["folder:{}", "folder:{}?size=8", "take:20:folder:{}", "fold:1/2:folder:{}"])
def test_corrected_pictures_are_read_again(animals, name):
    name = name.format(animals)
    before = load(name)
    assert load(name) is before
    (animals / "cat" / "000.png").rename(animals / "dog" / "cat.png")
    moved = load(name)
    assert moved is not before
    pixels = np.asarray(Image.open(animals / "dog" / "cat.png"))
    file = animals / "dog" / "cat.png"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    Image.fromarray(255 - pixels).save(file)
    os.utime(file, ns=times)
    assert load(name) is not moved
    (animals / "dog" / "cat.png").unlink()
    (animals / "dog" / "notes.txt").touch()
    assert "notes.txt" in load(name).left_out


def test_links_to_folders_of_classes_are_looked_through(animals, tmp_path):
    (tmp_path / "linked").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "linked" / name).symlink_to(animals / name)
    before = load(f"folder:{tmp_path}/linked")
    (animals / "cat" / "000.png").unlink()
    assert load(f"folder:{tmp_path}/linked").fingerprint != before.fingerprint


def test_parts_of_its_own_stay_what_they_are(tmp_path):
    save(tmp_path / "train" / "a", 10)
    save(tmp_path / "train" / "b", 20)
    save(tmp_path / "train" / "c", 10, first=50)
    for number, name in enumerate("bc"):
        save(tmp_path / "test" / name, 7, first=100 + 10 * number)
    data = load(f"folder:{tmp_path}")
    assert (len(data.train), len(data.held_out), len(data.test)) == (36, 4, 14)
    assert data.test.labels.tolist() == [1] * 7 + [2] * 7
    assert data.left_out == f"No test images of folder:{tmp_path.name} show these of its 3 classes: a."


def test_a_test_part_of_one_class_is_refused(tmp_path):
    for name in "ab":
        save(tmp_path / "train" / name, 10, first=20 * ord(name))
    save(tmp_path / "test" / "b", 7, first=100)
    with pytest.raises(UserError, match="expected test images of two classes at least, got b alone; add some of the"):
        load(f"folder:{tmp_path}")


def test_no_image_is_trained_on_and_measured(tmp_path):
    save(tmp_path / "train" / "a", 12)
    save(tmp_path / "train" / "b", 12)
    save(tmp_path / "test" / "a", 5, first=8)  # 008 to 011 are also in train/
    save(tmp_path / "test" / "b", 2, first=60)
    (tmp_path / "train" / "b" / "copy.png").write_bytes((tmp_path / "train" / "b" / "000.png").read_bytes())
    data = load(f"folder:{tmp_path}")
    assert (len(data.train) + len(data.held_out), len(data.test)) == (20, 7)
    assert not set(rows(data.train, data.held_out)) & set(rows(data.test))
    assert "32 image files" in data.source
    assert data.left_out == f"Not used of folder:{tmp_path.name}: 5 copies."


def test_classes_called_train_and_test_are_classes(tmp_path):
    for name in ("train", "test", "bus"):
        save(tmp_path / name, 5)
    assert load(f"folder:{tmp_path}").classes == ("bus", "test", "train")


def test_letters_are_told_apart_by_capitals(tmp_path):
    for number, name in enumerate(("A", "B", "a", "b")):
        save(tmp_path / name, 5, first=10 * number)
    assert load(f"folder:{tmp_path}").classes == ("A", "B", "a", "b")


@pytest.mark.parametrize("names", [("Train", "Test"), ("training", "val"), ("TRAIN", "Validation"), ("train ", "test")])
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
    assert (data.source, "6 copies" in data.left_out) == (f"34 image files in {tmp_path}", True)


def test_copies_in_another_class_are_told(animals):
    (animals / "dog" / "copy.png").write_bytes((animals / "cat" / "000.png").read_bytes())
    assert load(f"folder:{animals}").left_out.endswith(": 1 copy (1 of them in another class).")


def test_what_is_hidden_or_no_file_is_not_used(animals):
    save(animals / "cat" / ".thumbnails", 2, first=50)
    save(animals / "cat" / "__MACOSX", 2, first=60)
    save(animals / "cat" / "folder.png", 2, first=70)
    os.mkfifo(animals / "dog" / "pipe.png")
    data = load(f"folder:{animals}")
    assert data.source == f"52 image files in {animals}"
    assert data.left_out == (
        "Not used of folder:animals: 2 hidden (such as cat/.thumbnails/050.png), "
        "1 pipe, device or broken link (such as dog/pipe.png)."
    )
    (animals / "cat" / "nowhere.png").symlink_to(animals / "gone.png")
    (elsewhere := animals.with_name("again")).symlink_to(animals)
    with pytest.raises(UserError, match=r"cannot read the image .*nowhere.png \(.*No such file"):
        load(f"folder:{elsewhere}")


SYSTEM_FILES = [
    ".DS_Store", "Thumbs.db", "desktop.ini", "cat/.DS_Store", "cat/._001.png", "dog/Thumbs.db", "__MACOSX/cat/1.png",
    "lost+found/1", "$RECYCLE.BIN/x.png", "System Volume Information/IndexerVolumeGuid", ".Trash-1000/cat.png",
]  # fmt: skip


def put(place, content=b"x"):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


@pytest.mark.parametrize("part", ["", "train"])
def test_only_what_an_operating_system_writes_is_passed_over_in_silence(animals, part):
    if part:
        (animals / part).mkdir()
        for name in ("cat", "dog"):
            (animals / name).rename(animals / part / name)
    before = load(f"folder:{animals}")
    for name in SYSTEM_FILES:
        put(animals / part / name)
    after = load(f"folder:{animals.rename(animals.with_name('again'))}")
    assert (after.left_out, after.fingerprint) == ("", before.fingerprint)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("labels.csv", "1 of kind .csv (such as labels.csv)"),
        ("train/labels.csv", "1 of kind .csv (such as train/labels.csv)"),
        ("train/cat/arrays.npy", "1 of kind .npy (such as train/cat/arrays.npy)"),
        ("train/cat/README", "1 of kind unknown (such as train/cat/README)"),
        ("train/dog/photo.HEIC", "1 of kind .heic (such as train/dog/photo.HEIC)"),
        ("train/dog/.cover.png", "1 hidden (such as train/dog/.cover.png)"),
        ("train/.cow/1.png", "1 hidden (such as train/.cow/1.png)"),
        ("train/__cow__/1.png", "1 hidden (such as train/__cow__/1.png)"),
        (".git/config", "1 hidden (such as .git/config)"),
        ("1.png", "1 image in no class's folder (such as 1.png)"),
        ("train/1.png", "1 image in no class's folder (such as train/1.png)"),
    ],
)
def test_what_is_not_used_is_counted_and_named(tmp_path, name, told):
    for part in ("train", "test"):
        for label in ("cat", "dog"):
            save(tmp_path / part / label, 10, first=10 * (part == "test"))
    put(tmp_path / name)
    data = load(f"folder:{tmp_path}")
    assert (data.classes, data.left_out) == (("cat", "dog"), f"Not used of folder:{tmp_path.name}: {told}.")
    assert load(f"take:20:folder:{tmp_path}").left_out == data.left_out
    assert load(f"fold:1/2:folder:{tmp_path}").left_out.startswith(data.left_out)


@pytest.mark.parametrize(("suffix", "how"), [("gif", {}), ("tiff", {}), ("png", {}), ("webp", {"lossless": True})])
def test_further_pages_of_a_file_are_counted(animals, suffix, how):
    pages = [Image.fromarray(np.full((12, 10), 40 * number, np.uint8)) for number in range(1, 4)]
    for name in ("cat/a", "dog/b"):
        first = Image.new("L", (10, 12), color=len(pages) + (name == "dog/b"))
        first.save(animals / f"{name}.{suffix}", save_all=True, append_images=pages[:2], **how)
    assert load(f"folder:{animals}").left_out == (
        f"Not used of folder:animals: 4 further pages of 2 files (such as cat/a.{suffix})."
    )


def test_linked_classes_are_read_and_links_deeper_inside_are_named(animals, tmp_path):
    save(elsewhere := tmp_path / "cows", 10)
    put(elsewhere / "notes.txt")
    (animals / "cow").symlink_to(elsewhere)
    (animals / "cat" / "more").symlink_to(elsewhere)
    data = load(f"folder:{animals}")
    assert data.classes == ("cat", "cow", "dog")
    assert data.left_out == (
        "Not used of folder:animals: 1 linked folder (such as cat/more), 1 of kind .txt (such as cow/notes.txt)."
    )


def test_names_with_new_lines_are_told_in_one_line(animals) -> None:
    (animals / "cat" / "a\nb.txt").write_text("x")
    (animals / "cat" / "a\nb.txt").with_suffix(".c\nd").write_text("x")
    told = load(f"folder:{animals}").left_out
    assert "\n" not in told
    assert "1 of kind .txt (such as cat/a\\nb.txt)" in told
