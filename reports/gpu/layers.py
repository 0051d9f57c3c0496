"""Layers on this device: ours against the yardstick, against what torch.compile makes of it, and against the floor.

The cases are those of reports/speed, with larger batches. The floor is the longer of two times: FLOPs, each done once,
at the rate of a large matrix product, and bytes, each moved once, at the rate of a large copy. Both rates are measured.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import torch
from torch import Tensor

from reports.gpu import rows
from reports.speed import cases
from reports.speed.cases import ConvolutionWork, LayerWork, TrainingWork, Work
from routebench import kernels
from routebench.capsules import Capsules

LAYERS = ("dense-dynamic", "conv-attention", "conv-em")
NETWORKS = ("capsnet-mnist", "tsai-cifar10")
BATCHES = (128, 512, 1024)
COMPILED = ", compiled"
TIMED = 0.5
"""Seconds of timing for each row, at least."""
COLUMNS = ("ms", "device_ms", "spread", "runs", "mbytes", "floor_ms", "error", "used", "note")
TOLERANCE = 1e-4


def wanted(tiny: bool) -> Iterator[tuple[str, int, str]]:
    """Case, batch and implementation, the most telling first: compiling takes longest and comes last."""
    sizes = (2, 4) if tiny else BATCHES
    for batch in sizes:
        for case in LAYERS:
            for implementation in cases.CASES[case].implementations:
                yield case, batch, implementation
    for case in NETWORKS:
        for implementation in ("ours", "convolutions"):
            yield case, sizes[0], implementation
    for batch in sizes[:1] if tiny else sizes:
        for case in LAYERS[:1] if tiny else LAYERS:
            yield case, batch, f"yardstick{COMPILED}"


def work_of(case: str, batch: int, implementation: str, asked: rows.Call) -> Work:
    """What is timed, on the device, with weights and capsules that do not depend on the implementation."""
    which, images = implementation.removesuffix(COMPILED), 1 if case in LAYERS else batch
    iterations = cases.CASES[case].iterations
    work = cases.make(cases.CASES[case], which, batch=images, iterations=iterations, tiny=asked.tiny)
    if isinstance(work, LayerWork):
        _move_layer(work, batch, asked.device)
    elif isinstance(work, TrainingWork):
        work.network.to(asked.device)
        work.batches = [(pictures.to(asked.device), labels.to(asked.device)) for pictures, labels in work.batches]
    elif isinstance(work, ConvolutionWork):
        work.layers.to(asked.device)
        work.images, work.direction = work.images.to(asked.device), work.direction.to(asked.device)
    if implementation.endswith(COMPILED):
        _compile(work, asked.device)
    return work


def _move_layer(work: LayerWork, batch: int, device: torch.device) -> None:
    """From one image on the processor to a batch on a device: the yardstick's would not fit a processor's memory."""
    draw = torch.Generator(device).manual_seed(1)

    def many(one: Tensor, lowest: float) -> Tensor:
        shape = (batch, *one.shape[1:])
        factor = lowest + (1 - lowest) * torch.rand(shape, generator=draw, device=device)
        return (one.detach().to(device) * factor).requires_grad_(one.requires_grad)

    work.layer.to(device)
    work.children = Capsules(many(work.children.poses, -1), many(work.children.activations, 0))
    work.leaves = [leaf for leaf in (work.children.poses, work.children.activations) if leaf.requires_grad]
    sizes = [(batch, *direction.shape[1:]) for direction in work.directions]
    work.directions = [torch.randn(size, generator=draw, device=device) for size in sizes]


def _compile(work: Work, device: torch.device) -> None:
    assert isinstance(work, LayerWork)
    torch.compiler.reset()
    # On a processor only the tracing is rehearsed; a compiler would take a minute.
    work.layer.compile(dynamic=False, backend="inductor" if device.type == "cuda" else "aot_eager")


def machine(device: torch.device, tiny: bool) -> dict[str, float]:
    """FLOPs a second of a large matrix product in single precision, and bytes a second of a large copy."""
    side, size = (128, 1 << 16) if tiny else (8192, 1 << 30)
    square = torch.randn(side, side, device=device)
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    product, copy = (
        timed(run, device, TIMED / 5)[0] for run in (lambda: square @ square, lambda: target.copy_(source))
    )
    return {"flops": 2 * side**3 / product, "bytes": 2 * size / copy}


def timed(run: Callable[[], object], device: torch.device, seconds: float) -> tuple[float, float, int]:
    """Median and quartile range of a call in seconds, and how often it ran; warm."""
    for _ in range(2):
        run()
    found: list[float] = []
    ends = time.monotonic() + seconds
    while len(found) < 3 or (time.monotonic() < ends and len(found) < 1000):
        found.append(_once(run, device))
    low, middle, high = statistics.quantiles(found, n=4)
    return middle, high - low, len(found)


def _once(run: Callable[[], object], device: torch.device) -> float:
    if device.type != "cuda":
        started = time.perf_counter()
        run()
        return time.perf_counter() - started
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def device_time(run: Callable[[], object], device: torch.device, times: int = 3) -> float:
    """Seconds in which the device works for a call, without the gaps in which it waits for the next kernel."""
    if device.type != "cuda":
        return math.nan
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
    return float(sum(event.self_device_time_total for event in seen.key_averages())) / 1e6 / times


def extra_memory(run: Callable[[], object], device: torch.device) -> float:
    """Bytes at the peak of a call above what was held before; not known on a processor, see reports/speed."""
    if device.type != "cuda":
        return math.nan
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before)


def floor(case: str, batch: int, tiny: bool, able: dict[str, float]) -> float:
    """Seconds that a layer's pass takes at least: votes made once forward and their gradients once backward."""
    from torch.utils.flop_counter import FlopCounterMode  # only here: it imports Triton, where that is installed

    if case not in LAYERS:
        return math.nan
    one = cases.make(cases.CASES[case], "ours", batch=1, iterations=cases.CASES[case].iterations, tiny=tiny)
    assert isinstance(one, LayerWork)
    with kernels.using("reference"), FlopCounterMode(display=False) as counter:
        one.step()
    weights = sum(weight.numel() for weight in one.layer.parameters())
    each = sum(tensor.numel() for tensor in (*one.leaves, *one.directions))
    least = 2 * 4 * (weights + batch * each)  # every value and its gradient
    return max(batch * counter.get_total_flops() / able["flops"], least / able["bytes"])


