"""Folders that are no data set, each refused with its reason."""

import os
import struct
import unicodedata
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from routebench.data import load
from routebench.errors import UserError
from tests.data.pictures import save

NOBODY = 65534  # a user without rights


@pytest.mark.parametrize("side", [10, 300])  # 300: read by threads
@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_a_damaged_image_is_named(tmp_path, content, side):
    for name in "ab":
        save(tmp_path / name, 4, (side, side))
    damaged = tmp_path / "b" / "002.png"
    damaged.write_bytes(damaged.read_bytes()[:-60] if content is None else content)
    with pytest.raises(UserError) as raised:
        load(f"folder:{tmp_path}")
    message = str(raised.value)
    assert message.startswith(f"cannot read the image {damaged} (")
    assert message.count(str(damaged)) == 1
    assert "\n" not in message


def test_pictures_without_a_fixed_range_are_refused(tmp_path):
    for name in "ab":
        save(tmp_path / name, 4)
    Image.new("F", (5, 5)).save(tmp_path / "a" / "float.tiff")
    with pytest.raises(UserError, match=r"float.tiff \(mode F has no fixed range"):
        load(f"folder:{tmp_path}")


def empty(place: Path) -> None:
    place.mkdir(exist_ok=True)


def single(place: Path) -> None:
    save(place / "cat", 5)


def hollow(place: Path) -> None:
    save(place / "cat", 5)
    (place / "dog").mkdir()


def few(place: Path) -> None:
    save(place / "cat", 5)
    save(place / "dog", 2)


def copies(place: Path) -> None:
    few(place)
    for number in range(5):
        (place / "dog" / f"copy{number}.png").write_bytes((place / "dog" / "000.png").read_bytes())


def foreign(place: Path) -> None:
    for name in ("cat", "dog"):
        save(place / "train" / name, 5)
    save(place / "test" / "cow", 5)


def third_part(place: Path) -> None:
    foreign(place)
    (place / "extra").mkdir()


def twins(place: Path) -> None:
    save(place / "cat", 5)
    (place / "dog").mkdir()
    for file in (place / "cat").iterdir():
        (place / "dog" / file.name).write_bytes(file.read_bytes())


def two_of_a_part(place: Path) -> None:
    foreign(place)
    (place / "Testing").mkdir()


def classes_in_train_alone(place: Path) -> None:
    foreign(place)
    (place / "test" / "cow").rename(place / "test" / ".cow")
    save(place / "test", 2)


def held_out_that_is_tested(place: Path) -> None:
    for part in ("train", "val", "test"):
        save(place / part / "cat", 5, first=5 * (part == "train"))
        save(place / part / "dog", 5, first=5 * (part == "train"))


def no_test_classes(place: Path) -> None:
    foreign(place)
    (place / "test" / "cow").rename(place / "test" / ".cow")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (empty, "expected one sub-folder of images per class, got no sub-folder"),
        (single, "expected at least two class sub-folders, got only cat/"),
        (hollow, "expected images in dog/, got none"),
        (few, "expected 3 different images of class 'dog' or more, got 2"),
        (copies, "expected 3 different images of class 'dog' or more, got 2"),
        (foreign, "expected only classes of train/, got cow/"),
        (third_part, "expected only val/ and test/ beside train/, got extra/; rename or move it away"),
        (
            twins,
            "got 0: 5 of its 5 files are copies, such as dog/000.png of cat/000.png; an image has one class",
        ),
        (two_of_a_part, "expected one folder for each part, got Testing/ and test/"),
        (classes_in_train_alone, "test: expected one sub-folder of images per class, got images that are in none"),
        (held_out_that_is_tested, "expected images in val/ that are not in test/ too, got none"),
        (no_test_classes, "expected one sub-folder of images per class, got no sub-folder"),
    ],
)
def test_an_unusable_folder_says_why(tmp_path, make, expected):
    make(tmp_path)
    with pytest.raises(UserError, match=f"^folder:{tmp_path}.*{expected}") as raised:
        load(f"folder:{tmp_path}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("folders", "got"),
    [
        (["training_set", "test_set"], "test_set/, training_set/, whose names are those of parts"),
        (["train_images", "test_images"], "test_images/, train_images/"),
        (["train2017", "val2017"], "train2017/, val2017/"),
        (["TrainImages", "TestImages"], "TestImages/, TrainImages/"),
        (["trainset", "testset", "single_prediction"], "testset/, trainset/, whose names"),
        (["seg_train/seg_train", "seg_test/seg_test"], "seg_test/, seg_train/"),
        (["fold1", "fold2", "fold3"], "fold1/, fold2/, fold3/, which all hold cats and dogs"),
        (["train/fold1", "train/fold2", "test/fold1", "test/fold2"], "fold1/, fold2/, which all hold cats and dogs"),
    ],
)
def test_parts_under_other_names_are_no_classes(tmp_path, folders, got):
    for number, folder in enumerate(folders):
        for label in ("cats", "dogs"):
            save(tmp_path / folder / label, 5, first=10 * number)
    with pytest.raises(UserError, match=f"expected train/, val/ and test/, or class folders.*{got}.*; rename parts"):
        load(f"folder:{tmp_path}")


def test_train_and_test_without_classes_are_no_classes(tmp_path):
    for name in ("train", "test"):
        save(tmp_path / name, 5)
    with pytest.raises(UserError, match="got test/, train/, whose names are those of parts"):
        load(f"folder:{tmp_path}")


