"""Inverted dot-product attention routing, from Procedures 1 and 2 of Tsai et al. 2020."""

import math

import torch

from tests.references.competition import softmax_over_parents

OPTIONS = [
    {"scale": False},
    {"layer_norm": False},
    {"activations": True},
    {"scale": False, "layer_norm": False, "activations": True},
    {"start": "learned"},
    {"start": "learned", "activations": True},
]
DEPARTURES = [{"dropout": 0.5}]


def layer_norm(x, gain, bias, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) over the pose, then gain and bias."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + epsilon) * gain + bias


def update(p, V, learned, *, scale=True, layer_norm_=True, weights=None, couple=softmax_over_parents):
    """Procedure 1: parents p (lane, parent, pose) and votes V to new parents, and the coupling."""
    agreement = (p[:, None] * V).sum(dim=-1)
    if scale:
        agreement = agreement / math.sqrt(V.shape[-1])
    r = couple(agreement)
    if weights is not None:
        r = r * weights[:, :, None]
    p = (r[..., None] * V).sum(dim=1)
    return (layer_norm(p, learned["norm.weight"], learned["norm.bias"]) if layer_norm_ else p), r


def inverted_attention(
    V,
    a,
    learned,
    *,
    iterations=2,
    scale=True,
    layer_norm=True,
    activations=False,
    start="zeros",
    couple=softmax_over_parents,
):
    """Poses and, with `activations`, activations of the parents. Other starts than zeros are `learned["first"]`."""
    p = torch.zeros_like(V[:, 0]) if start == "zeros" else learned["first"].expand(len(V), -1, -1)
    weights = a if activations else None
    for _ in range(iterations):
        p, r = update(p, V, learned, scale=scale, layer_norm_=layer_norm, weights=weights, couple=couple)
    return p, (_activations(V, r, learned) if activations else None)


def _activations(V, w, learned):
    """The M-step of EM routing with lambda = 1 / children and a variance floor of 5e-4."""
    S = w.sum(dim=1)
    mu = (w[..., None] * V).sum(dim=1) / S[..., None]
    var = (w[..., None] * (V - mu[:, None]) ** 2).sum(dim=1) / S[..., None] + 5e-4
    cost = (learned["beta_u"][:, None] + torch.log(torch.sqrt(var))) * S[..., None]
    return 1 / (1 + torch.exp(-(learned["beta_a"] - cost.sum(dim=-1)) / V.shape[1]))