def disagreement(case: str, implementation: str, asked: rows.Call) -> float:
    """The largest difference from the yardstick on this device, as a share of a tensor's largest value.

    NaN where nothing is compared: the yardstick itself, other competition, networks, whose layers say it.
    """
    if case not in LAYERS or implementation != "ours":
        return math.nan
    batch = 3 if asked.tiny else cases.CASES[case].check
    mine, right = (_found(work_of(case, batch, which, asked)) for which in (implementation, "yardstick"))
    return max(float((mine[name] - of).abs().max() / of.abs().max()) for name, of in right.items())


def _found(work: Work) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in work.found().items()}


def row_of(case: str, batch: int, implementation: str, asked: rows.Call, able: dict[str, float]) -> dict[str, Any]:
    """Time, memory, floor and error; or why there are none."""
    error = disagreement(case, implementation, asked)
    if error > TOLERANCE:
        return {"error": error, "note": "refused: it differs from the yardstick"}
    work = work_of(case, batch, implementation, asked)
    with kernels.noting() as used:
        work.step()  # compiles
        memory = extra_memory(work.step, asked.device)
        middle, spread, runs = timed(work.step, asked.device, 0.02 if asked.tiny else TIMED)
    return {
        "ms": 1e3 * middle,
        "device_ms": 1e3 * device_time(work.step, asked.device),
        "spread": 1e3 * spread,
        "runs": runs,
        "mbytes": memory / 1e6,
        "floor_ms": 1e3 * floor(case, batch, asked.tiny, able),
        "error": error,
        "used": " ".join(sorted(used)),
    }


def measure(asked: rows.Call) -> None:
    """Measures what is not measured yet."""
    table = rows.Rows(asked.output / "layers.csv", ("case", "batch", "implementation"), COLUMNS)
    limits = rows.Rows(asked.output / "machine.csv", ("device",), ("flops", "bytes"))
    if not limits.has(asked.device):
        limits.add({"device": asked.device, **machine(asked.device, asked.tiny)})
    able = {name: float(limits.read()[0][name]) for name in ("flops", "bytes")}
    click.echo(f"{able['flops']:.3g} FLOP/s, {able['bytes']:.3g} bytes/s")
    for case, batch, implementation in asked.in_time(key for key in wanted(asked.tiny) if not table.has(*key)):
        try:
            found = row_of(case, batch, implementation, asked, able)
        except torch.OutOfMemoryError:
            found = {"note": "out of memory"}
        except Exception as error:  # noqa: BLE001  # what cannot be compiled is a finding
            found = {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        if asked.device.type == "cuda":
            torch.cuda.empty_cache()
        table.add({"case": case, "batch": batch, "implementation": implementation, **found})
        click.echo(f"{case} B={batch} {implementation}: {found}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@rows.options
def main(device: str, output: Any, seconds: float, tiny: bool) -> None:
    """Measures layers, and writes layers.csv and machine.csv."""
    measure(rows.call(device, output, seconds, tiny))


if __name__ == "__main__":
    main()
