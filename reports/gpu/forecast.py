"""Forecasts what the Triton kernels cost on a GPU. They are compiled and counted, but never run.

For each kernel, published shape and chip of `CHIPS` it counts bytes, FLOPs, registers, shared memory and resident
warps, and gives a lower bound on the time that the machine code takes. It needs no GPU: tensors are on torch's device
`meta`, and Triton compiles for a chip by its name. Writes forecast.csv and forecast.md.
"""

import csv
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import click
import torch

from routebench.kernels import Sweep, triton_sweep
from routebench.kernels.triton_sweep import Plan
from routebench.ops import Competition, Windows

HERE = Path(__file__).parent
FLOAT = 4


@dataclass(frozen=True)
class Chip:
    """A GPU, by its maker's data sheet.

    Args:
        capability: major and minor, as 90.
        processors: streaming multiprocessors, with four schedulers and 65,536 registers each.
        clock: under load, in hertz.
        warps: the most that a multiprocessor holds.
        shared: bytes of shared memory of a multiprocessor.
        bandwidth, cache: bytes per second from memory, and from the second-level cache.
        floats: floating-point instructions that a multiprocessor starts per cycle, in warps.
    """

    name: str
    capability: int
    processors: int
    clock: float
    warps: int
    shared: int
    bandwidth: float
    cache: float
    floats: float

    @property
    def peak(self) -> float:
        """FLOPs per second."""
        return 2 * 32 * self.floats * self.processors * self.clock


KIB = 1024
CHIPS = (
    Chip("H100 SXM", 90, 132, 1.755e9, 64, 228 * KIB, 3.35e12, 5.5e12, 4),
    Chip("A100 SXM", 80, 108, 1.41e9, 64, 164 * KIB, 2.0e12, 4.0e12, 2),
    Chip("RTX 4090", 89, 128, 2.52e9, 48, 100 * KIB, 1.0e12, 5.0e12, 4),
)
SLOTS = 4
"""Instructions that a multiprocessor starts per cycle, in warps."""
PIPES: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "loads, stores, shuffles": (1.0, ("LDG", "STG", "LDS", "STS", "LDSM", "SHFL", "LDL", "STL")),
    "exponentials, reciprocals": (0.5, ("MUFU",)),
    "integers": (2.0, ("IADD3", "IMAD", "LEA", "LOP3", "SHF", "ISETP", "SEL", "VIADD", "IADD")),
}
"""Instructions that each other unit of a multiprocessor takes per cycle, and their names."""
FLOATS = ("FFMA", "FADD", "FMUL", "FMNMX", "FSETP", "FSEL")


def _dense(seen: int, parents: int, side: int, batch: int, **more: Any) -> Sweep:
    """Class capsules over matrix poses."""
    return _sweep(batch, (seen, side * side), (seen, parents, side, side), Competition(), **more)


def _conv(side: int, stride: int, batch: int, axis: str = "types", **more: Any) -> Sweep:
    """32 to 32 types of 4 x 4 poses, 3 x 3."""
    windows = Windows(side, side, 3, stride, 32)
    return _sweep(batch, (windows.cells, 16), (windows.seen, 32, 4, 4), Competition(axis, windows=windows), **more)


def _sweep(
    batch: int, children: tuple[int, int], block: tuple[int, ...], competition: Competition, *, gaussian: bool = False
) -> Sweep:
    """A sweep after the first one, with the inputs of inverted attention and dynamic routing, or of EM."""
    windows, (seen, parents, rows, columns) = competition.windows, block
    lanes = batch * (1 if windows is None else windows.positions)
    pose = columns**2 if rows == columns else columns
    names = ("curvature", "centre") if gaussian else ("query",)
    given = {name: _meta(lanes, parents, pose) for name in names}
    if gaussian:
        given |= {"bias": _meta(lanes, parents), "weights": _meta(lanes, seen)}
    return Sweep(
        _meta(batch, *children),
        _meta(*block),
        competition,
        moments=2 if gaussian else 1,
        **given,
    )


def _meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta", requires_grad=True)


@dataclass(frozen=True)
class Shape:
    """A published layer: its description, its sweep, and the number of sweeps with logits in a pass."""

    work: str
    given: Sweep
    sweeps: int


