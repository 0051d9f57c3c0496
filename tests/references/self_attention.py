"""Self-attention routing, from the code of Mazzia, Salvetti and Chiaberge 2021."""

import math

import torch

from tests.references.competition import softmax_over_parents

OPTIONS = [{"prior": False}, {"scale": False}]


def self_attention(V, a, learned, *, prior=True, scale=True):
    """Poses and their lengths, from votes V (lane, child, parent, pose): all dot products of votes, then their sums."""
    gram = torch.einsum("lijd,lkjd->lijk", V, V)  # of the votes of i and k for j
    A = gram.sum(dim=3) / (math.sqrt(V.shape[-1]) if scale else 1.0)
    c = softmax_over_parents(A - A.max(dim=2, keepdim=True).values)
    if prior:
        c = c + learned["prior"]
    s = (c[..., None] * V).sum(dim=1)
    n = torch.sqrt((s * s).sum(dim=-1) + 1e-16)
    p = 1 - torch.exp(-n)
    return p[..., None] * s / n[..., None], p
