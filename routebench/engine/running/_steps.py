"""Foretells how long training takes where nothing like it has finished: steps, counted, of a step that is measured."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from routebench.data import declared_where_missing, load
from routebench.engine.running._config import RunConfig, prepare_torch, torch_as_before
from routebench.engine.running._fits import untrained
from routebench.engine.running._status import is_foretold
from routebench.engine.running._times import Times
from routebench.engine.suites import Cell
from routebench.protocols.base import FitRequest
from routebench.recipe import Moment
from routebench.registry import protocols
from routebench.training import training_step

IMAGES, SHORT = 16, 4.0
"""Images of a measured step, and seconds: if a whole batch takes no longer by these few images, it is measured instead,
since kernels are faster with many images than the time of a few would say."""
FORWARD = 1 / 3
"""Time of an image that is only looked at, as a share of a training image's."""


class _Descent(torch.optim.Optimizer):
    """Takes as long as Adam: torch's own optimizers import its compiler, which takes longer than all that is measured.

    Args:
        parameters: parameters of the network.
    """

    def __init__(self, parameters: list[Tensor]):  # not as torch's, which imports the compiler
        self.parameters, self.param_groups = parameters, [{"params": parameters}]
        self.first, self.second = ([torch.zeros_like(one) for one in parameters] for _ in range(2))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients."""
        for one in self.parameters:
            one.grad = None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """A step of Adam, without the correction of its start."""
        for one, first, second in zip(self.parameters, self.first, self.second, strict=True):
            if one.grad is not None:
                first.lerp_(one.grad, 0.1)
                second.mul_(0.999).addcmul_(one.grad, one.grad, value=0.001)
                one.addcdiv_(first, second.sqrt().add_(1e-8), value=-1e-3)


def foretell(cells: Iterable[Cell], times: Times, config: RunConfig, *, until: float) -> None:
    """Tells `times` how long runs train of which nothing like them has finished, while `time.monotonic() < until`.

    What a protocol measures afterwards is not counted. Runs with code of others are passed over: it is not run here.
    """
    with torch_as_before(), declared_where_missing():
        prepare_torch(config)
        for cell in cells:
            if not is_foretold(cell) or times.knows(cell.identity):
                continue
            left = until - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(Exception), _at_most(left):  # the run says it; or memory is too small
                fits = protocols[cell.identity.protocol]().fits(cell.request(), cell.identity.options)
                seconds = sum(seconds_of(one, torch.device(config.device)) for one in fits)
                times.foretell(cell.identity, seconds)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after these seconds, where the system has alarms: a step may take for ever."""

    def end(*_: object) -> None:
        raise TimeoutError

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds_of(request: FitRequest, device: torch.device) -> float:
    """Seconds of training: those of a step with the first ones, by how many images are seen."""

    def seconds_each(step: int) -> float:
        """Seconds for each of so many images in a step."""
        labels = data.train.labels[:step].to(device)
        inputs = data.train.inputs(slice(step), device)
        for _ in range(2):  # the first one makes everything ready
            began = time.perf_counter()
            loss, _, _ = training_step(network, optimiser, inputs, labels, recipe=recipe, moment=Moment(), draws=draws)
            loss.item()  # which waits for a GPU
            each = (time.perf_counter() - began) / len(labels)
        return each

    data, recipe = load(request.data), request.recipe
    network = untrained(request).to(device)
    optimiser = _Descent(list(network.parameters()))
    draws = torch.Generator(device).manual_seed(0)
    each = seconds_each(min(IMAGES, recipe.batch_size))
    if recipe.batch_size > IMAGES and each * recipe.batch_size <= SHORT:
        each = seconds_each(recipe.batch_size)
    share = 1.0 if recipe.train_on == "all" else FORWARD
    return recipe.epochs * each * (len(data.train) + share * len(data.held_out))
