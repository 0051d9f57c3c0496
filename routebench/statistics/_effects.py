"""Effect sizes: differences relative to the spread over seeds."""

import math
from collections.abc import Mapping

import numpy as np
from scipy import special

from routebench.statistics._by_seed import shared_differences
from routebench.statistics._intervals import CONFIDENCE, CONSTANT, NO_VALUE, Interval, upper_level

STANDARDISED = "in standard deviations of the paired differences"
TOO_FEW = "fewer than three seeds, no effect size"
LARGE_T = 1000.0
"""The t from which scipy's inverse is off by more than the limit is; at 1e6 it did not return in 50 s."""


def standardised_difference(
    ours: Mapping[int, float], theirs: Mapping[int, float], confidence: float = CONFIDENCE
) -> Interval:
    """Cohen's d_z of paired values with Hedges' correction: the mean difference in standard deviations of differences.

    `J(n - 1) mean / s` with `J(m) = Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2))`, which removes the upward bias for
    few pairs: J is 0.56 with 3 seeds. The limits are the noncentralities that put t at the tails, over sqrt(n); from
    |t| = `LARGE_T` on, those of the limit for large t, in which s varies and the mean almost not.

    Sources: Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), chapter 2; Hedges,
    Distribution theory for Glass's estimator of effect size, J. Educational Statistics 6 (1981); Steiger and Fouladi,
    Noncentrality interval estimation, in What If There Were No Significance Tests? (1997).

    Args:
        ours: seed to value.
        theirs: seed to value, in the same unit.
        confidence: coverage of the interval, such as 0.95.

    Returns:
        in standard deviations; NaN with fewer than three shared seeds, or where all differences are equal.
    """
    differences = shared_differences(ours, theirs)
    n = differences.size
    if n < 3 or np.ptp(differences) == 0:
        kind = NO_VALUE if n == 0 else TOO_FEW if n < 3 else CONSTANT
        return Interval(math.nan, math.nan, math.nan, n, kind)
    plain = float(differences.mean() / differences.std(ddof=1))
    tail = 1 - upper_level(confidence)
    low, high = (_noncentrality(plain * math.sqrt(n), n - 1, share) / math.sqrt(n) for share in (1 - tail, tail))
    return Interval(hedges_correction(n - 1) * plain, low, high, n, STANDARDISED)


def hedges_correction(degrees: int) -> float:
    """J of Hedges 1981, equation 6e's exact form: the factor that makes a standardised mean difference unbiased.

    Args:
        degrees: degrees of freedom, 2 or more.

    Raises:
        ValueError: there are fewer.
    """
    if not 2 <= degrees < math.inf:
        raise ValueError(f"expected 2 degrees of freedom or more, got {degrees}")
    half = degrees / 2
    return math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)


def _noncentrality(t_value: float, degrees: int, share: float) -> float:
    """The noncentrality with which Student's t is below `t_value` with probability `share`."""
    if abs(t_value) <= LARGE_T:
        return float(special.nctdtrinc(degrees, share, t_value))
    # t = (d + Z) / sqrt(chi2 / m), where Z is nothing beside d.
    return t_value * math.sqrt(float(special.chdtri(degrees, share if t_value > 0 else 1 - share)) / degrees)
