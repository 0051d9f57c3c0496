"""Tells whether two measurements of one run agree."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.declared import as_recorded
from routebench.engine.results import Record
from routebench.quantities import few
from routebench.units import COUNTED

ROUNDING = 1e-5
"""Largest relative difference attributed to the order of additions in float32."""
ELSEWHERE = 1e-2
"""The same where another processor trained, relative to the whole for a share. Training carries rounding on: between
AVX-512 and plain instructions, one epoch of 7 methods on 3,600 images left most losses 1e-7 apart, the furthest, of EM,
3e-3, and accuracies up to half a point."""
ANSWERS = ("correct", "clean", "robust")
"""Raw outputs, by the first word of their name, that are 1 for an image with the right answer and 0 for another."""
CHANGING = re.compile(r"\S*/\S*|0x[0-9a-f]+|[0-9]+")
"""Parts of a reason that change from run to run: places, addresses and numbers."""
FIRST_WORDS = 5
"""Words of a reason that tell what kind of failure it is, the type of the error among them."""
PROCESSOR = ("device", "processor", "cpu_capability", "gpu")


@dataclass(frozen=True)
class Pair:
    """One number then and now; None if a side lacks it.

    Args:
        name: such as `accuracy test T=2`.
        is_of_machine: a time, a speed or memory, which no two executions share.
        tolerance: the largest difference attributed to rounding.
        whole: for a share, the full amount that differences are relative to.
    """

    name: str
    then: float | None
    now: float | None
    is_of_machine: bool
    tolerance: float = ROUNDING
    whole: float = 0.0

    @property
    def difference(self) -> float:
        """|then - now| relative to the larger, or `whole`; infinite where a side lacks it, or only one is a number."""
        if self.then == self.now:  # neither may be a number
            return 0.0
        if self.then is None or self.now is None:
            return math.inf
        if math.isnan(self.then) and math.isnan(self.now):
            return 0.0
        relative = abs(self.then - self.now) / max(abs(self.then), abs(self.now), self.whole)
        return relative if math.isfinite(relative) else math.inf


@dataclass(frozen=True)
class Agreement:
    """The agreement of two records of one run.

    Args:
        pairs: all their numbers.
        outputs: raw outputs that both have: number of differing values, number of values.
        beyond: names of raw outputs that differ by more than rounding.
        ends: both records where one has no result, and nothing else is compared.
        unseen: names of raw outputs that one side lacks: `then` or `now`.
    """

    pairs: Sequence[Pair]
    outputs: Mapping[str, tuple[int, int]]
    beyond: Collection[str] = field(default=())
    ends: tuple[Record, Record] | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> list[Pair]:
        """Pairs that do not depend on the machine."""
        return [pair for pair in self.pairs if not pair.is_of_machine]

    @property
    def differing(self) -> list[Pair]:
        """Numbers that differ by more than rounding."""
        return [pair for pair in self.numbers if pair.difference > pair.tolerance]

    @property
    def holds(self) -> bool:
        """Tells whether all numbers, and the images with the right answer, agree within rounding, or both failures."""
        if self.ends is not None:
            return failure_of(self.ends[0]) == failure_of(self.ends[1])
        return not self.differing and not self.beyond

    @property
    def is_exact(self) -> bool:
        """Tells whether all numbers agree to the last digit, and all raw outputs."""
        equal = all(pair.difference == 0 for pair in self.numbers)
        return equal and not any(unequal for unequal, _ in self.outputs.values())

    def lines(self) -> Iterable[str]:
        """The agreement in sentences."""
        if self.ends is not None:
            yield from (f"{when} {told}" for when, told in zip(("then", "now"), map(_ended, self.ends), strict=True))
            return
        numbers, differing = self.numbers, self.differing
        equal = [pair for pair in numbers if pair.difference == 0]
        yield f"{len(equal)} of {len(numbers)} numbers agree to the last digit"
        near = [pair for pair in numbers if 0 < pair.difference <= pair.tolerance]
        if near:
            furthest = max(near, key=lambda pair: pair.difference)
            bound = f", up to {furthest.tolerance:g} on another processor" * (furthest.tolerance > ROUNDING)
            told = f"{len(near)} agree within rounding{bound}"
            yield f"{told}; the largest relative difference is {furthest.difference:.1e}"
        for pair in differing:
            apart = f" (relative difference {pair.difference:.1e})" if math.isfinite(pair.difference) else ""
            yield f"differs: {pair.name}: {_shown(pair.then)} then, {_shown(pair.now)} now{apart}"
        for name, (unequal, total) in self.outputs.items():
            if unequal:
                known = (
                    "differs: " if name in self.beyond else "",
                    " (more than rounding)" if name in self.beyond else "",
                )
                yield f"{known[0]}raw output {name}: {unequal} of {total} values differ{known[1]}"
        for side in dict.fromkeys(self.unseen.values()):
            names = [name for name, lacking in self.unseen.items() if lacking == side]
            yield f"not compared: raw output {few(names)}, which is not there {side}"
        ratios = sorted(pair.now / pair.then for pair in self.pairs if pair.is_of_machine and pair.then and pair.now)
        if ratios:
            spread = f"{ratios[0]:.2f}" if len(ratios) == 1 else f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            yield f"times, speeds and memory, which need not agree: {spread} of what they were ({len(ratios)} of them)"


def compare(
    then: Record,
    now: Record,
    outputs_then: Mapping[str, NDArray[Any]],
    outputs_now: Mapping[str, NDArray[Any]],
) -> Agreement:
    """Compares two records of one run: each number, and the raw outputs.

    Counts must be equal, except where another processor trained. Of answers, so must the images be that are right.
    Where one has no result, both must have failed, for the same kind of reason.

    Args:
        then, now: the records.
        outputs_then, outputs_now: their raw outputs, by name.
    """
    if then.status != "ok" or now.status != "ok":
        return Agreement([], {}, ends=(then, now))
    elsewhere = _is_elsewhere(then.provenance, now.provenance)
    first, second = ({_name(metric): metric for metric in record.metrics} for record in (then, now))
    pairs = [
        Pair(name, _value(first, name), _value(second, name), *_known(metric, elsewhere))
        for name, metric in (second | first).items()
    ]
    common = [name for name in outputs_then if name in outputs_now]
    sides = {name: (outputs_then[name], outputs_now[name]) for name in common}
    beyond = [name for name, side in sides.items() if not _is_rounding(name, *side, elsewhere=elsewhere)]
    unseen = {name: "then" if name in outputs_now else "now" for name in sorted({*outputs_then} ^ {*outputs_now})}
    return Agreement(pairs, {name: _unequal(*side) for name, side in sides.items()}, beyond, unseen=unseen)


def failure_of(record: Record) -> tuple[str, ...]:
    """The kind of a failure: its status, and of an error its type and the first words of its message.

    Args:
        record: that of a run without a result.
    """
    known = CHANGING.sub("", record.reason).split()[:FIRST_WORDS] if record.status == "failed" else []
    return record.status, *known


def _ended(record: Record) -> str:
    """`failed: RuntimeError: ...`, or `ok`."""
    return f"{record.status}: {record.reason}".rstrip(": ")


def _is_elsewhere(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tells whether another kind of processor ran the second; the number of cores does not count."""
    one, other = ({key: str(side.get(key, "")).rsplit(", ", 1)[0] for key in PROCESSOR} for side in (then, now))
    return any(one[key] and one[key] != other[key] for key in PROCESSOR)


