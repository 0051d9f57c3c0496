"""What BASE has a number for and HEAD none: a method that learns nothing any more must not pass as not compared."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from routebench.analysis.wording import plural
from routebench.comparing.pairs import Pair
from routebench.comparing.settings import ABSOLUTE, SPEEDS, spot_of, values_of
from routebench.units import is_of_machine

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Loss:
    """A metric of a cell that HEAD ran to its end without a number for it.

    Args:
        pair: the cell.
        metric: of which values are lost.
        found: what HEAD has instead, in words.
    """

    pair: Pair
    metric: str
    found: str

    def in_words(self) -> str:
        """`dynamic T=3 seed 0: accuracy: nan`."""
        return f"{self.pair.base.name}: {self.metric}: {self.found}"


def losses_of(pairs: Iterable[Pair], metrics: Collection[str] = ()) -> tuple[Loss, ...]:
    """Every metric with a direction of which BASE has finite values and HEAD lacks one, cell by cell.

    Cells that are not compared, and what belongs to the machine where the machines differ, are no loss. A metric
    without direction is shown and never judged, and the machine's own speeds are none of the code's.

    Args:
        pairs: ok on both sides.
        metrics: those that count; empty for all.
    """
    return tuple(
        loss for pair in pairs if not pair.obstacle for loss in _of(pair) if not metrics or loss.metric in metrics
    )


def _of(pair: Pair) -> Iterator[Loss]:
    lost: dict[str, list[str]] = {}
    theirs: dict[Any, list[Any]] = {}
    for metric in pair.head.metrics:
        if metric.get("epoch") is None:
            theirs.setdefault(spot_of(metric), []).append(metric["value"])
    for spot, rows in values_of(pair.base).items():
        instead = _instead(rows, theirs.get(spot, []))
        if instead and _counts(rows, pair):
            lost.setdefault(spot[0], []).append(instead)
    for name, found in lost.items():
        words = ", ".join(dict.fromkeys(found))
        yield Loss(pair, name, words if len(found) == 1 else f"{words} ({plural(len(found), 'setting')})")


def _counts(rows: Rows, pair: Pair) -> bool:
    """Whether it would have been judged."""
    (name, unit, direction), *_ = ((row["metric"], row["unit"], row["higher_is_better"]) for row in rows)
    own = name in SPEEDS or name.endswith("_iqr") or (pair.machines and is_of_machine(unit))
    return direction is not None and not own


def _instead(base: Rows, head: list[Any]) -> str:
    """What stands where a number should; empty if all is well, or if BASE had none either."""
    ours = list(base)
    if not all(math.isfinite(row["value"]) for row in ours):
        return ""
    if not head:
        return "gone"
    for value in head:
        if value is None or not math.isfinite(value):
            return "no value" if value is None else str(value)
    if ours[0]["unit"] not in ABSOLUTE and ours[0]["higher_is_better"]:
        return _nothing([row["value"] for row in ours], head)
    return ""


def _nothing(base: list[float], head: list[float]) -> str:
    """Of what there should be more: it was above 0, and nothing is left, so that there is not even a ratio."""
    return "0" if min(base) > 0 and min(head) <= 0 else ""
