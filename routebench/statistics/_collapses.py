"""Seeds that fall out of a method's others, and what as many as there may be would cost its mean.

Student's t needs differences that are about normal. A method that collapses in one seed of ten breaks this, and five
seeds without a collapse look like those of a method that never collapses: no test of these five can tell them apart.
What can be looked at are all seeds of a method, with every T.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from routebench.statistics._intervals import CONFIDENCE, finite

LEVEL = 0.01
"""The level of Rosner's test. In simulations it took a normal seed for one that falls out in 1 of 100 methods with one
configuration, and in 4 of 100 with three configurations of five seeds."""
MOST = 0.25
"""Share of a method's seeds that may fall out of the others; with more, the spread is wide by itself."""


@dataclass(frozen=True)
class Collapses:
    """Seeds of one method that fall out, to one side.

    Args:
        count: how many.
        seeds: the number in all.
        depth: how far the farthest lies from the mean of the others, in the unit of the values.
    """

    count: int = 0
    seeds: int = 0
    depth: float = 0.0

    @property
    def most(self) -> float:
        """The largest share of seeds that may fall out: Clopper and Pearson's (1934) one-sided upper limit of 95 %."""
        if self.count >= self.seeds:
            return 1.0
        return float(stats.beta.ppf(CONFIDENCE, self.count + 1, self.seeds - self.count))

    @property
    def cost(self) -> float:
        """The amount that the mean may lose by them: the largest share times the depth; 0 where none was seen."""
        return self.most * self.depth if self.count else 0.0


def collapses(entries: Iterable[ArrayLike]) -> tuple[Collapses, Collapses]:
    """The seeds of a method that fall out of the others, below and above.

    Rosner's generalised extreme studentised deviate, on each value less the median of its configuration, at `LEVEL`,
    for at most `MOST` of all. Source: Rosner, Percentage points for a generalized ESD many-outlier procedure,
    Technometrics 25 (1983).

    Args:
        entries: per configuration of the method, such as its T, one value per seed; those without values are left out.
    """
    known = [finite(entry) for entry in entries if np.size(entry)]
    if sum(entry.size for entry in known) < 3:
        seeds = sum(entry.size for entry in known)
        return Collapses(seeds=seeds), Collapses(seeds=seeds)
    apart = np.concatenate([entry - np.median(entry) for entry in known])
    out = _fallen(apart, max(1, int(MOST * apart.size)), LEVEL)
    centre = float(np.delete(apart, out).mean())
    sides = (centre - apart[out], apart[out] - centre)
    found = [
        Collapses(int((side > 0).sum()), apart.size, float(side.max(initial=0.0))) for side in map(np.asarray, sides)
    ]
    return found[0], found[1]


def _fallen(values: NDArray[np.float64], most: int, level: float) -> list[int]:
    """Places of the values, at most so many, that fall out of the others at that level."""
    left, removed, last = np.arange(values.size), [], 0
    for turn, critical in enumerate(_critical(values.size, most, level), 1):
        kept = values[left]
        spread = float(kept.std(ddof=1))
        if spread <= 1e-12 * float(np.abs(values).max()):
            break
        far = np.abs(kept - kept.mean())
        place = int(far.argmax())
        removed.append(int(left[place]))
        last = turn if far[place] / spread > critical else last
        left = np.delete(left, place)
    return removed[:last]


@cache
def _critical(n: int, most: int, level: float) -> tuple[float, ...]:
    """Rosner's critical values, equation 2.5, for the first, second, ... value that is taken away."""
    found = []
    for left in range(n, max(n - most, 2), -1):
        t = float(special.stdtrit(left - 2, 1 - level / (2 * left)))
        found.append((left - 1) * t / np.sqrt((left - 2 + t**2) * left))
    return tuple(found)
