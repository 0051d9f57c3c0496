"""Convex solids, and where parallel rays enter them: what rendered objects are made of.

Everything is worked out with additions, multiplications, divisions and square roots of 64-bit numbers, one operation at
a time, all of which IEEE 754 rounds in one way only; sines are rounded to 9 decimals. No matrix library takes part. The
same object is therefore the same pixels on every machine.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]
Frame = tuple[Vector, Vector, Vector]
Grid = NDArray[np.float64]

UPRIGHT: Frame = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def dot(one: Vector, other: Vector) -> float:
    """The scalar product.

    Args:
        one, other: the two vectors.
    """
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def unit(vector: Vector) -> Vector:
    """The vector at length 1."""
    length = math.sqrt(dot(vector, vector))
    return (vector[0] / length, vector[1] / length, vector[2] / length)


def cosine(degrees: float) -> float:
    """The cosine, rounded to 9 decimals, because mathematical libraries differ in the last ones."""
    return round(math.cos(math.radians(degrees % 360)), 9)


def sine(degrees: float) -> float:
    """The sine, rounded in the same way."""
    return round(math.sin(math.radians(degrees % 360)), 9)


def turned(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0) -> Frame:
    """Axes of a part, turned about x by `roll`, then about y by `pitch`, then about z by `yaw`; in degrees.

    Args:
        yaw, pitch, roll: angles about z, y and x, in degrees.
    """
    cy, sy, cp, sp, cr, sr = (of(angle) for angle in (yaw, pitch, roll) for of in (cosine, sine))
    return (
        (cy * cp, sy * cp, -sp),
        (cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr),
        (cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr),
    )


@dataclass(frozen=True)
class Solid:
    """A convex part of an object.

    Args:
        kind: `box`; `ellipsoid`; `cylinder` along its third axis.
        centre: its centre in the object's coordinates: x forward, y left, z up.
        half: half of its size along its own axes, above 0.
        axes: its own axes, three unit vectors at right angles.
        taper: the size of a box's upper end, as a share of its lower end, along its first and second axis;
            (1, 1) is a plain box, (0, 0) a pyramid.
    """

    kind: Literal["box", "ellipsoid", "cylinder"]
    centre: Vector
    half: Vector
    axes: Frame = UPRIGHT
    taper: tuple[float, float] = (1.0, 1.0)

    def corners(self) -> list[Vector]:
        """Corners of the box around it."""
        found = []
        for signs in np.ndindex(2, 2, 2):
            steps = [(2 * sign - 1) * size for sign, size in zip(signs, self.half, strict=True)]
            x, y, z = (
                self.centre[k] + steps[0] * self.axes[0][k] + steps[1] * self.axes[1][k] + steps[2] * self.axes[2][k]
                for k in range(3)
            )
            found.append((x, y, z))
        return found

    def reach(self, direction: Vector) -> float:
        """The greatest extent from its centre along a unit vector, either way."""
        return sum(size * abs(dot(axis, direction)) for size, axis in zip(self.half, self.axes, strict=True))

    def placed(self, away: Vector, scale: float) -> "Solid":
        """The solid moved by `-away`, then scaled about the origin.

        Args:
            away: the point that comes to lie at the origin.
            scale: factor of all lengths, above 0.
        """
        x, y, z = (scale * (here - shift) for here, shift in zip(self.centre, away, strict=True))
        a, b, c = (scale * size for size in self.half)
        return Solid(self.kind, (x, y, z), (a, b, c), self.axes, self.taper)

    def local(self, vector: Vector) -> Vector:
        """A direction in its own coordinates, where it reaches from -1 to 1."""
        x, y, z = (dot(axis, vector) / size for axis, size in zip(self.axes, self.half, strict=True))
        return (x, y, z)

    def outward(self, local: Vector) -> Vector:
        """The normal, a unit vector of the object's coordinates, of a surface whose own coordinates have `local`."""
        a, b, c = (part / size for part, size in zip(local, self.half, strict=True))
        x, y, z = (a * self.axes[0][k] + b * self.axes[1][k] + c * self.axes[2][k] for k in range(3))
        return unit((x, y, z))

    @cached_property
    def planes(self) -> tuple[tuple[Vector, float], ...]:
        """Its flat sides in its own coordinates: normal n and distance d of `n . q <= d`."""
        ends: tuple[tuple[Vector, float], ...] = (((0.0, 0.0, 1.0), 1.0), ((0.0, 0.0, -1.0), 1.0))
        if self.kind == "ellipsoid":
            return ()
        if self.kind == "cylinder":
            return ends
        (first, second) = self.taper
        lean, tilt = (1 - first) / 2, (1 - second) / 2
        sides: list[tuple[Vector, float]] = []
        for sign in (1.0, -1.0):
            sides += [((sign, 0.0, lean), 1 - lean), ((0.0, sign, tilt), 1 - tilt)]
        return (*ends, *sides)

    @property
    def round_axes(self) -> int:
        """Number of its own axes that the curved side involves: `sum of q_k^2 <= 1` over the first so many."""
        return {"box": 0, "cylinder": 2, "ellipsoid": 3}[self.kind]
