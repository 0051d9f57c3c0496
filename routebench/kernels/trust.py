"""Once per kind of sweep and process, a kernel is compared with the reference, on the first lanes of what it is given.

A processor, compiler or driver that nobody has tried must not change results unseen. The check takes up to
`IMAGES` images, forward and backward, and hence little beside the first step of a training run.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from routebench.kernels import reference
from routebench.kernels.sweep import INPUTS, Sums, Sweep

IMAGES = 2
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""Largest difference, as a share of the largest value; rounding stays an order of magnitude below."""

_verdicts: dict[tuple[Any, ...], bool] = {}


def is_trusted(name: str, kernel: Callable[[Sweep], Sums], given: Sweep) -> bool:
    """Whether a kernel agreed with the reference in its check; a disagreement is a warning, once."""
    key = (name, *kind(given))
    if key not in _verdicts:
        _verdicts[key] = True  # the check itself asks nobody
        error = disagreement(kernel, given)
        _verdicts[key] = error <= TOLERANCE.get(given.children.dtype, 1e-4)
        if not _verdicts[key]:
            warnings.warn(
                f"back end {name!r} differs from the reference by {error:.1g} of the largest value and is not used "
                f"for this kind of sweep: {kind(given)}",
                stacklevel=3,
            )
    return _verdicts[key]


def kind(given: Sweep) -> tuple[Any, ...]:
    """What decides which code of a kernel runs: shapes without the batch, type, device, and what is left out."""
    windows = given.competition.windows
    present = tuple(name for name in INPUTS if getattr(given, name) is not None)
    where = (given.children.device.type, str(given.children.dtype), str(given.weight.dtype))
    options = (given.competition.axis, given.competition.orphan, given.moments, given.constant_coupling)
    return (tuple(given.weight.shape), given.children.shape[2], windows, present, where, options)


def disagreement(kernel: Callable[[Sweep], Sums], given: Sweep) -> float:
    """The largest difference in sums and gradients from the reference in double precision, for the first images.

    Each tensor's difference is a share of its largest value.
    """
    ours = _evaluate(kernel, _first_images(given))
    double = _first_images(given, torch.float64)
    theirs = _evaluate(reference.dense, double)
    pairs = zip(ours, theirs, strict=True)
    shares = [float((mine.double() - right).abs().max() / right.abs().max().clamp(min=1e-30)) for mine, right in pairs]
    return max(share if share == share else float("inf") for share in shares)  # noqa: PLR0124  # nan is a failure


def _first_images(given: Sweep, dtype: torch.dtype | None = None) -> Sweep:
    parts = {}
    for name in INPUTS:
        value = getattr(given, name)
        if value is not None:
            own = reference.part(name, value, slice(0, min(IMAGES, len(given.children))), given.positions)
            parts[name] = own.detach().to(dtype or value.dtype).requires_grad_()
    return replace(given, **parts)


@torch.enable_grad()
def _evaluate(kernel: Callable[[Sweep], Sums], given: Sweep) -> list[Tensor]:
    sums = [total for total in kernel(given) if total is not None]
    draw = torch.Generator().manual_seed(0)
    loss = sum((total * torch.randn(total.shape, generator=draw).to(total)).sum() for total in sums)
    leaves = [value for name in INPUTS if (value := getattr(given, name)) is not None]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)  # type: ignore[arg-type]
    return [*(total.detach() for total in sums), *gradients]
