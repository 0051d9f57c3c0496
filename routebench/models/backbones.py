"""Layers below the capsules in the networks of Tsai et al. 2020: standardised pixels and convolutions."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
"""Mean and standard deviation of the channels of CIFAR-10, as the authors' code has them, for CIFAR-100 too."""


class Standardise(nn.Module):
    """Pixels in [0, 1], less the mean of their channel and over its standard deviation. Nothing is learned.

    It is part of the network, so that attacks and everything else outside deal with pixels in [0, 1].

    Args:
        channels: three are taken for colours, with the constants of CIFAR-10; otherwise mean and deviation are 0.5.
    """

    def __init__(self, channels: int):
        super().__init__()
        mean, deviation = CIFAR if channels == 3 else ((0.5,) * channels, (0.5,) * channels)
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None], persistent=False)

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """The same images, with values of about -2 to 2."""
        return (images - self.get_buffer("mean")) / self.get_buffer("deviation")


def grid_after(shape: tuple[int, int, int], *windows: tuple[int, int, int]) -> tuple[int, int]:
    """Height and width that are left of images after convolutions, each given as (kernel, stride, padding).

    Args:
        shape: (channels, height, width) of the images.
        windows: (kernel, stride, padding) of each convolution.

    Raises:
        ValueError: nothing is left.
    """
    height, width = shape[1:]
    for kernel, stride, padding in windows:
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
        if min(height, width) < 1:
            raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
    return height, width


def simple_backbone(channels: int, maps: int) -> nn.Sequential:
    """Conv 3x3 stride 2 and ReLU, on half the grid (Tsai et al. 2020, tables 8 and 9).

    Args:
        channels: channels of the images.
        maps: number of maps that go out.
    """
    return nn.Sequential(Standardise(channels), nn.Conv2d(channels, maps, 3, 2, padding=1), nn.ReLU())


def resnet_backbone(channels: int, maps: int = 128) -> nn.Sequential:
    """Conv 3x3 to 64 channels, three residual blocks of 64, four of `maps`, on half the grid (Tsai et al. 2020, A.1).

    The paper gives each of the last four blocks stride 2, which would leave 2 x 2 of 32 x 32; in the authors' code, and
    here, only the first of them has it, which leaves the 16 x 16 of the paper.

    Args:
        channels: channels of the images.
        maps: number of maps that go out.
    """
    return nn.Sequential(stem(channels), residual_stage(64, 64, 3), residual_stage(64, maps, 4, stride=2))


def stem(channels: int, maps: int = 64) -> nn.Sequential:
    """Standardised pixels, conv 3x3 to some channels, batch norm and ReLU, on the grid of the image.

    Args:
        channels: channels of the images.
        maps: number of maps that go out.
    """
    return nn.Sequential(
        Standardise(channels), nn.Conv2d(channels, maps, 3, padding=1, bias=False), nn.BatchNorm2d(maps), nn.ReLU()
    )


def residual_stage(maps_in: int, maps: int, blocks: int, *, stride: int = 1) -> nn.Sequential:
    """Residual blocks one after the other, the first of which has the stride.

    Args:
        maps_in, maps: numbers of maps that come in and go out.
        blocks: number of blocks.
        stride: step of the first block.
    """
    first = ResidualBlock(maps_in, maps, stride)
    return nn.Sequential(first, *(ResidualBlock(maps, maps) for _ in range(blocks - 1)))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm, added to what came in; a 1x1 convolution fits it where sizes differ.

    Source: He, Zhang, Ren and Sun, CVPR 2016, figure 2 and equation 2.
    """

    def __init__(self, maps_in: int, maps: int, stride: int = 1):
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(maps_in, maps, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(maps),
            nn.ReLU(),
            nn.Conv2d(maps, maps, 3, padding=1, bias=False),
            nn.BatchNorm2d(maps),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or maps_in != maps:
            self.shortcut = nn.Sequential(nn.Conv2d(maps_in, maps, 1, stride, bias=False), nn.BatchNorm2d(maps))

    def forward(
        self, maps: Float[Tensor, "batch maps_in height width"]
    ) -> Float[Tensor, "batch maps_out height_out width_out"]:
        """Feature maps, on a grid that is smaller by the stride."""
        return torch.relu(self.residual(maps) + self.shortcut(maps))
