"""Choice of the images of a part that are looked at, where all would take too long."""

import torch
from jaxtyping import Int
from torch import Tensor


def evenly(total: int, wanted: int) -> Int[Tensor, " place"]:
    """Places of so many images, evenly apart: parts may be sorted by class.

    Args:
        total: number of images in the part.
        wanted: number of images to look at; all are taken where there are fewer.
    """
    return torch.linspace(0, total - 1, min(wanted, total)).round().long()
