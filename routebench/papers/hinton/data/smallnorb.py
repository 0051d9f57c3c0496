"""smallNORB, from its official files, which the user downloads: photographs of toys from known viewpoints.

Source: Huang and LeCun, THE small NORB DATASET, V1.0 (2005), https://cs.nyu.edu/~ylclab/data/norb-v1.0-small,
which also describes the files; LeCun, Huang and Bottou, CVPR 2004.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.data import Dataset, Images, data_root, facts, near_missing
from routebench.errors import FilesMissing, UserError
from routebench.received import permitted
from routebench.registry import datasets

from .viewpoints import Views, dataset_of_views, hold_out_last_instance

PAGE = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"
FOLDER = "smallnorb"
CLASSES = ("animal", "human", "plane", "truck", "car")
TYPES: Mapping[int, np.dtype[Any]] = {0x1E3D4C54: np.dtype("<i4"), 0x1E3D4C55: np.dtype("u1")}
"""Magic number to element type, of those that occur here."""
OTHER_TYPES: Mapping[int, str] = {
    0x1E3D4C51: "single precision",
    0x1E3D4C52: "packed",
    0x1E3D4C53: "double precision",
    0x1E3D4C56: "short",
}
"""Names of the other types that the format knows, in its words."""
ELEMENTS: Mapping[str, np.dtype[Any]] = {"dat": np.dtype("u1"), "cat": np.dtype("<i4"), "info": np.dtype("<i4")}
"""Element type of each kind of file."""
SHRINK = 2  # 96 to 48 pixels, as Hinton et al. 2018 have it

PACKED_SHA256 = {
    "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat": (
        "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"
    ),
    "smallnorb-5x46789x9x18x6x2x96x96-training-cat.mat": (
        "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"
    ),
    "smallnorb-5x46789x9x18x6x2x96x96-training-info.mat": (
        "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"
    ),
    "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat": (
        "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"
    ),
    "smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat": (
        "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"
    ),
    "smallnorb-5x01235x9x18x6x2x96x96-testing-info.mat": (
        "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"
    ),
}
"""Digest of each file as it is downloaded, with `.gz` behind its name; as TensorFlow Datasets has recorded them."""

UNPACKED_MD5 = {
    "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat": "8138a0902307b32dfa0025a36dfa45ec",
    "smallnorb-5x46789x9x18x6x2x96x96-training-cat.mat": "fd5120d3f770ad57ebe620eb61a0b633",
    "smallnorb-5x46789x9x18x6x2x96x96-training-info.mat": "19faee774120001fc7e17980d6960451",
    "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat": "e9920b7f7b2869a8f1a12e945b2c166c",
    "smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat": "fd5120d3f770ad57ebe620eb61a0b633",
    "smallnorb-5x01235x9x18x6x2x96x96-testing-info.mat": "7c5b871cc69dcadec1bf6a18141f5edc",
}
"""Digest of each unpacked file, as loaders for PyTorch recorded them; both parts list classes in the same order."""


@dataclass(frozen=True)
class Part:
    """One official part: what its three files must hold.

    Args:
        name: the name in those of its files.
        instances: number of objects of every class.
        elevations, azimuths, lightings: how many of each.
        side: width of an image, in pixels.
    """

    name: str
    instances: tuple[int, ...]
    elevations: int = 9
    azimuths: int = 18
    lightings: int = 6
    side: int = 96

    def file(self, kind: str) -> str:
        """The name of the file of pixels (`dat`), classes (`cat`) or conditions (`info`), unpacked."""
        which = "".join(map(str, self.instances))
        sizes = f"{self.elevations}x{self.azimuths}x{self.lightings}x2x{self.side}x{self.side}"
        return f"smallnorb-{len(CLASSES)}x{which}x{sizes}-{self.name}-{kind}.mat"

    @property
    def count(self) -> int:
        """Pairs of images."""
        return len(CLASSES) * len(self.instances) * self.elevations * self.azimuths * self.lightings


TRAINING = Part("training", (4, 6, 7, 8, 9))
TESTING = Part("testing", (0, 1, 2, 3, 5))


@datasets.register("smallnorb", version=1)
@facts(train=19_440, held_out=4_860, test=24_300, shape=(2, 48, 48), classes=5, views=None)
def smallnorb() -> Dataset:
    """The official smallNORB: 24,300 + 24,300 stereo pairs of toys, grey, averaged from 96x96 to 48x48."""
    return _dataset("smallnorb", None)


@datasets.register("smallnorb-every-second", version=1)
@facts(train=19_440, held_out=4_860, test=24_300, shape=(2, 48, 48), classes=5, views=None)
def smallnorb_every_second() -> Dataset:
    """The official smallNORB with every second pixel of every second row, from 96x96 to 48x48.

    Source: the code of Hinton, Sabour and Frosst, ICLR 2018, whose bilinear resizing in TensorFlow 1 does this. The
    paper says "downsample".
    """
    return _dataset("smallnorb-every-second", None, every_second)


@datasets.register("smallnorb-azimuth", version=1)
@facts(train=6_480, held_out=1_620, test=24_300, shape=(2, 48, 48), classes=5, views=None)
def smallnorb_azimuth() -> Dataset:
    """The official smallNORB, trained on 6 of 18 azimuths (300 to 40 degrees), tested on all."""
    return _dataset("smallnorb-azimuth", "azimuth")


@datasets.register("smallnorb-elevation", version=1)
@facts(train=6_480, held_out=1_620, test=24_300, shape=(2, 48, 48), classes=5, views=None)
def smallnorb_elevation() -> Dataset:
    """The official smallNORB, trained on the 3 smallest of 9 elevations, tested on all."""
    return _dataset("smallnorb-elevation", "elevation")


def read_matrix(content: bytes) -> NDArray[Any]:
    """The array in a file of the binary matrix format: magic number, number of axes, sizes, elements.

    All are little-endian 32-bit integers but the elements. Sizes take three places even where there are fewer axes.

    Raises:
        ValueError: the magic number is another, or the file's length is not what its header promises.
    """
    if len(content) < 20:
        raise ValueError(f"expected a header of at least 20 bytes, got {len(content)}")
    magic, axes = (int(value) for value in np.frombuffer(content, "<u4", count=2))
    if magic not in TYPES:
        known = " or ".join(f"{value:08X}" for value in TYPES)
        kind = f" ({OTHER_TYPES[magic]})" if magic in OTHER_TYPES else ""
        raise ValueError(f"expected the magic number {known}, got {magic:08X}{kind}")
    if not 1 <= axes <= 4:
        raise ValueError(f"expected 1 to 4 axes, got {axes}")
    header = 8 + 4 * max(axes, 3)
    sizes = [int(size) for size in np.frombuffer(content[8:header], "<u4")][:axes]
    expected = header + TYPES[magic].itemsize * int(np.prod(sizes, dtype=np.int64))
    if len(content) != expected:
        shape = " x ".join(map(str, sizes))
        raise ValueError(f"expected {expected:,} bytes for {shape} elements, got {len(content):,}")
    elements: NDArray[Any] = np.frombuffer(content, TYPES[magic], offset=header)
    return elements.reshape(sizes)


Halving = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]


def halved(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (..., height, width) at half size: means of 2 x 2 pixels, halves rounded up."""
    found = np.empty((*pixels.shape[:-2], pixels.shape[-2] // SHRINK, pixels.shape[-1] // SHRINK), np.uint8)
    for place in range(0, len(pixels), 1000):  # so that the sums need little memory
        some = pixels[place : place + 1000].astype(np.uint16)
        rows = some[..., 0::2, :] + some[..., 1::2, :]
        found[place : place + 1000] = (rows[..., 0::2] + rows[..., 1::2] + 2) // 4
    return found


def every_second(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (..., height, width) at half size: the upper left of each 2 x 2 pixels."""
    return np.ascontiguousarray(pixels[..., ::SHRINK, ::SHRINK])


def read_part(folder: Path, part: Part, halve: Halving = halved) -> Views:
    """The stereo pairs of one part at half size, (n, 2, side / 2, side / 2), with classes and conditions.

    Args:
        folder: the folder of the six files.
        part: training or test.
        halve: `halved` or `every_second`.

    Raises:
        UserError: a file is missing, cannot be read, or holds something else.
    """
    labels = _matrix(folder, part, "cat", (part.count,))
    info = _matrix(folder, part, "info", (part.count, 4))
    _expect_whole_grid(folder, part, labels, info)
    pixels = _matrix(folder, part, "dat", (part.count, 2, part.side, part.side))
    images = Images(torch.from_numpy(halve(pixels)), torch.from_numpy(labels.astype(np.int64)))
    instance, elevation, azimuth, lighting = torch.from_numpy(info.astype(np.int64)).unbind(dim=1)
    conditions = {"instance": instance, "azimuth": 10 * azimuth, "elevation": 30 + 5 * elevation, "lighting": lighting}
    return Views(images, {name: values.contiguous() for name, values in conditions.items()})


def _dataset(name: str, axis: str | None, halve: Halving = halved) -> Dataset:
    folder = data_root() / FOLDER
    train, held_out = hold_out_last_instance(read_part(folder, TRAINING, halve))
    test = read_part(folder, TESTING, halve)
    source = f"the official files of smallNORB in {folder}"
    return dataset_of_views(name, CLASSES, (train, held_out, test), source=source, axis=axis)


def _matrix(folder: Path, part: Part, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    file = part.file(kind)
    places = (folder / file, folder / f"{file}.gz")
    place = next((place for place in places if permitted(place, "smallnorb").is_file()), None)
    if place is None:
        lies = near_missing(file, folder, data_root(), PACKED_SHA256)
        raise FilesMissing(
            f"smallnorb: {file}.gz not found in {folder}{lies}; download its six files from {PAGE} into that folder, "
            f"or set ROUTEBENCH_DATA to a folder whose {FOLDER}/ holds them (rendered-shapes needs no files)"
        )
    try:
        found = read_matrix(_unpacked(place, file))
    except OSError as error:
        raise UserError(f"smallnorb: cannot read {place} ({error.strerror or error}); make it readable") from error
    except (ValueError, EOFError, zlib.error) as error:
        raise UserError(f"smallnorb: {place} is damaged: {error}; download it again from {PAGE}") from error
    if found.dtype != ELEMENTS[kind]:
        raise UserError(
            f"smallnorb: {place}: expected {ELEMENTS[kind]}, got {found.dtype}; download it again from {PAGE}"
        )
    if found.shape != shape:
        raise UserError(f"smallnorb: {place}: expected an array of shape {shape}, got {found.shape}; download it again")
    return found


def _unpacked(place: Path, file: str) -> bytes:
    """The content of a file, which is checked as it lies there, packed or not."""
    content = place.read_bytes()
    if place.suffix != ".gz":
        _expect_digest("MD5", hashlib.md5(content, usedforsecurity=False).hexdigest(), UNPACKED_MD5, file)
        return content
    _expect_digest("SHA-256", hashlib.sha256(content).hexdigest(), PACKED_SHA256, file)
    try:
        return gzip.decompress(content)
    except gzip.BadGzipFile as error:
        raise ValueError(str(error)) from error


def _expect_digest(kind: str, found: str, known: Mapping[str, str], file: str) -> None:
    """Raises ValueError for a file that is not the official one; where it is another one, it is named."""
    expected = known.get(file, found)
    if found != expected:
        other = next((f", which is {name}" for name, digest in known.items() if digest == found), "")
        raise ValueError(f"expected {kind} {expected[:16]}..., got {found[:16]}...{other}")


def _expect_whole_grid(folder: Path, part: Part, labels: NDArray[Any], info: NDArray[Any]) -> None:
    """Every object of the part from every viewpoint in every lighting, once."""
    found = {tuple(row) for row in np.column_stack([labels, info]).tolist()}
    axes = (part.instances, range(part.elevations), range(0, 2 * part.azimuths, 2), range(part.lightings))
    expected = set(product(range(len(CLASSES)), *axes))
    if found != expected:
        raise UserError(
            f"smallnorb: {folder / part.file('info')}: expected every class, instance, elevation, azimuth and lighting "
            f"once, {len(expected):,} in all; {len(expected - found):,} are missing; download it again from {PAGE}"
        )
