"""The least that training could cost on a machine, and the machine's greatest speeds."""

from collections.abc import Callable, Iterator

import torch
from torch.utils.benchmark import Timer

from routebench import kernels
from routebench.capsules import Votes
from routebench.capsules.intercepted import intercepted
from routebench.capsules.layers import CapsuleLayer
from routebench.protocols.base import Metric
from routebench.protocols.cost_work import Subject, prepare


def floors(subject: Subject, batches: list[int], peak: float, bandwidth: float) -> Iterator[Metric]:
    """The least time that training could take: its arithmetic at the machine's peak, or its traffic, if that is longer.

    Matrix products and convolutions count, as plain torch does them for one image whose votes are made once and
    stored, or as the reference does them, if that takes fewer: uniform coupling needs no votes. Each input, weight and
    output, and the gradient of each, crosses memory once.

    Args:
        subject: what is trained.
        batches: numbers of images in a batch.
        peak, bandwidth: answer of `greatest_speeds`.
    """
    from torch.utils.flop_counter import FlopCounterMode  # only here: it imports Triton, where that is installed

    made = prepare(subject, torch.device("cpu"))
    one = made(1)
    with kernels.using("reference"):
        held, more = one.held(), made(2).held() - one.held()
        with FlopCounterMode(display=False) as counter:
            one.training()
        with intercepted(one.layers, _store), FlopCounterMode(display=False) as stored:
            one.training()
    once = min(counter.get_total_flops(), stored.get_total_flops())
    for batch in batches:
        where: dict[str, int | str] = {"part": subject.part, "batch": batch}
        flops, least = batch * once, 2 * (held + (batch - 1) * more)
        yield Metric.of("training_flops", "", flops, where=where)
        yield Metric.of("training_least_bytes", "", least, where=where)
        yield Metric.of("training_floor", "", 1e3 * max(flops / peak, least / bandwidth), where=where)


def _store(_layer: CapsuleLayer, votes: Votes, _present: torch.Tensor) -> None:
    """Makes the votes, which all sweeps then take."""
    votes.dense()
    votes.watch = lambda _coupling: None


def greatest_speeds(device: torch.device, seconds: float) -> tuple[float, float]:
    """The machine's greatest speeds in float32: operations a second in a matrix product, bytes a second in a copy.

    Args:
        device: where both run.
        seconds: shortest time that each is measured for.
    """
    side, size = (8192, 1 << 30) if device.type == "cuda" else (2048, 1 << 27)
    square = torch.randn(side, side, device=device)
    multiplied = min(timer(lambda: square @ square).blocked_autorange(min_run_time=seconds).times)
    source = torch.zeros(size // 4, device=device)
    target = torch.zeros_like(source)
    copy = min(timer(lambda: target.copy_(source)).blocked_autorange(min_run_time=seconds).times)
    return 2 * side**3 / multiplied, 2 * size / copy


def timer(run: Callable[[], object]) -> Timer:
    """A timer of work, with as many threads as torch has.

    Args:
        run: does the work once.
    """
    return Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
