"""Convolution with a large kernel, on a processor: products at the frequencies of small discrete Fourier transforms.

A stride of s splits an image and a kernel of k x k into s x s phases each. The convolution is then a sum, over channels
and phases, of correlations of stride 1 with kernels of t x t, t = ceil(k / s). At the frequencies of an image as large
as what these see, n x n with n = outputs + t - 1, a correlation is a product; nothing wraps around into an output. A
complex product takes three real ones (Gauss). So there are three constant matrices, of images, of kernels and of
outputs, and between them one matrix product for each row of the first two.

Source: Mathieu, Henaff and LeCun 2014 (arXiv:1312.5851) for frequencies; Lavin and Gray 2016 (arXiv:1509.09308) for
three constant matrices around products. CapsNet's primary capsules, 9 x 9 with stride 2 on 20 x 20, take 148 x 4
products a channel, parent channel and image; directly, they take 2,916.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d, fold, pad
from torch.nn.grad import conv2d_weight

from routebench.kernels.backend import wished
from routebench.kernels.reference import is_transformed

LEAST = 2.0
"""The least factor of multiplications that this must save over the direct way, transforms counted in."""

FEW_MAPS = 64
"""Maps with which torch's convolution is faster if channels lie last; with 256 of 9 x 9 it takes 1.4 times as long.
Of one channel, the gradient of 256 such kernels takes 40 ms then, and 240 if they lie first."""


class Convolution(nn.Conv2d):
    """A convolution without padding, by `convolve` where that is faster and the back end is not `reference`.

    On a processor, channels of what comes and goes lie last in memory where torch is faster so: with few maps, and
    where kernels of one channel learn. There the gradient of images of one channel, which attacks ask for, is one
    product: torch takes 3 times as long.

    Args:
        channels, maps: numbers of maps that come in and go out.
        kernel, stride: size and step of the window, of rows and columns alike.
        bias: add one number to each map that goes out.
    """

    def __init__(self, channels: int, maps: int, kernel: int, stride: int = 1, *, bias: bool = True):
        super().__init__(channels, maps, kernel, stride, bias=bias)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channel, height, width) to (batch, map, rows, columns)."""
        stride = self.stride[0]
        if not pays(images, self.weight, stride):
            if not self._wants_channels_last(images):
                return super().forward(images)
            if self.in_channels == 1 and images.requires_grad and not _is_torchs():
                return _OfOneChannel.apply(_channels_last(images), self.weight, self.bias, stride)  # type: ignore[no-any-return, no-untyped-call]
            return super().forward(_channels_last(images))
        found = convolve(images, self.weight, stride)
        return found if self.bias is None else found + self.bias[:, None, None]

    def _wants_channels_last(self, images: Tensor) -> bool:
        if images.device.type != "cpu" or images.dim() != 4 or is_transformed():  # vmap knows no layouts
            return False
        learns = torch.is_grad_enabled() and self.weight.requires_grad
        return self.out_channels <= FEW_MAPS or (self.in_channels == 1 and learns)


class Correlation(NamedTuple):
    """Sizes of a correlation with stride 1, each of rows and of columns.

    Args:
        taps: sizes of a kernel.
        outputs: sizes of the result.
    """

    taps: tuple[int, int]
    outputs: tuple[int, int]

    @property
    def inputs(self) -> tuple[int, int]:
        """Sizes of what all outputs together see."""
        return self.outputs[0] + self.taps[0] - 1, self.outputs[1] + self.taps[1] - 1


class Transforms(NamedTuple):
    """outputs @ ((images @ image) * (kernels @ kernel)) is the correlation of a flat image and a flat kernel."""

    images: Float[Tensor, "product input"]
    kernels: Float[Tensor, "product tap"]
    outputs: Float[Tensor, "output product"]


