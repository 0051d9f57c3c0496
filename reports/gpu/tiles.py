"""Which tiles are fastest on this device: each kernel on published layers, with the tile of the plan and few others.

A kernel adds up in an order that its tile decides, so that tiles are chosen here, once, and not while a network trains.
"""

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import click
import torch

from reports.gpu import check, rows
from reports.gpu.layers import timed
from routebench.kernels import Sweep, triton_sweep
from routebench.kernels.triton_sweep import Plan

SHAPES = {"capsnet": ("query", 128), "tsai-1": ("query", 128), "hinton-1": ("Gaussian", 64)}
"""What the shape is measured with: kind of sweep and images."""
TILES = ((1, 1), (2, 1), (4, 1), (2, 2))
"""Lanes of a tile and warps of a program; (0, 0) stands for those of the plan."""
LOOPS = {"children": "_over_children", "lanes": "_over_lanes"}
"""What programs loop over, and what plans them: `sums` and `to_parents` over children, `to_children` over lanes."""
MOST = 64
"""Elements of a tile for each thread, at most: more do not fit its registers."""


def planned(loop: str, lanes: int, warps: int) -> Any:
    """Plans with such a tile, in a context."""
    name = LOOPS[loop]
    own: Callable[..., Plan] = getattr(triton_sweep, name)

    def other(given: Sweep, **live: Any) -> Plan:
        if not lanes:
            return own(given, **live)
        tile = triton_sweep._tile(given, triton_sweep._lanes(given, lanes))
        tiles, seen = -(-given.lanes // tile.lanes_tile), given.weight.shape[0]
        if loop == "children":
            parts, per_part = triton_sweep._parts(tiles, seen)
            return Plan(tile, warps, (tiles, parts), per_part)
        parts, per_part = triton_sweep._parts(seen, tiles)
        return Plan(tile, warps, (seen, parts), per_part * tile.lanes_tile)

    return mock.patch.object(triton_sweep, name, other)


def cases(tiny: bool) -> Iterator[tuple[str, str, int, int]]:
    """Shape, loop, lanes and warps; the plan's own first."""
    for shape in SHAPES:
        for loop in LOOPS:
            for lanes, warps in ((0, 0), *(TILES[:1] if tiny else TILES)):
                yield shape, loop, lanes, warps


def measure(asked: rows.Call) -> None:
    """Times what is not timed yet: a pass forward, and one forward and backward."""
    keys = ("shape", "loop", "lanes", "warps")
    table = rows.Rows(asked.output / "tiles.csv", keys, ("forward_ms", "both_ms", "same", "note"))
    for case in asked.in_time(case for case in cases(asked.tiny) if not table.has(*case)):
        shape, *tile = case
        kind, images = SHAPES[shape]
        given = check.sweep_of(
            shape, kind, 2 if asked.tiny else images, tiny=asked.tiny, device=asked.device, dtype=torch.float32
        )
        try:
            found = _timed(given, *tile, asked=asked)
        except Exception as error:  # noqa: BLE001  # a tile that does not compile is a finding
            found = {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        table.add({**dict(zip(keys, case, strict=True)), **found})
        click.echo(f"{case}: {found}")


def _timed(given: Sweep, loop: str, lanes: int, warps: int, *, asked: rows.Call) -> dict[str, Any]:
    if lanes and triton_sweep._tile(given).lane * lanes > MOST * 32 * warps:
        return {"note": "the tile is too large"}
    leaves = check.leaves(given)
    present = [value for name in check.INPUTS if (value := getattr(leaves, name)) is not None]

    def forward() -> torch.Tensor:
        sums = triton_sweep.sweep(leaves)
        return torch.stack([total.sum() for total in sums if total is not None]).sum()

    def both() -> tuple[torch.Tensor | None, ...]:
        return torch.autograd.grad(forward(), present, allow_unused=True)

    seconds = 0.01 if asked.tiny else 0.2
    expected = both()
    with planned(loop, lanes, warps):
        pairs = zip(both(), expected, strict=True)
        same = all(
            torch.allclose(one, other, rtol=1e-3, atol=1e-3)
            for one, other in pairs
            if one is not None and other is not None
        )
        times = [timed(run, asked.device, seconds)[0] for run in (torch.no_grad()(forward), both)]
    return {"forward_ms": 1e3 * times[0], "both_ms": 1e3 * times[1], "same": same}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@rows.options
def main(device: str, output: Any, seconds: float, tiny: bool) -> None:
    """Times tiles, and writes tiles.csv."""
    measure(rows.call(device, output, seconds, tiny))


if __name__ == "__main__":
    main()
