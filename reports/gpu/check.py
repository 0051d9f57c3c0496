"""Are the kernels right on this device? Published shapes, sums and every gradient, and the same bits twice.

Compared with the reference in double precision on the same device. A wrong kernel is a row with its error, and the exit
code says so at the end; the others are checked all the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import torch

from reports.gpu import rows
from routebench import kernels
from routebench.kernels import Sweep, reference
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import ROUNDING, TOLERANCE, differences, evaluate
from routebench.ops import Competition, Windows

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
KINDS: dict[str, tuple[str, ...]] = {
    "query": ("query",),
    "Gaussian": ("curvature", "bias", "centre", "weights"),
    "centre": ("centre", "weights"),
}
"""What methods give a sweep: dynamic routing and attention; EM; the first iteration of EM."""


def cases(tiny: bool) -> Iterator[tuple[str, str, str, int]]:
    """Shape, kind, type and images: everything with few images first, since each kernel has to be compiled."""
    few, many = (1, 3) if tiny else (3, 64)
    for dtype, images in (("float32", few), ("bfloat16", few), ("float32", many)):
        for shape in shapes(tiny):
            for kind in KINDS:
                if images == few or kind != "centre":
                    yield shape, kind, dtype, images


def shapes(tiny: bool) -> dict[str, tuple[tuple[int, ...], tuple[int, int, int], Windows | None, str]]:
    """Of published layers: W, poses of the children with their number, windows and competition."""
    first, second = Windows(14, 14, 3, 2, 32), Windows(6, 6, 3, 1, 32)
    attention, last = Windows(16, 16, 3, 2, 32), Windows(7, 7, 3, 1, 32)
    if tiny:
        first = second = attention = last = Windows(5, 5, 3, 2, 2)
    dense, classes, things = (24, 10, 10) if tiny else (1152, 512, 800)
    types = 4 if tiny else 32

    def conv(windows: Windows, axis: str) -> tuple[tuple[int, ...], tuple[int, int, int], Windows | None, str]:
        return (windows.seen, types, 4, 4), (windows.cells, 16, 16), windows, axis

    return {
        "capsnet": ((dense, 10, 8, 16), (dense, 8, 16), None, "types"),
        "hinton-1": conv(first, "types"),
        "hinton-1-all": conv(first, "types+positions"),
        "hinton-2-all": conv(second, "types+positions"),
        "hinton-class": ((classes, 5, 4, 4), (classes, 16, 16), None, "types"),
        "tsai-1": conv(attention, "types"),
        "tsai-2": conv(last, "types"),
        "tsai-class": ((things, 10, 4, 4), (things, 16, 16), None, "types"),
    }


def sweep_of(shape: str, kind: str, images: int, *, tiny: bool, device: torch.device, dtype: torch.dtype) -> Sweep:
    """A random sweep, whose tensors want gradients. Drawn on the processor: the same numbers on every device."""
    block, (cells, pose_in, pose), windows, axis = shapes(tiny)[shape]
    seen, parents = block[:2]
    lanes = images * (1 if windows is None else windows.positions)
    draw = torch.Generator().manual_seed(seen + images)

    def leaf(scale: float, *size: int) -> torch.Tensor:
        return (scale * torch.randn(size, generator=draw)).to(device, dtype).requires_grad_()

    given: dict[str, Any] = {
        "query": leaf(0.3, lanes, parents, pose),
        "curvature": leaf(0.3, lanes, parents, pose).detach().abs().requires_grad_(),
        "bias": leaf(1.0, lanes, parents),
        "centre": leaf(0.5, lanes, parents, pose),
        "weights": leaf(1.0, lanes, seen).detach().abs().requires_grad_(),
    }
    return Sweep(
        leaf(0.5, images, cells, pose_in),
        leaf(0.4, *block),
        Competition(axis, windows=windows),
        moments=1 if kind == "query" else 2,
        **{name: given[name] for name in KINDS[kind]},
    )


def kernel_of(given: Sweep) -> tuple[str, ModuleType] | None:
    """The kernels for the device of a sweep."""
    name = "triton" if given.children.device.type == "cuda" else "fused"
    module = kernels.KERNELS[name]
    return None if module.obstacle(given) else (name, module)


def examined(given: Sweep) -> dict[str, Any]:
    """The largest difference of sums and of gradients from double precision, and whether a second call agrees."""
    found = kernel_of(given)
    if found is None:
        return {"kernel": "none", "verdict": "no kernel does this sweep"}
    name, module = found
    exact = evaluate(reference.dense, leaves(given, torch.float64))
    one, two = (evaluate(module.sweep, leaves(given)) for _ in range(2))
    plain = differences(evaluate(reference.dense, leaves(given)), exact)
    errors = differences(one, exact)
    allowed = [max(TOLERANCE[given.weight.dtype], ROUNDING * rounding) for rounding in plain]
    sums = 2 if given.moments == 1 else 3
    same = all(torch.equal(first, second) for first, second in zip(one, two, strict=True))
    right = all(error <= most for error, most in zip(errors, allowed, strict=True))
    return {
        "kernel": name,
        "sums": max(errors[:sums]),
        "gradients": max(errors[sums:]),
        "rounding": max(plain),
        "same_bits": same,
        "verdict": "right" if right and same else "wrong" if not right else "not the same bits twice",
    }


def leaves(given: Sweep, dtype: torch.dtype | None = None) -> Sweep:
    """The same values as leaves that want gradients."""
    present = {name: value for name in INPUTS if (value := getattr(given, name)) is not None}
    return replace(
        given, **{name: value.detach().to(dtype or value.dtype).requires_grad_() for name, value in present.items()}
    )


def check(asked: rows.Call) -> int:
    """Checks what is not checked yet. How many sweeps are wrong, of all that were ever checked here."""
    keys = ("shape", "kind", "dtype", "images")
    table = rows.Rows(
        asked.output / "check.csv", keys, ("kernel", "sums", "gradients", "rounding", "same_bits", "verdict")
    )
    for case in asked.in_time(case for case in cases(asked.tiny) if not table.has(*case)):
        shape, kind, dtype, images = case
        try:
            found = examined(sweep_of(shape, kind, images, tiny=asked.tiny, device=asked.device, dtype=TYPES[dtype]))
        except torch.OutOfMemoryError:
            found = {"verdict": "out of memory: the reference stores all votes"}
        except Exception as error:  # noqa: BLE001  # a kernel that does not compile is a finding
            found = {"verdict": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        table.add({**dict(zip(keys, case, strict=True)), **found})
        click.echo(f"{' '.join(map(str, case))}: {found}")
    fine = ("right", "no kernel", "out of memory")
    return sum(not row["verdict"].startswith(fine) for row in table.read())


def sanitize(asked: rows.Call) -> None:
    """Every kind of sweep once, in small: what a tool watches that makes it a hundred times slower."""
    for shape in ("capsnet", "hinton-1-all", "tsai-class"):
        for kind in asked.in_time(KINDS):
            given = sweep_of(shape, kind, 2, tiny=True, device=asked.device, dtype=torch.float32)
            found = kernel_of(given)
            if found is not None:
                evaluate(found[1].sweep, given)
                click.echo(f"{shape} {kind}: ran")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@rows.options
@click.option("--sanitized", is_flag=True, help="Run every kind of sweep once in small, and check nothing.")
def main(device: str, output: Path, seconds: float, tiny: bool, sanitized: bool) -> None:
    """Checks the kernels of a device, and writes check.csv. Exit code 1 if one is wrong."""
    asked = rows.call(device, output, seconds, tiny)
    if sanitized:
        sanitize(asked)
    elif wrong := check(asked):
        raise SystemExit(f"{wrong} sweeps are not as the reference has them; check.csv says which")


if __name__ == "__main__":
    main()
