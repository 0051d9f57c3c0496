"""Votes times a coupling that a method made itself, and votes times vectors of the parents, without storing votes.

A sum over the children of a dense layer needs no votes: `sum_i R_ij u_i W_ij` is, for each parent, one matrix product
of (lane) x (child, pose in) and (child, pose in) x (pose out). It is worked out for some lanes and parents at a time;
everything else for some images at a time, as in `reference.sweep`, with votes made anew in backward. So memory grows
with what goes in and what comes out. A gradient of the gradient stores what all tiles have together.
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
"""Names of the inputs: votes, and their factor, which is the coupling or the vectors, by lane."""
Tensors = dict[str, Tensor]
"""Those of `INPUTS` that there are, of one tile or of all; with `gradient` that of the product."""
Product = Callable[[Sweep, Tensor], Tensor]
"""Multiplies votes that are yet to be made by the factor."""


def aggregate(given: Sweep, coupling: Float[Tensor, "#lane child parent"]) -> Float[Tensor, "lane parent pose"]:
    """sum_i R_ij V_ij. A coupling common to all lanes goes into the weights, and the rest is one matrix product.

    Args:
        given: the sweep whose votes are summed.
        coupling: (lane, child, parent), or (1, child, parent) for all lanes.
    """
    if given.is_shared:
        return _of_shared(given, coupling)
    if len(coupling) == 1:
        return _scaled(given, coupling[0])
    if given.competition.windows is not None:
        return _tiled(_weigh, given, coupling)
    way = _by_parent if reference.is_transformed() else _ByParent.apply
    total: Tensor = way(given.children, given.weight, given.offset, coupling)
    return total


def agreement(given: Sweep, vectors: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
    """The dot product of each vote with its parent's vector.

    Args:
        given: the sweep whose votes are compared.
        vectors: those of the parents, (lane, parent, pose).
    """
    if given.is_shared:
        return _with_shared(given, vectors)
    return _tiled(_dot, given, vectors)


def _of_shared(given: Sweep, coupling: Float[Tensor, "#lane child parent"]) -> Float[Tensor, "lane parent pose"]:
    """The aggregate where children share weights: poses are added up over places, and no vote is made."""
    weight, owners = given.weight, len(given.weight)
    shares = coupling.reshape(len(coupling), given.seen // owners, owners, coupling.shape[2])
    below = einsum(shares.expand(given.lanes, -1, -1, -1), _placed(given),
                   "lane place owner parent, lane place owner r c -> lane owner parent r c")  # fmt: skip
    total: Tensor = einsum(below, weight, "lane owner parent r c, owner parent c q -> lane parent r q").flatten(2)
    return total if given.offset is None else total + coupling.transpose(1, 2) @ given.offset


def _placed(given: Sweep) -> Float[Tensor, "lane place owner row column"]:
    """Poses of children, by the place and the child whose weights they have."""
    owners, side = given.weight.shape[0], given.weight.shape[2]
    places, rows = given.seen // owners, given.children.shape[2] // side
    return given.children.reshape(given.lanes, places, owners, rows, side)


def _with_shared(given: Sweep, vectors: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
    """The agreement where children share weights: vectors go down through the weights, and no vote is made."""
    columns = given.weight.shape[3]
    rows = vectors.reshape(*vectors.shape[:2], given.pose // columns, columns)
    below = einsum(rows, given.weight, "lane parent r q, owner parent c q -> lane owner parent r c")
    found: Tensor = einsum(
        _placed(given), below, "lane place owner r c, lane owner parent r c -> lane place owner parent"
    )
    found = found.flatten(1, 2)
    if given.offset is None:
        return found
    shift: Tensor = einsum(vectors, given.offset, "lane parent pose, child pose -> lane child parent")
    return found + shift


def _weigh(given: Sweep, coupling: Tensor) -> Tensor:
    return reference.weigh(coupling, reference.votes(given))


def _dot(given: Sweep, vectors: Tensor) -> Tensor:
    return reference.dot(reference.votes(given), vectors).transpose(1, 2)


def _by_parent(
    children: Tensor, weight: Tensor, offset: Tensor | None, coupling: Tensor
) -> Float[Tensor, "lane parent pose"]:
    """Products of a dense layer for each parent: all children's poses by its coupling, and those by all its weights.

    Stores the poses once for each parent.
    """
    rows, matrices = _rows(children, weight), _matrices(weight)
    total = torch.bmm(_weighted(rows, coupling.permute(2, 0, 1)), matrices)
    return _of_lanes(total.view(len(matrices), len(rows), -1), coupling, offset)


def _rows(children: Tensor, weight: Tensor) -> Float[Tensor, "lane row column child"]:
    """Rows of matrix poses, or of a vector the only one. Children lie last: products are then made in long rows."""
    column = weight.shape[2]
    rows = children.shape[2] // column
    return children.reshape(*children.shape[:2], rows, column).permute(0, 2, 3, 1).contiguous()


def _matrices(weight: Tensor) -> Float[Tensor, "parent column_child pose"]:
    return weight.permute(1, 2, 0, 3).flatten(1, 2)


def _weighted(rows: Tensor, shares: Tensor) -> Float[Tensor, "parent lane_row column_child"]:
    return (rows * shares[:, :, None, None]).flatten(3).flatten(1, 2)


def _of_lanes(
    total: Float[Tensor, "parent lane pose"], coupling: Tensor, offset: Tensor | None
) -> Float[Tensor, "lane parent pose"]:
    found = total.transpose(0, 1)
    return found if offset is None else found + coupling.transpose(1, 2) @ offset


class _ByParent(torch.autograd.Function):
    """`_by_parent` and its gradient, some lanes and parents at a time."""

    @staticmethod
    def forward(ctx: Any, children: Tensor, weight: Tensor, offset: Tensor | None, coupling: Tensor) -> Tensor:
        ctx.save_for_backward(children, weight, offset, coupling)
        rows, matrices, shares = _rows(children, weight), _matrices(weight), coupling.permute(2, 0, 1).contiguous()
        total = rows.new_empty(*shares.shape[:2], rows.shape[1] * matrices.shape[2])
        with torch.autocast(children.device.type, enabled=False):
            for lanes, parents in _tiles(rows, len(shares)):
                weighted = _weighted(rows[lanes], shares[parents, lanes])
                total[parents, lanes] = torch.bmm(weighted, matrices[parents]).view_as(total[parents, lanes])
            return _of_lanes(total, coupling, offset)

    @staticmethod
    def backward(ctx: Any, of_total: Tensor) -> tuple[Tensor | None, ...]:
        children, weight, offset, coupling = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of this gradient may be wanted
            own = {name: value.view_as(value) for name, value in _named(ctx.saved_tensors).items()}  # as in `_pull`
            wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad, strict=True) if needed]
            made = _by_parent(own["children"], own["weight"], own.get("offset"), own["factor"])
            found = torch.autograd.grad(made, [own[name] for name in wanted], of_total, create_graph=True)
            return tuple(dict(zip(wanted, found, strict=True)).get(name) for name in INPUTS)
        to_children, to_weight, to_offset, to_coupling = ctx.needs_input_grad
        rows, matrices, shares = _rows(children, weight), _matrices(weight), coupling.permute(2, 0, 1).contiguous()
        by_row = of_total.reshape(*of_total.shape[:2], rows.shape[1], weight.shape[3])
        by_row = by_row.transpose(0, 1)  # parent lane row pose
        of_rows, of_matrices, of_shares = torch.zeros_like(rows), torch.zeros_like(matrices), torch.empty_like(shares)
        for lanes, parents in _tiles(rows, len(shares)):
            below, given, part = rows[lanes], shares[parents, lanes], by_row[parents, lanes].flatten(1, 2)
            if to_weight:
                of_matrices[parents] += torch.bmm(_weighted(below, given).transpose(1, 2), part)
            if to_children or to_coupling:
                of_weighted = torch.bmm(part, matrices[parents].transpose(1, 2)).view(len(given), *below.shape)
            if to_coupling:
                of_shares[parents, lanes] = (of_weighted * below).sum(dim=(2, 3))  # over elements of poses
            if to_children:
                of_rows[lanes] += of_weighted.mul_(given[:, :, None, None]).sum(dim=0)  # over parents
        of_coupling = of_shares.permute(1, 2, 0)
        if offset is not None and to_coupling:
            of_coupling = of_coupling + offset @ of_total.transpose(1, 2)
        return (
            of_rows.permute(0, 3, 1, 2).flatten(2) if to_children else None,
            of_matrices.view(len(matrices), weight.shape[2], -1, weight.shape[3]).permute(2, 0, 1, 3)
            if to_weight
            else None,
            torch.einsum("lij,ljp->ip", coupling, of_total) if to_offset else None,
            of_coupling if to_coupling else None,
        )


def _tiles(rows: Tensor, parents: int) -> list[tuple[slice, slice]]:
    """Lanes and parents whose weighted poses are stored together."""
    of_lane = rows.shape[1:].numel()
    lanes = max(1, reference.TILE // of_lane)
    step = max(1, reference.TILE // (max(1, min(lanes, len(rows))) * of_lane))
    return [
        (slice(lane, lane + lanes), slice(first, first + step))
        for lane in range(0, len(rows), lanes)
        for first in range(0, parents, step)
    ]


def _images(settings: Mapping[str, Any], tensors: Tensors) -> list[Tensors]:
    """The parts of tensors that belong to some images; weights and offsets belong to all."""
    given = _votes_of(settings, tensors)
    return [
        {name: reference.part(name, value, images, given.positions) for name, value in tensors.items()}
        for images in reference.tiles(given)
    ]


def _scaled(given: Sweep, coupling: Float[Tensor, "child parent"]) -> Float[Tensor, "lane parent pose"]:
    total = reference.over_children(given, reference.in_lanes(given), given.weight * coupling[..., None, None])
    if given.offset is None:
        return total
    shift: Tensor = einsum(coupling, given.offset, "child parent, child pose -> parent pose")
    return total + shift


def _tiled(product: Product, given: Sweep, factor: Tensor) -> Tensor:
    if reference.is_transformed():
        return product(given, factor)
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
        return torch.cat([_work(product, settings, tile) for tile in _images(settings, tensors)])

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
    return product(_votes_of(settings, tensors), tensors["factor"])


def _pull_tiles(
    product: Product, settings: Mapping[str, Any], tensors: Tensors, gradient: Tensor, wanted: Sequence[str]
) -> Tensors:
    totals = {name: torch.zeros_like(tensors[name]) for name in wanted}
    together = (
        _images(settings, {**tensors, "gradient": gradient}),
        _images(settings, {**tensors, **totals}),
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