@pytest.mark.parametrize(
    "folders",
    [
        ["cats/persian", "cats/siamese", "dogs/beagle", "dogs/siamese"],
        ["cats/images", "dogs/images"],
        ["training_shoes/red", "boots/red"],
        ["test_tubes", "train", "bus"],
    ],
)
def test_nested_classes_are_classes(tmp_path, folders):
    for number, folder in enumerate(folders):
        save(tmp_path / folder, 5, first=10 * number)
    assert load(f"folder:{tmp_path}").classes == tuple(sorted({folder.partition("/")[0] for folder in folders}))


def arrays(place: Path) -> None:
    for name in ("cat", "dog"):
        (place / name).mkdir()
        np.save(place / name / "x.npy", np.zeros((3, 3)))


def arrays_alone(place: Path) -> None:
    np.savez(place / "x.npz", images=np.zeros((3, 3)))


def a_broken_link(place: Path) -> None:
    for name in ("cat", "dog"):
        save(place / name, 5)
    (place / "cat" / "gone.png").symlink_to(place / "nowhere")


def lookalikes_in_test(place: Path) -> None:
    for part, form in (("train", "NFC"), ("test", "NFD")):
        for name in ("café", "bar"):
            save(place / part / unicodedata.normalize(form, name), 5)


def lookalikes(place: Path) -> None:
    for form in ("NFC", "NFD"):
        save(place / unicodedata.normalize(form, "café"), 5)


def capitals(place: Path) -> None:
    for name in ("cat", "dog"):
        save(place / "train" / name, 5)
    save(place / "test" / "Cat", 5)


def spaced(place: Path) -> None:
    for name in ("a", "a ", "b"):
        save(place / name, 5)


def spaced_in_test(place: Path) -> None:
    for name in ("train/cat", "train/dog", "test/cat", "test/dog "):
        save(place / name, 5)


def capitals_beside(place: Path) -> None:
    for name in ("Cat", "cat", "dog"):
        save(place / name, 5)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (spaced, "expected names that look different, got a/ and a /, .* only in spaces at its ends; join them, or"),
        (spaced_in_test, "only classes of train/, got dog /, a name that differs only in spaces at its ends; rename"),
        (capitals_beside, "expected names that look different, got Cat/ and cat/, .* differs only in capitals; join"),
        (arrays_alone, r"no sub-folder, but 1 of kind .npz \(such as x.npz\); npz:FILE reads pictures as NumPy arrays"),
        (a_broken_link, r"cat/gone.png \(No such file or directory\); replace or remove it"),
        (arrays, r"in cat/, got none, but 1 of kind .npy \(such as x.npy\); npz:FILE reads pictures as NumPy arrays"),
        (lookalikes_in_test, r"got cafe\u0301/, a name of the same letters in another Unicode form \(NFD\); rename it"),
        (lookalikes, r"expected names that look different, got .* in another Unicode form \(NFC\); join them"),
        (capitals, "only classes of train/, got Cat/, a name that differs only in capitals; rename it as there"),
    ],
)
def test_what_lies_there_instead_is_explained(tmp_path, make, expected):
    make(tmp_path)
    with pytest.raises(UserError, match=expected) as raised:
        load(f"folder:{tmp_path}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("folder:pictres", "'pictres' does not exist; 'pictures' lies there"),
        ("folder:cafe\u0301", r"'caf\u00e9' lies there, a name of the same letters in another Unicode form \(NFC\)"),
        ("folder:x.npy", "'x.npy' is a file: npz:FILE reads pictures as NumPy arrays"),
        ("x.npz", "expected the name of a data set, got the file 'x.npz'; npz:FILE reads pictures as NumPy arrays"),
        ("take:5:x.npy", "got the file 'x.npy'; npz:FILE reads pictures as NumPy arrays"),
        ("pictures", "unknown data set 'pictures'; it is a folder: folder:pictures reads the images in it"),
    ],
)
def test_a_name_that_is_nearly_right_is_told_what_lies_there(tmp_path, monkeypatch, name, expected):
    for there in ("pictures", "caf\u00e9"):
        (tmp_path / there).mkdir()
    np.save(tmp_path / "x.npy", np.zeros(3))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=expected):
        load(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nowhere", "'nowhere' does not exist"),
        ("", "expected a folder"),
        ("file", "'file' is a file"),
        ("?size=9", "'' "),
    ],
)
def test_a_path_that_is_no_folder_is_refused(tmp_path, monkeypatch, path, expected):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=expected):
        load(f"folder:{path}")


@pytest.mark.parametrize("size", ["", "x", "0", "-3", "1025", "28.0"])
def test_a_size_that_is_none_is_refused(animals, size):
    with pytest.raises(UserError, match=f"a size in pixels from 1 to 1024 after '.size=', got '{size}'"):
        load(f"folder:{animals}?size={size}")


def chunk(kind: bytes, content: bytes) -> bytes:
    """Of a PNG file; Pillow writes none with 16 bits per channel in colour."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_colours_of_which_eight_bits_would_hold_a_few_levels_are_refused(tmp_path):
    for label in "ab":
        save(tmp_path / label, 4)
    (tmp_path / "a" / "deep.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0" + np.full(6, 4095, ">u2").tobytes()))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(UserError, match=r"deep.png \(12 of 16 bits per channel are in use, .*save it with 8 bits"):
        load(f"folder:{tmp_path}")


@pytest.mark.parametrize("closed", ["dog", "dog/deeper", "."])
def test_a_folder_without_permission_is_named(animals, monkeypatch, closed):
    (animals / "dog" / "deeper").mkdir()
    monkeypatch.chdir(animals)
    Path(closed).chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)  # root may read everything
    try:
        with pytest.raises(
            UserError, match=rf"^folder:.: cannot read {closed} \(Permission denied\); make it readable"
        ):
            load("folder:.")
    finally:
        if is_root:
            os.seteuid(0)
        Path(closed).chmod(0o755)
