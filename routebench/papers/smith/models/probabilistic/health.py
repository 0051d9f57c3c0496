"""Check whether a model of templates has collapsed: which templates draw, and which objects vary between images."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ...limits import ALONE, DEAD, IDLE


@dataclass(frozen=True)
class Health:
    """Division of the work among templates and objects over a set of images.

    Args:
        shares: share of each template in the brightness that is drawn.
        dead: number of templates that draw almost nothing.
        effective: effective number of templates: the exponential of the entropy of their shares.
        idle: objects whose presence hardly differs between images, by `IDLE`. A linear probe of logits may still
            separate classes by the small differences.
    """

    shares: Float[Tensor, " template"]
    dead: int
    effective: float
    idle: int

    @property
    def largest(self) -> float:
        """The share of the template that draws most."""
        return float(self.shares.max())

    @property
    def collapsed(self) -> str:
        """Names what has collapsed; empty if nothing has."""
        found = []
        if self.largest > ALONE:
            found.append(f"one template draws {100 * self.largest:.0f} % of everything")
        if self.dead > len(self.shares) / 2:
            found.append(f"{self.dead} of {len(self.shares)} templates are dead")
        return "; ".join(found)


def health(brightness: Float[Tensor, "image template"], presences: Float[Tensor, "image object"]) -> Health:
    """Measures what each template drew of each image, and which objects were present.

    Args:
        brightness: visible brightness of each template, summed over pixels.
        presences: presences of objects, in [0, 1].
    """
    total = brightness.double().mean(dim=0)
    even = torch.full_like(total, 1 / len(total))
    shares = torch.where(total.sum() > 0, total / total.sum().clamp(min=1e-30), even)
    return Health(
        shares,
        dead=int((shares < DEAD / len(shares)).sum()) if float(total.sum()) > 0 else len(shares),
        effective=float((-torch.xlogy(shares, shares).sum()).exp()),
        idle=int((presences.double().std(dim=0, correction=0) <= IDLE * presences.double().mean(dim=0)).sum()),
    )
