"""Uniform coupling: one iteration of dynamic routing."""

from tests.references.dynamic import norm, squash


def uniform(V, a, learned):
    """Coupling 1 / J."""
    v = squash(V.sum(dim=1) / V.shape[2])
    return v, norm(v)