def published() -> dict[str, Shape]:
    """The layers of the papers, with the batches that they were trained with."""
    em = {"gaussian": True}
    return {
        "capsnet": Shape(
            "Sabour et al., class capsules, 1152 x 8 to 10 x 16, dynamic, B = 128",
            _sweep(128, (1152, 8), (1152, 10, 8, 16), Competition()),
            2,
        ),
        "hinton-1": Shape("Hinton et al., first, 14 x 14 to 6 x 6, EM, B = 64", _conv(14, 2, 64, **em), 2),
        "hinton-1-all": Shape(
            "the same, all parents that see a child compete", _conv(14, 2, 64, "types+positions", **em), 2
        ),
        "hinton-2": Shape("Hinton et al., second, 6 x 6 to 4 x 4, EM, B = 64", _conv(6, 1, 64, **em), 2),
        "hinton-class": Shape("Hinton et al., classes, 512 to 5, EM, B = 64", _dense(512, 5, 4, 64, **em), 2),
        "tsai-1": Shape("Tsai et al., first, 16 x 16 to 7 x 7, attention, B = 128", _conv(16, 2, 128), 1),
        "tsai-2": Shape("Tsai et al., second, 7 x 7 to 5 x 5, attention, B = 128", _conv(7, 1, 128), 1),
        "tsai-class": Shape("Tsai et al., classes, 800 to 10, attention, B = 128", _dense(800, 10, 4, 128), 1),
    }


