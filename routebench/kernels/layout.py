"""How the fused kernel wants its arrays: images side by side in a vector register."""

import torch
from torch import Tensor


def pack(values: Tensor, side_by_side: int) -> Tensor:
    """From (image, ...) to (block, ..., image in the block), in single precision; the last block ends in zeros."""
    values = values.detach().to(torch.float32)
    missing = -len(values) % side_by_side
    if missing:
        values = torch.cat([values, values.new_zeros(missing, *values.shape[1:])])
    return values.reshape(-1, side_by_side, *values.shape[1:]).movedim(1, -1).contiguous()


def unpack(values: Tensor, images: int) -> Tensor:
    """Back to (image, ...) from (block, ..., image in the block)."""
    return values.movedim(-1, 1).flatten(0, 1)[:images]
