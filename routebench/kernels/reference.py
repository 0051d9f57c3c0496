"""The sweep in plain torch: what every kernel is compared with, and what runs where there is none.

`dense` is the textbook: all votes of some images, stored, under autograd. `sweep` goes through a batch with it, some
images at a time, and makes their votes anew in backward, so that memory does not grow with children x parents x batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from routebench.kernels.sweep import INPUTS, Sums, Sweep

TILE = 1 << 22
"""Elements of the votes that are stored at a time: 16 MB in single precision."""
Watch = Callable[[Tensor], Tensor | None]


def sweep(given: Sweep) -> Sums:
    """One sweep in plain torch. A gradient of the gradient stores the votes."""
    if given.is_uniform and given.moments == 1:
        return _uniform_first(given)
    mass, first, second = _Tiled.apply(given, *(getattr(given, name) for name in INPUTS))  # type: ignore[no-untyped-call]
    return Sums(mass, first, second)


def dense(given: Sweep, watch: Watch | None = None, stored: Tensor | None = None) -> Sums:
    """The sweep as the formulas have it: every vote of every lane in memory.

    Args:
        given: the sweep.
        watch: called with the coupling (lane, child, parent); it may give another one in its place.
        stored: what `votes` made of the same children; None to make them here.
    """
    apart = votes(given) if stored is None else stored
    if given.centre is not None:
        apart = apart - given.centre[:, :, None]
    squares = apart.square() if given.curvature is not None or given.moments == 2 else None
    coupling = _coupling(given, apart, squares)
    if watch is not None and (other := watch(coupling)) is not None:
        coupling = other
    weighted = coupling if given.weights is None else coupling * given.weights[..., None]
    second = weigh(weighted, squares) if given.moments == 2 and squares is not None else None
    return Sums(weighted.sum(dim=1), weigh(weighted, apart), second)


def is_transformed() -> bool:
    """Tells whether torch.func (vmap, jacrev, jvp, ..) or forward-mode differentiation is at work.

    They go through plain operations only: through `dense`, but through no `autograd.Function` of ours.
    """
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def votes(given: Sweep) -> Float[Tensor, "lane parent child pose"]:
    """Every vote, laid out so that all sums over children or pose elements are matrix products."""
    lanes, (owners, parents) = given.lanes, given.weight.shape[:2]
    places = given.seen // owners
    # whose weights they are first: one matrix product for each, of all places at which it is
    by_owner = rearrange(in_lanes(given), "lane (place owner) d -> owner (lane place) d", owner=owners)
    if given.is_matrix:
        side = given.weight.shape[2]
        matrices = by_owner.reshape(owners, lanes * places * given.children.shape[2] // side, side)
        products = torch.bmm(matrices, given.weight.transpose(1, 2).reshape(owners, side, parents * side))
        apart = products.view(owners, lanes, places, side, parents, side).permute(1, 4, 2, 0, 3, 5).flatten(4)
    else:
        rows = given.weight.transpose(1, 2).flatten(2)  # owner, pose in, parent x pose out
        products = torch.bmm(by_owner, rows)
        apart = products.view(owners, lanes, places, parents, given.pose).permute(1, 3, 2, 0, 4)
    made = apart.flatten(2, 3)  # lane parent child pose
    return (made if given.offset is None else made + given.offset).contiguous()


def dot(apart: Tensor, poses: Tensor) -> Float[Tensor, "lane parent child"]:
    """The dot product of every vote (lane, parent, child, pose) with its parent's vector (lane, parent, pose).

    Args:
        apart: the votes.
        poses: the vectors.
    """
    return torch.matmul(apart, poses[..., None])[..., 0]


def weigh(weighted: Tensor, apart: Tensor) -> Float[Tensor, "lane parent pose"]:
    """The sum over children of votes (lane, parent, child, pose) times coupling (lane, child, parent).

    Args:
        weighted: the coupling, times the weights of children that have some.
        apart: the votes.
    """
    return torch.matmul(weighted.permute(0, 2, 1)[:, :, None], apart)[:, :, 0]


def in_lanes(given: Sweep) -> Float[Tensor, "lane child pose_in"]:
    """Poses of the children that each lane sees."""
    windows = given.competition.windows
    return given.children if windows is None else windows.gather(given.children)


def over_children(given: Sweep, poses: Tensor, weight: Tensor) -> Float[Tensor, "lane parent pose"]:
    """The sum over children of their poses (lane, child, pose in) times weights, without any votes.

    Args:
        given: the sweep, which says whether poses are matrices.
        poses: poses by lane.
        weight: (child, parent, pose in, pose out), or of fewer children, which others share.
    """
    total: Tensor
    if len(weight) < poses.shape[1]:
        places = poses.shape[1] // len(weight)
        poses = poses.reshape(len(poses), places, len(weight), poses.shape[2]).sum(dim=1)
    if given.is_matrix:
        matrices = poses.reshape(*poses.shape[:2], weight.shape[2], poses.shape[2] // weight.shape[2])
        total = einsum(matrices, weight, "lane child p q, child parent q r -> lane parent p r").flatten(2)
    else:
        total = einsum(poses, weight, "lane child d, child parent d pose -> lane parent pose")
    return total


def shares(given: Sweep) -> Float[Tensor, "lane child"]:
    """Weights times the coupling that equal logits give, which is the same for all parents."""
    seen, parents = given.seen, given.weight.shape[1]
    share = given.competition.uniform(given.weight.new_empty(given.lanes, seen, 0), parents)
    return share if given.weights is None else share * given.weights


def _coupling(given: Sweep, apart: Tensor, squares: Tensor | None) -> Float[Tensor, "lane child parent"]:
    if given.is_uniform:
        seen, parents = given.seen, given.weight.shape[1]
        share = given.competition.uniform(given.weight.new_empty(given.lanes, seen, 0), parents)
        return share[..., None].expand(-1, -1, parents)
    logits = apart.new_zeros(apart.shape[:3]) if given.query is None else dot(apart, given.query)
    if given.curvature is not None and squares is not None:
        logits = logits - 0.5 * dot(squares, given.curvature)
    if given.bias is not None:
        logits = logits + given.bias[:, :, None]
    coupling = given.competition.couple(logits.transpose(1, 2))
    return coupling.detach() if given.constant_coupling else coupling


def _uniform_first(given: Sweep) -> Sums:
    """The sums with uniform coupling: the first moment is one matrix product, without any votes."""
    weighted = shares(given)
    mass = weighted.sum(dim=1, keepdim=True).expand(-1, given.weight.shape[1])
    first = over_children(given, in_lanes(given) * weighted[..., None], given.weight)
    if given.offset is not None:
        first = first + (weighted @ given.offset)[:, None]
    if given.centre is not None:
        first = first - mass[..., None] * given.centre
    return Sums(mass, first, None)


class _Tiled(torch.autograd.Function):
    """`dense`, some images at a time; autograd works on one tile at a time, too."""

    @staticmethod
    def forward(ctx: Any, given: Sweep, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.settings, ctx.precision = given.settings, precision(given.children.device.type)
        ctx.save_for_backward(*inputs)  # and not `given`, so that autograd sees if one is changed in between
        done = [dense(_tile(given, images)) for images in tiles(given)]
        return tuple(None if of_tiles[0] is None else torch.cat(of_tiles) for of_tiles in zip(*done, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        given = Sweep(**dict(zip(INPUTS, ctx.saved_tensors, strict=True)), **ctx.settings)
        wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad[1:], strict=True) if needed]
        with torch.autocast(**ctx.precision):  # that of the forward pass
            totals = (pull if torch.is_grad_enabled() else _pull_tiles)(given, gradients, wanted)
        return None, *(totals.get(name) for name in INPUTS)


def _pull_tiles(given: Sweep, of_sums: Sequence[Tensor | None], wanted: Sequence[str]) -> dict[str, Tensor]:
    totals = {name: torch.zeros_like(getattr(given, name)) for name in wanted}
    for images in tiles(given):
        tile = _tile(given, images)
        lanes = slice(images.start * given.positions, images.stop * given.positions)
        own = [None if of is None else of[lanes] for of in of_sums]
        leaves = {name: getattr(tile, name).detach().requires_grad_() for name in wanted}
        for name, gradient in pull(replace(tile, **leaves), own, wanted).items():
            part(name, totals[name], images, given.positions).add_(gradient)
    return totals


def precision(device: str) -> dict[str, Any]:
    """The current settings of autocast."""
    enabled = torch.is_autocast_enabled(device)
    return {"device_type": device, "dtype": torch.get_autocast_dtype(device), "enabled": enabled}


def pull(given: Sweep, of_sums: Sequence[Tensor | None], wanted: Sequence[str]) -> dict[str, Tensor]:
    """Gradients of the wanted tensors of a sweep, from those of its sums; votes are stored.

    In grad mode, the result can be differentiated again.

    Args:
        given: the sweep.
        of_sums: the gradient of each of `Sums`; None for a sum without.
        wanted: some of `INPUTS`.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():  # for aliases, so that ways from one input to another outside the sweep do not count
        inputs = {name: (value := getattr(given, name)).view_as(value) for name in wanted}
        sums = dense(replace(given, **inputs))
    pairs = [pair for pair in zip(sums, of_sums, strict=True) if _is_in_graph(*pair)]
    if not pairs:
        return {}
    outputs, of_outputs = zip(*pairs, strict=True)
    given_back = torch.autograd.grad(outputs, [*inputs.values()], of_outputs, create_graph=again, allow_unused=True)
    found: Sequence[Tensor | None] = given_back
    return {name: gradient for name, gradient in zip(wanted, found, strict=True) if gradient is not None}


