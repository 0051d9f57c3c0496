"""Routing of vectors in sequences, from Heinsen 2022, on votes that are given."""

import torch

from tests.references.competition import softmax_over_parents
from tests.references.inverted_attention import layer_norm

OPTIONS = [{"presence": "activations"}]


def heinsen(V, a, learned, *, x, iterations=2, presence="learned", couple=softmax_over_parents):
    """Poses of the parents, from votes V (lane, child, parent, pose) and poses x (lane, child, pose) of children."""
    n, J = V.shape[1:3]
    f = presence_of(x, learned) if presence == "learned" else a
    V = V / n**0.5 + learned["vote_bias"]
    R = couple(V.new_zeros(V.shape[:3]))
    for k in range(iterations):
        if k > 0:
            R = couple(torch.stack([match(x, y[:, j], j, learned) for j in range(J)], dim=2))
        y = []
        for j in range(J):
            use = f * R[:, :, j]
            ignore = f - use
            phi = learned["beta_use"][:, j] * use - learned["beta_ignore"][:, j] * ignore
            y.append((phi[..., None] * V[:, :, j]).sum(dim=1))
        y = layer_norm(torch.stack(y, dim=1), 1.0, 0.0)
    return y, None


def presence_of(x, learned):
    """sigmoid(<x_i, w_i> / sqrt(n) + b_i)."""
    n = x.shape[1]
    scores = [x[:, i] @ learned["score"][i] / n**0.5 + learned["score_bias"][i] for i in range(n)]
    return 1 / (1 + torch.exp(-torch.stack(scores, dim=1)))


def match(x, y_j, j, learned):
    """log sigmoid(<x_i, prediction of parent j> w_ij + b_ij), for all children."""
    prediction = (y_j @ learned["predict"]) * learned["predict_gain"][j] + learned["predict_bias"][j]
    agreement = (x * prediction[:, None]).sum(dim=-1)
    return -torch.log(1 + torch.exp(-(agreement * learned["match_gain"][:, j] + learned["match_bias"][:, j])))
