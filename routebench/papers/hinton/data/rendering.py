"""Grey pictures of objects made of convex solids, seen from far away: no perspective, no shadows, black background."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .solids import Grid, Solid, Vector, cosine, dot, sine, unit

SAMPLES = 3
"""Rays per pixel and axis: edges are smoothed by their mean."""
FINE = 16
"""Grey levels of a ray per grey level of a pixel."""
WINDOW = 1.06
"""Half of the picture's width; objects lie in the unit ball."""
AMBIENT = 0.15

# Lamps stand still in the room while the object turns before the camera: towards the camera, left, up; and brightness.
LAMPS: tuple[tuple[Vector, float], ...] = (
    ((1.0, 1.1, 0.9), 0.60),
    ((1.0, -1.1, 0.9), 0.60),
    ((0.2, 0.4, 1.5), 0.55),
    ((0.4, -1.6, 0.5), 0.45),
)
LIGHTINGS: tuple[tuple[int, ...], ...] = ((0,), (1,), (2,), (0, 3), (1, 2), (0, 1))
"""Lamps that are on."""


@dataclass(frozen=True)
class Camera:
    """A direction to look from.

    Args:
        azimuth: angle in degrees, counted from the front of the object towards its left.
        elevation: angle in degrees above the ground.
    """

    azimuth: float
    elevation: float

    @cached_property
    def towards(self) -> Vector:
        """Direction from the object to the camera."""
        flat = cosine(self.elevation)
        return (flat * cosine(self.azimuth), flat * sine(self.azimuth), sine(self.elevation))

    @cached_property
    def right(self) -> Vector:
        """Direction to the right of the picture."""
        return (-sine(self.azimuth), cosine(self.azimuth), 0.0)

    @cached_property
    def up(self) -> Vector:
        """Direction to the top of the picture."""
        steep = sine(self.elevation)
        return (-steep * cosine(self.azimuth), -steep * sine(self.azimuth), cosine(self.elevation))

    def lamps(self) -> list[Vector]:
        """Directions to the lamps, in the object's coordinates."""
        c, s = cosine(self.azimuth), sine(self.azimuth)
        return [unit((x * c - y * s, x * s + y * c, z)) for (x, y, z), _ in LAMPS]


