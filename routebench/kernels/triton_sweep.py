"""The sweep as Triton kernels, for GPUs: what is done around them. They are in `triton_kernels`.

Votes are made anew in forward and backward, and stay in registers. One program takes a tile of lanes with all parents
and loops over children; the gradient of what children have takes one child and loops over lanes. Where that makes too
few programs, the loop is split into parts, which are summed afterwards in one order: the same bits every time.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from routebench.kernels import reference
from routebench.kernels.sweep import INPUTS, Sums, Sweep
from routebench.ops import Competition, Windows

TYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Types that are taken; computed is in single precision."""
PROGRAMS = 2048
"""Programs that keep a large GPU busy: its 132 multiprocessors times some 16 warps. A constant, so that sums are taken
in the same order on every GPU."""
FEWEST = 8
"""Steps of a loop, at least, in each part that it is split into."""
LARGEST = 1 << 14
"""Largest padded pose in x parents x pose: the gradient of W for one child, which a program holds in registers."""
LONGEST = 32
"""Largest pose in: loops over it are unrolled, and 64 take a compiler minutes."""


class Inputs(NamedTuple):
    """Tensors that kernels read: those of a sweep, and what they were found to need; or the gradients of some of them.

    cell_of: (position, child), the cell that a child is at a position; None in a dense layer.
    peak, total: (lane, child), the greatest logit of all that compete for a child and the sum of all exponentials of
        logits less this peak, where parents of other lanes compete.
    expected: (lane, child), the expectation of the gradient over all that compete for a child, too.
        Where each parent type competes apart, these three are (lane, child, parent).
    """

    children: Tensor | None = None
    weight: Tensor | None = None
    offset: Tensor | None = None
    query: Tensor | None = None
    curvature: Tensor | None = None
    bias: Tensor | None = None
    centre: Tensor | None = None
    weights: Tensor | None = None
    cell_of: Tensor | None = None
    peak: Tensor | None = None
    total: Tensor | None = None
    expected: Tensor | None = None


class Sizes(NamedTuple):
    """Numbers that may change from call to call without a new compilation."""

    lanes: int
    seen: int
    cells: int
    positions: int


class Tile(NamedTuple):
    """Constants that a kernel is compiled for: sizes, the same padded to powers of two, and options.

    coupling: `one`, `softmax` over the parents of a lane, `shared` with other lanes, or `apart`, with other lanes but
        for each parent by itself.
    constant: no gradient goes through the coupling.
    """

    parents: int
    rows: int
    columns: int
    inner: int
    lanes_tile: int
    parents_tile: int
    rows_tile: int
    columns_tile: int
    coupling: str
    orphan: bool
    constant: bool

    @property
    def lane(self) -> int:
        """Padded elements of the votes for one lane."""
        return self.parents_tile * self.rows_tile * self.columns_tile


class Plan(NamedTuple):
    """Division of the work among programs.

    grid: tiles of lanes, or children, and the parts that the loop over the other is split into.
    per_part: steps of the loop in one part.
    """

    tile: Tile
    warps: int
    grid: tuple[int, int]
    per_part: int


def obstacle(given: Sweep) -> str:
    """Reason why the kernels cannot do this sweep; empty if they can."""
    return next(_obstacles(given), "")


def _obstacles(given: Sweep) -> Iterator[str]:
    tensors = [value for name in INPUTS if (value := getattr(given, name)) is not None]
    if not is_interpreting():
        for value in tensors:
            yield from obstacles_of(value.device)
    if importlib.util.find_spec("triton") is None:  # a quarter of a millisecond, which a sweep without a GPU is spared
        yield "triton is not installed"
    for value in tensors:
        if value.dtype not in TYPES:
            yield f"{value.dtype} is not supported"
    if not _coupling(given):
        yield f"competition over {given.competition.axis!r} is not supported"
    if given.lanes == 0:
        yield "the batch is empty"
    tile = _tile(given)
    if tile.inner > LONGEST or tile.inner * tile.lane > LARGEST:
        yield f"the weights of one child, {tuple(given.weight.shape[1:])}, are too many for the registers of a program"


