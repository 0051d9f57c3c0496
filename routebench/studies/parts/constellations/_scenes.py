"""Scenes of several objects in random poses: the parts that are to be seen, and what they are parts of."""

import re
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor

from routebench.errors import UserError

from ._kinds import KINDS, PART_REACH, PART_SCALE, PARTS, arrangements, homogeneous, similarities

SLOTS = 8
"""Places for the parts of one type."""
CLUTTER, ABSENT = -1, -2
"""Numbers in place of a parent: of a part that belongs to nothing, and of an empty place."""
OBJECT_SCALE, OBJECT_REACH = (0.7, 1.4), 1.0
REACH = 2.5
"""Largest pose element that is encoded, either way."""
STEP = 2 * REACH / 255
"""Distance between two encoded values."""
CHANNELS = 7
"""Six pose elements, row by row, and presence."""


@dataclass(frozen=True)
class Constellation:
    """Properties of scenes.

    Args:
        objects: most objects in a scene, which has one at least; of different kinds.
        clutter: parts in each scene that belong to no object.
        noise: standard deviation of the pose elements of parts.

    Raises:
        UserError: there are too many for the places that a scene has, or a number is out of its range.
    """

    objects: int = 2
    clutter: int = 0
    noise: float = 0.02

    def __post_init__(self) -> None:
        if self.objects < 1 or self.clutter < 0 or self.objects + self.clutter > SLOTS:
            raise UserError(
                f"constellations: expected 1 object or more, and no more than {SLOTS} objects and clutter together, "
                f"got objects={self.objects}, clutter={self.clutter}"
            )
        if not 0 <= self.noise <= 0.2:
            raise UserError(f"constellations: expected noise from 0 to 0.2, got {self.noise:g}")

    @classmethod
    def of(cls, text: str) -> "Constellation":
        """Makes the properties from a name's text: `objects=3&clutter=2`.

        Raises:
            UserError: a key is unknown, or its value is no number.
        """
        kinds = {field.name: float if field.type is float else int for field in fields(cls)}
        found: dict[str, float] = {}
        for one in text.split("&"):
            key, _, value = one.partition("=")
            number = r"\d+(\.\d+)?" if kinds.get(key) is float else r"\d+"
            if key not in kinds or key in found or not re.fullmatch(number, value):
                known = "constellations:objects=3&clutter=2&noise=0.05"
                raise UserError(
                    f"constellations:{text}: expected some of {', '.join(kinds)}, as in {known}, got {one!r}"
                )
            found[key] = kinds[key](value)
        return cls(**found)  # type: ignore[arg-type]  # whole numbers are made whole above


@dataclass(frozen=True)
class Scenes:
    """Parts in their places, and the truth about them.

    Args:
        poses: poses of parts, float64; zero in an empty place.
        parents: the kind of object that each is part of, `CLUTTER` or `ABSENT`.
        objects: pose of each kind that a scene shows, float64; zero for others.
        shown: which kinds it shows.
    """

    poses: Float[Tensor, "scene part slot 2 3"]
    parents: Int[Tensor, "scene part slot"]
    objects: Float[Tensor, "scene kind 2 3"]
    shown: Bool[Tensor, "scene kind"]

    @property
    def present(self) -> Bool[Tensor, "scene part slot"]:
        """Tells which places hold a part."""
        return self.parents != ABSENT


def draw(known: Constellation, count: int, seed: int, *, exactly: int | None = None) -> Scenes:
    """Scenes, the same on every machine.

    Args:
        known: what they look like.
        count: how many.
        seed: the seed, with other scenes for each.
        exactly: objects in each scene; else from one to the most, each number equally likely.
    """
    random = RandomState(seed)  # the legacy generator: NumPy promises that its stream never changes (NEP 19)
    drawn = random.random_sample(count)
    numbers = np.full(count, exactly) if exactly else 1 + (drawn * known.objects).astype(int)
    order = random.random_sample((count, KINDS)).argsort(axis=1, kind="stable")
    shown = order.argsort(axis=1, kind="stable") < numbers[:, None]
    objects = similarities(random.random_sample((count, KINDS, 4)), OBJECT_SCALE, OBJECT_REACH)
    parts = homogeneous(torch.from_numpy(objects))[:, :, None] @ arrangements()  # scene kind part
    clutter, types = _clutter(random, count, known.clutter)
    poses = np.concatenate([parts[..., :2, :].numpy(), clutter.repeat(PARTS, axis=2)], axis=1).swapaxes(1, 2)
    poses += known.noise * random.standard_normal(poses.shape)
    there = np.concatenate([shown[:, :, None].repeat(PARTS, axis=2), types[..., None] == np.arange(PARTS)], axis=1)
    parents = np.where(there, np.r_[np.arange(KINDS), np.full(known.clutter, CLUTTER)][:, None], ABSENT).swapaxes(1, 2)
    places = _places(random, parents)
    parents = np.take_along_axis(parents, places, axis=2)
    poses = np.take_along_axis(poses, places[..., None, None], axis=2) * (parents != ABSENT)[..., None, None]
    return Scenes(*map(torch.from_numpy, (poses, parents, objects * shown[..., None, None], shown)))


def encoded(scenes: Scenes) -> UInt8[Tensor, "scene 7 part slot"]:
    """Scenes as images of bytes: a row per type of part, a column per place; see `CHANNELS`. Poses are rounded."""
    elements = scenes.poses.flatten(-2).movedim(-1, 1)
    rounded = ((elements.clamp(-REACH, REACH) + REACH) / STEP).round()
    channels = torch.cat([rounded, torch.full_like(rounded[:, :1], 255)], dim=1)
    return (channels * scenes.present[:, None]).to(torch.uint8)


def decoded(
    images: Float[Tensor, "scene 7 part slot"],
) -> tuple[Float[Tensor, "scene part slot 2 3"], Float[Tensor, "scene part slot"]]:
    """Poses and presences from images with values in [0, 1]; poses are zero in an empty place."""
    elements, present = images[:, :-1], images[:, -1]
    poses = (elements * (2 * REACH) - REACH) * present[:, None]
    return poses.movedim(1, -1).reshape(*present.shape, 2, 3), present


def _clutter(random: RandomState, count: int, parts: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Poses (scene, clutter, 1, 2, 3) such as parts of objects have, and the type of each (scene, clutter)."""
    outer = similarities(random.random_sample((count, parts, 4)), OBJECT_SCALE, OBJECT_REACH)
    inner = similarities(random.random_sample((count, parts, 4)), PART_SCALE, PART_REACH)
    poses = homogeneous(torch.from_numpy(outer)) @ homogeneous(torch.from_numpy(inner))
    types = (random.random_sample((count, parts)) * PARTS).astype(int)
    return poses[:, :, None, :2].numpy(), types


def _places(random: RandomState, parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choice of what is put in each place, of all that might be there: (scene, part, slot). All of it has one."""
    order = (random.random_sample(parents.shape) + (parents == ABSENT)).argsort(axis=2, kind="stable")[..., :SLOTS]
    shuffled = random.random_sample(order.shape).argsort(axis=2, kind="stable")
    return np.take_along_axis(order, shuffled, axis=2)
