"""What the data could have shown: a gate that is blind has to say so."""

import math
from dataclasses import dataclass

import numpy as np

from routebench.comparing.comparison import ALL, METHOD, SETTING, Change, Comparison
from routebench.comparing.evidence import QUESTIONS
from routebench.comparing.settings import Group
from routebench.comparing.wording import extent, suite

SHOULD_SEE = {"ratio": math.log(1.2), "%": 1.0}
"""20 % of a ratio, 1 point of a share in %: a metric that could not have shown that is called blind."""


@dataclass(frozen=True)
class Sensitivity:
    """What the judged rows of one metric could have shown.

    Args:
        group: the metric.
        rows: how many were judged.
        could_see: by level, the median of the smallest changes that would have been found 8 times in 10; none of a
            level where nothing is known.
        kinds: of evidence, keys of `QUESTIONS`.
        identical: whether BASE and HEAD have the same values throughout.
    """

    group: Group
    rows: int
    could_see: dict[str, float]
    kinds: tuple[str, ...]
    identical: bool

    @property
    def blind(self) -> bool:
        """Whether even the most sensitive level would have missed what a gate should see."""
        wanted = SHOULD_SEE.get("ratio" if self.group.relative else self.group.unit)
        if wanted is None or self.identical:
            return False
        return min(self.could_see.values(), default=math.inf) > wanted + 1e-9

    def in_words(self) -> str:
        """One line: rows, what could be seen at each level, and the question asked."""
        sizes = {level: extent(size, self.group) if size else "any change" for level, size in self.could_see.items()}
        could = [f"{size} ({level})" for level, size in sizes.items()]
        words = f"could see {', '.join(could)}" if could else "what it could see is unknown"
        alike = "the same on both sides; " if self.identical else ""
        asked = " ".join(QUESTIONS[kind] for kind in self.kinds)
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{self.group.name} ({suite(self.group)}), {rows}: {alike}{words}. Asked: {asked}"

    def blindness(self) -> str:
        """A sentence that says below what size nothing could have been seen."""
        least = min(self.could_see.values(), default=math.nan)
        told = "nothing tells what could have been seen"
        if not math.isnan(least):
            told = f"a change below {extent(least, self.group)} could not have been seen"
        return f"Blind for {self.group.name} ({suite(self.group)}): {told}."


def sensitivities(comparison: Comparison) -> list[Sensitivity]:
    """One for each metric of which a row was judged."""
    groups: dict[Group, list[Change]] = {}
    for change in comparison.changes:
        if change.judged and change.evidence.kind:
            groups.setdefault(change.group, []).append(change)
    return [_of(group, rows) for group, rows in groups.items()]


def _of(group: Group, rows: list[Change]) -> Sensitivity:
    could_see = {}
    for level in (ALL, METHOD, SETTING):
        known = [row.could_see for row in rows if row.level == level and not math.isnan(row.could_see)]
        if known:
            could_see[level] = float(np.median(known))
    kinds = tuple(dict.fromkeys(row.evidence.kind for row in rows))
    return Sensitivity(group, len(rows), could_see, kinds, all(row.base == row.head for row in rows))
