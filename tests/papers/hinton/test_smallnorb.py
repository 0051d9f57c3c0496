"""smallNORB's official file format, in small."""

import gzip
import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.data import load
from routebench.errors import UserError
from routebench.models import build
from routebench.optimizers import make_optimizer
from routebench.papers.hinton.data import smallnorb
from routebench.papers.hinton.data.smallnorb import (
    PACKED_SHA256,
    TESTING,
    TRAINING,
    Part,
    halved,
    read_matrix,
    read_part,
)
from routebench.recipe import Moment, Recipe
from routebench.registry import augmentations
from routebench.training import training_step

MAGIC = {np.dtype("u1"): 0x1E3D4C55, np.dtype("<i4"): 0x1E3D4C54}
SMALL = Part("training", (4, 9), elevations=4, azimuths=18, lightings=1, side=8)


def packed(array):
    sizes = [*array.shape, 1, 1][: max(array.ndim, 3)]
    header = np.array([MAGIC[array.dtype], array.ndim, *sizes], "<u4")
    return header.tobytes() + array.tobytes()


def arrays_of(part):
    """Pixels, classes and conditions of every view, shuffled as the official files are."""
    rows = np.array(
        [
            (label, instance, elevation, 2 * azimuth, lighting)
            for label in range(5)
            for instance in part.instances
            for elevation in range(part.elevations)
            for azimuth in range(part.azimuths)
            for lighting in range(part.lightings)
        ],
        "<i4",
    )
    rng = np.random.default_rng(0)
    rows = rng.permutation(rows)
    pixels = rng.integers(0, 256, (len(rows), 2, part.side, part.side), np.uint8)
    return {"dat": pixels, "cat": rows[:, 0].copy(), "info": rows[:, 1:].copy()}


def write(folder, part, arrays):
    folder.mkdir(exist_ok=True)
    for kind, array in arrays.items():
        (folder / part.file(kind)).write_bytes(packed(array))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, SMALL, arrays_of(SMALL))
    return tmp_path


def test_files_have_the_official_names():
    assert [part.file(kind) for part in (TRAINING, TESTING) for kind in ("dat", "cat", "info")] == list(PACKED_SHA256)
    assert TRAINING.count == TESTING.count == 24_300


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 2, 3, 4)])
@pytest.mark.parametrize("kind", ["u1", "<i4"])
def test_a_matrix_is_read_as_it_was_written(shape, kind):
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    assert np.array_equal(read_matrix(packed(array)), array)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda content: content[:-1], r"expected 44 bytes for 2 x 3 elements, got 43"),
        (lambda content: content + b"\0", "got 45"),
        (lambda content: b"\x51" + content[1:], r"1E3D4C54 or 1E3D4C55, got 1E3D4C51 \(single precision\)"),
        (lambda content: b"\x52" + content[1:], r"got 1E3D4C52 \(packed\)"),
        (lambda content: b"\x53" + content[1:], r"got 1E3D4C53 \(double precision\)"),
        (lambda content: b"\x56" + content[1:], r"got 1E3D4C56 \(short\)"),
        (lambda content: b"\x57" + content[1:], "got 1E3D4C57$"),
        (lambda content: content[3::-1] + content[4:], "got 544C3D1E$"),
        (lambda content: b"\x55" + content[1:], "expected 26 bytes for 2 x 3 elements, got 44"),
        (lambda content: content[:4] + b"\x09" + content[5:], "1 to 4 axes, got 9"),
        (lambda content: content[:10], "header of at least 20 bytes, got 10"),
    ],
)
def test_a_damaged_matrix_is_told(damage, told):
    with pytest.raises(ValueError, match=told):
        read_matrix(damage(packed(np.zeros((2, 3), "<i4"))))


