"""Self-routing, from Hahn, Pyeon and Kim 2019."""

import torch

from tests.references.competition import softmax_over_parents


def self_routing(V, a, learned, *, x, couple=softmax_over_parents):
    """Poses and activations of the parents, from votes V, activations a and poses x (lane, child, pose) of children."""
    W, b = learned["gate"], learned["bias"]
    children, parents = W.shape[:2]
    rows = [[x[:, i] @ W[i, j] + b[i, j] for j in range(parents)] for i in range(children)]
    c = couple(torch.stack([torch.stack(row, dim=1) for row in rows], dim=1))
    poses, activations = [], []
    for j in range(parents):
        assigned = c[:, :, j] * a
        activations.append(assigned.sum(dim=1) / a.sum(dim=1))
        poses.append((assigned[..., None] * V[:, :, j]).sum(dim=1) / assigned.sum(dim=1)[:, None])
    return torch.stack(poses, dim=1), torch.stack(activations, dim=1)
