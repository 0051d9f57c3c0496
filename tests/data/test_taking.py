"""Some images of a data set: as many as were asked for, each part and class its share, the same in every run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from routebench.data import Dataset, Images, load
from routebench.data.shares import shares
from routebench.data.taking import Taken, at_most
from routebench.data_names import set_of
from routebench.errors import UserError
from routebench.registry import datasets


def rows(*parts: Images) -> list[bytes]:
    return [image.tobytes() for part in parts for image in part.pixels.numpy()]


def parts_of(data: Dataset) -> tuple[Images, Images, Images]:
    return data.train, data.held_out, data.test


@pytest.mark.parametrize(
    ("sizes", "count", "at_least", "expected"),
    [
        ([60, 30, 10], 10, 0, [6, 3, 1]),
        ([60, 31, 9], 11, 0, [7, 3, 1]),
        ([97, 2, 1], 10, 2, [7, 2, 1]),
        ([5, 5, 5], 14, 3, [5, 5, 4]),
    ],
)
def test_each_group_gives_its_share(sizes, count, at_least, expected):
    assert shares(sizes, count, at_least) == expected


def test_each_part_and_class_gives_its_share():
    whole, some = load("mnist5k"), load("take:1000:mnist5k")
    assert [len(part) for part in parts_of(some)] == [720, 80, 200]
    for part, all_of_it in zip(parts_of(some), parts_of(whole), strict=True):
        assert torch.bincount(part.labels).float() == pytest.approx(torch.bincount(all_of_it.labels) / 5, abs=1)
        assert set(rows(part)) <= set(rows(all_of_it))
    assert isinstance(some, Taken)
    assert (some.name, some.whole) == ("take:1000:mnist5k", 5000)
    assert some.source == f"1,000 of these images: {whole.source}"
    assert some.fingerprint == "fa29418028efb4d2"  # the same on every machine and version


def test_a_set_that_has_no_more_is_itself():
    assert at_most("mnist5k", 5000) == at_most("take:5000:mnist5k", None) == ("mnist5k", load("mnist5k"))
    assert at_most("mnist5k", 999)[0] == "take:999:mnist5k"
    assert at_most("take:300:mnist5k", 999)[0] == "take:300:mnist5k"


def test_conditions_go_with_their_images_and_composed_images_are_fewer():
    mnist5k = load("mnist5k")
    numbers = torch.arange(1000)
    whole = replace(mnist5k, name="numbered", conditions={"number": numbers})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(datasets.entries, "numbered", lambda: whole)
        some = load("take:500:numbered")
    assert torch.equal(whole.test.pixels[some.conditions["number"]], some.test.pixels)
    assert len(some.conditions["number"]) == len(some.test) == 100
    composed = load("take:300:diverse-multimnist5k")
    assert composed.compose is not None
    again = [composed.compose(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert [len(images) for images in again] == [len(composed.train)] * 3 == [216] * 3
    assert rows(again[0]) == rows(again[1]) != rows(again[2])


def test_of_a_folder_only_what_is_taken_is_read(tmp_path):
    random = np.random.default_rng(0)
    for label, count in (("common", 190), ("rare", 10)):
        (tmp_path / label).mkdir()
        for number in range(count):
            Image.fromarray(random.integers(0, 256, (6, 6), np.uint8)).save(tmp_path / label / f"{number:03}.png")
    some = load(f"take:50:folder:{tmp_path}")
    assert (some.name, sum(map(len, parts_of(some)))) == (f"take:50:folder:{tmp_path.name}", 50)
    assert torch.bincount(torch.cat([part.labels for part in parts_of(some)])).tolist() == [47, 3]
    assert some.source == f"50 of 200 image files in {tmp_path}"
    left = {file.read_bytes() for file in tmp_path.rglob("*.png")}
    for file in tmp_path.rglob("*.png"):
        if np.asarray(Image.open(file))[None].tobytes() not in rows(*parts_of(some)):
            file.write_bytes(b"no image")
    assert len(left) == 200
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert load(f"take:50:folder:{tmp_path}?size=6").fingerprint == some.fingerprint
        with pytest.raises(UserError, match="cannot read the image"):
            load(f"take:200:folder:{tmp_path}?size=6")


@pytest.mark.parametrize("path", ["", "5", "0:mnist5k", "x:mnist5k", "-3:mnist5k", "5:take:3:mnist5k"])
def test_a_number_and_a_name_are_needed(path):
    with pytest.raises(UserError, match="expected take:NUMBER:NAME, such as take:5000:cifar10"):
        load(f"take:{path}")


def test_no_class_is_left_out():
    with pytest.raises(UserError, match="at least 10 of 3,600 images, so that no class is left out, got 8"):
        load("take:11:mnist5k")
    with pytest.raises(UserError, match="did you mean 'mnist5k'"):
        load("take:11:mnist5")


@pytest.mark.parametrize("name", ["mnist5k", "take:100:mnist5k", "few:100:mnist5k", "take:50:few:100:mnist5k"])
def test_the_set_whose_test_images_a_name_has(name):
    assert set_of(name) == "mnist5k"
