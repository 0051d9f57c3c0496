"""Layout of the fused kernel's arrays: images side by side in a vector register."""

import ctypes
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; what vector instructions ask for, and every new tensor has."""


def pack(values: Tensor, kernel: ctypes.CDLL) -> Tensor:
    """Packs (image, ...) to (block, ..., image in the block), in single precision; the last block ends in zeros.

    The kernel goes through both arrays in order, which is several times faster than a transposed copy in torch.

    Args:
        values: (image, ...).
        kernel: the compiled kernel.
    """
    values = values.detach().to(torch.float32).contiguous()
    images, *rest = values.shape
    side_by_side = kernel.lanes_in_a_block()
    packed = values.new_empty(-(-images // side_by_side), *rest, side_by_side)
    assert packed.data_ptr() % ALIGNMENT == 0
    _rearrange(kernel.pack_images, values, packed, values.shape)
    return packed


def unpack(values: Tensor, images: int, kernel: ctypes.CDLL) -> Tensor:
    """Unpacks (block, ..., image in the block) to (image, ...).

    Args:
        values: (block, ..., image in the block).
        images: number of images.
        kernel: the compiled kernel.
    """
    plain = values.new_empty(images, *values.shape[1:-1])
    _rearrange(kernel.unpack_images, values.contiguous(), plain, plain.shape)
    return plain


def _rearrange(entry: Callable[..., None], source: Tensor, target: Tensor, shape: Sequence[int]) -> None:
    sizes = shape[0], math.prod(shape[1:]), torch.get_num_threads()
    pointers = [ctypes.c_void_p(array.data_ptr()) for array in (source, target)]
    entry(*pointers, *(ctypes.c_long(size) for size in sizes))
