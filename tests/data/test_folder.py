"""Image folders: any sizes, grey or colour, with or without a test part."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from routebench.data import load
from routebench.errors import UserError

NOBODY = 65534  # a user without rights


def save(place: Path, count: int, shape: tuple[int, ...] = (12, 10), *, first: int = 0, suffix: str = "png") -> None:
    """Writes random images of `shape`, different for every number from `first` on."""
    place.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        pixels = np.random.default_rng([number, *place.name.encode()]).integers(0, 256, shape, np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.{suffix}")


@pytest.fixture
def animals(tmp_path):
    place = tmp_path / "animals"
    save(place / "cat", 20)
    save(place / "dog", 30)
    return place


def rows(*parts) -> list[bytes]:
    return [image.tobytes() for part in parts for image in part.pixels.numpy()]


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


def test_the_most_common_size_wins_and_others_are_cropped_to_it(tmp_path):
    save(tmp_path / "a", 10, (8, 6))
    save(tmp_path / "b", 9, (8, 6))
    Image.new("L", (40, 40), 200).save(tmp_path / "b" / "000.png")  # the first file stays one of the common size
    stripes = np.zeros((16, 24), np.uint8)
    stripes[:, 4:20] = 255  # twice the size; its middle is white
    Image.fromarray(stripes).save(tmp_path / "a" / "wide.png")
    data = load(f"folder:{tmp_path}")
    assert data.train.shape == (1, 8, 6)
    every = rows(data.train, data.held_out, data.test)
    assert bytes([255] * 48) in every
    assert bytes([200] * 48) in every


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_size_that_the_first_file_does_not_have_is_found_too(tmp_path, suffix):
    save(tmp_path / "a", 1, (9, 9), suffix=suffix)
    save(tmp_path / "b", 5, (20, 30), suffix=suffix)
    save(tmp_path / "a", 5, (20, 30), first=1, suffix=suffix)
    assert load(f"folder:{tmp_path}").train.shape == (1, 20, 30)


@pytest.mark.parametrize(("shape", "expected"), [((300, 200, 3), (3, 64, 43)), ((64, 20, 3), (3, 64, 20))])
def test_large_images_shrink_to_sixty_four(tmp_path, shape, expected):
    for name in "ab":
        save(tmp_path / name, 4, shape, suffix="jpg")
    assert load(f"folder:{tmp_path}").train.shape == expected


def test_a_size_can_be_asked_for(animals):
    data = load(f"folder:{animals}?size=7")
    assert data.train.shape == (1, 7, 7)
    assert data.name == "folder:animals?size=7"
    assert data.fingerprint != load(f"folder:{animals}").fingerprint


def test_scaling_averages_over_all_pixels(tmp_path):
    for name in "ab":
        save(tmp_path / name, 4, (8, 8))
    checkers = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(checkers).save(tmp_path / "a" / "checkers.png")
    data = load(f"folder:{tmp_path}")
    assert any(max(row) - min(row) < 20 and 120 < max(row) < 136 for row in rows(data.train, data.held_out, data.test))


def test_one_colour_image_makes_all_of_them_colour(animals):
    grey = load(f"folder:{animals}")
    save(animals / "cat", 1, (12, 10, 3), first=50)
    (other := animals.with_name("colour")).symlink_to(animals)
    data = load(f"folder:{other}")
    assert data.train.shape == (3, 12, 10)
    images = torch.cat([part.pixels for part in (data.train, data.held_out, data.test)])
    equal_channels = (images == images[:, :1]).flatten(1).all(1)
    assert int(equal_channels.sum()) == 50
    assert {image.tobytes() for image in images[equal_channels, 0].numpy()} == set(
        rows(grey.train, grey.held_out, grey.test)
    )


def test_every_kind_of_image_is_read(tmp_path):
    for name in "ab":
        save(tmp_path / name, 5, (6, 6))
    half = np.linspace(0, 250, 36).astype(np.uint8).reshape(6, 6)
    grey = Image.fromarray(half)
    grey.convert("RGB").save(tmp_path / "a" / "equal channels.png")
    Image.fromarray((255 - half).astype(np.uint16) * 256 + 99).save(tmp_path / "a" / "sixteen bits.png")
    Image.fromarray(half // 128 * 255).convert("1").save(tmp_path / "a" / "one bit.png")
    clear = Image.merge("LA", (Image.new("L", (6, 6), 200), Image.fromarray(half // 128 * 255)))
    clear.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "a" / "transparent.png")
    turned = Image.Exif()
    turned[0x0112] = 3  # the camera was upside down
    Image.fromarray(half // 2).save(tmp_path / "a" / "turned.png", exif=turned)
    (tmp_path / "a" / "deeper").mkdir()
    Image.fromarray(half // 3).save(tmp_path / "a" / "deeper" / "UPPER.BMP")
    for passed_over in (".hidden.png", "notes.txt"):
        (tmp_path / "a" / passed_over).write_text("no image")
    data = load(f"folder:{tmp_path}")
    assert data.train.shape == (1, 6, 6)
    every = rows(data.train, data.held_out, data.test)
    assert len(every) == 16
    bits = half // 128 * 255
    for expected in (half, 255 - half, bits, bits[:, ::-1] // 255 * 200, half[::-1, ::-1] // 2, half // 3):
        assert expected.astype(np.uint8).tobytes() in every


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


def test_photographs_are_turned_before_their_size_is_looked_at(tmp_path):
    upright = np.zeros((18, 12), np.uint8)
    upright[:2], upright[-2:] = 100, 200  # its ends
    orientation = Image.Exif()
    orientation[0x0112] = 6  # lies on its left side
    for label in "ab":
        (tmp_path / label).mkdir()
        for number in range(4):
            picture = upright.copy()
            picture[9, number + 4 * (label == "b")] = 50
            Image.fromarray(np.rot90(picture)).save(tmp_path / label / f"{number}.png", exif=orientation)
    data = load(f"folder:{tmp_path}")
    assert data.train.shape == (1, 18, 12)
    assert (data.test.pixels[:, 0, 0] == 100).all() and (data.test.pixels[:, 0, -1] == 200).all()


@pytest.mark.parametrize("depth", [8, 12, 16])
def test_the_bits_in_use_of_sixteen_become_eight(tmp_path, depth):
    for label in "ab":
        (tmp_path / label).mkdir()
        for number in range(4):
            values = (
                np.arange(64, dtype=np.uint16).reshape(8, 8) * 4 + number // 2 + 2 * (label == "b") + number % 2 * 3
            )
            values = np.minimum(values, 255) << (depth - 8)
            Image.fromarray(values[:: 1 - 2 * (number % 2)].copy()).save(tmp_path / label / f"{number}.tif")
    data = load(f"folder:{tmp_path}")
    every = torch.cat([part.pixels for part in (data.train, data.held_out, data.test)])
    assert (int(every.min()), int(every.max())) == (0, 255)
    assert len(every.unique()) > 200


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
