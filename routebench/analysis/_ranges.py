"""The values that a metric can have, so that no interval reaches beyond them."""

import math

from routebench.units import COUNTED, TIMED, is_of_machine, whole_of

Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
SIGNED = ("gathered", "static_loss")
"""Metrics in % that are differences of two shares."""
SHARES = {
    *("gini", "hoyer", "lifetime_sparsity", "norm_entropy", "population_sparsity", "share_between"),
    *("t_score", "t_score_weighted", "template_reuse", "check_fired", "collapsed", "mean_presence"),
}
"""Metrics between 0 and 1 whose unit does not say so."""
AT_MOST_ONE = {"pose_r2", "pose_r2_same"}
CORRELATIONS = {
    *("activation_correlation", "ari", "fg_ari", "fg_ari_coupling"),
    *("baseline_components", "baseline_kmeans"),
}
POSITIVE = {
    *("loss", "train_loss", "held_out_loss", "squared_error", "reconstruction_error", "free_form_error"),
    *("residual", "median_distance", "coupling_entropy", "effective_parents", "pixel_std", "presence_spread"),
}
"""Losses, errors, distances and entropies: never below zero."""


def range_of(metric: str, unit: str) -> Range:
    """The smallest and the largest value that a metric can have, in its unit; infinite where there is no limit."""
    signed = unit == "points" or (unit == "%" and (metric in SIGNED or metric.endswith("_gain")))
    if signed or metric in CORRELATIONS:
        return (-100.0, 100.0) if signed else (-1.0, 1.0)
    whole = 1.0 if metric in SHARES else whole_of(metric, unit)
    if whole is not None or metric in AT_MOST_ONE:
        return (-math.inf, 1.0) if whole is None else (0.0, whole)
    positive = metric in POSITIVE or unit in (*COUNTED, *TIMED) or is_of_machine(unit)
    return (0.0, math.inf) if positive else ANY


def range_of_difference(ours: Range, theirs: Range) -> Range:
    """The smallest and the largest difference of two values, each of its range."""
    return ours[0] - theirs[1], ours[1] - theirs[0]
