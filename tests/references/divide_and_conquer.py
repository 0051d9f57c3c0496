"""Divide-and-conquer routing, from the code of Yuan and Ren 2025: dynamic routing group by group, written as loops."""

import math

import torch

from tests.references.competition import softmax_over_parents
from tests.references.dynamic import norm, squash

OPTIONS = [{"members": 2}, {"members": 3}, {"members": 1}, {"members": 2, "learned_start": False}]


def divide_and_conquer(V, a, learned, *, iterations=3, members=36, learned_start=True):
    """Poses and activations of the parents, from votes V (lane, child, parent, pose)."""
    children = V.shape[1]
    groups = math.ceil(children / members)
    total = 0
    for group in range(groups):
        inside = [child for child in range(children) if child % groups == group]
        own = V[:, inside]
        b = torch.zeros_like(own[..., 0])
        if learned_start:
            b = b + learned["start"][inside]
        for iteration in range(iterations):
            c = softmax_over_parents(b)
            v = squash((c[..., None] * own).sum(dim=1))
            if iteration < iterations - 1:
                b = b + (own * v[:, None]).sum(dim=-1)
        total = total + v
    return total, 1 - torch.exp(-norm(total))
