"""Hard choices: the best few of a row, and the same ones each time."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def highest(scores: Float[Tensor, "*row place"], number: int | Tensor) -> Bool[Tensor, "*row place"]:
    """Tells which places of each row have the highest scores. Of equal scores the first ones are taken.

    Args:
        scores: finite numbers, or -inf for what is taken last.
        number: how many are taken, or how many of each row, (..., 1); beyond the row's length it is all.
    """
    order = scores.detach().argsort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter(-1, order, ranks) < number
