"""Digits on a larger canvas: placed at random to train with, affinely transformed to test with."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.data._load import load
from routebench.data.dataset import Dataset, Images, facts, fingerprint
from routebench.data.official import data_root
from routebench.data.pinning import pinned
from routebench.data.unused import near, near_missing
from routebench.data.warp import warp
from routebench.errors import FilesMissing, UserError
from routebench.received import permitted
from routebench.registry import datasets

CANVAS = 40  # pixels of the canvas
VARIANTS = 4  # synthetic versions of each test digit; affNIST itself has 32
ROTATION, SHEAR, SCALE = 20.0, 0.2, (0.8, 1.2)  # degrees, pixels per pixel, factor per axis
SEED = 0
FINGERPRINTS = {"affnist-synthetic": "8016c981560505e2", "affnist5k-synthetic": "c4fc4be55af6ceeb"}
TEST_DIGITS = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Digits of each class in MNIST's test part, of which affNIST's test part has `OFFICIAL_VERSIONS` each."""
OFFICIAL_VERSIONS = 32
ALIKE = 1e-3
"""Share of images that may be the same as others: two versions of one digit can come out alike, a batch cannot."""
PAGE = "https://www.cs.toronto.edu/~tijmen/affNIST/"
PLACES = ("affNIST/transformed/test.mat", "affNIST/transformed/test_batches/*.mat")
"""Places of official files below the folder of data sets: all in one, or in batches."""


@datasets.register("affnist")
@facts(train=54_000, held_out=6_000, test=320_000, shape=(1, CANVAS, CANVAS), classes=10, views=None)
def affnist() -> Dataset:
    """`mnist` placed at random on 40x40 to train with; the official affNIST test part to test with.

    That is the task of Smith et al. ("Capsule networks: a probabilistic perspective", table 1), and before them of
    Sabour et al. 2017, section 5.2: no training digit is transformed, so that the official training part is not read.

    Raises:
        UserError: affNIST's or MNIST's files are missing, or are not what they should be.
    """
    test = read_affnist(files := official_test_files())
    _expect_whole(test, files[0].parent)
    base = load("mnist")
    parts = (*_placed(base), test)
    source = f"MNIST on a canvas; the official affNIST test files, {len(test):,} images"
    others = sorted({file for place in PLACES for file in data_root().glob(place)} - {*files})
    left_out = f"Not used of affnist: {len(others)} further files (such as {others[0].name})." if others else ""
    return Dataset("affnist", base.classes, *parts, fingerprint=fingerprint(*parts), source=source, left_out=left_out)


@datasets.register("affnist-synthetic")
@facts(train=54_000, held_out=6_000, test=10_000 * VARIANTS, shape=(1, CANVAS, CANVAS), classes=10, views=VARIANTS)
def affnist_synthetic() -> Dataset:
    """`mnist` placed at random on 40x40 to train with; made like affNIST, but not affNIST, to test with.

    Each test digit gives four images, turned by up to 20 degrees, sheared by up to 0.2, scaled by 0.8 to 1.2 on each
    axis, all uniform, and moved to where it fits on the canvas as a whole. The ranges are ours.

    Raises:
        UserError: MNIST's files are missing.
    """
    return _synthetic("affnist-synthetic", load("mnist"))


@datasets.register("affnist5k-synthetic")
@facts(train=3600, held_out=400, test=1000 * VARIANTS, shape=(1, CANVAS, CANVAS), classes=10, views=VARIANTS)
def affnist5k_synthetic() -> Dataset:
    """`mnist5k` in the manner of `affnist-synthetic`."""
    return _synthetic("affnist5k-synthetic", load("mnist5k"))


def affnist_is_there() -> bool:
    """Looks whether official test files are there, without opening them; a user without a folder of data has none."""
    try:
        return bool(_official())
    except UserError:
        return False


