"""Coupling that is drawn once and kept."""

import torch

from tests.references.dynamic import norm, squash

OPTIONS = [{"spread": 3.0}, {"draw": 5}]


def random(V, a, learned, *, spread=1.0, draw=0):
    """Coupling that is drawn once, in single precision."""
    z = torch.randn(V.shape[1], V.shape[2], generator=torch.Generator().manual_seed(draw))
    c = torch.softmax(spread * z, dim=-1).double()
    v = squash((c[None, :, :, None] * V).sum(dim=1))
    return v, norm(v)
