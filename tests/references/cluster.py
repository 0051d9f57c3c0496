"""Cluster routing, from the code of Zhao and Cheng 2021, on single children, written as loops."""

import torch

from tests.references.inverted_attention import layer_norm

OPTIONS = [{"votes": 2}, {"votes": 5}]


def cluster(V, a, learned, *, x, votes=8):
    """Poses of the parents, from votes V (lane, child, parent, pose) and poses x (lane, child, pose) of children."""
    children, parents = V.shape[1:3]
    poses = []
    for j in range(parents):
        means, agreement = [], []
        for i in range(children):
            own = [V[:, i, j], *(x[:, i] @ learned["further"][k, i, j] for k in range(votes - 1))]
            mean = sum(own) / votes
            variance = sum((one - mean) ** 2 for one in own) / votes
            means.append(mean)
            agreement.append(1 / (variance + 1e-8).sqrt())  # softmax of -log s is 1 / s, divided by its sum
        weights = torch.stack(agreement) / sum(agreement)
        poses.append((weights * torch.stack(means)).sum(dim=0))
    return layer_norm(torch.stack(poses, dim=1), learned["norm.weight"], learned["norm.bias"]), None
