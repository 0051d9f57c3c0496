"""A measured value as the cell of a table: its mean, its limits, their kind, and its format."""

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._method import Method
from routebench.analysis._verdicts import Verdict
from routebench.declared import ANY, Range
from routebench.statistics import ALPHA, Collapses, Interval

BRACKETED = (statistics.OVER_SAMPLES, statistics.OVER_SEEDS_LOGIT)
"""Kinds of interval that are not symmetric."""
UNEVEN = "seeds fell out of the others, no t interval"
MISSING = "the side that is ahead lacks results, no interval"
UNTESTED = (UNEVEN, MISSING)
"""Kinds of a difference without limits and p, though there are seeds."""


def range_of_difference(ours: Range, theirs: Range) -> Range:
    """The smallest and the largest difference of two values, each of its range."""
    return ours[0] - theirs[1], ours[1] - theirs[0]


class SeedValues(dict[int, float]):
    """The values of one metric by seed, with what an interval of their differences has to know.

    Args:
        values: by seed.
        first: the seeds below this number are the first of two stages; None for one stage.
        within: the smallest and the largest possible value.
        lost: seeds that ended without a value.
        higher_is_better: the direction of the metric; None where neither is better.
    """

    def __init__(
        self,
        values: Mapping[int, float] = MappingProxyType({}),
        first: int | None = None,
        within: Range = ANY,
        *,
        lost: Iterable[int] = (),
        higher_is_better: bool | None = True,
    ):
        super().__init__(values)
        self.first = first
        self.within = within
        self.lost = frozenset(lost)
        self.higher_is_better = higher_is_better

    @classmethod
    def of(cls, values: Mapping[int, float]) -> "SeedValues":
        """The values, with one stage and no range where they say nothing of them."""
        return values if isinstance(values, cls) else cls(values)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over seeds, or a mean difference, with its 95 % limits, all in the unit of the values.

    `float(estimate)` is the mean, so that `table[key].astype(float)` is a column of means.

    Args:
        mean: NaN without values.
        low, high: NaN where none can be given.
        n: number of values: seeds, or test images, by `kind`.
        kind: what the limits are over, a constant of `routebench.statistics`.
        p: the p-value of 'there is no difference'; NaN for a mean, and where no test can be made.
        p_holm: the same, corrected by `corrected`.
    """

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    kind: str = statistics.NO_VALUE
    p: float = math.nan
    p_holm: float = math.nan

    @classmethod
    def of(cls, found: Interval, scale: float = 1.0) -> "Estimate":
        """An estimate from a result of `routebench.statistics`, times `scale`.

        Args:
            found: the result, with a p-value or without.
            scale: factor of the mean and its limits, such as 100 for per cent.
        """
        p_value = getattr(found, "p_value", math.nan)
        return cls(scale * found.mean, scale * found.low, scale * found.high, found.n, found.kind, p_value)

    def within(self, low: float, high: float) -> "Estimate":
        """The same estimate, with limits that reach no further.

        Args:
            low: the smallest value that is possible, in the unit of the estimate.
            high: the largest one.
        """
        return replace(self, low=max(self.low, low), high=min(self.high, high)) if self.has_limits else self

    def __eq__(self, other: object) -> bool:
        """Equality of all fields; NaN is equal to NaN, in every version of Python."""
        return isinstance(other, Estimate) and self._comparable == other._comparable

    def __hash__(self) -> int:
        return hash(self._comparable)

    @property
    def _comparable(self) -> tuple[object, ...]:
        return tuple(None if isinstance(one, float) and math.isnan(one) else one for one in vars(self).values())

    def __neg__(self) -> "Estimate":
        return replace(self, mean=-self.mean, low=-self.high, high=-self.low)

    def untested(self, kind: str) -> "Estimate":
        """The same estimate without limits and p, for a reason of `UNTESTED`.

        Args:
            kind: the reason.
        """
        return replace(self, low=math.nan, high=math.nan, p=math.nan, p_holm=math.nan, kind=kind)

    @property
    def known(self) -> bool:
        """Tells whether there is a value."""
        return not math.isnan(self.mean)

    @property
    def has_limits(self) -> bool:
        """Tells whether there is an interval."""
        return not math.isnan(self.low)

    @property
    def verdict(self) -> Verdict:
        """The verdict on a difference, by its corrected p."""
        return Verdict.of(self.mean, self.p_holm)

    def __float__(self) -> float:
        return float(self.mean)

    def __format__(self, form: str) -> str:
        """Formats it; a dash for no value. With limits, decimals stop at the second digit of the half-width.

        | form | with limits | without |
        | --- | --- | --- |
        | `.1` | 97.1 | 97.1 |
        | `±.1` | 97.1 ± 0.4, or 99.1 [97.2, 99.6] where that is not symmetric; 97.1 if all seeds gave the same | 97.1 |
        | `±0.1` | the same, but 97.1 ± 0.0 if all seeds gave the same | 97.1 |
        | `[].1` | 97.1 [96.7, 97.5] | 97.1 |
        | `+.1` | +0.4 [−0.1, +0.9] | +0.4 |
        | `~` | 4.1 [3.9, 4.3], with two significant digits | 4.1 |
        """
        style, _, places = form.partition(".")
        digits = wording.decimals(self.half_width, int(places or 0)) if style else int(places or 0)

        def one(value: float, beside: float = math.nan) -> str:
            if style == "~":
                return wording.significant(value, beside)
            return wording.signed(value, digits) if style == "+" else wording.fixed(value, digits)

        if not style or not self.has_limits or (style == "±" and self.low == self.high):
            return one(self.mean)
        if style.startswith("±") and self.is_symmetric:
            return f"{one(self.mean)} ± {self.half_width:.{digits}f}"
        return f"{one(self.mean, self.half_width)} [{one(self.low, self.mean)}, {one(self.high, self.mean)}]"

    @property
    def half_width(self) -> float:
        """Half of the distance between the limits."""
        return (self.high - self.low) / 2

    @property
    def is_symmetric(self) -> bool:
        """Tells whether the mean lies in the middle of the limits."""
        middle = math.isclose(self.high - self.mean, self.mean - self.low, rel_tol=1e-6)
        return middle and self.kind not in BRACKETED


def mean_of(values: Iterable[float], whole: float | None = None, within: Range = ANY) -> Estimate:
    """The mean of one value per seed with its 95 % t interval.

    Args:
        values: NaN excluded.
        whole: for shares, the largest possible value: 100 for %.
        within: the smallest and the largest possible value.
    """
    return Estimate.of(statistics.mean_interval([*values], whole=whole)).within(*within)


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate:
    """The mean of `ours - theirs` over shared seeds, with its paired t interval and p.

    Of `SeedValues` the interval is that of two stages where there are two, and reaches no further than is possible.
    It has neither interval nor p if it is for a side that lost seeds which the other has: see `unflattered`.

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
    """
    known, other = SeedValues.of(ours), SeedValues.of(theirs)
    found = _over_seeds(ours, theirs)
    return _against_losers(found, known.lost & other.keys(), other.lost & known.keys(), known.higher_is_better)


def _over_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate:
    """The same, whatever seeds were lost."""
    known = SeedValues.of(ours)
    low, high = range_of_difference(known.within, theirs.within if isinstance(theirs, SeedValues) else known.within)
    if known.first is None:
        return Estimate.of(statistics.paired_difference(ours, theirs)).within(low, high)
    return Estimate.of(statistics.two_stage_difference(ours, theirs, known.first)).within(low, high)


Sides = tuple[Collapses, Collapses]
"""Seeds of a method that fall out below, and above."""


def collapses_by_label(values: Mapping[Method, Mapping[int, float]]) -> dict[tuple[str, str], Sides]:
    """Seeds that fall out of the others, by label and network, over all T."""
    known: dict[tuple[str, str], list[list[float]]] = {}
    for method, own in values.items():
        if len(own) > 1:  # a single seed is its own median
            known.setdefault((method.label, method.model), []).append([*own.values()])
    return {label: statistics.collapses(entries) for label, entries in known.items()}


def at_stake(ours: Sides, theirs: Sides, *, ahead: bool) -> float:
    """The amount that falling seeds may take from the lead of ours, or where they are not ahead from that of theirs.

    Args:
        ours, theirs: seeds that fall out, as `collapses_by_label` has them.
        ahead: whether ours leads.
    """
    (one_low, one_high), (other_low, other_high) = ours, theirs
    return one_low.cost + other_high.cost if ahead else one_high.cost + other_low.cost


def believed(found: Estimate, middle: float, ours: Sides, theirs: Sides) -> Estimate:
    """The difference without limits and p where as many seeds as may fall out could undo what t finds.

    Args:
        found: a difference over seeds.
        middle: the median of the differences by seed, which a few seeds that fall out do not move.
        ours, theirs: seeds that fall out, as `collapses_by_label` has them.
    """
    ahead = found.mean > 0
    stake = at_stake(ours, theirs, ahead=ahead)
    if not found.p < ALPHA or stake == 0 or (middle if ahead else -middle) > stake:
        return found
    return found.untested(UNEVEN)


def corrected(family: Iterable[Estimate], count: int | None = None) -> list[Estimate]:
    """The same differences with `p_holm`: Holm's correction over all of them.

    Those that could not be tested count: the family is what was asked for, and not what the data allowed.

    Args:
        family: the differences.
        count: how many were asked for; None for those that are known.
    """
    found = [*family]
    asked = sum(one.known for one in found) if count is None else count
    adjusted = statistics.holm([one.p for one in found], asked)
    return [replace(one, p_holm=float(p_holm)) for one, p_holm in zip(found, adjusted, strict=True)]


def unflattered(found: Estimate, ours: Method, theirs: Method, *, higher_is_better: bool | None = True) -> Estimate:
    """`ours - theirs`, without limits and test unless it is against the side that lost seeds which the other finished.

    The seeds that it lost may be its bad ones. What the others say for it, or for a tie, is no finding. `difference`
    does the same with values of `Runs`, which know the seeds that were lost.

    Args:
        found: the difference.
        ours: the method whose values come first.
        theirs: the method whose values are subtracted.
        higher_is_better: whether a difference above zero speaks for ours; None if it speaks for neither, so that lost
            seeds of either may have made it.
    """
    return _against_losers(found, ours.lost & theirs.finished, theirs.lost & ours.finished, higher_is_better)


def _against_losers(found: Estimate, ours: Set[int], theirs: Set[int], higher_is_better: bool | None) -> Estimate:
    """The difference, without limits and test where it is for a side that lost these seeds."""
    above, below = (found.mean >= 0, found.mean <= 0)[:: -1 if higher_is_better is False else 1]
    is_either = higher_is_better is None
    flattered = (ours and (above or is_either)) or (theirs and (below or is_either))
    return found.untested(MISSING) if flattered and found.known else found


def gains_over(
    base: str, values: Mapping[Method, Mapping[int, float]], *, higher_is_better: bool | None = None
) -> dict[Method, Estimate]:
    """Differences to a method, paired by seed, corrected over all of them.

    Args:
        base: its label.
        values: by method, then by seed; `SeedValues` may have lost seeds that the method has a result of.
        higher_is_better: whether a difference above zero speaks for the other method; None for what the values say.

    Returns:
        one for each other method; empty without the base.
    """
    others = {method: theirs for method in values if (theirs := base_of(method, base, values)) not in (None, method)}
    out, nothing = collapses_by_label(values), (Collapses(), Collapses())

    def gain(method: Method, theirs: Method) -> Estimate:
        middle = statistics.shared_differences(values[method], values[theirs])
        ours, other = (one.less(SeedValues.of(values[one]).lost) for one in (method, theirs))
        sides = (out.get((one.label, one.model), nothing) for one in (method, theirs))
        way = SeedValues.of(values[method]).higher_is_better if higher_is_better is None else higher_is_better
        found = unflattered(_over_seeds(values[method], values[theirs]), ours, other, higher_is_better=way)
        return believed(found, float(np.median(middle)), *sides) if middle.size else found

    gains = corrected(gain(method, theirs) for method, theirs in others.items())
    return dict(zip(others, gains, strict=True))


def base_of(method: Method, label: str, known: Iterable[Method]) -> Method | None:
    """The method of a label that another is compared with: in its own network if it is there, else in the first.

    A variant is compared with the same variant of the base where the suite has one: both changed the network alike.

    Args:
        method: the method that is compared.
        label: label of the base, such as `uniform`.
        known: all methods that the base may be among, in order.

    Returns:
        the base, which may be the method itself; None where no method has that label.
    """
    known = list(known)
    alike = [one for one in known if method.variant and one.name == label and one.variant == method.variant]
    plain = [one for one in known if one.label == label]
    own = [one for one in (*alike, *plain) if one.model == method.model]
    return next(iter((*own, *plain)), None)


def shown(value: Any, form: str = "") -> str:
    """The text of a cell; a dash if missing.

    Args:
        value: an `Estimate`, a number, or anything with a text.
        form: a form of `Estimate.__format__`, also for a plain number; `p` for a p-value; else as in `format`.
    """
    if isinstance(value, Estimate):
        return format(value, form or "±.2")
    if pd.isna(value):
        return wording.NOTHING
    if form == "p":
        return wording.probability(value)
    is_own = form == "~" or (form[-1:].isdigit() and "." in form and form[0] in ".±[+")
    return format(Estimate(float(value)), form) if is_own else format(value, form)
