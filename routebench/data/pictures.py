"""Decoding image files of any size and kind into one array."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from routebench.errors import UserError

LONGEST_SIDE = 64  # of the size that is chosen where the user gives none: what capsule networks are trained on
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
WORTH_A_THREAD = 256 * 256  # pixels; threads slow down the reading of smaller images
ORIENTATION, ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)  # the EXIF tag, and where it says that width and height change places
DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras and scanners put into files of 16 bits per channel

Pixels = NDArray[np.uint8]
Size = tuple[int, int]  # width and height, as Pillow has it


@dataclass(frozen=True)
class _Picture:
    """One picture.

    Args:
        pixels: (1 or 3, height, width).
        was: the size of the file, turned as its EXIF tag says.
        brightest: the highest value of a file with 16 bits per channel; 0 for others.
        pages: number of pages of the file, of which this is the first.
    """

    pixels: Pixels
    was: Size
    brightest: int
    pages: int


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size.

    Args:
        pixels: (n, 1 or 3, height, width).
        pages: number of pages of each file, of which the first is read: several in an animation, or a scan of several
            sheets.
    """

    pixels: Pixels
    pages: tuple[int, ...]


def read_pictures(files: Sequence[Path], side: int | None) -> Pictures:
    """Reads image files at one common size.

    Photographs are turned upright, as their EXIF tag says. An image of another size is scaled (bilinear, antialiased)
    until it covers the common size, then cropped at the centre: shapes keep their proportions, and no border is made
    up. Transparent pixels become black. The result is grey where every image is (equal channels count as grey), else
    every image has three channels.

    Of files with 16 bits per channel, the upper eight of the bits that are in use are kept: 8, 10, 12, 14 or 16,
    whatever holds the brightest pixel of all such files.

    Args:
        files: images in any format that Pillow reads, 8 or 16 bits per channel; at least one.
        side: height and width of the result; None takes the most common size of the files, the largest among
            equally common ones, shrunk so that its longer side is at most 64.

    Raises:
        UserError: a file cannot be decoded; it is named.
    """
    first = _size(files[0])
    taken = (side, side) if side else _common_size([first]), DEPTHS[-1]
    pictures = _read_all(files, *taken, typical=first)
    meant = (side, side) if side else _common_size(picture.was for picture in pictures), _depth(pictures)
    if meant != taken:  # the first image was no typical one, or not all of 16 bits are in use
        pictures = _read_all(files, *meant, typical=first)
    (width, height), _ = meant
    channels = max(picture.pixels.shape[0] for picture in pictures)
    pixels = np.empty((len(files), channels, height, width), np.uint8)
    for index, picture in enumerate(pictures):
        pixels[index] = picture.pixels  # a grey picture fills all channels
    return Pictures(pixels, tuple(picture.pages for picture in pictures))


def _read_all(files: Sequence[Path], size: Size, depth: int, typical: Size) -> list[_Picture]:
    """The pictures at `size`; of files with 16 bits per channel, `depth` are in use."""
    read = partial(_read, size=size, depth=depth)
    if typical[0] * typical[1] < WORTH_A_THREAD:
        return [read(file) for file in files]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # Pillow decodes without holding Python's lock
        return list(pool.map(read, files))


def _depth(pictures: Iterable[_Picture]) -> int:
    """Number of the 16 bits per channel that are in use; 16 where no file has so many."""
    brightest = max(picture.brightest for picture in pictures)
    return next(depth for depth in DEPTHS if brightest < 1 << depth) if brightest else DEPTHS[-1]


def _common_size(sizes: Iterable[Size]) -> Size:
    (width, height), _ = max(Counter(sizes).items(), key=lambda entry: (entry[1], entry[0][0] * entry[0][1], entry[0]))
    shrink = min(1.0, LONGEST_SIDE / max(width, height))
    return max(1, round(width * shrink)), max(1, round(height * shrink))


def _size(file: Path) -> Size:
    """Width and height, from the header."""
    try:
        with Image.open(file) as image:
            return _upright(image)
    except UNREADABLE as error:
        raise _unreadable(file, error) from error


def _upright(image: Image.Image) -> Size:
    """The size of a picture that was opened, once it is turned as its EXIF tag says."""
    width, height = image.size
    return (height, width) if image.getexif().get(ORIENTATION) in ON_ITS_SIDE else (width, height)


def _read(file: Path, size: Size, depth: int) -> _Picture:
    """One picture at `size`; of 16 bits per channel, `depth` are in use."""
    try:
        with Image.open(file) as image:
            deep = any(";16" in str(tile[3]) for tile in image.tile)  # none is left once it is decoded
            was, pages = _upright(image), _pages(image)
            image.draft(None, (2 * max(size), 2 * max(size)))  # a large JPEG is decoded at a fraction of its size
            ImageOps.exif_transpose(image, in_place=True)
            brightest = _brightest(image) if deep else 0
            plain = _plain(image, depth if deep else DEPTHS[-1])
    except UNREADABLE as error:
        raise _unreadable(file, error) from error
    if plain.size != size:
        plain = ImageOps.fit(plain, size, Image.Resampling.BILINEAR)
    array = np.asarray(plain)
    if array.ndim == 2:
        return _Picture(array[None], was, brightest, pages)
    grey = (array == array[..., :1]).all()
    return _Picture(array[None, ..., 0] if grey else array.transpose(2, 0, 1), was, brightest, pages)


def _pages(image: Image.Image) -> int:
    """Number of pages of a file that was opened; where further ones cannot be read, the first counts alone."""
    try:
        return int(getattr(image, "n_frames", 1))
    except UNREADABLE:
        return 1


def _brightest(image: Image.Image) -> int:
    """The highest value of a picture with 16 bits per channel; of colours, Pillow reads the upper eight bits."""
    values = np.asarray(image)
    return int(values.max()) if _is_deep_grey(image) else int(values[..., :3].max()) << 8 | 0xFF


def _is_deep_grey(image: Image.Image) -> bool:
    """Tells whether grey values go from 0 to 65,535; those of PGM files do, in a mode that promises nothing."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")


def _plain(image: Image.Image, depth: int) -> Image.Image:
    """The image in mode L or RGB, before a black background; of 16 bits, `depth` are in use."""
    if _is_deep_grey(image):
        return Image.fromarray((np.asarray(image) >> (depth - 8)).astype(np.uint8))
    if depth < DEPTHS[-1]:
        raise ValueError(f"{depth} of 16 bits per channel are in use, which is not read in colour; save it with 8 bits")
    if image.mode in {"I", "F"}:
        raise ValueError(f"mode {image.mode} has no fixed range; save it with 8 or 16 bits per channel")
    if image.has_transparency_data:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "black"), colours).convert("RGB")
    return image.convert("L" if image.mode in {"1", "L"} else "RGB")


def _unreadable(file: Path, error: Exception) -> UserError:
    told = (isinstance(error, OSError) and error.strerror) or str(error)  # without the file, which is named here
    reason = " ".join(told.split()).replace(f" {str(file)!r}", "")
    return UserError(f"cannot read the image {file} ({reason or type(error).__name__}); replace or remove it")
