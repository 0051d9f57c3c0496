"""Checks of kernels against the reference, once per kind of sweep and process, on the first images that they are given.

A processor, compiler or driver that nobody has tried must not change results unseen. The check takes up to `IMAGES`
images, and of a convolutional layer a corner, forward and backward: little beside the first step of a training run.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from routebench.kernels import reference
from routebench.kernels.sweep import INPUTS, Sums, Sweep
from routebench.ops import Competition, Windows

IMAGES = 2
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""Largest difference that is always allowed, as a share of the largest value of a tensor."""
ROUNDING = 10
"""Multiple of the reference's rounding that is allowed, too: sums that cancel are rounding and nothing else."""

_verdicts: dict[tuple[Any, ...], bool] = {}


def is_trusted(name: str, kernel: Callable[[Sweep], Sums], given: Sweep) -> bool:
    """Tells whether a kernel agreed with the reference in its check; a disagreement is a warning, once.

    Without images, or where one has a value that is not finite, nothing can be compared: the next sweep is checked.

    Args:
        name: name of the back end.
        kernel: one sweep by it.
        given: what it is to do.
    """
    key = (name, *kind(given))
    if key not in _verdicts:
        if not _can_be_compared(given):
            return False
        _verdicts[key] = (error := _disagreement(kernel, given)) == 0
        if error:
            warnings.warn(
                f"back end {name!r} differs from the reference by {error:.1g} of the largest value and is not used "
                f"for this kind of sweep: {kind(given)}",
                stacklevel=3,
            )
    return _verdicts[key]


def _can_be_compared(given: Sweep) -> bool:
    values = (getattr(given, name) for name in INPUTS)
    return len(given.children) > 0 and all(value is None or bool(value.isfinite().all()) for value in values)


def kind(given: Sweep) -> tuple[Any, ...]:
    """Facts that decide which code of a kernel runs: shapes without the batch, type, device, and what is left out."""
    windows = given.competition.windows
    present = tuple(name for name in INPUTS if getattr(given, name) is not None)
    where = (given.children.device.type, str(given.children.dtype), str(given.weight.dtype))
    options = (given.competition.axis, given.competition.orphan, given.moments, given.constant_coupling)
    return (tuple(given.weight.shape), given.children.shape[2], windows, present, where, options)


@torch.inference_mode(mode=False)
def _disagreement(kernel: Callable[[Sweep], Sums], given: Sweep) -> float:
    """The largest difference in sums and gradients that rounding does not explain, for the first images; 0 if none.

    Each tensor's difference is a share of its largest value in double precision.
    """
    exact = evaluate(reference.dense, sample(given, torch.float64))
    ours, plain = (differences(evaluate(way, sample(given)), exact) for way in (kernel, reference.dense))
    allowed = [max(TOLERANCE[given.weight.dtype], ROUNDING * rounding) for rounding in plain]
    return max(error if not error <= most else 0.0 for error, most in zip(ours, allowed, strict=True))  # nan, too


def differences(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    """The largest difference in each tensor, as a share of its largest exact value.

    Args:
        found, exact: the same tensors in the same order.
    """
    pairs = [(mine.double(), right.double()) for mine, right in zip(found, exact, strict=True)]
    return [float((mine - right).abs().max() / right.abs().max().clamp(min=1e-30)) for mine, right in pairs]


def sample(given: Sweep, dtype: torch.dtype | None = None) -> Sweep:
    """A corner of the first images of a sweep, two windows wide, as leaves that want gradients.

    Args:
        given: what the kernel is to do.
        dtype: type of all leaves; None for their own, or, beside weights of 16 bits, for theirs: kernels take what an
            earlier sweep has summed in 32 bits, which torch does not multiply with them.
    """
    if dtype is None and given.weight.dtype.itemsize == 2:
        dtype = given.weight.dtype
    windows = given.competition.windows
    parts = {name: value for name in INPUTS if (value := getattr(given, name)) is not None}
    images = slice(0, min(IMAGES, len(given.children)))
    parts = {name: reference.part(name, value, images, given.positions) for name, value in parts.items()}
    competition = given.competition.of(images)
    if windows is not None:
        side = windows.kernel + windows.stride
        corner = replace(windows, height=min(windows.height, side), width=min(windows.width, side))
        competition = Competition(competition.axis, windows=corner, orphan=competition.orphan)
        parts = {name: _in_corner(name, value, windows, corner) for name, value in parts.items()}
    leaves = {name: value.detach().clone().to(dtype or value.dtype).requires_grad_() for name, value in parts.items()}
    return replace(given, competition=competition, **leaves)


def _in_corner(name: str, value: Tensor, windows: Windows, corner: Windows) -> Tensor:
    if name in {"weight", "offset"}:
        return value
    if name == "children":
        grid = value.reshape(len(value), windows.height, windows.width, windows.types, -1)
        return grid[:, : corner.height, : corner.width].flatten(1, 3)
    rows, columns = corner.grid
    return value.reshape(-1, *windows.grid, *value.shape[1:])[:, :rows, :columns].flatten(0, 2)


@torch.enable_grad()
def evaluate(sweep: Callable[[Sweep], Sums], given: Sweep) -> list[Tensor]:
    """The sums, and the gradients of a fixed random weighting of them with respect to all tensors of the sweep.

    Args:
        sweep: the kernel, or the reference.
        given: what it is to do, with leaves as `sample` makes them.
    """
    sums = [total for total in sweep(given) if total is not None]
    draw = torch.Generator().manual_seed(0)
    loss = sum((total * torch.randn(total.shape, generator=draw).to(total)).sum() for total in sums)
    leaves = [value for name in INPUTS if (value := getattr(given, name)) is not None]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)  # type: ignore[arg-type]
    return [*(total.detach() for total in sums), *gradients]
