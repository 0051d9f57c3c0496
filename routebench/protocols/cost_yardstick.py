"""CPU time in units of a yardstick that is measured in turn with the work: what slows the machine slows both.

On a machine with other work on it the clock on the wall says little of the code. CPU time does not count the waiting,
but caches, clock rates and cores are shared all the same. The yardstick feels these as the work does, and is no code
that routes, so that no change of such code moves it.
"""

import math
import time
from collections.abc import Callable
from functools import cache

import torch
from torch.nn import functional

FEWEST, MOST = 4, 64  # blocks of each
LEAST = 2e-3  # seconds of CPU time that a block takes, so that the clock's own time does not count
TICK = 1e-6  # seconds, where the clock did not move
PATIENCE = 10  # times the seconds asked for, after which two blocks are enough


def in_yardsticks(run: Callable[[], object], seconds: float) -> float:
    """The least CPU time of work, all threads together, in units of the least of a training step of a small network.

    Both run in blocks that take turns. The least of several blocks is the one that was disturbed least.

    Args:
        run: does the work once.
        seconds: CPU time that the work is measured for, at least, if `MOST` blocks take as long.
    """
    yardstick = _yardstick()
    times, ticks = _times(run), _times(yardstick)
    works: list[float] = []
    sticks: list[float] = []
    while len(works) < MOST and not _enough(times * sum(works), len(works), seconds):
        sticks.append(_cpu_time(yardstick, ticks))
        works.append(_cpu_time(run, times))
    return min(works) / min(sticks)


def _enough(spent: float, blocks: int, seconds: float) -> bool:
    return spent >= seconds and (blocks >= FEWEST or (blocks > 1 and spent >= PATIENCE * seconds))


def _times(run: Callable[[], object]) -> int:
    """Number of times that it has to run to take `LEAST`."""
    run()
    return max(1, math.ceil(LEAST / max(_cpu_time(run, 1), TICK)))


def _cpu_time(run: Callable[[], object], times: int) -> float:
    """Seconds of one run, the mean of several in a row."""
    started = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - started) / times


@cache
def _yardstick() -> Callable[[], object]:
    """A training step of two convolutions and a matrix product on 16 images of 28 x 28."""
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(16, 1, 28, 28, generator=draw)
    shapes = ((16, 1, 9, 9), (16, 16, 5, 5), (144, 64))
    weights = [(0.1 * torch.randn(shape, generator=draw)).requires_grad_() for shape in shapes]

    def step() -> object:
        first = functional.conv2d(images, weights[0], stride=2).relu()  # (16, 16, 10, 10)
        second = functional.conv2d(first, weights[1], stride=2).relu()  # (16, 16, 3, 3)
        scores = (second.flatten(1) @ weights[2]).softmax(dim=-1)
        return torch.autograd.grad(scores.square().sum(), weights)

    return step
