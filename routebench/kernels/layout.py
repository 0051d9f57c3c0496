"""How the fused kernel wants its arrays: images side by side in a vector register."""

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; what vector instructions ask for, and every new tensor has."""


def pack(values: Tensor, side_by_side: int) -> Tensor:
    """From (image, ...) to (block, ..., image in the block), in single precision; the last block ends in zeros."""
    values = values.detach().to(torch.float32)
    missing = -len(values) % side_by_side
    if missing:
        values = torch.cat([values, values.new_zeros(missing, *values.shape[1:])])
    packed = values.reshape(-1, side_by_side, *values.shape[1:]).movedim(1, -1).contiguous()
    return packed if packed.data_ptr() % ALIGNMENT == 0 else packed.clone()  # as a view into another tensor may not be


def unpack(values: Tensor, images: int) -> Tensor:
    """Back to (image, ...) from (block, ..., image in the block)."""
    return values.movedim(-1, 1).flatten(0, 1)[:images]