def _is_in_graph(total: Tensor | None, gradient: Tensor | None) -> bool:
    return total is not None and gradient is not None and total.requires_grad


def tiles(given: Sweep) -> list[slice]:
    """Ranges of images whose votes are stored together."""
    images, step = len(given.children), _images_in_a_tile(given)
    return [slice(start, min(start + step, images)) for start in range(0, max(images, 1), step)]


def _images_in_a_tile(given: Sweep) -> int:
    return max(1, TILE // (given.positions * given.seen * given.weight.shape[1] * given.pose))


def _tile(given: Sweep, images: slice) -> Sweep:
    found = {name: getattr(given, name) for name in INPUTS}
    parts: dict[str, Any] = {
        name: part(name, value, images, given.positions) for name, value in found.items() if value is not None
    }
    return replace(given, competition=given.competition.of(images), **parts)


def part(name: str, value: Tensor, images: slice, positions: int) -> Tensor:
    """The part of a value that belongs to some images, as a view.

    Args:
        name: one of `INPUTS`.
        value: that input of the sweep, for all images.
        images: the range of images.
        positions: lanes of each image.
    """
    if name in ("weight", "offset"):  # all images have them in common
        return value
    scale = 1 if name == "children" else positions
    return value[images.start * scale : images.stop * scale]
