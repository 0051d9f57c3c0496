"""Costs of routing: time and memory of routed layers and of a training step, for each back end and batch size."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import median
from typing import Any, ClassVar, Literal

import torch
from torch.utils import benchmark

from routebench import kernels
from routebench.arguments import Count, Positive
from routebench.data import declared_where_missing, load
from routebench.errors import one_line, unknown
from routebench.models import CapsuleNetwork
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.cost_floor import floors, greatest_speeds, timer
from routebench.protocols.cost_probe import ProbeError, peak_memory
from routebench.protocols.cost_work import DENSE, LAYERS, NETWORK, TOKENS, Subject, network_of, prepare
from routebench.protocols.cost_yardstick import in_yardsticks
from routebench.protocols.spared import ABSENT, spared
from routebench.registry import loaded_plugins, protocols

REPEATS = 2  # of every time, far apart: two measurements of one thing tell how far noise goes
ROUNDS = 5  # of each, in turn with all others: what disturbs the machine for a moment spoils one of them
SEARCHED = 16  # times the largest batch of the suite is as far as the largest that fits is looked for
TRIES = 4
SAFETY = 0.98  # of what a straight line says would fit
MEGABYTE = 1 << 20
OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)


@protocols.register("cost", version=2)
class Cost(Protocol):
    """Time and memory of routing with random weights; nothing is trained.

    Each time is the median of a `torch.utils.benchmark.Timer`, measured in five rounds, each in turn with everything
    else of the run; and all of it is measured twice. On a processor CPU time is measured, too, in units of a yardstick:
    the median of the rounds. Memory is what one training pass takes at its peak above what was held before, as torch's
    allocator counts it: on a processor in a process of its own. What the machine can do at most, by a large matrix
    product and a large copy, is measured beside it.

    A back end that cannot do a method's sweeps, or is not there, is a metric `absent` with the reason in `why`; so
    is a batch, or a part of the network, that raises. Where no time was measured at all, the run fails.

    Options:
        batches: numbers of images at a time.
        backends: as in `routebench.kernels.BACKENDS`.
        children: numbers of children of a dense layer with 10 parents that is measured besides the network; none by
            default.
        tokens, parents: numbers of tokens and of parents of a layer with shared matrices, each with each, measured
            besides; none by default.
        seconds: time that each is measured for, at least.
        memory_budget_mb: memory for which the largest training batch is looked for; not looked for by default.
    """

    takes: ClassVar[tuple[str, ...]] = ("images", "tokens")
    options: ClassVar[dict[str, Any]] = {
        "batches": list[Count],
        "backends": list[Literal[kernels.BACKENDS]],  # type: ignore[valid-type]  # read, not checked
        "children": list[Count],
        "tokens": list[Count],
        "parents": list[Count],
        "seconds": Positive,
        "memory_budget_mb": Count,
    }
    alone = True
    trains = False

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics with the coordinates part, backend, batch and repeat, as far as they apply."""
        backends = options.get("backends", ["auto"])
        for backend in backends:
            if backend not in kernels.BACKENDS:
                raise unknown("back end", backend, kernels.BACKENDS)
        seconds = float(options.get("seconds", 0.2))
        peak, bandwidth = greatest_speeds(context.device, seconds)
        metrics = [
            Metric.of("peak_flops", "", peak),
            Metric.of("bandwidth", "", bandwidth),
        ]
        batches = sorted(options.get("batches", [128]))
        points, errors = [], list[Exception]()
        for subject in _subjects(request, options):
            with spared(metrics, f"the least time of {subject.part}"):
                metrics += floors(subject, batches, peak, bandwidth)
            for backend in backends:
                point = _Point(subject, backend, context.device, errors)
                if why := point.obstacle():
                    metrics.append(point.absent(why))
                else:
                    points.append(point)
        for repeat in range(REPEATS):
            timings = [_Timing(point, batch, repeat, seconds) for point in points for batch in batches]
            for turn, timing in product(range(ROUNDS), timings):
                timing.go_on()
                context.progress((repeat + turn / ROUNDS) / (REPEATS + 1))
            metrics += [metric for timing in timings for metric in timing.metrics()]
        if errors and not any(metric.metric.endswith("_time") for metric in metrics):
            raise errors[0]
        for number, point in enumerate(points):
            metrics += point.memories(batches, options.get("memory_budget_mb"))
            context.progress((REPEATS + number / len(points)) / (REPEATS + 1))
        return Measurement(metrics)


