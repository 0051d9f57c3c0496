"""Affine poses, made from six unbounded numbers, and their composition."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

NUMBERS = 6
"""Numbers that make one pose: two scales, an angle, a shear and two shifts."""
LEAST_SCALE = 1e-2
"""Smallest scale of a pose, as in the code of Kosiorek et al."""

Pose = Float[Tensor, "*axes 2 3"]


def pose_of(numbers: Float[Tensor, "*axes 6"]) -> Pose:
    """The affine map that scales, shears and turns by these numbers, and then shifts.

    Scales are in (0.01, 1.01), shear and shifts in (-1, 1), and an angle is a number of whole turns: sigmoid(s) + 0.01,
    tanh(5 x), 2 pi x. A map without shear first turns a point, then scales it along the axes of the canvas.

    Source: the code of Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818).
    """
    scale_x, scale_y, turns, shear, x, y = numbers.unbind(dim=-1)
    scale_x, scale_y = scale_x.sigmoid() + LEAST_SCALE, scale_y.sigmoid() + LEAST_SCALE
    x, y, shear = (5 * x).tanh(), (5 * y).tanh(), (5 * shear).tanh()
    cosine, sine = (2 * math.pi * turns).cos(), (2 * math.pi * turns).sin()
    leaning = shear * scale_y
    upper = [scale_x * cosine + leaning * sine, leaning * cosine - scale_x * sine, x]
    lower = [scale_y * sine, scale_y * cosine, y]
    return torch.stack([torch.stack(upper, dim=-1), torch.stack(lower, dim=-1)], dim=-2)


def after(outer: Float[Tensor, "*outer 2 3"], inner: Float[Tensor, "*inner 2 3"]) -> Float[Tensor, "*both 2 3"]:
    """The composition: first the inner map, then the outer one. Leading axes are broadcast.

    Args:
        outer, inner: affine maps without the last row (0, 0, 1).
    """
    linear, shift = outer[..., :2], outer[..., 2:]
    turned = linear[..., :1] * inner[..., :1, :] + linear[..., 1:] * inner[..., 1:, :]  # small products by hand: no bmm
    return torch.cat([turned[..., :2], turned[..., 2:] + shift], dim=-1)
