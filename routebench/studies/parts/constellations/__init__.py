"""Scenes whose part-whole tree is known, and inference of that tree in the model that they are drawn from."""

from ._inference import infer
from ._kinds import KINDS, PARTS, arrangements, homogeneous
from ._scenes import ABSENT, CLUTTER, SLOTS, STEP, Constellation, Scenes, decoded, draw, encoded

__all__ = [
    "ABSENT",
    "CLUTTER",
    "KINDS",
    "PARTS",
    "SLOTS",
    "STEP",
    "Constellation",
    "Scenes",
    "arrangements",
    "decoded",
    "draw",
    "encoded",
    "homogeneous",
    "infer",
]
