"""How much of a change its user accepts: `accuracy=0.5`, `training_time=10%`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from routebench.comparing.settings import Group
from routebench.errors import UserError, unknown
from routebench.units import TIMED


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


ACCEPTED = {"bytes": Tolerance(1, percent=True)} | dict.fromkeys(TIMED, Tolerance(10, percent=True))
"""What is accepted of a unit where the user says nothing.

Another version of torch allots a few bytes more. Of times, a few rounds can agree by chance in a few per cent.
"""


def least_to_see(group: Group, base: float, wish: Tolerance | None) -> float:
    """The change that a gate has to see: the user's, or else 30 % of a time, 20 % of another ratio, 1 point of a share.

    Args:
        group: the metric.
        base: mean of BASE.
        wish: of the user.

    Returns:
        a difference, or the logarithm of a ratio; infinite for what has no unit.
    """
    if wish is not None:
        return wish.as_change(base, relative=group.relative)
    if group.relative:
        return math.log(1.3 if group.unit in TIMED else 1.2)
    return 1.0 if group.unit == "%" else math.inf


def read_tolerances(texts: Iterable[str], option: str = "--tolerance") -> dict[str, Tolerance]:
    """`METRIC=VALUE` or `METRIC=VALUE%`, by metric.

    Args:
        texts: as typed.
        option: that they were typed for.

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
            raise UserError(f"expected {option} METRIC=VALUE or METRIC=VALUE%, such as accuracy=0.5, got {text!r}")
        found[metric.strip()] = Tolerance(size, value.strip().endswith("%"))
    return found


def refuse_unknown(tolerances: Iterable[str], metrics: Iterable[str]) -> None:
    """Raises UserError for a metric that was not measured."""
    known = set(metrics)
    for metric in tolerances:
        if metric not in known:
            raise unknown("metric", metric, known)
