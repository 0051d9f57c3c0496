"""Self-routing, from Hahn, Pyeon and Kim 2019."""

import torch

from tests.references.competition import softmax_over_parents

OPTIONS = [{"pose_norm": False}]
TRAINING = True


def self_routing(V, a, learned, *, x, pose_norm=True, couple=softmax_over_parents):
    """Poses and activations of the parents, from votes V, activations a and poses x (lane, child, pose) of children."""
    x = batch_norm(x) if pose_norm else x
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


def batch_norm(x, epsilon=1e-5):
    """In training, of each element of each child; with one lane by running statistics of 0 and 1."""
    if len(x) == 1:
        return x / (1 + epsilon) ** 0.5
    mean = x.sum(dim=0) / len(x)
    variance = ((x - mean) ** 2).sum(dim=0) / len(x)
    return (x - mean) / (variance + epsilon) ** 0.5
