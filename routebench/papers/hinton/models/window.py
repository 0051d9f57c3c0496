"""Windows of images inside a network, standardised, so that attacks and measures see pixels."""

from collections import Counter
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.models.network import Output
from routebench.ops import length_logit

WHOLE_BELOW = 48
"""Images with a shorter side are taken whole."""
SIDE = 32
"""Width of the window that is cut out of others."""
REACH = 2
"""Largest distance of windows of a test from the middle, in pixels."""


class Window(nn.Module):
    """Cuts out the middle 32 x 32 pixels and gives each image zero mean and unit variance over all of its channels.

    Images of less than 48 x 48 are taken whole. A constant image becomes zero.

    Source: Hinton, Sabour and Frosst, ICLR 2018, section 5, for smallNORB. They standardise before they cut; the
    authors' code and this do after. Where training cuts at random, see `smallnorb-jitter`.

    Args:
        shape: (channels, height, width) of the images.
    """

    def __init__(self, shape: tuple[int, int, int]):
        super().__init__()
        cut = min(shape[1:]) >= WHOLE_BELOW
        self.shape = (shape[0], SIDE, SIDE) if cut else shape

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Tensor:
        """(batch, channel, height, width) of `shape`, from images that are at least as large."""
        _, height, width = self.shape
        top, left = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
        return standardised(images[:, :, top : top + height, left : left + width])


def standardised(images: Float[Tensor, "batch *image"]) -> Float[Tensor, "batch *image"]:
    """Zero mean and unit variance; as in TensorFlow, the deviation is at least that of n pixels with variance 1 / n."""
    flat = images.flatten(1)
    variance = flat.var(dim=1, correction=0).clamp(
        min=1 / flat.shape[1]
    )  # a constant image has no gradient of its root
    return ((flat - flat.mean(dim=1, keepdim=True)) / variance.sqrt()[:, None]).reshape(images.shape)


class AveragedOverCrops(nn.Module):
    """The mean of a network's scores over 13 windows in evaluation mode; in training, the network itself.

    The windows are the middle one and twelve of `authors_offsets`, ten different ones in all.

    Source: Hinton, Sabour and Frosst, ICLR 2018, section 5, "average the class activations over multiple crops", with
    the crops of the authors' code.

    Args:
        network: starts with a `Window`. A fitted one will do.
        shape: (channels, height, width) of the images.

    Raises:
        ValueError: around the window there are no 2 pixels.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, int, int]):
        super().__init__()
        if min(shape[1:]) < WHOLE_BELOW:
            raise ValueError(f"crops above 1 need images of at least {WHOLE_BELOW} x {WHOLE_BELOW} pixels")
        self.network = network

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Output:
        """Logits are those of the mean scores; layers are those of the middle window."""
        middle: Output = self.network(images)
        if self.training:
            return middle
        offsets = Counter([(0, 0), *authors_offsets()])
        others = {one: self.network(_shifted(images, *one)).scores for one in offsets if one != (0, 0)}
        scores = {(0, 0): middle.scores, **others}
        mean = torch.stack([count * scores[one] for one, count in offsets.items()]).sum(dim=0) / offsets.total()
        return Output(length_logit(mean), mean, middle.layers)


def authors_offsets() -> Iterator[tuple[int, int]]:
    """Rows and columns by which each of the twelve windows besides the middle one lies from it.

    The authors' code asks for 1, 2 and 3 pixels in each of four diagonal directions. TensorFlow 1's `extract_glimpse`
    halves offsets from the middle of an image and rounds down where the window begins.
    """
    for distance in (1, 2, 3):
        for down in (distance, -distance):
            for right in (distance, -distance):
                yield down // 2, right // 2


def _shifted(images: Float[Tensor, "batch channel height width"], down: int, right: int) -> Tensor:
    """Images whose middle is so many pixels from that of the given ones, of `REACH` pixels less on each side."""
    height, width = images.shape[2] - 2 * REACH, images.shape[3] - 2 * REACH
    top, left = REACH + down, REACH + right
    return images[:, :, top : top + height, left : left + width]


def over_crops(network: nn.Module, crops: int, shape: tuple[int, int, int]) -> nn.Module:
    """The network itself for 1 crop; averaged over 13.

    Args:
        network: starts with a `Window`.
        crops: number of windows over which scores are averaged outside training, 1 or 13.
        shape: (channels, height, width) of the images.

    Raises:
        ValueError: another number, or no room for the windows.
    """
    if type(crops) is not int or crops not in (1, 13):
        raise ValueError(f"crops must be 1 or 13, got {crops!r}")
    return network if crops == 1 else AveragedOverCrops(network, shape)
