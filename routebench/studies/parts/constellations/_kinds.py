"""Kinds of objects: each is an arrangement of the same parts, so that no part tells its object."""

from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

KINDS = 8
"""Kinds of objects."""
PARTS = 5
"""Types of parts; every object has one part of each."""
SEED = 0
PART_SCALE, PART_REACH = (0.8, 1.25), 1.0


@cache
def arrangements() -> Float[Tensor, "kind part 3 3"]:
    """The pose of each part in the frame of its object, the same on every machine: float64."""
    # The legacy generator: NumPy promises that its stream never changes (NEP 19).
    uniform = np.random.RandomState(SEED).random_sample((KINDS, PARTS, 4))
    return homogeneous(torch.from_numpy(similarities(uniform, PART_SCALE, PART_REACH)))


def similarities(uniform: NDArray[np.float64], scale: tuple[float, float], reach: float) -> NDArray[np.float64]:
    """Turns, scales and shifts of the plane.

    Args:
        uniform: random numbers in [0, 1), (..., 4), for angle, scale and the two shifts.
        scale: least and largest; its logarithm is uniform.
        reach: largest shift along each axis, either way.

    Returns:
        (..., 2, 3): columns are the images of the axes, and of the origin.
    """
    angle, low, high = 2 * np.pi * uniform[..., 0], *np.log(scale)
    size = np.exp(low + (high - low) * uniform[..., 1])
    cosine, sine = size * np.cos(angle), size * np.sin(angle)
    across, up = (reach * (2 * uniform[..., 2:] - 1)).transpose(-1, *range(uniform.ndim - 1))
    return np.stack([np.stack([cosine, -sine, across], axis=-1), np.stack([sine, cosine, up], axis=-1)], axis=-2)


def homogeneous(poses: Float[Tensor, "*n 2 3"]) -> Float[Tensor, "*n 3 3"]:
    """The same maps as square matrices, with a last row (0, 0, 1), so that a product is one map after another."""
    last = poses.new_tensor([0.0, 0.0, 1.0]).expand(*poses.shape[:-2], 1, 3)
    return torch.cat([poses, last], dim=-2)
