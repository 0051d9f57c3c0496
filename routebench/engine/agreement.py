"""Whether two measurements of one cell agree."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.units import is_of_machine

ROUNDING = 1e-5
"""Largest relative difference that the order of additions in float32 is taken to explain."""


@dataclass(frozen=True)
class Pair:
    """One number then and now; None where a side lacks it.

    Args:
        name: such as `accuracy test T=2`.
        is_of_machine: a time, a speed or memory, which no two runs share.
    """

    name: str
    then: float | None
    now: float | None
    is_of_machine: bool

    @property
    def difference(self) -> float:
        """|then - now| relative to the larger; infinite where a side lacks it, or only one is a number."""
        if self.then is None or self.now is None:
            return math.inf
        if self.then == self.now or (math.isnan(self.then) and math.isnan(self.now)):
            return 0.0
        relative = abs(self.then - self.now) / max(abs(self.then), abs(self.now))
        return relative if math.isfinite(relative) else math.inf


@dataclass(frozen=True)
class Agreement:
    """What two records of one cell have in common.

    Args:
        pairs: all their numbers.
        outputs: raw outputs that both have: how many values differ, of how many.
    """

    pairs: Sequence[Pair]
    outputs: Mapping[str, tuple[int, int]]

    @property
    def numbers(self) -> list[Pair]:
        """Those that the machine has no part in."""
        return [pair for pair in self.pairs if not pair.is_of_machine]

    @property
    def differing(self) -> list[Pair]:
        """Numbers that are further apart than rounding explains."""
        return [pair for pair in self.numbers if pair.difference > ROUNDING]

    @property
    def holds(self) -> bool:
        """Whether all numbers agree, within rounding."""
        return not self.differing

    def lines(self) -> Iterable[str]:
        """In words."""
        numbers, differing = self.numbers, self.differing
        equal = [pair for pair in numbers if pair.difference == 0]
        yield f"{len(equal)} of {len(numbers)} numbers agree to the last digit"
        near = [pair.difference for pair in numbers if 0 < pair.difference <= ROUNDING]
        if near:
            yield f"{len(near)} agree within rounding; the largest relative difference is {max(near):.1e}"
        for pair in differing:
            apart = f" (relative difference {pair.difference:.1e})" if math.isfinite(pair.difference) else ""
            yield f"differs: {pair.name}: {_shown(pair.then)} then, {_shown(pair.now)} now{apart}"
        for name, (unequal, total) in self.outputs.items():
            if unequal:
                yield f"raw output {name}: {unequal} of {total} values differ"
        ratios = sorted(pair.now / pair.then for pair in self.pairs if pair.is_of_machine and pair.then and pair.now)
        if ratios:
            spread = f"{ratios[0]:.2f}" if len(ratios) == 1 else f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            yield f"times, speeds and memory, which need not agree: {spread} of what they were ({len(ratios)} of them)"


def compare(
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    outputs_then: Mapping[str, NDArray[Any]],
    outputs_now: Mapping[str, NDArray[Any]],
) -> Agreement:
    """Two records of one cell, number by number, and their raw outputs."""
    first, second = ({_name(metric): metric for metric in record["metrics"]} for record in (then, now))
    pairs = [
        Pair(name, _value(first, name), _value(second, name), _is_of_machine(metric))
        for name, metric in (second | first).items()
    ]
    common = [name for name in outputs_then if name in outputs_now]
    return Agreement(pairs, {name: _unequal(outputs_then[name], outputs_now[name]) for name in common})


def _name(metric: Mapping[str, Any]) -> str:
    """What a metric is, without its value."""
    known = [str(metric["metric"]), metric.get("split") or ""]
    if metric.get("test_iterations") is not None:
        known.append(f"T={metric['test_iterations']}")
    if metric.get("epoch") is not None:
        known.append(f"epoch {metric['epoch']}")
    known += [f"{key}={value}" for key, value in (metric.get("where") or {}).items()]
    return " ".join(word for word in known if word)


def _value(metrics: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    return metrics[name]["value"] if name in metrics else None


def _is_of_machine(metric: Mapping[str, Any]) -> bool:
    """Times, speeds, memory, and how often something was run for a time."""
    return is_of_machine(metric.get("unit") or "") or str(metric["metric"]).endswith("_runs")


def _unequal(then: NDArray[Any], now: NDArray[Any]) -> tuple[int, int]:
    if then.shape != now.shape:
        return max(then.size, now.size), max(then.size, now.size)
    both_nan = (then != then) & (now != now)  # noqa: PLR0124  # NaN, of every dtype
    return int(np.count_nonzero((then != now) & ~both_nan)), then.size


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"
