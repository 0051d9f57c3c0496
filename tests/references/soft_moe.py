"""Soft mixtures of experts, from Puigcerver et al. 2024, section 2: dispatch, and what linear experts make of it.

With the normalisation of section 2.3, where 1e-6 is what the authors' code adds to a squared length.
"""

import torch

from tests.references.inverted_attention import layer_norm

OPTIONS = [{"scale": 9.0}]


def soft_moe(V, a, learned, *, x, scale=1.0):
    """Poses of the slots, from votes V (lane, child, parent, pose) and poses x (lane, child, pose) of children."""
    Phi = learned["slots"]
    poses = []
    for j in range(V.shape[2]):
        phi = Phi[:, j] / (Phi[:, j].square().sum() + 1e-6).sqrt()
        logits = []
        for i in range(V.shape[1]):
            token = x[:, i] / (x[:, i].square().sum(dim=1, keepdim=True) + 1e-6).sqrt()
            logits.append(learned["sharpness"] * (token * phi).sum(dim=1))
        total = sum(torch.exp(logit) for logit in logits)
        D = [torch.exp(logit) / total for logit in logits]
        poses.append(sum(share[:, None] * V[:, i, j] for i, share in enumerate(D)))
    return layer_norm(torch.stack(poses, dim=1), learned["norm.weight"], learned["norm.bias"]), None