def test_a_part_has_the_pixels_classes_and_conditions_of_its_files(folder):
    arrays, views = arrays_of(SMALL), read_part(folder, SMALL)
    assert views.images.shape == (2, 4, 4)
    assert views.images.labels.tolist() == arrays["cat"].tolist()
    expected = np.floor(arrays["dat"].reshape(-1, 2, 4, 2, 4, 2).mean(axis=(3, 5)) + 0.5)
    assert np.array_equal(views.images.pixels.numpy(), expected)
    info = arrays["info"]
    assert views.conditions["instance"].tolist() == info[:, 0].tolist()
    assert views.conditions["elevation"].tolist() == (30 + 5 * info[:, 1]).tolist()
    assert views.conditions["azimuth"].tolist() == (10 * info[:, 2]).tolist()
    assert set(views.conditions["azimuth"].tolist()) == set(range(0, 360, 20))


def test_every_second_pixel_is_what_bilinear_resizing_reads_without_aligned_corners(official):
    """TensorFlow 1 reads output pixel k at k times the ratio of the sizes, here a whole number."""
    part = smallnorb.TESTING
    pixels = smallnorb._matrix(official / "smallnorb", part, "dat", (part.count, 2, part.side, part.side))
    at = (np.arange(part.side // 2) * (part.side / (part.side // 2))).astype(int)
    found = load("smallnorb-every-second")
    assert np.array_equal(found.test.pixels.numpy(), pixels[:, :, at][:, :, :, at])
    assert found.fingerprint != load("smallnorb").fingerprint


def test_many_images_are_halved_in_pieces():
    pixels = np.random.default_rng(1).integers(0, 256, (1003, 2, 2, 4), np.uint8)
    expected = np.floor(pixels.reshape(1003, 2, 1, 2, 2, 2).mean(axis=(3, 5)) + 0.5)
    assert np.array_equal(halved(pixels), expected)


def test_packed_files_are_read_and_checked(folder, monkeypatch):
    place = folder / SMALL.file("dat")
    packed_file = place.with_name(f"{place.name}.gz")
    packed_file.write_bytes(gzip.compress(place.read_bytes()))
    place.unlink()
    assert len(read_part(folder, SMALL).images) == SMALL.count
    monkeypatch.setitem(smallnorb.PACKED_SHA256, SMALL.file("dat"), "0" * 64)
    with pytest.raises(UserError, match="expected SHA-256 0000000000000000"):
        read_part(folder, SMALL)
    monkeypatch.undo()
    packed_file.write_bytes(packed_file.read_bytes()[:-20])
    with pytest.raises(UserError, match="damaged"):
        read_part(folder, SMALL)


@pytest.mark.parametrize("kind", ["dat", "cat", "info"])
def test_files_that_are_not_packed_are_checked_too(official, monkeypatch, kind):
    """Both parts have arrays of the same shape: exchanged, they would pass for each other."""
    folder, parts = official / "smallnorb", (smallnorb.TRAINING, smallnorb.TESTING)
    files = [folder / part.file(kind) for part in parts]
    for file in files:
        monkeypatch.setitem(smallnorb.UNPACKED_MD5, file.name, hashlib.md5(file.read_bytes()).hexdigest())
    load("smallnorb")
    (official / "again").mkdir()
    again = folder.rename(official / "again" / folder.name)
    monkeypatch.setenv("ROUTEBENCH_DATA", str(again.parent))  # read anew
    one, other = (again / file.name for file in files)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    with pytest.raises(
        UserError, match=f"training-{kind}.mat is damaged: expected MD5 .* which is .*testing-{kind}.mat"
    ):
        load("smallnorb")


def test_all_official_files_are_known_packed_and_not():
    assert [*smallnorb.UNPACKED_MD5] == [*PACKED_SHA256]
    assert len({*smallnorb.UNPACKED_MD5.values()}) == 5  # both parts list classes in the same order


def test_a_missing_file_names_the_folder_in_which_it_lies(official):
    (official / "smallnorb").rename(official / "smallNORB")
    with pytest.raises(UserError, match=f"cat.mat.gz not found in .*smallnorb; {official}/smallNORB/.* lies elsewhere"):
        load("smallnorb")


def test_a_missing_file_says_where_it_comes_from(folder):
    (folder / SMALL.file("cat")).unlink()
    with pytest.raises(UserError, match=r"training-cat\.mat\.gz not found .* https://cs\.nyu\.edu/.*rendered-shapes"):
        read_part(folder, SMALL)


@pytest.mark.parametrize("kind", ["dat", "cat", "info"])
def test_an_array_of_another_shape_is_told(folder, kind):
    (folder / SMALL.file(kind)).write_bytes(packed(arrays_of(SMALL)[kind][1:]))
    with pytest.raises(UserError, match="expected an array of shape"):
        read_part(folder, SMALL)


@pytest.mark.parametrize("kind", ["dat", "cat", "info"])
def test_an_array_of_another_type_is_told(folder, kind):
    array = arrays_of(SMALL)[kind]
    (folder / SMALL.file(kind)).write_bytes(packed(array.astype("<i4" if kind == "dat" else "u1")))
    with pytest.raises(UserError, match=r"expected (uint8, got int32|int32, got uint8); download"):
        read_part(folder, SMALL)


def test_a_view_that_is_there_twice_is_told(folder):
    arrays = arrays_of(SMALL)
    arrays["info"][0], arrays["cat"][0] = arrays["info"][1], arrays["cat"][1]
    write(folder, SMALL, arrays)
    with pytest.raises(UserError, match="1 are missing"):
        read_part(folder, SMALL)


@pytest.fixture
def official(tmp_path, monkeypatch):
    """A folder of data sets with a small smallNORB."""
    training = replace(SMALL, instances=(4, 6, 9))
    testing = replace(SMALL, name="testing", instances=(0, 1))
    for part in (training, testing):
        write(tmp_path / "smallnorb", part, arrays_of(part))
    monkeypatch.setattr(smallnorb, "TRAINING", training)
    monkeypatch.setattr(smallnorb, "TESTING", testing)
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "share"), [("smallnorb", 1), ("smallnorb-azimuth", 1 / 3), ("smallnorb-elevation", 3 / 4)]
)
def test_the_data_sets_share_no_object_and_train_on_familiar_viewpoints(official, name, share):
    data = load(name)
    per_instance = 5 * 4 * 18
    assert len(data.train) == 2 * per_instance * share
    assert len(data.held_out) == per_instance * share
    assert len(data.test) == 2 * per_instance
    whole = read_part(official / "smallnorb", smallnorb.TRAINING)
    held = whole.conditions["instance"] == 9
    if name == "smallnorb-elevation":
        held &= torch.isin(whole.conditions["elevation"], torch.tensor([30, 35, 40]))
    if name == "smallnorb-azimuth":
        held &= torch.isin(whole.conditions["azimuth"], torch.tensor([300, 320, 340, 0, 20, 40]))
    assert torch.equal(data.held_out.pixels, whole.images.pixels[held])
    assert set(data.conditions["instance"].tolist()) == {0, 1}


def test_images_of_the_official_size_are_trained_on_in_random_windows(tmp_path, monkeypatch):
    """From files of 96 x 96 pixels to one step of each network, with the jitter of the authors' code."""
    part = replace(SMALL, instances=(4,), elevations=1, azimuths=1, side=96)
    write(tmp_path, part, arrays_of(part))
    images = read_part(tmp_path, part).images
    assert images.shape == (2, 48, 48)
    pixels = images.pixels / 255
    jittered = augmentations["smallnorb-jitter"](pixels, torch.Generator().manual_seed(0))
    recipe = Recipe(augmentation="smallnorb-jitter", loss="cross-entropy", optimiser="sgd")
    for model, given in [("matrix-capsules-small", {"method": "em"}), ("smallnorb-cnn-small", {"dropout": 0.0})]:
        network = build(model, shape=images.shape, classes=5, **given)
        assert torch.isfinite(network(jittered).logits).all()
        optimiser = make_optimizer(network, recipe)
        losses = [
            float(training_step(network, optimiser, (pixels,), images.labels, recipe=recipe, moment=Moment())[0])
            for _ in range(3)
        ]
        assert losses[2] < losses[0]
