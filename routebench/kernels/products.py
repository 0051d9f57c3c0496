"""Votes times a coupling that a method made itself, and votes times vectors of the parents, without storing votes.

A sum over the children of a dense layer needs no votes: `sum_i R_ij u_i W_ij` is, for each parent, one matrix product
of (lane) x (child, pose in) and (child, pose in) x (pose out). It is worked out some parents at a time; everything else
some images at a time, as in `reference.sweep`, with votes made anew in backward. So memory grows with what goes in and
what comes out. A gradient of the gradient stores what all tiles have together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
Tensors = dict[str, Tensor]
"""Those of `INPUTS` that there are, of one tile or of all; with `gradient` that of the product."""


@dataclass(frozen=True)
class Product:
    """A product that can be worked out in tiles.

    Args:
        of: the product, from votes that are yet to be made and the factor.
        tiles: views of what belongs to each tile.
        axis: of the product, along which tiles follow each other.
    """

    of: Callable[[Sweep, Tensor], Tensor]
    tiles: Callable[[Mapping[str, Any], Tensors], list[Tensors]]
    axis: int


def aggregate(given: Sweep, coupling: Float[Tensor, "#lane child parent"]) -> Float[Tensor, "lane parent pose"]:
    """sum_i R_ij V_ij. A coupling that all lanes share goes into the weights, and the rest is one matrix product."""
    if len(coupling) == 1:
        return _scaled(given, coupling[0])
    return _tiled(WEIGH if given.competition.windows is not None else WEIGH_BY_PARENT, given, coupling)


def agreement(given: Sweep, vectors: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
    """The dot product of each vote with its parent's vector."""
    return _tiled(DOT, given, vectors)


def _weigh(given: Sweep, coupling: Tensor) -> Tensor:
    return reference.weigh(coupling, reference.votes(given))


def _dot(given: Sweep, vectors: Tensor) -> Tensor:
    return reference.dot(reference.votes(given), vectors).transpose(1, 2)


def _weigh_by_parent(given: Sweep, coupling: Tensor) -> Tensor:
    """For each parent, all children's poses times its coupling, and those times all its weights."""
    parents, (lanes, children) = coupling.shape[2], given.children.shape[:2]
    columns = given.weight.shape[2]  # of a matrix pose, or all elements of a vector
    rows = given.children.reshape(lanes, children, -1, columns).transpose(1, 2)  # lane row child column
    weighted = rows * coupling.permute(2, 0, 1)[:, :, None, :, None]  # parent lane row child column
    by_parent = given.weight.transpose(0, 1).reshape(parents, children * columns, -1)
    total = torch.bmm(weighted.reshape(parents, -1, children * columns), by_parent)  # parent, lane x row, column
    total = total.reshape(parents, lanes, -1).transpose(0, 1)
    return total if given.offset is None else total + coupling.transpose(1, 2) @ given.offset


def _images(settings: Mapping[str, Any], tensors: Tensors) -> list[Tensors]:
    """What belongs to some images; weights and offsets belong to all."""
    given = _votes_of(settings, tensors)
    return [
        {name: reference.part(name, value, images, given.positions) for name, value in tensors.items()}
        for images in reference.tiles(given)
    ]


PARENT_AXIS = {"weight": 1, "factor": 2, "gradient": 1}


def _parents(_: Mapping[str, Any], tensors: Tensors) -> list[Tensors]:
    """What belongs to some parents; children and offsets belong to all."""
    parents = tensors["weight"].shape[1]
    step = max(1, reference.TILE // max(tensors["children"].numel(), tensors["weight"][:, 0].numel()))
    return [
        {
            name: value.narrow(PARENT_AXIS[name], first, min(step, parents - first)) if name in PARENT_AXIS else value
            for name, value in tensors.items()
        }
        for first in range(0, parents, step)
    ]


WEIGH, WEIGH_BY_PARENT = Product(_weigh, _images, 0), Product(_weigh_by_parent, _parents, 1)
DOT = Product(_dot, _images, 0)


def _scaled(given: Sweep, coupling: Float[Tensor, "child parent"]) -> Float[Tensor, "lane parent pose"]:
    total = reference.over_children(given, reference.in_lanes(given), given.weight * coupling[..., None, None])
    if given.offset is None:
        return total
    shift: Tensor = einsum(coupling, given.offset, "child parent, child pose -> parent pose")
    return total + shift


def _tiled(product: Product, given: Sweep, factor: Tensor) -> Tensor:
    if reference.is_transformed():
        return product.of(given, factor)
    made: Tensor = _Tiled.apply(product, given.settings, *(getattr(given, name) for name in VOTES), factor)  # type: ignore[no-untyped-call]
    return made


class _Tiled(torch.autograd.Function):
    """A product, tile by tile; autograd works on one tile at a time, too."""

    @staticmethod
    def forward(ctx: Any, product: Product, settings: Mapping[str, Any], *values: Tensor | None) -> Tensor:
        ctx.save_for_backward(*values)
        tensors = _named(values)
        ctx.product, ctx.settings = product, settings
        ctx.precision = reference.precision(tensors["children"].device.type)
        return torch.cat(
            [_work(product, settings, tile) for tile in product.tiles(settings, tensors)], dim=product.axis
        )

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
    return product.of(_votes_of(settings, tensors), tensors["factor"])


def _pull_tiles(
    product: Product, settings: Mapping[str, Any], tensors: Tensors, gradient: Tensor, wanted: Sequence[str]
) -> Tensors:
    totals = {name: torch.zeros_like(tensors[name]) for name in wanted}
    together = (
        product.tiles(settings, {**tensors, "gradient": gradient}),
        product.tiles(settings, {**tensors, **totals}),
    )
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
