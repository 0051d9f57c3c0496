"""The networks with which Tsai et al. 2020 ran dynamic routing: squashed vector poses, one layer above primary ones."""

from torch import nn

from routebench.capsules.layers import DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.backbones import Standardise, grid_after, resnet_backbone
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.registry import models

HALVED = (3, 2, 1)
"""Kernel, stride and padding with which the backbone of residual blocks halves the grid."""


@models.register("tsai-simple-dynamic", version=1)
@facts(source="Tsai et al., ICLR 2020, tables 4 and 5", shape=(3, 32, 32), stated_parameters=7_990_000)
def tsai_simple_dynamic(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """Conv 9x9, 256 channels; 32 types of primary capsules of 8, conv 9x9 stride 2; class capsules of 16.

    That is CapsNet without a decoder. 2,048 primary capsules on 32 x 32 images. Weights start as in `capsnet`.

    Args:
        routing: makes the routing method of the class capsules.
        shape: (channels, height, width) of the images; at least 17 x 17.
        classes: number of classes.
    """
    return _network(routing, shape, classes, _convolution(shape[0], 256), maps=256, below=(9, 1, 0), stride=2)


@models.register("tsai-resnet-dynamic", version=1)
@facts(source="Tsai et al., ICLR 2020, appendix A.1 and table 1", shape=(3, 32, 32), stated_parameters=12_450_000)
def tsai_resnet_dynamic(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-dynamic` on residual blocks that end in 256 channels; conv 9x9 has stride 1.

    The paper's appendix says that all its ResNet backbones end in 128 channels, but the count that it states only comes
    out with 256: `tsai-resnet-dynamic-matched` has 128.

    Args:
        routing, shape, classes: as for `tsai-simple-dynamic`.
    """
    backbone = resnet_backbone(shape[0], 256)
    return _network(routing, shape, classes, backbone, maps=256, below=HALVED, stride=1)


@models.register("tsai-resnet-dynamic-matched", version=1)
@facts(source="tsai-resnet-dynamic on the backbone of tsai-resnet, as the paper's text has it", shape=(3, 32, 32))
def tsai_resnet_dynamic_matched(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-resnet-dynamic` with the 128 channels that the backbones of the other methods end in.

    Args:
        routing, shape, classes: as for `tsai-simple-dynamic`.
    """
    return _network(routing, shape, classes, resnet_backbone(shape[0]), maps=128, below=HALVED, stride=1)


@models.register("tsai-small-dynamic", version=1)
@facts(source="tsai-simple-dynamic with fewer channels and types, sized to train in seconds on two cores")
def tsai_small_dynamic(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-dynamic` with 32 channels and 8 types: 288 primary capsules on 28 x 28 images.

    Weights start twice as large, which makes up for a quarter of the children of `capsnet`.

    Args:
        routing, shape, classes: as for `tsai-simple-dynamic`.
    """
    backbone = _convolution(shape[0], 32)
    return _network(routing, shape, classes, backbone, maps=32, below=(9, 1, 0), stride=2, types=8, weight_std=0.2)


@models.register("tsai-tiny-dynamic", version=1)
@facts(source="tsai-small-dynamic with half its channels and types")
def tsai_tiny_dynamic(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-dynamic` with 16 channels and 4 types: 144 primary capsules on 28 x 28 images.

    Weights start three times as large, which makes up for an eighth of the children of `capsnet`.

    Args:
        routing, shape, classes: as for `tsai-simple-dynamic`.
    """
    backbone = _convolution(shape[0], 16)
    return _network(routing, shape, classes, backbone, maps=16, below=(9, 1, 0), stride=2, types=4, weight_std=0.3)


def _convolution(channels: int, maps: int) -> nn.Sequential:
    return nn.Sequential(Standardise(channels), nn.Conv2d(channels, maps, 9), nn.ReLU())


def _network(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    backbone: nn.Module,
    *,
    maps: int,
    below: tuple[int, int, int],
    stride: int,
    types: int = 32,
    weight_std: float = 0.1,
) -> CapsuleNetwork:
    """`below`: kernel, stride and padding of the backbone, as it changes the grid; `stride`: of the 9x9 above it."""
    grid = grid_after(shape, below, (9, stride, 0))
    primary = PrimaryCapsules(maps, types, 8, kernel=9, stride=stride, presence="length")
    layer = DenseCapsules((*grid, types), classes, 8, 16, routing, weight_std=weight_std)
    return CapsuleNetwork(backbone, primary, [layer])
