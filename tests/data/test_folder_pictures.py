"""What becomes of the pictures of a folder: sizes, colours, formats, bits."""

import numpy as np
import pytest
import torch
from PIL import Image

from routebench.data import load
from tests.data.pictures import rows, save


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