def official_test_files() -> list[Path]:
    """The official test files: one for all, or the batches.

    Raises:
        UserError: there are none; it says what to fetch, and where to put it.
    """
    found = _official()
    if not found:
        raise FilesMissing(
            f"affnist: no official test file below {data_root()}{_near()}; fetch test.mat (or test_batches) "
            f"of the version 'transformed' from {PAGE}, unpack it, and put it at {PLACES[0]} (or {PLACES[1]}), "
            "or use affnist-synthetic, which is made from MNIST"
        )
    return found


def _near() -> str:
    """Names of what lies near where the official file should, in words."""
    root, place = data_root(), data_root() / PLACES[0]
    for folder in (place.parent.parent, place.parent):
        if not folder.is_dir() and (found := near(folder.name, folder.parent)):
            return found
    return near_missing(place.name, place.parent, root)


def read_affnist(files: list[Path]) -> Images:
    """The images of affNIST's MATLAB files (version 5): struct `affNISTdata`, of which `image` and `label_int`.

    Args:
        files: each with `image` (1600, n) of uint8, rows of an image one after the other, and `label_int` (1, n).

    Raises:
        UserError: a file cannot be read, or holds something else.
    """
    parts = [_read(file) for file in files]
    pixels, labels = (np.concatenate([part[place] for part in parts]) for place in range(2))
    return Images(torch.from_numpy(pixels), torch.from_numpy(labels))


def _expect_whole(test: Images, place: Path) -> None:
    """Raises UserError for images that are not the whole official test part, each once: part of it, or another part."""
    expected = [OFFICIAL_VERSIONS * count for count in TEST_DIGITS]
    counts = torch.bincount(test.labels, minlength=len(expected)).tolist()
    again = f"take all test images of the version 'transformed' from {PAGE}"
    if len(test) != sum(expected):
        raise UserError(f"affnist: {place}: expected {sum(expected):,} test images, got {len(test):,}; {again}")
    for digit, (count, wanted) in enumerate(zip(counts, expected, strict=True)):
        if count != wanted:
            told = f"expected {wanted:,} images of the digit {digit}, as affNIST's test part has, got {count:,}"
            raise UserError(f"affnist: {place}: {told}: they are of another part; {again}")
    different = len({hashlib.blake2b(image.data, digest_size=16).digest() for image in test.pixels.numpy()})
    if len(test) - different > ALIKE * len(test):
        told = f"expected {len(test):,} different images, got {different:,}: some lie there twice"
        raise UserError(f"affnist: {place}: {told}; {again}")


def _official() -> list[Path]:
    for place in PLACES:
        permitted((data_root() / place).parent, "affnist")  # `glob` finds nothing in what may not be looked at
        if found := sorted(data_root().glob(place), key=lambda file: (len(file.name), file.name)):
            return found  # 2.mat before 10.mat
    return []