def render(
    solids: Sequence[Solid], camera: Camera, side: int, lightings: Sequence[int] = range(len(LIGHTINGS))
) -> NDArray[np.uint8]:
    """Pictures of one object from one direction.

    Args:
        solids: solids whose union is the object; within the unit ball.
        camera: the direction to look from.
        side: width of the picture, in pixels.
        lightings: numbers of `LIGHTINGS`.

    Returns:
        (lightings, side, side); 0 where there is no object, and nowhere else but at its smoothed edge.
    """
    rays = side * SAMPLES
    places: Grid = np.arange(1 - rays, rays, 2, dtype=np.float64) * (
        WINDOW / rays
    )  # from left to right, from bottom to top
    depth = np.full((rays, rays), np.inf)
    shade = np.zeros((len(lightings), rays, rays), np.int32)
    light = Light(camera, lightings)
    for solid in solids:
        rows, columns = (_window(solid, axis, places) for axis in (camera.up, camera.right))
        if rows.start < rows.stop and columns.start < columns.stop:
            region = _Region(solid, camera, places[rows], places[columns])
            region.draw(depth[rows, columns], shade[:, rows, columns], light)
    blocks = shade[:, ::-1].reshape(len(lightings), side, SAMPLES, side, SAMPLES)  # row 0 is the top
    total: NDArray[np.int64] = blocks.sum(axis=(2, 4), dtype=np.int64)  # of integers, so that its order does not matter
    pixels: NDArray[np.uint8] = ((total + FINE * SAMPLES**2 // 2) // (FINE * SAMPLES**2)).astype(np.uint8)
    return pixels


def _window(solid: Solid, axis: Vector, places: Grid) -> slice:
    """The rays that can meet a solid, along one axis of the picture."""
    middle, reach = dot(solid.centre, axis), solid.reach(axis)
    first, last = np.searchsorted(places, [middle - reach, middle + reach])
    return slice(int(first), int(last))


class _Region:
    """A solid and the rays that may meet it: a ray is at `q + t w` in the solid's own coordinates."""

    def __init__(self, solid: Solid, camera: Camera, up: Grid, right: Grid):
        self.solid, self.camera = solid, camera
        x, y, z = camera.towards
        self.w = solid.local((-x, -y, -z))
        start, along, across = solid.local(solid.centre), solid.local(camera.up), solid.local(camera.right)
        # q has a part that changes from row to row only, and one that changes from column to column
        self.q = [(up * along[k] - start[k], right * across[k]) for k in range(3)]
        shape = (up.size, right.size)
        self.enters, self.leaves = np.full(shape, -np.inf), np.full(shape, np.inf)
        self.surface = np.full(shape, -1, np.int8)  # number of the plane entered by, -1: the curved side
        self.entered: list[tuple[int, Vector]] = []  # planes that face the camera

    def draw(self, depth: Grid, shade: NDArray[np.int32], light: "Light") -> None:
        """Writes rays that meet this solid first into depth (rows, columns) and shade (lightings, rows, columns)."""
        if self.solid.round_axes:
            self._cut_by_curve()
        for number, (normal, distance) in enumerate(self.solid.planes):
            self._cut_by_plane(number, normal, distance)
        seen = (self.enters < self.leaves) & (self.enters < depth)
        depth[seen] = self.enters[seen]
        for number, normal in self.entered:
            there = seen & (self.surface == number)
            if there.any():
                shade[:, there] = light.on(self.solid.outward(normal))[:, None]
        curved = seen & (self.surface < 0)
        if curved.any():
            shade[:, curved] = self._curved_shade(curved, light)

    def _cut_by_plane(self, number: int, normal: Vector, distance: float) -> None:
        (a, d), (b, e), (c, f) = self.q
        rows = distance - (normal[0] * a + normal[1] * b + normal[2] * c)
        columns = normal[0] * d + normal[1] * e + normal[2] * f
        speed = dot(normal, self.w)
        if speed == 0:
            self.enters[rows[:, None] < columns] = np.inf
            return
        crossing = (rows / speed)[:, None] - columns / speed
        if speed > 0:
            np.minimum(self.leaves, crossing, out=self.leaves)
            return
        later = crossing > self.enters
        np.copyto(self.enters, crossing, where=later)
        np.copyto(self.surface, np.int8(number), where=later)
        self.entered.append((number, normal))

    def _cut_by_curve(self) -> None:
        """Keeps rays between the roots of `|w|^2 t^2 + 2 q.w t + |q|^2 - 1`, over the axes that are round."""
        axes = range(self.solid.round_axes)
        square, length = 0.0, np.zeros_like(self.enters)
        rows, columns = np.zeros_like(self.q[0][0]), np.zeros_like(self.q[0][1])
        for k in axes:
            square += self.w[k] * self.w[k]
            rows += self.q[k][0] * self.w[k]
            columns += self.q[k][1] * self.w[k]
            place = self.q[k][0][:, None] + self.q[k][1]
            length += place * place
        if square == 0:  # along a cylinder
            self.enters[length > 1] = np.inf
            return
        product = rows[:, None] + columns
        inside = product * product - square * (length - 1)
        root = np.sqrt(np.maximum(inside, 0))
        self.enters = np.where(inside > 0, (-product - root) / square, np.inf)
        self.leaves = (root - product) / square

    def _curved_shade(self, where: NDArray[np.bool_], light: "Light") -> NDArray[np.int32]:
        axes, half = self.solid.axes, self.solid.half
        parts = []
        for k in range(self.solid.round_axes):
            place = (self.q[k][0][:, None] + self.q[k][1])[where] + self.enters[where] * self.w[k]
            parts.append(place / half[k])
        x, y, z = (sum(part * axes[k][j] for k, part in enumerate(parts)) for j in range(3))
        length = np.sqrt(x * x + y * y + z * z)
        return light.on((x / length, y / length, z / length))


class Light:
    """Light of the lamps on a matt grey surface: ambient light, and Lambert's cosine law for each lamp that is on.

    Args:
        camera: the camera with which the lamps go around the object.
        lightings: numbers of `LIGHTINGS`.
    """

    def __init__(self, camera: Camera, lightings: Sequence[int]):
        self.lamps = camera.lamps()
        self.on_lamps = [LIGHTINGS[number] for number in lightings]

    def on(self, normal: tuple[Grid, Grid, Grid] | Vector) -> NDArray[np.int32]:
        """Grey levels of a surface, 0 to 255 times `FINE`: (lightings, ...) for a normal of three (...)."""
        x, y, z = normal
        levels = np.empty((len(self.on_lamps), *np.shape(x)), np.int32)
        for number, lit in enumerate(self.on_lamps):
            total: Grid | float = AMBIENT
            for lamp in lit:
                a, b, c = self.lamps[lamp]
                total = total + np.maximum(x * a + y * b + z * c, 0.0) * LAMPS[lamp][1]
            levels[number] = np.floor(np.minimum(total, 1.0) * (255 * FINE) + 0.5)
        return levels
