"""The squashing non-linearity, which turns the length of a pose into a probability."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

EPSILON = 1e-8
"""Number added to a squared length before its root is taken, so that the gradient at the zero vector is finite."""
LEAST = 1e-6
"""The least probability that has a logit of its own."""
ABSENT = math.log(LEAST / (1 - LEAST))
"""`length_logit` of zero."""


def squash(vectors: Float[Tensor, "*axes pose"]) -> Float[Tensor, "*axes pose"]:
    """Keeps the direction of a vector and maps its length n to n^2 / (1 + n^2), which lies in [0, 1).

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, equation 1 (arXiv:1710.09829).
    Departures: the length is computed as sqrt(n^2 + 1e-8), because the printed form has no gradient at zero. What comes
    out is shorter by 5e-9 at most, which is 5e-9 / n^2 of it: 5e-5 at n = 0.01, 5e-7 at n = 0.1.

    Args:
        vectors: poses along the last axis, of a length whose square their type holds: 1e19 in float32. float16, whose
            range ends at 255, is computed in float32.
    """
    if vectors.dtype == torch.float16:
        return squash(vectors.float()).half()
    squared = vectors.square().sum(dim=-1, keepdim=True)
    return squared / (1 + squared) * torch.rsqrt(squared + EPSILON) * vectors


def length(poses: Float[Tensor, "*axes pose"]) -> Float[Tensor, "*axes"]:
    """The Euclidean length of each pose; its gradient at the zero vector is zero.

    Args:
        poses: vectors along the last axis.
    """
    norm: Tensor = torch.linalg.vector_norm(poses, dim=-1)
    return norm


def length_logit(lengths: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """log(p / (1 - p)) of probabilities p in [0, 1), clamped to finite values.

    Softmax over lengths themselves can never put more than e / (e + J - 1) on one of J classes, so that a cross entropy
    on them cannot become small; on these logits it can. Types of 16 bits, in which 1 - 1e-6 is 1, are computed in
    float32.
    """
    if lengths.dtype in (torch.float16, torch.bfloat16):
        return torch.logit(lengths.float(), eps=LEAST).to(lengths.dtype)
    return torch.logit(lengths, eps=LEAST)
