"""Check that a network takes images of a size, found without weights, and the smallest that it takes."""

import contextlib
import hashlib
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from routebench.cache import cache_folder
from routebench.errors import UserError, message_of
from routebench.models.build import BY_BUILD, build, expect_kind
from routebench.models.network import trained_parts
from routebench.notation import compact
from routebench.registry import SHIPPED, models

PACKAGE = Path(__file__).parents[1]
LARGEST = 256  # pixels; a network that takes no image of this side fails for another reason than size
ANY_METHOD = "uniform"
_END = "."
"""Ends a note, so that half of one is not taken for it."""
_OWN = ({*inspect.signature(build).parameters} | BY_BUILD) - {"model_params"}
"""Arguments that `build` takes besides a network's own, or gives it."""


def expect_buildable(
    name: str, shape: tuple[int, ...], classes: int, model_params: Mapping[str, Any]
) -> frozenset[str]:
    """The parts of a network for images of this shape that recipes may need; see `trained_parts`.

    Nothing is computed, and no routing method is asked but one of routebench's own. A network that could be built is
    remembered while no code changes: torch imports its compiler for this, which takes a second.

    Args:
        name: name of a registered model.
        shape: shape of the items.
        classes: number of classes.
        model_params: further arguments of the model.

    Raises:
        UserError: it cannot be built; see `routebench.models.build`.
    """
    expect_kind(name, shape)
    for wrong in model_params.keys() & _OWN:
        raise UserError(f"model {name!r}: {wrong!r} is no argument that a suite sets")
    built = _note(name, shape, classes, model_params) if models.origin(name) == SHIPPED else None
    if built is not None and (noted := _noted(built)) is not None:
        return noted
    routed = models[name].facts.routed  # type: ignore[attr-defined]  # attached by the decorator `facts`
    try:
        with torch.device("meta"):
            method = ANY_METHOD if routed else None
            parts = trained_parts(build(name, shape=shape, classes=classes, method=method, **model_params))
    except UserError:
        raise
    except Exception as error:
        if not model_params:
            raise
        told = f"{type(error).__name__}: {message_of(error)}"
        raise UserError(f"model {name!r} cannot be built with {compact(model_params)}: {told}") from error
    if built is not None:
        with contextlib.suppress(OSError):
            built.parent.mkdir(parents=True, exist_ok=True)
            built.write_text(" ".join([*sorted(parts), _END]))
    return parts


def _noted(file: Path) -> frozenset[str] | None:
    """The parts that a file notes; None where there is none, or another process writes it at the moment."""
    with contextlib.suppress(OSError, ValueError):
        *parts, end = file.read_text().split()
        return frozenset(parts) if end == _END else None
    return None


def _note(*asked: Any) -> Path | None:
    """The file that is there if this could be built before; None where no folder can keep it."""
    with contextlib.suppress(UserError):
        return cache_folder() / "buildable" / hashlib.sha256(f"{_code()} {asked}".encode()).hexdigest()[:32]
    return None


@cache
def _code() -> str:
    """Changes with every file of routebench, and with torch."""
    stamps = sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in PACKAGE.rglob("*.py"))
    return hashlib.sha256(f"{torch.__version__} {stamps}".encode()).hexdigest()


def smallest_side(name: str, shape: tuple[int, ...], classes: int, model_params: Mapping[str, Any]) -> int | None:
    """Height and width of the smallest square images that a network takes, in pixels, from `shape`'s shorter side on.

    None where size is not what keeps it from being built.

    Args:
        name, classes, model_params: as for `expect_buildable`.
        shape: (channels, height, width) of images; tokens have no such side.
    """
    if len(shape) != 3:
        return None
    channels, height, width = shape

    def fault(side: int) -> str:
        try:
            expect_buildable(name, (channels, side, side), classes, model_params)
        except UserError as error:
            return str(error)
        return ""

    least = min(height, width)
    if (told := fault(least)) and told == fault(LARGEST):  # building it for each size between can take minutes
        return None
    return next((side for side in range(least, LARGEST + 1) if not fault(side)), None)
