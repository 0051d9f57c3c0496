"""Dynamic routing, from Procedure 1 of Sabour, Frosst and Hinton 2017."""

import torch

from tests.references.competition import leaky_softmax_over_parents, softmax_over_parents

OPTIONS = [{"detach": True}, {"bias": True}, {"leaky": True}, {"detach": True, "bias": True, "leaky": True}]


def squash(s, epsilon=1e-8):
    """|s|^2 / (1 + |s|^2) s / |s|, with the length as sqrt(|s|^2 + epsilon)."""
    n2 = (s * s).sum(dim=-1, keepdim=True)
    return n2 / (1 + n2) * s / torch.sqrt(n2 + epsilon)


def norm(v):
    """|v|, whose gradient at zero is taken to be zero."""
    n2 = (v * v).sum(dim=-1)
    return torch.where(n2 > 0, torch.sqrt(torch.where(n2 > 0, n2, 1.0)), 0.0)


def dynamic(V, a, learned, *, iterations=3, detach=False, bias=False, leaky=False, couple=None):
    """Poses and their lengths, from votes V (lane, child, parent, pose)."""
    couple = couple or (leaky_softmax_over_parents if leaky else softmax_over_parents)
    b = V.new_zeros(V.shape[:3])
    for _ in range(iterations):
        c = couple(b)
        if detach:
            c = c.detach()
        s = (c[..., None] * V).sum(dim=1)
        if bias:
            s = s + learned["bias"]
        v = squash(s)
        b = b + (V * v[:, None]).sum(dim=-1)
    return v, norm(v)
