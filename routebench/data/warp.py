"""Affine maps of images in whole numbers, so that every machine makes the same bytes.

Floating-point interpolation differs in the last bit between processors, and a rounded pixel with it: a data set made
that way has no fixed fingerprint. Here maps are rounded to 2^-16 first; the rest is integer arithmetic.
"""

import numpy as np
from numpy.typing import NDArray

BITS = 16  # after the point of a map's entries
HALF_PIXELS = BITS + 1  # after the point of a doubled coordinate
CHUNK = 1000  # images at a time: about 15 MB per intermediate array of 40 x 40


def warp(pixels: NDArray[np.uint8], maps: NDArray[np.float64], side: int) -> NDArray[np.uint8]:
    """Images as an affine map places them on a square canvas, with bilinear interpolation; zeros move in.

    Args:
        pixels: (n, height, width).
        maps: (n, 2, 3): to the place on the canvas, (x, y) in pixels from its centre, the place in the image, from its
            centre: [x', y'] = maps[:, :2] [x, y] + maps[:, 2].
        side: width of the canvas, in pixels.

    Returns:
        (n, side, side).
    """
    fixed = np.rint(maps * 2**BITS).astype(np.int64)
    parts = [
        _warp(pixels[start : start + CHUNK], fixed[start : start + CHUNK], side)
        for start in range(0, len(pixels), CHUNK)
    ]
    return np.concatenate(parts)


def _warp(pixels: NDArray[np.uint8], fixed: NDArray[np.int64], side: int) -> NDArray[np.uint8]:
    _, height, width = pixels.shape
    steps = 2 * np.arange(side) - (side - 1)  # twice the distance from the centre, a whole number
    x, y = _source(fixed[:, 0], steps, width), _source(fixed[:, 1], steps, height)
    left, top = x >> HALF_PIXELS, y >> HALF_PIXELS
    right_share, lower_share = x & (2**HALF_PIXELS - 1), y & (2**HALF_PIXELS - 1)
    padded = np.pad(pixels, ((0, 0), (2, 2), (2, 2))).reshape(len(pixels), -1)  # beyond the border all is zero
    column, row = np.clip(left, -2, width) + 2, np.clip(top, -2, height) + 2
    place = row * (width + 4) + column

    def at(offset: int) -> NDArray[np.int64]:
        flat = (place + offset).reshape(len(pixels), -1)
        return np.take_along_axis(padded, flat, axis=1).astype(np.int64).reshape(place.shape)

    one, below = 2**HALF_PIXELS, width + 4
    upper = at(0) * (one - right_share) + at(1) * right_share
    lower = at(below) * (one - right_share) + at(below + 1) * right_share
    mixed = upper * (one - lower_share) + lower * lower_share
    rounded: NDArray[np.int64] = (mixed + 2 ** (2 * HALF_PIXELS - 1)) >> (2 * HALF_PIXELS)
    return rounded.astype(np.uint8)


def _source(row: NDArray[np.int64], steps: NDArray[np.int64], extent: int) -> NDArray[np.int64]:
    """One coordinate of the source, from the first pixel, with `HALF_PIXELS` bits after the point: (n, y, x)."""
    doubled = row[:, 0, None, None] * steps + row[:, 1, None, None] * steps[:, None] + 2 * row[:, 2, None, None]
    moved: NDArray[np.int64] = doubled + ((extent - 1) << BITS)
    return moved
