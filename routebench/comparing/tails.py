"""The tail of what noise makes: how improbable a change is that no draw reached."""

import math

import numpy as np
from scipy import special

from routebench.comparing.settings import FloatArray

TAIL = 0.01  # of the draws; below, an exponential goes on
POWER = 0.8


class Tail:
    """Sizes that noise alone makes, drawn many times.

    N draws cannot give a p below 1 / (N + 1), which Holm's correction over a thousand rows makes insignificant whatever
    the change. Beyond the largest `TAIL` of the draws p falls exponentially, by the mean that those lie beyond it.
    Source: Knijnenburg, Wessels, Reinders and Shmulevich, Fewer permutations, more accurate P-values, Bioinformatics 25
    (2009), who fit a generalised Pareto distribution; with shape 0 it is the exponential. A sum of bounded
    differences has a lighter tail than that, so that p is too large, if anything.

    Args:
        sizes: ascending.
    """

    def __init__(self, sizes: FloatArray):
        self.sizes = sizes
        self.start = float(sizes[int((1 - TAIL) * sizes.size)])
        beyond = sizes[sizes > self.start]
        self.mean_beyond = float(beyond.mean()) - self.start if beyond.size else 0.0
        # As that of a normal distribution with the same tails: the wider of its 5 % and its 1 in 1,000.
        self.error = max(
            float(sizes[int((1 - tail) * sizes.size)]) / -float(special.ndtri(tail / 2)) for tail in (0.05, 0.001)
        )

    def p(self, size: float) -> float:
        """How probable it is that noise makes at least so much."""
        reached = self.sizes.size - int(np.searchsorted(self.sizes, size - 1e-12))
        drawn = (1 + reached) / (1 + self.sizes.size)
        if size <= self.start or not self.mean_beyond:
            return drawn
        return min(drawn, TAIL * math.exp((self.start - size) / self.mean_beyond))

    def detectable(self, alpha: float) -> float:
        """The smallest change that a test at this level finds 8 times in 10."""
        significant = -float(special.ndtri(alpha / 2)) * self.error
        if alpha < TAIL and self.mean_beyond:
            significant = max(significant, self.start + self.mean_beyond * math.log(TAIL / alpha))
        return significant + float(special.ndtri(POWER)) * self.error
