"""Token choice by a balanced plan, from the code of Liu, Puigcerver and Blondel, one token and one expert at a time.

The plan is the kernel exp(logits) with its columns scaled to n / e and its rows to 1, in turn.
"""

import torch

from tests.references.expert_choice import shares
from tests.references.inverted_attention import layer_norm

OPTIONS = [
    {"weight": "plan"},
    {"parents_per_child": 2},
    {"parents_per_child": 7, "weight": "plan"},
    {"rounds": 0},
    {"rounds": 2, "weight": "plan"},
]
SMOOTH = ({}, {"parents_per_child": 2})  # both of them: at zero all parents are equal, and a choice has no derivative


def sinkhorn_token_choice(V, a, learned, *, x, rounds=20, parents_per_child=1, weight="gate"):
    """Poses of the experts, from votes V (lane, child, parent, pose) and poses x (lane, child, pose) of children."""
    lanes, n, e, _ = V.shape
    rows = []
    for lane in range(lanes):
        logits = [x[lane, i] @ learned["gate"] for i in range(n)]
        gates, plan = [shares(token) for token in logits], balanced(logits, rounds)
        parents = [0 * V[lane, 0, j] for j in range(e)]
        for i in range(n):
            wish = plan[i] * (1 + 1e-4 * gates[i])  # the departure: the gate decides between equal shares
            for j in sorted(range(e), key=lambda j: -float(wish[j].detach()))[:parents_per_child]:
                parents[j] = parents[j] + (gates if weight == "gate" else plan)[i][j] * V[lane, i, j]
        rows.append(torch.stack(parents))
    return layer_norm(torch.stack(rows), learned["norm.weight"], learned["norm.bias"]), None


def balanced(logits, rounds):
    """The plan of one image, token by token: u_i exp(logits_ij) v_j."""
    n, e = len(logits), len(logits[0])
    v = [logits[0].new_ones(()) for _ in range(e)]
    K = [torch.exp(token) for token in logits]
    for _ in range(rounds):
        u = [1 / sum(K[i][j] * v[j] for j in range(e)) for i in range(n)]
        v = [(n / e) / sum(K[i][j] * u[i] for i in range(n)) for j in range(e)]
    u = [1 / sum(K[i][j] * v[j] for j in range(e)) for i in range(n)]
    return [torch.stack([u[i] * K[i][j] * v[j] for j in range(e)]) for i in range(n)]