@dataclass(frozen=True)
class Launch:
    """One start of a kernel.

    Args:
        kernel: its name in `triton_kernels`.
        given: the sweep.
        plan: tile and grid.
        tensors: what it is given besides: inputs, gradients, outputs.
    """

    kernel: str
    given: Sweep
    plan: Plan
    tensors: tuple[Any, ...]

    @property
    def steps(self) -> int:
        """How often the loop of a program runs."""
        width = self.plan.tile.lanes_tile if self.kernel == "to_children" else 1
        return -(-self.plan.per_part // width)

    @property
    def programs(self) -> int:
        """Of the whole grid."""
        return self.plan.grid[0] * self.plan.grid[1]

    @property
    def least_bytes(self) -> int:
        """Every tensor crosses memory once."""
        return FLOAT * sum(tensor.numel() for tensor in _flat(self.tensors))

    @property
    def cached_bytes(self) -> int:
        """What all programs read in their loops: the weights of a child and the poses of a tile of lanes."""
        tile = self.plan.tile
        weights = tile.inner * tile.parents * tile.columns
        poses = tile.lanes_tile * tile.rows * tile.inner
        return FLOAT * self.programs * self.steps * (weights + poses)

    @property
    def flops(self) -> int:
        """Of the real sizes, without padding. An exponential counts as one."""
        given, inner = self.given, self.plan.tile.inner
        pairs = given.lanes * given.weight.shape[0] * given.weight.shape[1]
        logits = 2 * (given.query is not None) + 4 * (given.curvature is not None)
        moments = {
            "totals": 0,
            "sums": 2 * given.moments,
            "expectations": 5 if given.moments == 2 else 2,
            "to_parents": (10 if given.moments == 2 else 5) + logits + 2,
            "to_children": (8 if given.moments == 2 else 3) + logits + 4 * inner,
        }[self.kernel]
        each = 2 * inner + (given.centre is not None) + logits + moments
        return pairs * (each * given.pose + 6)


def launches(given: Sweep) -> list[Launch]:
    """What forward and backward of a sweep start."""
    found: list[Launch] = []

    def note(kernel: str, plan: Plan, of: Sweep, *tensors: Any) -> None:
        found.append(Launch(kernel, of, plan, tensors))

    with mock.patch.object(triton_sweep, "_start", note):
        sums = triton_sweep.sweep(given)
        torch.autograd.backward([total.sum() for total in sums if total is not None and total.requires_grad])
    return found


@dataclass(frozen=True)
class Code:
    """What the assembler made of a kernel.

    Args:
        registers: of a thread.
        stack: bytes of a thread that are not in registers.
        shared: bytes of a program.
        loop, once: instructions by name, in the loop and outside.
    """

    registers: int
    stack: int
    shared: int
    loop: Mapping[str, int]
    once: Mapping[str, int]


class _Pretended:
    """Says to Triton which GPU there is."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> str:
        """Under which Triton keeps what it compiled in this process."""
        return f"pretended {self.capability}"

    def get_current_stream(self, _device: str) -> int:
        return 0


@contextmanager
def pretending(capability: int) -> Iterator[None]:
    """Has Triton compile for a GPU that need not be there."""
    from triton.runtime import driver

    with mock.patch.object(driver, "_active", _Pretended(capability)):
        yield


def compiled(launch: Launch, capability: int) -> Code:
    """The machine code of a launch."""
    from routebench.kernels import triton_kernels

    given, plan = launch.given, launch.plan
    sizes = triton_sweep.Sizes(given.lanes, given.weight.shape[0], given.children.shape[1], given.positions)
    with pretending(capability):
        made = getattr(triton_kernels, launch.kernel).warmup(
            *launch.tensors,
            sizes,
            plan.per_part,
            plan.tile,
            grid=plan.grid,
            num_warps=plan.warps,
            enable_fp_fusion=True,
        )
    return _read(made.asm["cubin"], made.metadata.shared)


@cache
def _read(cubin: bytes, shared: int) -> Code:
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage, listing = (_said(tool, option, file) for option in ("--dump-resource-usage", "--dump-sass"))
    registers, stack = (int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "STACK"))  # type: ignore[index]
    loop, once = _instructions(listing)
    return Code(registers, stack, shared, loop, once)


def _said(tool: Path, option: str, file: Path) -> str:
    return subprocess.run([tool, option, file], capture_output=True, text=True, check=True).stdout


LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;]*);", re.MULTILINE)


def _instructions(listing: str) -> tuple[Counter[str], Counter[str]]:
    """Those between the longest jump back and where it goes to, and the others."""
    code = [(int(at, 16), name, rest) for at, name, rest in LINE.findall(listing)]
    jumps = [
        (int(to[1], 16), at) for at, name, rest in code if name == "BRA" and (to := re.search(r"0x([0-9a-f]+)", rest))
    ]
    first, last = max(((to, at) for to, at in jumps if to < at), key=lambda jump: jump[1] - jump[0], default=(0, -1))
    inside = Counter(name for at, name, _ in code if first <= at <= last)
    return inside, Counter(name for _, name, _ in code) - inside


@dataclass(frozen=True)
class Forecast:
    """What a launch should do on a chip. Times in seconds.

    Args:
        resident: warps of a multiprocessor at a time.
        floor: of bytes and FLOPs.
        by: the time that each unit takes.
    """

    resident: int
    floor: float
    by: Mapping[str, float]

    @property
    def limit(self) -> str:
        """The unit that takes longest."""
        return max(self.by, key=self.by.__getitem__)

    @property
    def seconds(self) -> float:
        """At least."""
        return self.by[self.limit]


def forecast(launch: Launch, code: Code, chip: Chip) -> Forecast:
    """By counting: what each unit has to do, over what it can do."""
    warps = launch.plan.warps
    resident = warps * min(
        chip.warps // warps,
        65_536 // (-(-code.registers // 8) * 8 * 32 * warps),
        chip.shared // max(code.shared + KIB, 1),  # the driver takes a KiB of every program's
        32,
    )
    waves = launch.programs * warps / (chip.processors * resident)
    uneven = -(-launch.programs * warps // (chip.processors * resident)) / waves if waves < 1 else 1.0
    done = Counter({name: count * launch.steps for name, count in code.loop.items()})
    done.update(code.once)
    pace = chip.processors * chip.clock / (launch.programs * warps) / uneven
    by = {"instructions": sum(done.values()) / SLOTS / pace, "floats": _sum(done, FLOATS) / chip.floats / pace}
    by |= {name: _sum(done, names) / rate / pace for name, (rate, names) in PIPES.items()}
    by |= {"memory": launch.least_bytes / chip.bandwidth, "cache": launch.cached_bytes / chip.cache}
    floor = max(launch.least_bytes / chip.bandwidth, launch.flops / chip.peak)
    return Forecast(resident, floor, by)


def _sum(done: Counter[str], names: tuple[str, ...]) -> int:
    return sum(done[name] for name in names)


def _flat(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, tuple):
        for value in values:
            yield from _flat(value)


def rows(names: Collection[str] = (), chips: tuple[Chip, ...] = CHIPS) -> Iterator[dict[str, Any]]:
    """One for each shape, kernel and chip."""
    for name, shape in published().items():
        for launch in launches(shape.given) if name in names or not names else ():
            for chip in chips:
                yield {"shape": name, **row(launch, chip)}


def row(launch: Launch, chip: Chip) -> dict[str, Any]:
    """What is known of a launch on a chip."""
    code = compiled(launch, chip.capability)
    found = forecast(launch, code, chip)
    return {
        "kernel": launch.kernel,
        "chip": chip.name,
        "lanes": launch.plan.tile.lanes_tile,
        "warps": launch.plan.warps,
        "programs": launch.programs,
        "registers": code.registers,
        "stack": code.stack,
        "shared": code.shared,
        "resident": found.resident,
        "mbytes": round(launch.least_bytes / 1e6, 2),
        "mflops": round(launch.flops / 1e6, 1),
        "loop": sum(code.loop.values()),
        "fused": code.loop.get("FFMA", 0),
        "floor_us": round(1e6 * found.floor, 1),
        "expected_us": round(1e6 * found.seconds, 1),
        "limit": found.limit,
    }


TITLE = """# The Triton kernels on paper

Nothing here was run on a GPU. Each kernel was compiled for it, and the instructions of the machine code were counted.

- **bytes**: every tensor crosses memory once. **FLOPs**: of real sizes, without padding.
- **warps**: that a multiprocessor holds at a time, by registers and shared memory, of the most that it can.
- **floor**: the longer of bytes over bandwidth and FLOPs over peak, by data sheets.
- **expected**: the longest that a unit takes for what it has to do, if it never waits: so at least.
- **sweeps**: of these kernels in a pass forward and backward, as the paper iterates. The first iteration is another
  sweep, without logits, and is left out.

`python -m reports.gpu.forecast` makes this page and forecast.csv, which has the other GPUs and the instructions of each
loop. Compiled with Triton {version}.
"""


def page(found: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of forecast.md: one table for a server's GPU and one for a desktop's."""
    import triton

    yield TITLE.format(version=triton.__version__)
    for chip in (CHIPS[0], CHIPS[-1]):
        of_chip = [row for row in found if row["chip"] == chip.name]
        yield f"## {chip.name}\n"
        yield "| layer | kernel | lanes x warps | registers | warps | MB | MFLOP | floor, µs | expected, µs | limit |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        for row in of_chip:
            cells = (
                *(row[name] for name in ("shape", "kernel")),
                f"{row['lanes']} x {row['warps']}",
                f"{row['registers']}{', spills' if row['stack'] else ''}",
                f"{row['resident']} of {chip.warps}",
                *(row[name] for name in ("mbytes", "mflops", "floor_us", "expected_us", "limit")),
            )
            yield f"| {' | '.join(map(str, cells))} |"
        yield "\n| layer | sweeps | floor, µs | expected, µs | times the floor |\n| --- | --- | --- | --- | --- |"
        for name, shape in published().items():
            if own := [row for row in of_chip if row["shape"] == name]:
                least, most = (shape.sweeps * sum(row[column] for row in own) for column in ("floor_us", "expected_us"))
                yield f"| {shape.work} | {shape.sweeps} | {least:.0f} | {most:.0f} | {most / least:.1f} |"
        yield ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, type=click.Choice(list(published())), help="This layer (repeatable).")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), default=HERE, help="Folder [default: here]."
)
def main(only: tuple[str, ...], output: Path) -> None:
    """Compiles, counts, and writes forecast.csv and forecast.md. It takes some minutes."""
    found = list(rows(only))
    output.mkdir(parents=True, exist_ok=True)
    with (output / "forecast.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    (output / "forecast.md").write_text("\n".join(page(found)))


if __name__ == "__main__":
    main()
