"""Slot attention, from Algorithm 1 of Locatello et al. 2020, with votes as keys and values; and Sinkhorn's scalings."""

import math

import torch

from tests.references.competition import softmax_over_parents
from tests.references.inverted_attention import layer_norm

OPTIONS = [
    {"aggregation": "sum"},
    {"update": "replace"},
    {"start": "learned"},
    {"start": "zeros"},
    {"projection": False},
    {"hidden": 5},
    {"temperature": 0.3},
    {"sinkhorn": 1},
    {"sinkhorn": 4, "aggregation": "sum", "update": "replace", "start": "learned"},
]


def slot_attention(
    V,
    a,
    learned,
    *,
    iterations=3,
    aggregation="mean",
    update="gru",
    start="random",
    projection=True,
    hidden=128,
    temperature=1.0,
    sinkhorn=0,
    couple=softmax_over_parents,
    noise=None,
):
    """Poses of the slots, from votes V (lane, child, parent, pose); `noise` is what a random start draws."""
    first = torch.zeros_like(V[:, 0])
    if start == "learned":
        first = first + learned["slots"]
    if start == "random":
        first = first + learned["mean"]
        if noise is not None:
            first = first + torch.exp(learned["log_std"]) * noise
    rows = [list(lane) for lane in first]
    for _ in range(iterations):
        queries = [[_query(slot, learned, update, projection) for slot in row] for row in rows]
        logits = torch.stack([_agreements(votes, row) for votes, row in zip(V, queries, strict=True)])
        logits = logits / (temperature * math.sqrt(V.shape[-1]))
        A = couple(logits) if sinkhorn == 0 else scaled(logits.exp(), sinkhorn)
        rows = [
            [
                _renewed(slot, _won(A[lane, :, j], V[lane, :, j], aggregation), learned, update)
                for j, slot in enumerate(row)
            ]
            for lane, row in enumerate(rows)
        ]
    return torch.stack([torch.stack(row) for row in rows]), None


def scaled(K, rounds):
    """K (lane, child, parent) with children scaled to sums of 1, then parents to equal sums and children again."""
    K = K / K.sum(dim=2, keepdim=True)
    for _ in range(rounds):
        K = K * (K.shape[1] / K.shape[2]) / K.sum(dim=1, keepdim=True)
        K = K / K.sum(dim=2, keepdim=True)
    return K


def _query(slot, learned, update, projection):
    if update == "gru":
        slot = layer_norm(slot, learned["norm.weight"], learned["norm.bias"])
    return learned["project.weight"] @ slot if projection else slot


def _agreements(votes, queries):
    return torch.stack([torch.stack([vote @ q for vote, q in zip(child, queries, strict=True)]) for child in votes])


def _won(weights, votes, aggregation):
    total = sum(weight * vote for weight, vote in zip(weights, votes, strict=True))
    return total / (weights.sum() + 1e-8) if aggregation == "mean" else total


def _renewed(slot, won, learned, update):
    if update == "replace":
        return layer_norm(won, learned["norm.weight"], learned["norm.bias"])
    slot = _gru(won, slot, *(learned[f"cell.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
    inner = layer_norm(slot, learned["mlp_norm.weight"], learned["mlp_norm.bias"])
    inner = (learned["mlp.0.weight"] @ inner + learned["mlp.0.bias"]).clamp(min=0)
    return slot + learned["mlp.2.weight"] @ inner + learned["mlp.2.bias"]


def _gru(x, h, W, U, b, d):
    """r, z = sigmoids; n = tanh(W x + b + r (U h + d)); (1 - z) n + z h."""
    wr, wz, wn = (W @ x + b).reshape(3, -1)
    ur, uz, un = (U @ h + d).reshape(3, -1)
    r = 1 / (1 + torch.exp(-wr - ur))
    z = 1 / (1 + torch.exp(-wz - uz))
    n = torch.tanh(wn + r * un)
    return (1 - z) * n + z * h
