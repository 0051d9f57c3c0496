"""Parameters as training might leave them, and which of their elements belong to which parent."""

import zlib

import torch
from torch import Tensor, nn

SHIFT = 0.3
"""By which every parameter is moved, so that a property does not hold only where nothing has been learned yet."""


def move(method: nn.Module, *, apart: bool) -> None:
    """Moves every parameter.

    Args:
        method: whose parameters they are.
        apart: each element by an amount of its own, by the parameter's name, else all by the same.
    """
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            source = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(SHIFT * noise.to(parameter) if apart else SHIFT)


def parent_axes(method: nn.Module, wider: nn.Module, parents: int) -> dict[str, tuple[int, ...]] | None:
    """The axes of each parameter that have one entry per parent.

    Args:
        method: made for so many parents.
        wider: the same for one more, which tells axes of parents from axes that only have their length.
        parents: how many.

    Returns:
        by the parameter's name; None where an axis holds parents and something else, so that it cannot be told which
        entries are whose.
    """
    one, other = ({name: value.shape for name, value in made.named_parameters()} for made in (method, wider))
    if one.keys() != other.keys() or any(len(one[name]) != len(other[name]) for name in one):
        return None
    found = {}
    for name, shape in one.items():
        found[name] = tuple(axis for axis, size in enumerate(shape) if size != other[name][axis])
        if any((shape[axis], other[name][axis]) != (parents, parents + 1) for axis in found[name]):
            return None
    return found


def reorder(method: nn.Module, axes: dict[str, tuple[int, ...]], order: Tensor) -> None:
    """Gives each parent the parameters that another one had, in an order of parents."""
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            for axis in axes[name]:
                parameter.copy_(parameter.index_select(axis, order))