def pays(images: Tensor, weight: Tensor, stride: int) -> bool:
    """Tells whether `convolve` pays: on a processor, in single precision, and with far fewer multiplications.

    Args:
        images, weight, stride: as for `convolve`.
    """
    if images.device.type != "cpu" or images.dtype != torch.float32 or weight.dtype != torch.float32:
        return False
    if images.dim() != 4 or is_transformed() or _is_torchs():
        return False
    shape = _shape(images, weight, stride)
    if min(shape.outputs) < 1:
        return False
    batch, parents, children = len(images), weight.shape[0], weight.shape[1] * stride**2
    inputs, taps, outputs = (math.prod(sides) for sides in (shape.inputs, shape.taps, shape.outputs))
    direct = batch * outputs * weight.numel()
    products = 1.5 * inputs  # three for two real numbers of a transform
    transforms = batch * children * inputs + parents * children * taps + batch * parents * outputs
    return LEAST * products * (batch * parents * children + transforms) < direct


def _is_torchs() -> bool:
    """Tells whether convolutions are torch's own, gradients included."""
    return torch.is_autocast_enabled("cpu") or wished() == "reference"


def convolve(
    images: Float[Tensor, "batch channel height width"],
    weight: Float[Tensor, "parent channel row column"],
    stride: int,
) -> Float[Tensor, "batch parent rows columns"]:
    """`torch.nn.functional.conv2d` without padding, to rounding; the result's channels lie last in memory.

    Args:
        images: (batch, channel, height, width).
        weight: (parent, channel, row, column).
        stride: step of the window, down and across alike.
    """
    found: Tensor = _Convolution.apply(images, weight, stride)  # type: ignore[no-untyped-call]
    return found


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, stride: int) -> Tensor:
        shape = _shape(images, weight, stride)
        matrices = Transforms(*(matrix.to(images) for matrix in transforms(shape)))
        at_images = matrices.images @ _phases(images, shape.inputs, stride)  # (batch, product, phase channel)
        at_kernels = matrices.kernels @ _phases(weight, shape.taps, stride)  # (parent, product, phase channel)
        products = torch.bmm(at_images.transpose(0, 1), at_kernels.permute(1, 2, 0))  # (product, batch, parent)
        ctx.save_for_backward(images, weight, at_images, at_kernels, *matrices)
        ctx.stride, ctx.shape = stride, shape
        outputs = matrices.outputs @ products.transpose(0, 1)  # (batch, output, parent)
        return outputs.view(len(images), *shape.outputs, len(weight)).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, of_outputs: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        images, weight, at_images, at_kernels, *given = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of this gradient may be wanted
            return *_pull_directly(images, weight, ctx.stride, of_outputs, ctx.needs_input_grad[:2]), None
        matrices = Transforms(*given)
        of_products = matrices.outputs.T @ of_outputs.permute(0, 2, 3, 1).flatten(1, 2)  # (batch, product, parent)
        of_products = of_products.transpose(0, 1)
        of_images = of_weight = None
        if ctx.needs_input_grad[0]:
            of_phases = matrices.images.T @ torch.bmm(of_products, at_kernels.transpose(0, 1)).transpose(0, 1)
            of_images = _from_phases(of_phases, images.shape, ctx.shape.inputs, ctx.stride)
        if ctx.needs_input_grad[1]:
            of_kernels = torch.bmm(of_products.transpose(1, 2), at_images.transpose(0, 1))
            of_phases = matrices.kernels.T @ of_kernels.transpose(0, 1)
            of_weight = _from_phases(of_phases, weight.shape, ctx.shape.taps, ctx.stride)
        return of_images, of_weight, None


class _OfOneChannel(torch.autograd.Function):
    """torch's convolution; the gradient of images adds up one product of outputs and kernels, window by window."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
        ctx.save_for_backward(images, weight)
        ctx.stride = stride
        return conv2d(images, weight, bias, stride)

    @staticmethod
    def backward(ctx: Any, of_outputs: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        images, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        of_bias = of_outputs.sum((0, 2, 3)) if wanted[2] else None
        if torch.is_grad_enabled():  # a gradient of this gradient may be wanted
            return *_pull_directly(images, weight, ctx.stride, of_outputs, wanted[:2]), of_bias, None
        of_images = of_weight = None
        if wanted[0]:
            of_windows = of_outputs.permute(0, 2, 3, 1).flatten(1, 2) @ weight.flatten(1)  # (batch, place, tap)
            of_images = fold(of_windows.transpose(1, 2), images.shape[2:], weight.shape[2:], stride=ctx.stride)
        if wanted[1]:
            of_weight = conv2d_weight(images, weight.shape, of_outputs, ctx.stride)  # type: ignore[no-untyped-call]
        return of_images, of_weight, of_bias, None


def _pull_directly(
    images: Tensor, weight: Tensor, stride: int, of_outputs: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients through torch's own convolution, which can be differentiated again."""
    inputs = images.view_as(images), weight.view_as(weight)  # aliases: ways outside the convolution do not count
    leaves = [value for value, is_wanted in zip(inputs, wanted, strict=True) if is_wanted]
    found = iter(torch.autograd.grad(conv2d(*inputs, stride=stride), leaves, of_outputs, create_graph=True))
    return next(found) if wanted[0] else None, next(found) if wanted[1] else None


