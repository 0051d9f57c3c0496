"""Counts templates that are affine copies of each other, mirror images included."""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from .templates import warp

ALIKE = 0.95
"""Two templates are copies if their normal forms correlate at least this much over pixels."""
ANGLES = 36
SIZE = 24
"""Side of the normal form, in pixels."""
WIDTH = 2.5
"""Standard deviations of brightness from the middle of the normal form to its edge."""

Templates = Float[Tensor, "template channel row column"]


def duplicates(templates: Templates) -> int:
    """Number of templates that copy an earlier template which is no copy itself.

    A template's brightness has a mean place and a covariance. Moved to mean 0 and covariance 1, templates that are
    affine copies of each other differ only by a rotation and a reflection. All of these are tried.

    Args:
        templates: templates as seen on a black ground, not negative.
    """
    seen = _normal_forms(templates.detach().float().cpu())
    alike = torch.einsum("ip,tjp->tij", seen[0], seen).amax(dim=0) >= ALIKE
    kept: list[int] = []
    for number in range(len(templates)):
        if not any(bool(alike[number, other]) for other in kept):
            kept.append(number)
    return len(templates) - len(kept)


def _normal_forms(templates: Templates) -> Float[Tensor, "turn template pixel"]:
    """Normal forms of templates by rotation and reflection, mean 0 and norm 1 over pixels; the first is not rotated."""
    brightness = templates.mean(dim=1)
    place = torch.stack(torch.meshgrid(*map(_centres, brightness.shape[1:]), indexing="ij")[::-1], dim=-1)  # y x 2
    weight = brightness / brightness.sum(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    mean = torch.einsum("kyx,yxd->kd", weight, place)
    away = place - mean[:, None, None]
    covariance = torch.einsum("kyx,kyxd,kyxe->kde", weight, away, away) + 1e-6 * torch.eye(2)
    whitening = torch.linalg.inv(torch.linalg.cholesky(covariance)) / WIDTH
    linear = torch.einsum("tde,kef->tkdf", _turns(), whitening)
    shift = -torch.einsum("tkde,ke->tkd", linear, mean)
    drawn = warp(brightness[:, None], torch.cat([linear, shift[..., None]], dim=-1), (SIZE, SIZE))
    pixels = rearrange(drawn, "k t 1 y x -> t k (y x)")
    pixels = pixels - pixels.mean(dim=-1, keepdim=True)
    normal: Tensor = pixels / pixels.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return normal


def _centres(count: int) -> Float[Tensor, " pixel"]:
    """Centres of pixels; the outer edges are at -1 and 1."""
    return (torch.arange(count) * 2 + 1) / count - 1


def _turns() -> Float[Tensor, "turn 2 2"]:
    """Rotations by equal angles, each also after a reflection."""
    angle = torch.arange(ANGLES) * (2 * math.pi / ANGLES)
    turns = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=-1).view(ANGLES, 2, 2)
    return torch.cat([turns, turns @ torch.diag(torch.tensor([1.0, -1.0]))])