@dataclass(frozen=True)
class _Point:
    """A subject on a back end; `errors` gets what its measurements raise."""

    subject: Subject
    backend: str
    device: torch.device
    errors: list[Exception] = field(default_factory=list, compare=False)

    def obstacle(self) -> str:
        """Reason why the back end cannot do a method's sweeps, also where T = 1 needs none; empty if it can."""
        if self.backend in ("auto", "reference"):
            return ""
        request = self.subject.request
        steps = None if request.iterations is None else max(2, request.iterations)
        iterating = replace(self.subject, request=replace(request, iterations=steps))
        try:
            with kernels.using(self.backend), kernels.noting() as used:
                prepare(iterating, self.device)(1).training()
        except Exception as error:  # noqa: BLE001  # it costs this back end alone
            return one_line(error)
        return "" if self.backend in used else "the method asks for no sweep that a kernel does"

    def absent(self, why: str, **where: int | str) -> Metric:
        """Says that something could not be measured.

        Args:
            why: the reason, in one line.
            where: further coordinates, such as the batch size.
        """
        return Metric.of(ABSENT, "", 1, where={**self.where(**where), "why": why})

    def memories(self, batches: list[int], budget_mb: int | None) -> Iterator[Metric]:
        """Peak memory of training for each batch, and for the network the largest batch that fits the budget.

        Args:
            batches: batch sizes, the largest last.
            budget_mb: budget of memory in megabytes; None to look for no largest batch.
        """
        known: dict[int, int] = {}
        for batch in batches:
            try:
                known[batch] = self._memory(batch)
            except (ProbeError, *OUT_OF_MEMORY) as error:
                yield self.absent(f"memory: {' '.join(str(error).split())}", batch=batch)
            except Exception as error:  # noqa: BLE001  # it costs this batch alone
                yield self.absent(f"memory: {one_line(error)}", batch=batch)
            else:
                yield Metric.of("training_memory", "", known[batch], where=self.where(batch=batch))
        if budget_mb is not None and known and self.subject.part == NETWORK:
            limit, missing = SEARCHED * batches[-1], list[Metric]()
            with spared(missing, "the largest batch"):
                largest = self._largest_batch(known, budget_mb * MEGABYTE, limit)
            if missing:
                yield from missing
                return
            where = self.where(budget_mb=budget_mb)
            yield Metric.of("largest_batch", "", largest, where=where)
            yield Metric.of("largest_batch_tried", "", limit, where=where)

    def where(self, **more: int | str) -> dict[str, int | str]:
        """Coordinates of its metrics.

        Args:
            more: further ones.
        """
        return {"part": self.subject.part, "backend": self.backend, **more}

    def _memory(self, batch: int) -> int:
        if self.device.type == "cuda":
            return self._memory_on_gpu(batch)
        arguments = {"subject": self.subject.plain(), "backend": self.backend}
        maker, plugins = "routebench.protocols.cost_work:probed", loaded_plugins()
        return peak_memory(maker, arguments, batch, threads=torch.get_num_threads(), plugins=plugins)

    def _memory_on_gpu(self, batch: int) -> int:
        with kernels.using(self.backend):
            made = prepare(self.subject, self.device)
            made(1).training()
            work = made(batch)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            work.training()
            torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def _largest_batch(self, measured: Mapping[int, int], budget: int, limit: int) -> int:
        """Finds the largest batch by a straight line through the two largest that were measured, until one fits.

        Returns:
            a batch size that was measured and fits; 0 if none does.
        """
        known = dict(measured)
        try:
            if len(known) == 1:
                (only,) = known
                known[2 * only] = self._memory(2 * only)
            for _ in range(TRIES):
                guess = min(limit, _that_fits(known, budget))
                if guess in known or guess < 1:
                    break
                known[guess] = self._memory(guess)
                if known[guess] <= budget:
                    break
        except (ProbeError, *OUT_OF_MEMORY):
            pass  # more than there is: what is known to fit stands
        return max((batch for batch, memory in known.items() if memory <= budget), default=0)