def _known(metric: Mapping[str, Any], elsewhere: bool) -> tuple[bool, float, float]:
    """Facts of a metric: is it of the machine, its tolerance, the whole that a share of elsewhere is relative to."""
    measure = as_recorded(str(metric["metric"]), metric.get("unit") or "")
    if measure.unit in COUNTED and not (elsewhere and metric.get("split")):
        return measure.is_of_machine, 0.0, 0.0
    return measure.is_of_machine, *((ELSEWHERE, measure.whole or 0.0) if elsewhere else (ROUNDING, 0.0))


def _name(metric: Mapping[str, Any]) -> str:
    """Name of a metric with its coordinates, without its value."""
    known = [str(metric["metric"]), metric.get("split") or ""]
    if metric.get("test_iterations") is not None:
        known.append(f"T={metric['test_iterations']}")
    if metric.get("epoch") is not None:
        known.append(f"epoch {metric['epoch']}")
    known += [f"{key}={value}" for key, value in (metric.get("where") or {}).items()]
    return " ".join(word for word in known if word)


def _value(metrics: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    return metrics[name]["value"] if name in metrics else None


def _unequal(then: NDArray[Any], now: NDArray[Any]) -> tuple[int, int]:
    if then.shape != now.shape:
        return max(then.size, now.size), max(then.size, now.size)
    both_nan = (then != then) & (now != now)  # noqa: PLR0124  # NaN, of every dtype
    return int(np.count_nonzero((then != now) & ~both_nan)), then.size


def _is_rounding(name: str, then: NDArray[Any], now: NDArray[Any], *, elsewhere: bool) -> bool:
    """Tells whether rounding may explain how a raw output differs.

    The accuracy tells how many answers are right. This tells which: it counts images that changed sides in pairs, one
    to right and one to wrong. On the same processor none may. On another, a share of `ELSEWHERE` may, and always two,
    but at most half as many as chance gives for the same accuracy. Between AVX-512 and plain instructions, 11 of 13
    configurations of a preset had 0 to 10 in 1,000; the others had 26 and 32, and numbers that differed as well.
    """
    if then.shape != now.shape:
        return False
    if name.partition("_")[0] not in ANSWERS or not then.size:
        return True
    swapped = np.count_nonzero(then != now) - abs(int(then.sum()) - int(now.sum()))
    if not elsewhere:
        return bool(swapped <= 0)
    fewer, more = sorted((float(then.mean()), float(now.mean())))
    drawn_anew = 2 * then.size * fewer * (1 - more)
    return bool(swapped <= min(max(2.0, ELSEWHERE * then.size), drawn_anew / 2))


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"
