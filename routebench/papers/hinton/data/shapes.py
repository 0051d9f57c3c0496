"""Five classes of toys made of convex solids; every instance of a class has measures of its own."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from .solids import UPRIGHT, Frame, Solid, Vector, turned

Draw = Callable[[float, float], float]
"""A number between two limits, another at every call."""


def toy(kind: str, instance: int) -> list[Solid]:
    """The parts of one toy, centred and scaled so that all corners lie in the unit ball.

    Args:
        kind: one of `TOYS`.
        instance: number in the class, from 0; fixes the measures.
    """
    random = np.random.RandomState(100 * list(TOYS).index(kind) + instance)  # its stream never changes (NEP 19)

    def draw(low: float, high: float) -> float:
        return round(low + (high - low) * float(random.random_sample()), 6)

    return fitted(TOYS[kind](draw, instance))


def fitted(solids: list[Solid]) -> list[Solid]:
    """The same object with the middle of its bounding box at the origin, and its farthest corner at distance 1."""
    corners = [corner for solid in solids for corner in solid.corners()]
    x, y, z = ((min(corner[k] for corner in corners) + max(corner[k] for corner in corners)) / 2 for k in range(3))
    farthest = max((a - x) * (a - x) + (b - y) * (b - y) + (c - z) * (c - z) for a, b, c in corners)
    return [solid.placed((x, y, z), 1 / math.sqrt(farthest)) for solid in solids]


def _animal(draw: Draw, instance: int) -> list[Solid]:
    """Four legs, a body, a neck, a head and a tail."""
    length, width, height = draw(0.55, 0.95), draw(0.22, 0.36), draw(0.22, 0.34)
    leg, thick = draw(0.22, 0.5), draw(0.05, 0.1)
    neck, head = draw(0.1, 0.45), draw(0.15, 0.24)
    parts = [Solid("ellipsoid" if instance % 2 else "box", (0, 0, 0), (length, width, height))]
    feet = product((-0.7 * length, 0.7 * length), (-0.65 * width, 0.65 * width))
    parts += [Solid("cylinder", (x, y, -height * 0.6 - leg), (thick, thick, leg)) for x, y in feet]
    lean = draw(15, 50)
    parts.append(Solid("cylinder", (length, 0, 0.5 * height + 0.5 * neck), (0.12, 0.12, neck), turned(pitch=lean)))
    top = (length + 0.55 * neck, 0.0, 0.6 * height + 1.3 * neck)
    parts.append(Solid("ellipsoid", top, (head * draw(1.1, 1.7), head * 0.8, head)))
    tail = draw(0.15, 0.4)
    parts.append(Solid("cylinder", (-length - 0.5 * tail, 0, 0.5 * height), (0.04, 0.04, tail), turned(pitch=-60)))
    return parts


def _car(draw: Draw, instance: int) -> list[Solid]:
    """A body, a cabin and four wheels."""
    length, width, height = draw(0.85, 1.1), draw(0.38, 0.5), draw(0.14, 0.24)
    cabin, long = draw(0.14, 0.3), draw(0.35, 0.62)
    wheel, place = draw(0.16, 0.26), draw(-0.45, 0.1)
    slope = (draw(0.5, 0.85), draw(0.75, 0.95))
    parts = [
        Solid("box", (0, 0, 0), (length, width, height), taper=(draw(0.85, 1), draw(0.85, 1))),
        Solid("box", (place, 0, height + cabin), (long, 0.9 * width, cabin), taper=slope),
    ]
    if instance % 2:  # a lorry: a load behind the cabin
        rear = draw(0.3, 0.45)
        parts.append(Solid("box", (-length + rear, 0, height + 0.2), (rear, 0.95 * width, draw(0.15, 0.25))))
    axles = product((-0.62 * length, 0.62 * length), (-width, width))
    return parts + [Solid("cylinder", (x, y, -height), (wheel, wheel, 0.08), turned(roll=90)) for x, y in axles]


def _figure(draw: Draw, instance: int) -> list[Solid]:
    """A standing person: trunk, head, arms and legs."""
    trunk, shoulder, deep = draw(0.32, 0.45), draw(0.2, 0.32), draw(0.12, 0.2)
    leg, apart = draw(0.35, 0.55), draw(0.1, 0.2)
    arm, thick = draw(0.28, 0.42), draw(0.06, 0.1)
    head = draw(0.15, 0.22)
    parts = [
        Solid("box" if instance % 2 else "ellipsoid", (0, 0, 0), (deep, shoulder, trunk), taper=(1, draw(0.9, 1))),
        Solid("ellipsoid", (0, 0, trunk + 0.9 * head), (head, head * 0.9, head * 1.1)),
    ]
    stride = draw(0, 25)
    for side in (-1, 1):
        swing: Frame = turned(pitch=side * stride)
        step = -side * stride / 60 * leg
        parts.append(Solid("cylinder", (step, side * apart, -0.8 * trunk - leg), (thick, thick, leg), swing))
        spread: Frame = turned(roll=side * draw(10, 75))
        reach = arm * spread[2][1]
        out = (0.0, side * (shoulder + 0.02) - reach, 0.75 * trunk - arm * spread[2][2])
        parts.append(Solid("cylinder", out, (0.8 * thick, 0.8 * thick, arm), spread))
    return parts


def _plane(draw: Draw, instance: int) -> list[Solid]:
    """A hull, two wings, and a tail of two small wings and a fin."""
    hull, span, sweep = draw(0.1, 0.17), draw(0.55, 0.9), draw(0, 35)
    chord, thin, place = draw(0.14, 0.26), 0.03, draw(-0.1, 0.25)
    height = draw(-0.6, 0.9) * hull
    parts = [Solid("ellipsoid", (0, 0, 0), (1.0, hull, hull))]
    for side in (-1, 1):
        wing = turned(yaw=side * sweep)
        back: Vector = (place + 0.5 * span * wing[1][0] * side, 0.5 * span * wing[1][1] * side, height)
        parts.append(Solid("box", back, (chord, 0.5 * span, thin), wing))
        rear = turned(yaw=side * sweep)
        tail = (-0.85 + 0.15 * rear[1][0] * side, 0.15 * rear[1][1] * side, draw(0.0, 0.05))
        parts.append(Solid("box", tail, (0.1, 0.2, thin), rear))
        if instance % 2:  # with engines below the wings
            parts.append(
                Solid("cylinder", (back[0] + 0.05, back[1], height - 0.1), (0.07, 0.07, 0.16), turned(pitch=90))
            )
    parts.append(Solid("box", (-0.85, 0, 0.2), (0.14, thin, draw(0.16, 0.26)), taper=(draw(0.4, 0.8), 1)))
    return parts


def _table(draw: Draw, instance: int) -> list[Solid]:
    """A top and its legs; some have a back, as chairs do."""
    long, width = draw(0.55, 0.9), draw(0.4, 0.6)
    leg, thick, slab = draw(0.3, 0.55), draw(0.04, 0.09), draw(0.04, 0.09)
    parts = [Solid("cylinder" if instance % 3 == 2 else "box", (0, 0, 0), (long, width, slab), UPRIGHT)]
    inset = 0.62 if instance % 3 == 2 else 0.88
    for x in (-inset * long, inset * long):
        for y in (-inset * width, inset * width):
            kind = "cylinder" if instance % 2 else "box"
            parts.append(Solid(kind, (x, y, -leg - slab), (thick, thick, leg)))  # type: ignore[arg-type]
    if instance % 5 in (1, 3):
        back = draw(0.25, 0.45)
        parts.append(Solid("box", (-0.95 * long, 0, back + slab), (0.05, 0.9 * width, back)))
    return parts


TOYS: dict[str, Callable[[Draw, int], list[Solid]]] = {
    "animal": _animal,
    "figure": _figure,
    "plane": _plane,
    "car": _car,
    "table": _table,
}
