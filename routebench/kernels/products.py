"""Votes times a coupling that a method made itself, and votes times vectors of the parents, without storing votes.

As in `reference.sweep`, votes are made some images at a time, and anew in backward, so that memory grows with what goes
in and what comes out. A gradient of the gradient stores the votes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from routebench.kernels import reference
from routebench.kernels.sweep import Sweep

VOTES = ("children", "weight", "offset")
"""The tensors that votes are made of."""
INPUTS = (*VOTES, "factor")
"""With what they are multiplied by: the coupling or the vectors, by lane."""
Product = Callable[[Tensor, Tensor], Tensor]
"""Of votes (lane, parent, child, pose) and the factor."""
Tensors = dict[str, Tensor]
"""Those of `INPUTS` that there are, of some images or of all."""


def aggregate(given: Sweep, coupling: Float[Tensor, "#lane child parent"]) -> Float[Tensor, "lane parent pose"]:
    """sum_i R_ij V_ij. A coupling that all lanes share goes into the weights, and the rest is one matrix product."""
    return _scaled(given, coupling[0]) if len(coupling) == 1 else _tiled(_weigh, given, coupling)


def agreement(given: Sweep, vectors: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
    """The dot product of each vote with its parent's vector."""
    return _tiled(_dot, given, vectors)


def _weigh(votes: Tensor, coupling: Tensor) -> Tensor:
    return reference.weigh(coupling, votes)


def _dot(votes: Tensor, vectors: Tensor) -> Tensor:
    return reference.dot(votes, vectors).transpose(1, 2)


def _scaled(given: Sweep, coupling: Float[Tensor, "child parent"]) -> Float[Tensor, "lane parent pose"]:
    total = reference.over_children(given, reference.in_lanes(given), given.weight * coupling[..., None, None])
    if given.offset is None:
        return total
    shift: Tensor = einsum(coupling, given.offset, "child parent, child pose -> parent pose")
    return total + shift


def _tiled(product: Product, given: Sweep, factor: Tensor) -> Tensor:
    made: Tensor = _Tiled.apply(product, given.settings, *(getattr(given, name) for name in VOTES), factor)  # type: ignore[no-untyped-call]
    return made


class _Tiled(torch.autograd.Function):
    """A product, some images at a time; autograd works on one tile at a time, too."""

    @staticmethod
    def forward(ctx: Any, product: Product, settings: Mapping[str, Any], *values: Tensor | None) -> Tensor:
        ctx.save_for_backward(*values)
        tensors = _named(values)
        ctx.product, ctx.settings = product, settings
        ctx.precision = reference.precision(tensors["children"].device.type)
        return torch.cat([_work(product, settings, tile) for tile in _tiles(settings, tensors)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors = _named(ctx.saved_tensors)
        wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad[2:], strict=True) if needed]
        with torch.autocast(**ctx.precision):  # that of the forward pass
            pull = _pull if torch.is_grad_enabled() else _pull_tiles
            found = pull(ctx.product, ctx.settings, tensors, gradient, wanted)
        return None, None, *(found.get(name) for name in INPUTS)


def _named(values: Sequence[Tensor | None]) -> Tensors:
    return {name: value for name, value in zip(INPUTS, values, strict=True) if value is not None}


def _votes_of(settings: Mapping[str, Any], tensors: Tensors) -> Sweep:
    return Sweep(tensors["children"], tensors["weight"], offset=tensors.get("offset"), **settings)


def _work(product: Product, settings: Mapping[str, Any], tensors: Tensors) -> Tensor:
    return product(reference.votes(_votes_of(settings, tensors)), tensors["factor"])


def _tiles(settings: Mapping[str, Any], tensors: Tensors) -> list[Tensors]:
    """Views of what belongs to some images; weights and offsets belong to all."""
    given = _votes_of(settings, tensors)
    return [
        {name: reference.part(name, value, images, given.positions) for name, value in tensors.items()}
        for images in reference.tiles(given)
    ]


def _pull_tiles(
    product: Product, settings: Mapping[str, Any], tensors: Tensors, gradient: Tensor, wanted: Sequence[str]
) -> Tensors:
    totals = {name: torch.zeros_like(tensors[name]) for name in wanted}
    together = _tiles(settings, {**tensors, "gradient": gradient}), _tiles(settings, {**tensors, **totals})
    for tile, of_totals in zip(*together, strict=True):
        own = tile.pop("gradient")
        leaves = {name: value.detach().requires_grad_(name in wanted) for name, value in tile.items()}
        for name, found in _pull(product, settings, leaves, own, wanted).items():
            of_totals[name].add_(found)
    return totals


def _pull(
    product: Product, settings: Mapping[str, Any], tensors: Tensors, gradient: Tensor, wanted: Sequence[str]
) -> Tensors:
    """Gradients of the wanted tensors from that of the product. In grad mode, they can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():  # for aliases, so that ways from one input to another outside do not count
        inputs = {name: tensors[name].view_as(tensors[name]) for name in wanted}
        made = _work(product, settings, {**tensors, **inputs})
    found = torch.autograd.grad(made, [*inputs.values()], gradient, create_graph=again)
    return dict(zip(wanted, found, strict=True))
