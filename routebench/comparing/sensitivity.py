"""What the data could have shown: a gate that is blind has to say so."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from routebench.analysis.wording import plural
from routebench.comparing.change import ALL, IMPROVEMENT, METHOD, REGRESSION, SETTING, Change
from routebench.comparing.evidence import QUESTIONS
from routebench.comparing.settings import Group
from routebench.comparing.wording import extent, suite


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
        unseen: of each method whose change could have gone unseen though it has to be seen, the row; the worst first.
    """

    group: Group
    rows: int
    could_see: dict[str, float]
    kinds: tuple[str, ...]
    identical: bool
    unseen: tuple[Change, ...] = ()

    @property
    def blind(self) -> bool:
        """Whether a change that a gate has to see could have gone unseen."""
        return bool(self.unseen)

    @property
    def undecided(self) -> bool:
        """Whether that leaves the gate undecided: of times, and of whatever the user says must be seen."""
        return any(row.stated or row.evidence.kind == "rounds" for row in self.unseen)

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
        """A sentence that says below what size nothing could have been seen, and what it takes."""
        worst = self.unseen[0]
        told = "nothing tells what could have been seen"
        if not math.isnan(worst.could_see):
            told = f"a change of {worst.name} below {extent(worst.could_see, self.group)} could not have been seen"
        more = f", nor of {plural(len(self.unseen) - 1, 'more row')}" if len(self.unseen) > 1 else ""
        return f"Blind for {self.group.name} ({suite(self.group)}): {told}{more}; {self.wanting()}."

    def wanting(self) -> str:
        """What it would take: `30 % needs about 12 rounds, and there are 6`."""
        size, worst = extent(self.unseen[0].must_see, self.group), self.unseen[0]
        unit = "round" if worst.evidence.kind == "rounds" else "seed"
        needed = worst.needed
        if not needed:
            return f"{size} needs {'a calmer machine' if unit == 'round' else 'more seeds'}"
        return f"{size} needs about {plural(needed, unit)}, and there are {worst.evidence.pairs}"


def sensitivities(changes: Sequence[Change]) -> list[Sensitivity]:
    """One for each metric of which a row was judged."""
    groups: dict[Group, list[Change]] = {}
    for change in changes:
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
    identical = all(row.base == row.head for row in rows)
    return Sensitivity(group, len(rows), could_see, kinds, identical, () if identical else tuple(_unseen(rows)))


def _unseen(rows: list[Change]) -> list[Change]:
    """Rows that leave the gate blind.

    Of a time, which one method alone may take more of, it has to be seen for each method. Of anything else it is enough
    that the most sensitive row could have seen it.
    """
    if rows[0].evidence.kind == "rounds":
        several = {row.method for row in rows if row.level == METHOD}
        own = [row for row in rows if row.level == METHOD or (row.level == SETTING and row.method not in several)]
        found = [row for row in own if row.blind and row.verdict not in (REGRESSION, IMPROVEMENT)]
    else:
        found = [min(rows, key=_size)] if all(row.blind for row in rows) else []
    return sorted(found, key=_size, reverse=True)


def _size(row: Change) -> float:
    return math.inf if math.isnan(row.could_see) else row.could_see