class _Timing:
    """One measurement of a point's times, in `ROUNDS` rounds.

    Args:
        point: what is timed.
        batch: number of images in a batch.
        repeat: number of this measurement, a coordinate of the metrics.
        seconds: shortest time that inference and training are measured for, each.
    """

    def __init__(self, point: _Point, batch: int, repeat: int, seconds: float):
        self.point, self.batch, self.repeat, self.seconds = point, batch, repeat, seconds
        self.times: dict[str, list[benchmark.Measurement]] = {"inference": [], "training": []}
        self.cpu_times: dict[str, list[float]] = {"inference": [], "training": []}
        self.failure: Metric | None = None

    def go_on(self) -> None:
        """Does one more round, unless one failed."""
        if self.failure:
            return
        try:
            with kernels.using(self.point.backend):
                work = prepare(self.point.subject, self.point.device)(self.batch)
                self._time("inference", work.inference)
                self._time("training", work.training)
        except OUT_OF_MEMORY:
            self.failure = self.point.absent("out of memory", batch=self.batch, repeat=self.repeat)
        except Exception as error:  # noqa: BLE001  # it costs this batch alone
            self.point.errors.append(error)
            self.failure = self.point.absent(one_line(error), batch=self.batch, repeat=self.repeat)

    def _time(self, name: str, run: Callable[[], object]) -> None:
        rounds = self.times[name]
        if rounds and len(rounds) * min(sum(found.raw_times) for found in rounds) >= self.seconds:
            return  # one run takes longer than a round
        rounds.append(timer(run).blocked_autorange(min_run_time=self.seconds / ROUNDS))
        if self.point.device.type == "cpu":
            self.cpu_times[name].append(in_yardsticks(run, self.seconds / ROUNDS))

    def metrics(self) -> Iterator[Metric]:
        """Inference and training: median, interquartile range, how often it ran, and CPU time on a processor."""
        where = self.point.where(batch=self.batch, repeat=self.repeat)
        for name, rounds in self.times.items():
            if rounds:
                (found,) = benchmark.Measurement.merge(rounds)
                yield Metric.of(f"{name}_time", "", 1e3 * found.median, where=where)
                yield Metric.of(f"{name}_time_iqr", "", 1e3 * found.iqr, where=where)
                yield Metric.of(
                    f"{name}_runs", "", sum(one.number_per_run * len(one.times) for one in rounds), where=where
                )
            if self.cpu_times[name]:
                yield Metric.of(f"{name}_cpu_time", "", median(self.cpu_times[name]), where=where)
        if self.failure:
            yield self.failure


def _that_fits(known: Mapping[int, int], budget: int) -> int:
    (less, low), (more, high) = sorted(known.items())[-2:]
    slope = max((high - low) / (more - less), 1e-9)  # flat: everything fits
    return int(SAFETY * (more + (budget - high) / slope))


def _subjects(request: FitRequest, options: Mapping[str, Any]) -> list[Subject]:
    """The network, and where it has capsules its routed layers and the layers asked for."""
    with declared_where_missing():  # images are random
        data = load(request.data)
    network = Subject(NETWORK, request, data.train.shape, len(data.classes))
    if not isinstance(network_of(network), CapsuleNetwork):
        return [network]
    parts = [LAYERS, *(f"{DENSE} {count}" for count in options.get("children", []))]
    grid = product(options.get("tokens", []), options.get("parents", []))
    parts += [f"{TOKENS} {tokens} {parents}" for tokens, parents in grid]
    return [network, *(replace(network, part=part) for part in parts)]