@lru_cache(maxsize=64)
def obstacles_of(device: torch.device) -> tuple[str, ...]:
    """Reasons why Triton does not run on a device."""
    if device.type != "cuda":
        return (f"tensors are on {device.type!r}, and not on 'cuda'",)
    if torch.cuda.get_device_capability(device) < (8, 0):
        return ("Triton is for GPUs of compute capability 8.0 and later",)
    has_compiler = "CC" in os.environ or shutil.which("gcc") or shutil.which("clang")
    return () if has_compiler else ("there is no C compiler, with which Triton makes what starts a kernel",)


def sweep(given: Sweep) -> Sums:
    """One sweep, for which there is no obstacle. A gradient of the gradient stores the votes."""
    given = given.weighed().spread()
    if _coupling(given) == "one":
        given = _with_shares(given)
    tensors = (getattr(given, name) for name in INPUTS)
    mass, first, second = _Swept.apply(given, *tensors)  # type: ignore[no-untyped-call]
    return Sums(mass, first, second)


class _Swept(torch.autograd.Function):
    """The kernels and their gradient."""

    @staticmethod
    def forward(ctx: Any, given: Sweep, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.settings = given.settings
        ctx.save_for_backward(*inputs)  # and not `given`, so that autograd sees if one is changed in between
        ctx.set_materialize_grads(False)
        return tuple(_sums(given))

    @staticmethod
    def backward(ctx: Any, *of_sums: Tensor | None) -> tuple[Tensor | None, ...]:
        given = Sweep(**dict(zip(INPUTS, ctx.saved_tensors, strict=True)), **ctx.settings)
        wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad[1:], strict=True) if needed]
        if torch.is_grad_enabled():
            found = reference.pull(given, of_sums, wanted)
        else:
            found = _gradients(given, [None if of is None else of.contiguous() for of in of_sums], set(wanted))
        return None, *(found.get(name) for name in INPUTS)


class _Gains(NamedTuple):
    """Gradients of `Sums`; None for what has none."""

    mass: Tensor | None
    first: Tensor | None
    second: Tensor | None


def _sums(given: Sweep) -> Sums:
    plan = _over_children(given, live=4 + given.moments)
    lead, pose = (plan.grid[1], given.lanes, given.weight.shape[1]), given.pose
    second = _empty(given, *lead, pose) if given.moments == 2 else None
    parts = Sums(_empty(given, *lead), _empty(given, *lead, pose), second)
    _start("sums", plan, given, _inputs(given), parts)
    return Sums(parts.mass.sum(dim=0), parts.first.sum(dim=0), None if second is None else second.sum(dim=0))


def _gradients(given: Sweep, gradients: list[Tensor | None], wanted: set[str]) -> dict[str, Tensor]:
    """Gradients of the inputs that are wanted and that have one."""
    gains, inputs, windows = _Gains(*gradients), _inputs(given), given.competition.windows
    is_constant = given.constant_coupling or _coupling(given) == "one"
    if inputs.peak is not None and windows is not None and not is_constant:
        own = _per_competition(given)
        _start("expectations", _over_children(given, live=5), given, inputs, gains, own)
        inputs = inputs._replace(expected=windows.gather(_add_up(windows, own)))
    found: dict[str, Tensor] = {}
    if of_parents := wanted & ({"centre"} if is_constant else {"query", "curvature", "bias", "centre"}):
        plan = _over_children(given, live=6 if gains.second is None else 8)
        parts = {name: _empty(given, plan.grid[1], *getattr(given, name).shape) for name in of_parents}
        _start("to_parents", plan, given, inputs, gains, Inputs(**parts))
        found |= {name: part.sum(dim=0) for name, part in parts.items()}
    if of_children := wanted & {"children", "weight", "offset", "weights"}:
        plan = _over_lanes(given)
        each, together = (given.lanes, given.weight.shape[0]), (plan.grid[1],)
        shapes = {"children": (*each, given.children.shape[2]), "weights": each}
        shapes |= {name: (*together, *getattr(given, name).shape) for name in of_children - set(shapes)}
        parts = {name: _empty(given, *shapes[name]) for name in of_children}
        _start("to_children", plan, given, inputs, gains, Inputs(**parts))
        found |= {name: part if name in ("children", "weights") else part.sum(dim=0) for name, part in parts.items()}
        if "children" in found and windows is not None:
            found["children"] = _add_up(windows, found["children"])
    return {name: value.to(getattr(given, name).dtype) for name, value in found.items()}


