"""Max-pooling of votes: the largest element that any child votes for, written as loops."""

import torch

from tests.references.dynamic import norm, squash


def max_pooling(V, a, learned):
    """No coupling."""
    lanes, children, parents, pose = V.shape
    pooled = torch.stack([
        max((V[lane, child, parent, element] for child in range(children)), key=lambda vote: float(vote.detach()))
        for lane in range(lanes) for parent in range(parents) for element in range(pose)
    ]).view(lanes, parents, pose)  # fmt: skip
    v = squash(pooled)
    return v, norm(v)
