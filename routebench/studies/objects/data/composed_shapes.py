"""Pictures of several shapes that may hide each other, and which shape is seen at each pixel."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor

from routebench.data import Dataset, Images, facts, pinned
from routebench.registry import datasets

NAME = "composed-shapes"
SIDE = 24
KINDS = ("square", "disc", "triangle")
COLOURS = 3
"""Red, green and blue."""
FEWEST, MOST = 2, 4
"""Shapes in a picture."""
REACH = (2.5, 4.5)
"""Half the size of a shape, in pixels."""
MARGIN = 3.0
"""Pixels between the centre of a shape and the edge, at least."""
GROUND = -1
"""Number in place of a shape: the black ground is seen."""
TRAIN, TEST = 20_000, 2_000
TRAIN_SEED, TEST_SEED = 1, 2
FINGERPRINT = "c91d92bb88d29da3"


@dataclass(frozen=True)
class Composed:
    """Pictures, and the truth about them.

    Args:
        pixels: red, green and blue.
        owners: the number of the shape that is seen at each pixel, or `GROUND`; later shapes hide earlier ones.
        shown: which kinds of shapes were drawn; one that others hide counts.
    """

    pixels: UInt8[Tensor, "image 3 row column"]
    owners: Int[Tensor, "image row column"]
    shown: Bool[Tensor, "image kind"]


def compose(count: int, seed: int, *, exactly: int | None = None) -> Composed:
    """Pictures, the same on every machine.

    Two shapes may have the same colour, touch and overlap, so that colour alone does not tell them apart.

    Args:
        count: number of pictures.
        seed: the seed, with other pictures for each.
        exactly: shapes in each picture; else from `FEWEST` to `MOST`, each number equally likely.
    """
    random = RandomState(seed)  # the legacy generator: NumPy promises that its stream never changes (NEP 19)
    most = exactly or MOST
    drawn = random.random_sample(count)
    numbers = np.full(count, exactly) if exactly else FEWEST + (drawn * (MOST - FEWEST + 1)).astype(int)
    there = np.arange(most) < numbers[:, None]
    size = REACH[0] + (REACH[1] - REACH[0]) * random.random_sample((count, most))
    centres = MARGIN + (SIDE - 2 * MARGIN) * random.random_sample((2, count, most))
    kinds = (random.random_sample((count, most)) * len(KINDS)).astype(int)
    colours = (random.random_sample((count, most)) * COLOURS).astype(int)
    pixels = np.zeros((count, 3, SIDE, SIDE), dtype=np.uint8)
    owners = np.full((count, SIDE, SIDE), GROUND)
    for number in range(most):
        inside = _inside(kinds[:, number], size[:, number], *centres[:, :, number]) & there[:, number, None, None]
        colour = 255 * np.eye(3, dtype=np.uint8)[colours[:, number]]
        pixels = np.where(inside[:, None], colour[:, :, None, None], pixels)
        owners = np.where(inside, number, owners)
    shown = ((kinds[..., None] == np.arange(len(KINDS))) & there[..., None]).any(axis=1)
    return Composed(*map(torch.from_numpy, (pixels, owners, shown)))


def _inside(
    kinds: NDArray[np.int64], size: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """(image, row, column): whether the centre of a pixel lies in the shape."""
    place = np.arange(SIDE) + 0.5
    down, across = place[None, :, None] - rows[:, None, None], place[None, None] - columns[:, None, None]
    reach = size[:, None, None]
    square = (np.abs(down) < 0.9 * reach) & (np.abs(across) < 0.9 * reach)
    disc = down * down + across * across < reach * reach
    triangle = (down < 0.8 * reach) & (np.abs(across) < 0.55 * (down + reach))
    return np.choose(kinds[:, None, None], [square, disc, triangle])


@datasets.register(NAME, version=1)
@facts(train=18_000, held_out=2_000, test=TEST, shape=(3, SIDE, SIDE), classes=len(KINDS))
def composed_shapes() -> Dataset:
    """Two to four red, green or blue squares, discs and triangles on black, 24x24, some hidden; several labels.

    Labels are the kinds that a picture shows. Which shape each pixel belongs to is known: `compose` tells it.
    """
    train, test = (_images(count, seed) for count, seed in ((TRAIN, TRAIN_SEED), (TEST, TEST_SEED)))
    found = Dataset.of(NAME, KINDS, train, test, "drawn by routebench")
    return pinned(NAME, found, (found.train, found.held_out, found.test), found.source, FINGERPRINT)


def _images(count: int, seed: int) -> Images:
    made = compose(count, seed)
    return Images(made.pixels, made.shown)
