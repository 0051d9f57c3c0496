"""Expert choice, from Zhou et al. 2022, section 3.2: S = softmax(X W_g), G, I = TopK(S^T, k), k = n c / e.

What the chosen votes of a token's experts are in the paper are here the chosen votes of an expert's tokens.
"""

import math

import torch

from tests.references.inverted_attention import layer_norm

OPTIONS = [{"capacity": 1.0}, {"capacity": 0.5}, {"capacity": 100.0}]


def expert_choice(V, a, learned, *, x, capacity=2.0):
    """Poses of the experts, from votes V (lane, child, parent, pose) and poses x (lane, child, pose) of children."""
    lanes, n, e, _ = V.shape
    k = math.ceil(n * capacity / e)
    rows = []
    for lane in range(lanes):
        S = [shares(x[lane, i] @ learned["gate"]) for i in range(n)]
        row = []
        for j in range(e):
            I = sorted(range(n), key=lambda i: -float(S[i][j].detach()))[:k]  # noqa: E741  # the paper's letter
            row.append(sum(S[i][j] * V[lane, i, j] for i in I))
        rows.append(torch.stack(row))
    return layer_norm(torch.stack(rows), learned["norm.weight"], learned["norm.bias"]), None


def shares(logits):
    """The softmax over all experts of one token."""
    powers = torch.exp(logits)
    return powers / sum(powers)