def _channels_last(images: Tensor) -> Tensor:
    """The same numbers; of a single channel the same memory, under strides that torch takes for channels last."""
    if images.shape[1] == 1:
        return images.reshape(len(images), *images.shape[2:], 1).permute(0, 3, 1, 2)
    return images.contiguous(memory_format=torch.channels_last)


@cache
def transforms(shape: Correlation) -> Transforms:
    """The three matrices, in double precision."""
    (height, width), (rows, columns), (down, right) = shape.inputs, shape.taps, shape.outputs
    turn = 2 * math.pi * torch.arange(height, dtype=torch.float64)[:, None] / height
    along = 2 * math.pi * torch.arange(width, dtype=torch.float64) / width
    images, kernels, outputs = [], [], []
    for row, column in _frequencies(height, width):
        cosine, sine = (row * turn + column * along).cos(), (row * turn + column * along).sin()
        if (2 * row) % height == 0 and (2 * column) % width == 0:
            images.append(cosine)
            kernels.append(cosine)
            outputs.append(cosine)
        else:  # of images a + ib, of kernels c + id: c (a + b), a (d - c) and b (c + d) make both parts of the product
            images += [cosine - sine, cosine, -sine]
            kernels += [cosine, sine - cosine, cosine + sine]
            outputs += [2 * (cosine - sine), -2 * sine, -2 * cosine]
    return Transforms(
        torch.stack(images).flatten(1),
        torch.stack(kernels)[:, :rows, :columns].flatten(1),
        torch.stack(outputs)[:, :down, :right].flatten(1).T / (height * width),
    )


def _frequencies(height: int, width: int) -> list[tuple[int, int]]:
    """One of each two whose coefficients are conjugates, and those that are their own."""
    both = [(row, column) for row in range(height) for column in range(width)]
    return [(row, column) for row, column in both if (row, column) <= (-row % height, -column % width)]


def _shape(images: Tensor, weight: Tensor, stride: int) -> Correlation:
    rows, columns = ((size - side) // stride + 1 for size, side in zip(images.shape[2:], weight.shape[2:], strict=True))
    taps = -(-weight.shape[2] // stride), -(-weight.shape[3] // stride)
    return Correlation(taps, (rows, columns))


def _phases(maps: Tensor, sides: tuple[int, int], stride: int) -> Tensor:
    """(image, channel, row, column) as (image, place, phase channel), cut or filled with zeros to sides x stride."""
    height, width = sides[0] * stride, sides[1] * stride
    last = maps.permute(0, 2, 3, 1)[:, :height, :width]
    if last.shape[1:3] != (height, width):
        last = pad(last, (0, 0, 0, width - last.shape[2], 0, height - last.shape[1]))
    split = last.reshape(len(maps), sides[0], stride, sides[1], stride, -1)
    return split.transpose(2, 3).flatten(3).flatten(1, 2)


def _from_phases(phases: Tensor, like: Sequence[int], sides: tuple[int, int], stride: int) -> Tensor:
    """The gradient of `_phases`: (image, place, phase channel) to (image, channel, row, column), channels last."""
    count, channels, height, width = like
    split = phases.view(count, *sides, stride, stride, channels).transpose(2, 3)
    last = split.reshape(count, sides[0] * stride, sides[1] * stride, channels)[:, :height, :width]
    if last.shape[1:3] != (height, width):
        last = pad(last, (0, 0, 0, width - last.shape[2], 0, height - last.shape[1]))
    return last.permute(0, 3, 1, 2)
