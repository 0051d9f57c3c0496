"""Residual networks for small photographs: ResNet-18, and capsules on a small residual stem with their baseline."""

from torch import nn

from routebench.arguments import Positive
from routebench.capsules.layers import DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.backbones import ResidualBlock, grid_after, residual_stage, stem
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.models.plain import PlainNetwork
from routebench.registry import models

HALVED = ((3, 1, 1), (3, 2, 1), (3, 2, 1), (3, 2, 1))


@models.register("resnet18")
@facts(
    source="He, Zhang, Ren and Sun, CVPR 2016, as Tsai et al., ICLR 2020, table 1 use it on CIFAR",
    shape=(3, 32, 32),
    stated_parameters=11_170_000,
    routed=False,
    title="ResNet-18",
)
def resnet18(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Conv 3x3, then two residual blocks each of 64, 128, 256 and 512 channels, mean over positions, linear classifier.

    For images of about 32 x 32, the first convolution is 3x3 without stride or pooling, which is how the paper's count
    comes out: the ResNet-18 of He et al. is for images of 224 x 224. Images must leave more than one position to take
    the mean of: at least one side above 8.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes.

    Raises:
        ValueError: images are too small.
    """
    if grid_after(shape, *HALVED) == (1, 1):
        raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
    stages = [residual_stage(maps // 2, maps, 2, stride=2) for maps in (128, 256, 512)]
    body = nn.Sequential(stem(shape[0]), residual_stage(64, 64, 2), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return PlainNetwork(body, nn.Linear(512, classes))


SMALL = ((3, 1, 1), (3, 2, 1), (3, 2, 1), (3, 2, 0))
"""Windows of the small stem, and of the convolution above it."""
TYPES, POSE_BELOW, POSE = 8, 8, 16


def small_stem(channels: int) -> nn.Sequential:
    """Conv 3x3 to 16 channels, and a residual block each of 32 and 64, on a quarter of the grid."""
    return nn.Sequential(stem(channels, 16), ResidualBlock(16, 32, 2), ResidualBlock(32, 64, 2))


@models.register("capsnet-residual")
@facts(
    source="ours: the capsule layers of Sabour et al., NeurIPS 2017, on residual blocks of He et al., CVPR 2016, sized "
    "to train on photographs on two cores",
    shape=(3, 32, 32),
)
def capsnet_residual(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, weight_std: Positive = 0.3
) -> CapsuleNetwork:
    """Conv 3x3, residual blocks of 32 and 64 channels; 8 types of primary capsules of 8; classes of 16.

    72 primary capsules on 32 x 32 images.

    Args:
        routing: makes the routing method of the class capsules.
        shape: (channels, height, width) of the images; at least 9 x 9.
        classes: number of classes.
        weight_std: standard deviation of the initial transformation matrices.
    """
    grid = grid_after(shape, *SMALL)
    primary = PrimaryCapsules(64, TYPES, POSE_BELOW, kernel=3, stride=2, presence="length")
    layer = DenseCapsules((*grid, TYPES), classes, POSE_BELOW, POSE, routing, weight_std=weight_std)
    return CapsuleNetwork(small_stem(shape[0]), primary, [layer])


@models.register("cnn-residual")
@facts(
    source="baseline: the convolutions of `capsnet-residual`, its size, no capsules", shape=(3, 32, 32), routed=False
)
def cnn_residual(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Matches `capsnet-residual` in convolutions and, on 32 x 32 images of 10 classes, in size.

    Args:
        shape: (channels, height, width) of the images; at least 9 x 9.
        classes: number of classes.
    """
    rows, columns = grid_after(shape, *SMALL)
    maps = TYPES * POSE_BELOW
    above = nn.Sequential(nn.Conv2d(64, maps, 3, 2), nn.ReLU(), nn.Flatten())
    hidden = nn.Sequential(nn.Linear(maps * rows * columns, 157), nn.ReLU())
    return PlainNetwork(nn.Sequential(small_stem(shape[0]), above, hidden), nn.Linear(157, classes))
