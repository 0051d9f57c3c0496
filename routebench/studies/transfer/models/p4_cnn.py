"""Convolutional networks that turn with the image: their features move along when an image makes a quarter turn."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.models.facts import facts
from routebench.models.plain import PlainNetwork
from routebench.registry import models

TURNS = 4


class P4Conv(nn.Module):
    """A convolution over places and quarter turns: each filter is applied in four orientations.

    Turning the input by 90 degrees turns the output's grid and moves its turns by one. That is exact where the stride
    divides side less kernel, and the image is square.

    Args:
        given: maps of the input; 0 turns, if `lifting`.
        made: maps of the output, each with four turns.
        kernel, stride: size and step of the convolution's window, without padding.
        lifting: whether the input is an image, (batch, given, height, width), and has no axis of turns yet.

    Source: Cohen and Welling, Group equivariant convolutional networks, ICML 2016, section 6: equations 10 and 11 for
        the group p4, as planar convolutions of turned filters (section 7).
    """

    def __init__(self, given: int, made: int, kernel: int, stride: int, *, lifting: bool = False):
        super().__init__()
        self.stride, self.lifting = stride, lifting
        # as torch starts a planar convolution of as many inputs
        bound = (given * (1 if lifting else TURNS) * kernel**2) ** -0.5
        shape = (made, given, *(() if lifting else (TURNS,)), kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(made).uniform_(-bound, bound))

    def forward(self, maps: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch made 4 height width"]:
        """Convolves (batch, given, 4, height, width), or an image."""
        filters = torch.stack([self._turned(turn) for turn in range(TURNS)], dim=1).flatten(0, 1)
        bias = self.bias.repeat_interleave(TURNS)
        found = functional.conv2d(maps if self.lifting else maps.flatten(1, 2), filters, bias, self.stride)
        return found.reshape(len(found), -1, TURNS, *found.shape[2:])

    def _turned(self, turn: int) -> Tensor:
        """The filters after so many quarter turns: (made, inputs, kernel, kernel)."""
        weight = self.weight.rot90(turn, (-2, -1))
        return weight if self.lifting else weight.roll(turn, 2).flatten(1, 2)


class P4CNN(PlainNetwork):
    """Two convolutions over places and turns, a hidden layer that is one too, then a linear classifier.

    Features, (units x 4 turns), are exactly equivariant to quarter turns on 28 x 28 and 32 x 32 images. A classifier of
    all turns is free to tell them apart: a six is no nine. One of their mean says the same of an image in each quarter
    turn. Images that are not square get a border of zeros.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes.
        channels: output channels of both convolutions, each with four turns.
        kernels, strides: sizes and steps of both windows.
        hidden: units of the hidden layer, each with four turns.
        invariant: whether the classifier sees the mean over turns alone.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        channels: tuple[int, int],
        kernels: tuple[int, int],
        strides: tuple[int, int],
        hidden: int,
        invariant: bool = False,
    ):
        side = max(shape[1:])
        wider, higher = side - shape[2], side - shape[1]
        border = (wider // 2, wider - wider // 2, higher // 2, higher - higher // 2)
        for kernel, stride in zip(kernels, strides, strict=True):
            side = (side - kernel) // stride + 1
        if side < 1:
            raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
        body = nn.Sequential(
            nn.ZeroPad2d(border),
            P4Conv(shape[0], channels[0], kernels[0], strides[0], lifting=True),
            nn.ReLU(),
            P4Conv(channels[0], channels[1], kernels[1], strides[1]),
            nn.ReLU(),
            P4Conv(channels[1], hidden, side, 1),
            nn.ReLU(),
            nn.Flatten(2) if invariant else nn.Flatten(),
            *([_MeanOverTurns()] if invariant else []),
        )
        super().__init__(body, nn.Linear(hidden if invariant else TURNS * hidden, classes))


class _MeanOverTurns(nn.Module):
    def forward(self, features: Float[Tensor, "batch unit 4"]) -> Float[Tensor, "batch unit"]:
        return features.mean(dim=2)


@models.register("cnn-p4", version=1)
@facts(
    source="baseline: convolutions of Cohen and Welling, ICML 2016, in the size of `capsnet`, no capsules",
    routed=False,
    title="CNN, p4",
    colour="sand",
)
def cnn_p4(shape: tuple[int, int, int], classes: int) -> P4CNN:
    """Matches `capsnet` in size on 28 x 28 images of 10 classes.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes.
    """
    return P4CNN(shape, classes, channels=(128, 128), kernels=(9, 8), strides=(1, 2), hidden=103)


@models.register("cnn-p4-small", version=1)
@facts(
    source="baseline: convolutions of Cohen and Welling, ICML 2016, in the size of `capsnet-small`, no capsules",
    routed=False,
)
def cnn_p4_small(shape: tuple[int, int, int], classes: int) -> P4CNN:
    """Matches `capsnet-small` in size on 28 x 28 images of 10 classes.

    Args:
        shape, classes: as for `cnn-p4`.
    """
    return P4CNN(shape, classes, channels=(16, 32), kernels=(4, 5), strides=(2, 2), hidden=51)


@models.register("cnn-p4-invariant", version=1)
@facts(
    source="baseline: convolutions of Cohen and Welling, ICML 2016, in the size of `capsnet`, no capsules",
    routed=False,
    title="CNN, p4, invariant",
    colour="sand",
)
def cnn_p4_invariant(shape: tuple[int, int, int], classes: int) -> P4CNN:
    """`cnn-p4` whose classifier sees the mean over quarter turns; matches `capsnet` in size.

    Args:
        shape, classes: as for `cnn-p4`.
    """
    return P4CNN(shape, classes, channels=(128, 128), kernels=(9, 8), strides=(1, 2), hidden=103, invariant=True)


@models.register("cnn-p4-invariant-small", version=1)
@facts(
    source="baseline: convolutions of Cohen and Welling, ICML 2016, in the size of `capsnet-small`, no capsules",
    routed=False,
)
def cnn_p4_invariant_small(shape: tuple[int, int, int], classes: int) -> P4CNN:
    """`cnn-p4-small` whose classifier sees the mean over quarter turns; matches `capsnet-small` in size.

    Args:
        shape, classes: as for `cnn-p4`.
    """
    return P4CNN(shape, classes, channels=(16, 32), kernels=(4, 5), strides=(2, 2), hidden=51, invariant=True)
