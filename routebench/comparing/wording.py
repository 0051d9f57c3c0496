"""One change in words and numbers, the same in text, Markdown and JSON."""

import math
from typing import TYPE_CHECKING

from routebench.analysis.wording import NOTHING, plural, probability, signed
from routebench.comparing.change import Change
from routebench.comparing.settings import Group

if TYPE_CHECKING:
    from routebench.comparing.comparison import Comparison

MEGABYTE = 1 << 20


def value(number: float, unit: str) -> str:
    """`95.20 %`, `4.59 ms`, `5.14 MB`."""
    if math.isnan(number):
        return NOTHING
    if unit == "%":
        return f"{number:.2f} %"
    if unit == "bytes":
        return f"{number / MEGABYTE:.4g} MB"
    return f"{number:,.4g}{' ' if unit else ''}{unit}"


def size(change: float, group: Group) -> str:
    """`−1.00 points`, `+20 %`, or signed as it is where there is no unit."""
    if math.isnan(change):
        return NOTHING
    if group.relative:
        percent = 100 * math.expm1(change)
        return f"{signed(percent, 1 if abs(percent) < 10 else 0)} %"
    return f"{signed(change)} points" if group.unit == "%" else signed(change, 4)


def extent(change: float, group: Group) -> str:
    """`1.00 points`, `20 %`: a size without a sign."""
    return NOTHING if math.isnan(change) else size(abs(change), group).lstrip("+")


def told(change: Change) -> str:
    """`accuracy of dynamic T=3: −1.00 points (95.60 % → 94.60 %)`."""
    values = f"{value(change.base, change.group.unit)} → {value(change.head, change.group.unit)}"
    return f"{change.group.name} of {change.name}: {size(change.evidence.change, change.group)} ({values})"


def suite(group: Group) -> str:
    """`accuracy quick, mnist5k`."""
    return f"{group.suite} {group.preset}, {group.data}"


def p(change: Change) -> str:
    """Holm's p-value."""
    return probability(change.p_value)


def provenance(comparison: "Comparison") -> list[str]:
    """One line for each folder: commit, machine, device."""
    lines = []
    for name, side in (("BASE", comparison.base), ("HEAD", comparison.head)):
        commits = ", ".join(commit[:12] for commit in side.facts("commit")) or "unknown commit"
        dirty = " with changes not committed" if side.dirty else ""
        machine = "; ".join(side.facts("processor")) or "unknown processor"
        gpu = "".join(f", {card}" for card in side.facts("gpu"))
        device = ", ".join(side.facts("device"))
        lines.append(f"{name}: {commits}{dirty}; {device} on {machine}{gpu}; {plural(len(side.cells), 'cell')}")
    return lines
