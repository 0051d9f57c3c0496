"""Variances of several rows, each with few degrees of freedom, drawn towards each other as far as they are alike."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from routebench.statistics._intervals import finite

FEWEST_VARIANCES = 3
"""The fewest variances that tell how alike they are."""
ALIKE = 1e6
"""Prior degrees of freedom that count as infinite: all rows have one variance."""


def moderated_variances(variances: ArrayLike, degrees: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Empirical Bayes: the posterior mean of each variance under a scaled inverse chi-squared prior fitted to all.

    Rows that vary no more among each other than chance allows are pooled; one that is far from the others keeps nearly
    its own. Source: Smyth, Linear models and empirical Bayes methods, Statistical Applications in Genetics and
    Molecular Biology 3 (2004), section 6.2; as `squeezeVar` of limma before 2024, without a trend. Departures: limma
    raises zeros to 1e-5 of the median and fits them, too; where nothing but chance parts the rows, its common variance
    is their plain mean, and here each row counts by its degrees of freedom. The most degrees are those of its `eBayes`.

    Args:
        variances: one per row. Zeros take no part in the fit: chance alone makes discrete values equal.
        degrees: degrees of freedom of each; rows without any take part in nothing and get the prior.

    Returns:
        the variances and their degrees of freedom, never more than all rows have together; a row's own where fewer than
            `FEWEST_VARIANCES` rows have a positive one.

    Raises:
        ValueError: a value is not finite or below zero, or there are not as many of both.
    """
    own, free = (finite(values) for values in (variances, degrees))
    if own.ndim != 1 or own.shape != free.shape or (own < 0).any() or (free < 0).any():
        raise ValueError(f"expected as many degrees as variances, none below zero, got {own.shape} and {free.shape}")
    known = (free > 0) & (own > 0)
    if known.sum() < FEWEST_VARIANCES:
        return own.copy(), free.copy()
    place, prior = _prior(own[known], free[known])
    if prior >= ALIKE:
        pooled = float((own[known] * free[known]).sum() / free[known].sum())
        return np.full_like(own, pooled), np.full_like(free, free[known].sum())
    found = (prior * place + np.where(free > 0, free * own, 0.0)) / (prior + free)
    return found, np.minimum(prior + free, free[known].sum())


def _prior(own: NDArray[np.float64], free: NDArray[np.float64]) -> tuple[float, float]:
    """Scale and degrees of freedom of the prior, from mean and variance of the logarithms."""
    logs = np.log(own) - special.digamma(free / 2) + np.log(free / 2)
    excess = float(logs.var(ddof=1) - special.polygamma(1, free / 2).mean())
    if excess <= 2 / ALIKE:
        return math.nan, ALIKE
    prior = 2 * float(optimize.brentq(lambda half: special.polygamma(1, half) - excess, 1e-8, ALIKE))
    return math.exp(logs.mean() + special.digamma(prior / 2) - math.log(prior / 2)), prior
