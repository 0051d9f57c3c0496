"""Templates that are each other's copies up to an affine map, mirror images included."""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from routebench.generative.templates import warp

ALIKE = 0.95
"""The correlation over pixels from which two templates are copies, when both are seen in their normal form."""
ANGLES = 36
SIZE = 24
"""Pixels of a row of the normal form."""
WIDTH = 2.5
"""Standard deviations of brightness from the middle of the normal form to its edge."""

Templates = Float[Tensor, "template channel row column"]


def duplicates(templates: Templates) -> int:
    """How many templates are copies of one with a lower number that is no copy itself.

    A template's brightness has a mean place and a covariance. Moved to mean 0 and covariance 1, templates that are
    affine copies of each other differ by a turn and a reflection alone, and these are tried.

    Args:
        templates: as they look on a black ground, not negative.
    """
    seen = _normal_forms(templates.detach().float().cpu())
    alike = torch.einsum("ip,tjp->tij", seen[0], seen).amax(dim=0) >= ALIKE
    kept: list[int] = []
    for number in range(len(templates)):
        if not any(bool(alike[number, other]) for other in kept):
            kept.append(number)
    return len(templates) - len(kept)


def _normal_forms(templates: Templates) -> Float[Tensor, "turn template pixel"]:
    """Templates in their normal form by turn and reflection, with mean 0 and norm 1 over pixels; the first is as is."""
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
    """Of pixels, from -1 to 1 at the outer edges."""
    return (torch.arange(count) * 2 + 1) / count - 1


def _turns() -> Float[Tensor, "turn 2 2"]:
    """Turns by equal angles, and each after a reflection."""
    angle = torch.arange(ANGLES) * (2 * math.pi / ANGLES)
    turns = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=-1).view(ANGLES, 2, 2)
    return torch.cat([turns, turns @ torch.diag(torch.tensor([1.0, -1.0]))])
