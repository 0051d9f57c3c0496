"""How much of a change its user accepts: `accuracy=0.5`, `training_time=10%`."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from routebench.errors import UserError, unknown


@dataclass(frozen=True)
class Tolerance:
    """A change up to `value` is accepted: in the metric's unit, or in % of BASE's mean."""

    value: float
    percent: bool

    def as_change(self, base: float, *, relative: bool, falls: bool = False) -> float:
        """The size of the largest accepted change: of a difference, or of the logarithm of a ratio.

        Args:
            base: mean of BASE.
            relative: whether changes are logarithms of ratios.
            falls: whether HEAD is the smaller: a tenth less is a larger logarithm than a tenth more.
        """
        if not relative:
            return abs(base) * self.value / 100 if self.percent else self.value
        share = self.value / 100 if self.percent else self.value / abs(base)
        if not falls:
            return math.log1p(share)
        return -math.log1p(-share) if share < 1 else math.inf


def read_tolerances(texts: Iterable[str]) -> dict[str, Tolerance]:
    """`METRIC=VALUE` or `METRIC=VALUE%`, by metric.

    Raises:
        UserError: a text is neither, or its value is negative.
    """
    found = {}
    for text in texts:
        metric, _, value = text.partition("=")
        number = value.strip().removesuffix("%")
        try:
            size = float(number)
        except ValueError:
            size = math.nan
        if not metric.strip() or not 0 <= size < math.inf:
            raise UserError(f"expected --tolerance METRIC=VALUE or METRIC=VALUE%, such as accuracy=0.5, got {text!r}")
        found[metric.strip()] = Tolerance(size, value.strip().endswith("%"))
    return found


def refuse_unknown(tolerances: Mapping[str, Tolerance], metrics: Iterable[str]) -> None:
    """Raises UserError for a tolerance of a metric that was not measured."""
    known = set(metrics)
    for metric in tolerances:
        if metric not in known:
            raise unknown("metric", metric, known)