def _read(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from scipy.io import loadmat  # only here: it takes a while to import

    try:
        content = loadmat(file)["affNISTdata"][0, 0]
        image, label = np.asarray(content["image"]), np.asarray(content["label_int"]).reshape(-1)
    except Exception as error:  # a damaged file can make the reader raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"affnist: cannot read {file} ({reason:.120}); unpack the archive from {PAGE} again") from error
    if (
        image.dtype != np.uint8
        or image.shape != (CANVAS * CANVAS, len(label))
        or not set(np.unique(label)) <= set(range(10))
    ):
        raise UserError(
            f"affnist: {file}: expected image as uint8 ({CANVAS * CANVAS}, n) and label_int as n digits, got "
            f"{image.dtype} {image.shape} and {len(label)} labels; take the version 'transformed' from {PAGE}"
        )
    pixels = np.ascontiguousarray(image.T).reshape(-1, 1, CANVAS, CANVAS)
    return pixels, label.astype(np.int64)


def _synthetic(name: str, base: Dataset) -> Dataset:
    train, held_out = _placed(base)
    source = f"{base.source}; placed on a canvas, test digits affinely transformed; not affNIST"
    return pinned(name, base, (train, held_out, _transformed(base.test)), source, FINGERPRINTS[name])


def _placed(base: Dataset) -> tuple[Images, Images]:
    """Training and held-out digits, each at a random place of the canvas, uniform over all where its image fits.

    The paper does not say how training digits are placed. In the code of Kosiorek et al. 2019 places are uniform too,
    but that the topmost row and the leftmost column come half as often as others.
    """
    random = np.random.RandomState(SEED)  # its stream never changes (NEP 19)
    return place(base.train, random), place(base.held_out, random)


def place(images: Images, random: np.random.RandomState) -> Images:
    """Each image at a random place of a canvas of `CANVAS` by `CANVAS` pixels, uniform over all where it fits.

    Args:
        images: uint8, with one channel, no larger than the canvas.
        random: the generator that places are drawn from, rows first.

    Returns:
        the images on black canvases, with the same labels.
    """
    count, _, height, width = images.pixels.shape
    tops, lefts = (torch.from_numpy(random.randint(CANVAS - size + 1, size=(count, 1, 1))) for size in (height, width))
    rows, columns = tops + torch.arange(height)[:, None], lefts + torch.arange(width)
    canvas = torch.zeros(count, 1, CANVAS, CANVAS, dtype=torch.uint8)
    canvas[torch.arange(count)[:, None, None], 0, rows, columns] = images.pixels[:, 0]
    return Images(canvas, images.labels)


def _transformed(images: Images) -> Images:
    """`VARIANTS` affine versions of each image; the versions of one image follow each other."""
    random = np.random.RandomState(SEED + 1)
    digits = np.repeat(images.pixels[:, 0].numpy(), VARIANTS, axis=0)
    linear = _linear_maps(len(digits), random)
    moved = _moves(digits, linear, random)
    back = np.linalg.inv(linear)
    maps = np.concatenate([back, -back @ moved[..., None]], axis=2)
    pixels = warp(digits, maps, CANVAS)
    return Images(torch.from_numpy(pixels[:, None]), images.labels.repeat_interleave(VARIANTS))


def _linear_maps(count: int, random: np.random.RandomState) -> NDArray[np.float64]:
    """Maps that scale, then shear along x, then turn: (n, 2, 2), from the image's place to the canvas's."""
    angle = np.deg2rad(random.uniform(-ROTATION, ROTATION, count))
    shear, (x, y) = random.uniform(-SHEAR, SHEAR, count), random.uniform(*SCALE, (2, count))
    turn = _matrices(np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle))
    one, zero = np.ones(count), np.zeros(count)
    mapped: NDArray[np.float64] = turn @ _matrices(one, shear, zero, one) @ _matrices(x, zero, zero, y)
    return mapped


def _matrices(*entries: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(entries, axis=1).reshape(-1, 2, 2)


def _moves(
    digits: NDArray[np.uint8], linear: NDArray[np.float64], random: np.random.RandomState
) -> NDArray[np.float64]:
    """Translations (n, 2), uniform over those that keep the digit's bounding box, transformed, on the canvas."""
    (left, right), (top, bottom) = (_extent(np.asarray(digits.any(axis=axis))) for axis in (1, 2))
    corners = np.stack([np.stack([x, y], axis=1) for x in (left, right) for y in (top, bottom)], axis=2)  # n 2 4
    placed: Any = linear @ corners
    lowest, highest = -CANVAS / 2 - placed.min(axis=2), CANVAS / 2 - placed.max(axis=2)
    middle = (lowest + highest) / 2
    room = np.maximum(highest - lowest, 0)  # a digit that does not fit is put in the middle
    moves: NDArray[np.float64] = middle + (random.uniform(-0.5, 0.5, (len(digits), 2)) * room)
    return moves


def _extent(filled: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Outer edges of what is filled along one axis, in pixels from the image's centre; filled is (n, length)."""
    length = filled.shape[1]
    first, last = filled.argmax(axis=1), length - 1 - filled[:, ::-1].argmax(axis=1)
    return first - length / 2, last + 1 - length / 2
