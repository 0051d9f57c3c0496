"""Distance by which an iteration still moves the parents."""

import torch
from jaxtyping import Float
from torch import Tensor


def residual(before: Float[Tensor, "image ..."], after: Float[Tensor, "image ..."]) -> Float[Tensor, " image"]:
    """`|after - before| / |before|` per image: 0 at a fixed point. Where nothing was before, the change itself.

    Args:
        before: values of each image before a step, (image, ...).
        after: values after it, of the same shape.
    """
    start, change = before.flatten(1).norm(dim=1), (after - before).flatten(1).norm(dim=1)
    return torch.where(start > 0, change / start, change)