def _inputs(given: Sweep) -> Inputs:
    """Tensors that the kernels read; two small ones more where a child couples to parents of other lanes."""
    tensors = {name: value.contiguous() for name in INPUTS if (value := getattr(given, name)) is not None}
    inputs, windows = Inputs(**tensors), given.competition.windows
    if windows is None:
        return inputs
    inputs = inputs._replace(cell_of=_cell_of(windows, given.children.device))
    if _coupling(given) not in ("shared", "apart"):
        return inputs
    peak = _per_competition(given)
    total = None if _coupling(given) == "apart" else _per_competition(given)  # of one logit, less itself: 1
    _start("totals", _over_children(given, live=4), given, inputs, Inputs(peak=peak, total=total))
    peaks = _greatest(windows, peak)
    if given.competition.orphan:
        peaks = peaks.clamp(min=0)
    at_windows = windows.gather(peaks)
    shares = (peak - at_windows).exp()
    totals = _add_up(windows, shares if total is None else total * shares)
    if given.competition.orphan:
        totals = totals + (-peaks).exp()
    return inputs._replace(peak=at_windows, total=windows.gather(totals))


def _start(name: str, plan: Plan, given: Sweep, *tensors: Any) -> None:
    """Runs a kernel on the device of the children."""
    from routebench.kernels import triton_kernels  # hence triton is only imported where it is used

    sizes = Sizes(given.lanes, given.weight.shape[0], given.children.shape[1], given.positions)
    with torch.cuda.device_of(given.children):  # type: ignore[no-untyped-call]
        getattr(triton_kernels, name)[plan.grid](
            *tensors, sizes, plan.per_part, plan.tile, num_warps=plan.warps, enable_fp_fusion=True
        )


def _tile(given: Sweep, lanes: int = 1) -> Tile:
    _, parents, inner, columns = given.weight.shape
    rows = columns if given.is_matrix else 1
    return Tile(
        parents=parents,
        rows=rows,
        columns=columns,
        inner=inner,
        lanes_tile=lanes,
        parents_tile=_power_of_two(parents),
        rows_tile=_power_of_two(rows),
        columns_tile=_power_of_two(columns),
        coupling=_coupling(given),
        orphan=given.competition.orphan,
        constant=given.constant_coupling,
    )


