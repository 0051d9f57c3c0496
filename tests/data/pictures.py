"""Image files, and their pixels as they are read."""

from pathlib import Path

import numpy as np
from PIL import Image


def save(place: Path, count: int, shape: tuple[int, ...] = (12, 10), *, first: int = 0, suffix: str = "png") -> None:
    """Writes random images of `shape`, different for every number from `first` on."""
    place.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        pixels = np.random.default_rng([number, *place.name.encode()]).integers(0, 256, shape, np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.{suffix}")


def rows(*parts) -> list[bytes]:
    return [image.tobytes() for part in parts for image in part.pixels.numpy()]
