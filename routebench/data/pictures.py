"""Decoding image files of any size and kind into one array."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from routebench.errors import UserError

LONGEST_SIDE = 64  # of the size that is chosen where the user gives none: what capsule networks are trained on
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
WORTH_A_THREAD = 256 * 256  # pixels; threads slow down the reading of smaller images

Pixels = NDArray[np.uint8]
Size = tuple[int, int]  # width and height, as Pillow has it


def read_pictures(files: Sequence[Path], side: int | None) -> Pixels:
    """Reads image files at one common size.

    An image of another size is scaled (bilinear, antialiased) until it covers the common size, then cropped at the
    centre: shapes keep their proportions, and no border is made up. Transparent pixels become black. The result is
    grey where every image is (equal channels count as grey), else every image has three channels.

    Args:
        files: images in any format that Pillow reads, 8 or 16 bits per channel; at least one.
        side: height and width of the result; None takes the most common size of the files, the largest among
            equally common ones, shrunk so that its longer side is at most 64.

    Returns:
        (n, 1 or 3, height, width).

    Raises:
        UserError: a file cannot be decoded; it is named.
    """
    first = _size(files[0])
    size = (side, side) if side else _common_size([first])
    pictures, sizes = _read_all(files, size, first)
    if side is None and (common := _common_size(sizes)) != size:  # the first image was no typical one
        size = common
        pictures, _ = _read_all(files, size, first)
    channels = max(picture.shape[0] for picture in pictures)
    pixels = np.empty((len(files), channels, size[1], size[0]), np.uint8)
    for index, picture in enumerate(pictures):
        pixels[index] = picture  # a grey picture fills all channels
    return pixels


def _read_all(files: Sequence[Path], size: Size, typical: Size) -> tuple[list[Pixels], list[Size]]:
    """The pictures at `size`, and the sizes that the files had."""
    read = partial(_read, size=size)
    if typical[0] * typical[1] < WORTH_A_THREAD:
        entries = [read(file) for file in files]
    else:
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # Pillow decodes without holding Python's lock
            entries = list(pool.map(read, files))
    return [picture for picture, _ in entries], [was for _, was in entries]


def _common_size(sizes: Iterable[Size]) -> Size:
    (width, height), _ = max(Counter(sizes).items(), key=lambda entry: (entry[1], entry[0][0] * entry[0][1], entry[0]))
    shrink = min(1.0, LONGEST_SIDE / max(width, height))
    return max(1, round(width * shrink)), max(1, round(height * shrink))


def _size(file: Path) -> Size:
    """Width and height, from the header."""
    try:
        with Image.open(file) as image:
            return image.size
    except UNREADABLE as error:
        raise _unreadable(file, error) from error


def _read(file: Path, size: Size) -> tuple[Pixels, Size]:
    """One picture of `size` as (1 or 3, height, width), and the size that the file had."""
    try:
        with Image.open(file) as image:
            was = image.size
            image.draft(None, (2 * max(size), 2 * max(size)))  # a large JPEG is decoded at a fraction of its size
            ImageOps.exif_transpose(image, in_place=True)
            plain = _plain(image)
    except UNREADABLE as error:
        raise _unreadable(file, error) from error
    if plain.size != size:
        plain = ImageOps.fit(plain, size, Image.Resampling.BILINEAR)
    array = np.asarray(plain)
    if array.ndim == 2:
        return array[None], was
    grey = (array == array[..., :1]).all()
    return array[None, ..., 0] if grey else array.transpose(2, 0, 1), was


def _plain(image: Image.Image) -> Image.Image:
    """The image in mode L or RGB, before a black background."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in {"I", "F"}:
        raise ValueError(f"mode {image.mode} has no fixed range; save it with 8 or 16 bits per channel")
    if image.has_transparency_data:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "black"), colours).convert("RGB")
    return image.convert("L" if image.mode in {"1", "L"} else "RGB")


def _unreadable(file: Path, error: Exception) -> UserError:
    reason = " ".join(str(error).split()).replace(f" {str(file)!r}", "")
    return UserError(f"cannot read the image {file} ({reason or type(error).__name__}); replace or remove it")
