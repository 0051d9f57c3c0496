"""The pre-specified comparisons of a suite; all others are exploratory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Le

from routebench.engine.suites._cell import Cell
from routebench.engine.suites._readers import NAMES

Points = Annotated[float, Gt(0.0), Le(100.0)]
"""A difference of accuracies, which is at most 100 points."""


@dataclass(frozen=True)
class Primary:
    """The table `[primary]` of a suite: each method at some T, against some configurations and its own first iteration.

    The best T is that of the highest tuning score, which no test image has part in; where nothing was tuned, it is the
    method's default, or the nearest that is planned.

    Args:
        margin: the smallest difference that matters, in points of accuracy.
        against: configurations that every method is compared with, besides its own first iteration; a variant is
            compared with the same variant of a configuration where the suite has one.
        iterations: whether a method is compared at its best T alone, or at each T.
        half_width: half-width of the 95 % interval that every difference is to have, in points; `--until` sets another.
    """

    margin: Points
    against: Annotated[tuple[str, ...], NAMES] = ()
    iterations: Literal["best", "each"] = "best"
    half_width: Points | None = None

    def pairs(self, cells: Iterable[Cell]) -> list[tuple[Cell, Cell]]:
        """The comparisons among these runs of one seed, ours first; each once."""
        known = list(cells)
        found: dict[tuple[str, str], tuple[Cell, Cell]] = {}
        for label in dict.fromkeys(cell.label for cell in known if cell.identity.role == "method" and not cell.broken):
            own = [cell for cell in known if cell.label == label]
            first = [cell for cell in own if cell.identity.iterations == 1]
            variant = own[0].identity.variant
            theirs = [cell for name in self.against for cell in _entry(known, name, variant) if cell.label != label]
            for ours in own if self.iterations == "each" else [_best(own)]:
                for other in (*theirs, *first):
                    if other is not ours:
                        found.setdefault((ours.key, other.key), (ours, other))
        return list(found.values())


def _entry(known: Sequence[Cell], name: str, variant: str | None) -> list[Cell]:
    """The runs of a configuration in this variant, else plain."""
    alike = [cell for cell in known if variant and cell.label == f"{name} ({variant})"]
    return alike or [cell for cell in known if cell.label == name]


def _best(own: Sequence[Cell]) -> Cell:
    """The run of a method's best T; of equal scores, the smaller T."""

    def worse(cell: Cell) -> tuple[float, int, int]:
        steps = cell.identity.iterations or 0
        score = (cell.identity.tuning or {}).get("score")
        return (0.0, abs(steps - cell.default_iterations), steps) if score is None else (-float(score), steps, 0)

    return min(own, key=worse)
