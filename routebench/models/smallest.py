"""Whether a network takes images of a size, found without weights, and the smallest that it takes."""

from collections.abc import Mapping
from typing import Any

import torch

from routebench.errors import UserError
from routebench.models.build import build
from routebench.registry import models

LARGEST = 256  # pixels; a network that takes no image of this side fails for another reason than size
ANY_METHOD = "uniform"


def expect_buildable(name: str, shape: tuple[int, int, int], classes: int, model_params: Mapping[str, Any]) -> None:
    """Raises UserError where a network cannot be built for images of this shape; see `routebench.models.build`.

    Nothing is computed, and no routing method is asked but one of routebench's own.
    """
    routed = models[name].facts.routed  # type: ignore[attr-defined]  # attached by the decorator `facts`
    with torch.device("meta"):
        build(name, shape=shape, classes=classes, method=ANY_METHOD if routed else None, **model_params)


def smallest_side(name: str, shape: tuple[int, int, int], classes: int, model_params: Mapping[str, Any]) -> int | None:
    """Height and width of the smallest square images that a network takes, in pixels, from `shape`'s shorter side on.

    None where size is not what keeps it from being built.
    """
    channels, height, width = shape
    for side in range(min(height, width), LARGEST + 1):
        try:
            expect_buildable(name, (channels, side, side), classes, model_params)
        except UserError:
            continue
        return side
    return None
