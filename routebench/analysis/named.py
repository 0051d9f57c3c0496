"""The comparisons that a suite names beforehand, as a results folder has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from routebench import statistics
from routebench.analysis._runs import Runs
from routebench.analysis.comparison import Contender, contenders_of


@dataclass(frozen=True)
class NamedPair:
    """Two methods that a suite compares.

    Args:
        ours, theirs: with what they reached by seed.
        first: the number of seeds of the first stage.
        half_width: that the interval of their difference is to have, in points; None for what comes.
    """

    ours: Contender
    theirs: Contender
    first: int
    half_width: float | None

    @property
    def seeds(self) -> int:
        """That both have."""
        return len({*self.ours.accuracies} & {*self.theirs.accuracies})

    @property
    def more(self) -> int | None:
        """Seeds that are missing; None while the first stage is not whole, or where nothing was asked for."""
        if self.half_width is None:
            return None
        ours, theirs = self.ours.accuracies, self.theirs.accuracies
        wanted = statistics.seeds_needed(ours, theirs, self.first, self.half_width)
        return None if wanted is None else max(0, wanted - self.seeds)

    def __str__(self) -> str:
        names = f"{self.ours.method} against {self.theirs.method}"
        if self.more is None:
            return f"{names}: {self.seeds} of the first {self.first} seeds; how many it needs is not known yet"
        wanted = f"{self.more} more seeds needed" if self.more else "enough"
        return f"{names}: {self.seeds} seeds, {wanted} for ± {self.half_width:g} points"


def named_pairs(runs: Runs) -> list[NamedPair]:
    """The comparisons of a suite's plan, in its order, of which both sides were planned; none where it names none."""
    if not runs.primary:
        return []
    known = {(one.method.label, one.method.model, one.method.iterations): one for one in contenders_of(runs)}
    first, half_width = int(runs.primary["first"]), runs.primary.get("half_width")
    found = [(known.get(_entry(pair["ours"])), known.get(_entry(pair["theirs"]))) for pair in runs.primary["pairs"]]
    return [
        NamedPair(ours, theirs, first, half_width) for ours, theirs in found if ours is not None and theirs is not None
    ]


def _entry(named: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return str(named["label"]), str(named["model"]), named["iterations"]