def _over_children(given: Sweep, live: int) -> Plan:
    """A program takes a tile of lanes, and loops over children.

    A warp takes 512 elements of one lane's votes, so that sums over parents and pose elements are shuffles within it or
    few; a thread then has 16 of each lane. Of its 255 registers 192 are for `live` tensors of the size of a tile, which
    gives 1 or 2 lanes for 32 parents with poses of 16 elements; addresses and temporaries take the rest.
    """
    lane = _tile(given).lane
    warps = _warps(lane)
    tile = _tile(given, _lanes(given, 192 * 32 * warps // (live * lane)))
    tiles = -(-given.lanes // tile.lanes_tile)
    parts, per_part = _parts(tiles, given.weight.shape[0])
    return Plan(tile, warps, (tiles, parts), per_part)


def _over_lanes(given: Sweep) -> Plan:
    """A program takes a child, and loops over tiles of lanes.

    A thread has up to 64 registers for the gradient of W, and 16 for each of some six tensors of the size of a tile.
    """
    tile = _tile(given)
    warps = _warps(tile.lane)
    tile = _tile(given, _lanes(given, 16 * 32 * warps // tile.lane))
    seen, tiles = given.weight.shape[0], -(-given.lanes // tile.lanes_tile)
    parts, per_part = _parts(seen, tiles)
    return Plan(tile, max(warps, tile.inner * tile.lane // (64 * 32)), (seen, parts), per_part * tile.lanes_tile)


def _warps(lane: int) -> int:
    """Warps for the votes of one lane."""
    return min(max(lane // 512, 1), 8)


def _lanes(given: Sweep, most: int) -> int:
    """Lanes of a tile: a power of two, and no more than there are."""
    return 1 << (max(min(most, given.lanes), 1).bit_length() - 1)


def _parts(programs: int, steps: int) -> tuple[int, int]:
    """Number of parts that a loop is split into, and the steps of one."""
    wanted = min(-(-PROGRAMS // programs), -(-steps // FEWEST))
    per_part = -(-steps // wanted)
    return -(-steps // per_part), per_part


def _power_of_two(size: int) -> int:
    """The least that is not below `size`."""
    return 1 << (size - 1).bit_length()


def _coupling(given: Sweep) -> str:
    """The way in which coupling is made, as `Tile` has it; empty if it cannot."""
    axis, is_dense = given.competition.axis, given.competition.windows is None
    if given.is_uniform or axis == "none":
        return "one"  # and the coupling coefficients are weights
    if axis == "types" or (is_dense and axis in ("types+positions", "positions")):
        return "softmax"
    return {"types+positions": "shared", "positions": "apart"}.get(axis, "")


def _with_shares(given: Sweep) -> Sweep:
    """The same with coupling 1, and weights that take in what coupling there was, in single precision."""
    seen, parents = given.weight.shape[:2]
    like = torch.empty(given.lanes, seen, 0, device=given.children.device)
    share = given.competition.uniform(like, parents)
    weights = share if given.weights is None else share * given.weights
    alone = Competition("none", windows=given.competition.windows)
    return replace(given, query=None, curvature=None, bias=None, weights=weights, competition=alone)


def _empty(given: Sweep, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=given.children.device)


def _per_competition(given: Sweep) -> Tensor:
    """A number for every competition for a child in a lane."""
    seen, parents = given.weight.shape[:2]
    each = (parents,) if _coupling(given) == "apart" else ()
    return _empty(given, given.lanes, seen, *each)


def is_interpreting() -> bool:
    """Tells whether kernels run in Triton's interpreter, on the CPU: for tests."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


@lru_cache(maxsize=64)
def _cell_of(windows: Windows, device: torch.device) -> Int[Tensor, "position child"]:
    return windows.index.to(device, torch.int32)


def _add_up(windows: Windows, of_children: Float[Tensor, "lane child *rest"]) -> Float[Tensor, "batch cell *rest"]:
    """The transpose of `windows.gather`: each cell's sum over the windows that see it, in one order."""
    cells, views = _by_place(windows, of_children, 0.0)
    for cell, seen in views:
        cell.add_(seen)
    return cells.flatten(1, 3)


def _greatest(windows: Windows, of_children: Float[Tensor, "lane child *rest"]) -> Float[Tensor, "batch cell *rest"]:
    """Each cell's greatest value over the windows that see it."""
    cells, views = _by_place(windows, of_children, -1e30)  # less than any; and no infinity, which would make nan
    for cell, seen in views:
        torch.maximum(cell, seen, out=cell)
    return cells.flatten(1, 3)


def _by_place(windows: Windows, of_children: Tensor, start: float) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """An empty grid (image, row, column, type, ..), and for each place in a window the cells and children there."""
    (rows, columns), kernel, stride, types = windows.grid, windows.kernel, windows.stride, windows.types
    rest = of_children.shape[2:]
    children = of_children.reshape(-1, rows, columns, kernel, kernel, types, *rest)
    cells = children.new_full((len(children), windows.height, windows.width, types, *rest), start)
    views = []
    for row, column in product(range(kernel), repeat=2):
        below = slice(row, row + (rows - 1) * stride + 1, stride)
        beside = slice(column, column + (columns - 1) * stride + 1, stride)
        views.append((cells[:, below, beside], children[:, :, :, row, column]))
    return cells, views
