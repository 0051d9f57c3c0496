"""Hands asv what it understands: it takes a rise for a regression, whatever the number means."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Lower:
    """A number of which less is better.

    Args:
        name: what it is.
        value: in its unit.
        unit: of the value.
    """

    name: str
    value: float
    unit: str


def lower_is_better(metric: str, value: float, unit: str, higher_is_better: bool | None) -> Lower:
    """A metric as a number of which less is better, with its unit.

    Where less is better already, it is as it was. A share in % becomes what is missing to 100 %, so that `accuracy`
    becomes `error`; any other positive number becomes its reciprocal, so that bytes/s becomes s/bytes.

    Raises:
        ValueError: neither direction is better, or the value is not finite, or has no reciprocal.
    """
    if higher_is_better is None:
        raise ValueError(f"metric {metric!r} has no direction, and asv needs one; leave it out")
    if not math.isfinite(value):
        raise ValueError(f"metric {metric!r} has the value {value}, and asv needs a finite one; leave it out")
    if not higher_is_better:
        return Lower(metric, value, unit)
    if unit == "%":
        return Lower("error" if metric == "accuracy" else f"100 % - {metric}", 100 - value, unit)
    if value <= 0:
        raise ValueError(f"metric {metric!r} has the value {value}, of which there is no reciprocal; leave it out")
    over, _, under = unit.partition("/")
    return Lower(f"1 / {metric}", 1 / value, f"{under or 1}/{over}" if over else "")
