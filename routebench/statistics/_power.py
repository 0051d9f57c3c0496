"""Smallest detectable differences."""

import math
from functools import cache

import numpy as np
from scipy import optimize, special, stats

from routebench.statistics._intervals import ALPHA


def smallest_detectable_difference(deviation: float, n: int, alpha: float = ALPHA, power: float = 0.8) -> float:
    """The true mean difference that a two-sided paired t-test with n pairs finds with probability `power`.

    Solves `P(|T| > t(1 - alpha/2, n - 1)) = power` for the noncentrality d sqrt(n) / s of T numerically.
    Source: Cohen, Statistical Power Analysis for the Behavioral Sciences (2nd ed., 1988), chapter 2.

    Args:
        deviation: s, the standard deviation of the paired differences, in their unit.
        n: how many pairs (seeds).
        alpha: level of the test.
        power: chance to find it.

    Returns:
        d in the unit of `deviation`; NaN where n < 2 or the deviation is zero or NaN, because the spread is then
            unknown, and where alpha is too small to solve for it (1e-9 with two pairs). 0 if alpha is `power` or more.
    """
    if n < 2 or not deviation > 0:
        return math.nan
    return _noncentrality(n - 1, alpha, power) * deviation / math.sqrt(n)


@cache
def _noncentrality(degrees: int, alpha: float, power: float) -> float:
    """Noncentrality of t that a two-sided test finds with probability `power`."""
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))

    # statsmodels' TTestPower stops unconverged at small alpha, silently: 1.7 instead of 2.7 for n = 10, alpha = 5e-5.
    def shortfall(noncentrality: float) -> float:
        # The lower tail by symmetry, P(T < -t | d) = P(T > t | -d): scipy's own is NaN where it underflows.
        tails = stats.nct.sf(critical, degrees, [noncentrality, -noncentrality])
        return float(np.sum(tails)) - power

    most = 4 * critical + 10
    if shortfall(0.0) >= 0:
        return 0.0  # the test finds that often what is not there
    return float(optimize.brentq(shortfall, 0.0, most)) if shortfall(most) > 0 else math.nan


def smallest_detectable_share(discordant: float, n: int, alpha: float = ALPHA, power: float = 0.8) -> float:
    """The true difference of two accuracies that McNemar's test on n test samples finds with probability `power`.

    Solves `d sqrt(n) = z(1 - alpha/2) sqrt(q) + z(power) sqrt(q - d^2)` for d, with q the discordant share. Source:
    Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics 43 (1987),
    equation 3. The exact test has slightly less power.

    Args:
        discordant: q, the share of samples that only one of the two has right.
        n: how many test samples.
        alpha: level of the test.
        power: chance to find it.

    Returns:
        d as a proportion; NaN without samples or discordant ones, and where even d = q has less power.
    """
    if n < 1 or not discordant > 0:
        return math.nan
    z_level, z_power = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))

    def shortfall(difference: float) -> float:
        spread = z_level * math.sqrt(discordant) + z_power * math.sqrt(max(discordant - difference**2, 0.0))
        return difference * math.sqrt(n) - spread

    return float(optimize.brentq(shortfall, 0.0, discordant)) if shortfall(discordant) > 0 else math.nan
