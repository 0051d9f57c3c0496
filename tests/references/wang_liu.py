"""The alternating minimisation of Wang and Liu's objective, and the objective."""

import torch

from tests.references.competition import softmax_over_parents
from tests.references.dynamic import norm, squash

OPTIONS = [{"alpha": 0.3}, {"output": "squash"}, {"output": "unit"}]


def wang_liu(V, a, learned, *, iterations=3, alpha=1.0, output="relative", couple=softmax_over_parents):
    """Poses and their lengths, from votes V (lane, child, parent, pose)."""
    s = torch.zeros_like(V[:, 0])
    for _ in range(iterations):
        c = couple((V * s[:, None]).sum(dim=-1) / alpha)
        S = (c[..., None] * V).sum(dim=1)
        s = S / torch.sqrt((S * S).sum(dim=-1, keepdim=True) + 1e-8)
    if output == "unit":
        return s, None
    v = squash(S) if output == "squash" else S / (1 + norm(S).max(dim=1).values[:, None, None])
    return v, norm(v)


def objective(c, s, V, alpha):
    """-sum_ij c_ij <V_ij, s_j> + alpha sum_ij c_ij ln c_ij of each lane."""
    total = []
    for coupling, parents, votes in zip(c, s, V, strict=True):
        agreement = sum(
            coupling[i, j] * (votes[i, j] @ parents[j]) for i in range(V.shape[1]) for j in range(V.shape[2])
        )
        total.append(-agreement + alpha * (coupling * coupling.log()).sum())
    return torch.stack(total)
