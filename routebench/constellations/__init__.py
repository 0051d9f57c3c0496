"""Scenes whose part-whole tree is known, and inference of that tree in the model that they are drawn from."""

from routebench.constellations._inference import Inferred, infer
from routebench.constellations._kinds import KINDS, PARTS, arrangements, homogeneous
from routebench.constellations._scenes import (
    ABSENT,
    CLUTTER,
    SLOTS,
    STEP,
    Constellation,
    Scenes,
    decoded,
    draw,
    encoded,
)

__all__ = [
    "ABSENT",
    "CLUTTER",
    "KINDS",
    "PARTS",
    "SLOTS",
    "STEP",
    "Constellation",
    "Inferred",
    "Scenes",
    "arrangements",
    "decoded",
    "draw",
    "encoded",
    "homogeneous",
    "infer",
]
