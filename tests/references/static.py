"""Coupling that is learned, one iteration of dynamic routing with the log priors of Sabour et al. 2017."""

from tests.references.competition import softmax_over_parents
from tests.references.dynamic import norm, squash


def static(V, a, learned):
    """Poses and their lengths, from votes V (lane, child, parent, pose)."""
    c = softmax_over_parents(learned["log_prior"])
    v = squash((c[None, :, :, None] * V).sum(dim=1))
    return v, norm(v)
