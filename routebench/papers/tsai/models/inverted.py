"""The networks of Tsai et al. 2020 for CIFAR, with matrix poses in four layers of capsules, and a small one."""

from typing import Literal

from torch import nn

from routebench.capsules.layers import CapsuleLayer, ConvCapsules, DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.backbones import grid_after, resnet_backbone, simple_backbone
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.registry import models

OWN = {"shape": (3, 32, 32), "method": "inverted-attention"}
Square = Literal[4, 9, 16, 25, 36]
HALVED = (3, 2, 1)
"""Kernel, stride and padding with which either backbone halves the grid."""


@models.register("tsai-simple", version=1)
@facts(source="Tsai et al., ICLR 2020, table 8", stated_parameters=560_000, **OWN)
def tsai_simple(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, pose: Square = 16
) -> CapsuleNetwork:
    """Conv 3x3 stride 2, 256 channels; primary, two convolutional layers and class capsules; 32 types, 4x4 poses.

    Primary capsules are layer-normalised. They have no activations, unless the routing method weights children by them:
    then each gets one more channel with a sigmoid, as in Hinton et al. 2018 (the paper's ablation C does not say how).
    Class capsules have weights for each child at each position, which the paper's count shows. The count cannot tell
    whether the 1x1 convolution has a bias; here it has one, and in the authors' code it has none.

    Args:
        routing: makes the routing method of each layer.
        shape: (channels, height, width) of the images; at least 13 x 13, which leave one position to class capsules.
        classes: number of classes.
        pose: elements of a pose, a square matrix; 16 in the paper's network for CIFAR-10.
    """
    return _network(routing, shape, classes, simple_backbone(shape[0], 256), maps=256, pose=pose)


@models.register("tsai-simple-cifar100", version=1)
@facts(source="Tsai et al., ICLR 2020, table 9", classes=100, stated_parameters=1_460_000, **OWN)
def tsai_simple_cifar100(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple` with 128 channels, 6x6 poses, and 20 dense capsules below the class capsules.

    Args:
        routing, shape, classes: as for `tsai-simple`.
    """
    return _network(routing, shape, classes, simple_backbone(shape[0], 128), maps=128, pose=36, middle=20)


@models.register("tsai-resnet", version=1)
@facts(source="Tsai et al., ICLR 2020, appendix A.1 and table 8", stated_parameters=1_830_000, **OWN)
def tsai_resnet(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple` on a backbone of residual blocks that ends in 128 channels; no bias below primary capsules.

    Args:
        routing, shape, classes: as for `tsai-simple`.
    """
    return _network(routing, shape, classes, resnet_backbone(shape[0]), maps=128, bias=False)


@models.register("tsai-resnet-cifar100", version=1)
@facts(source="Tsai et al., ICLR 2020, appendix A.1 and table 9", classes=100, stated_parameters=2_800_000, **OWN)
def tsai_resnet_cifar100(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-cifar100` on the backbone of `tsai-resnet`.

    Args:
        routing, shape, classes: as for `tsai-simple`.
    """
    return _network(routing, shape, classes, resnet_backbone(shape[0]), maps=128, pose=36, middle=20, bias=False)


@models.register("tsai-small", version=1)
@facts(
    source="tsai-simple with fewer channels and types, sized to train in seconds on two cores",
    method="inverted-attention",
)
def tsai_small(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple` with 32 channels and 8 types. On 28 x 28 images grids are 14 x 14, 6 x 6 and 4 x 4.

    Args:
        routing, shape, classes: as for `tsai-simple`.
    """
    return _network(routing, shape, classes, simple_backbone(shape[0], 32), maps=32, types=8)


@models.register("tsai-tiny", version=1)
@facts(source="tsai-small with half its channels and types, for grids of many iterations", method="inverted-attention")
def tsai_tiny(routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, pose: Square = 16) -> CapsuleNetwork:
    """`tsai-simple` with 16 channels and 4 types.

    Args:
        routing: makes the routing method of each layer.
        shape: (channels, height, width) of the images.
        classes: number of classes.
        pose: elements of a pose, a square matrix.
    """
    return _network(routing, shape, classes, simple_backbone(shape[0], 16), maps=16, types=4, pose=pose)


def _network(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    backbone: nn.Module,
    *,
    maps: int,
    types: int = 32,
    pose: int = 16,
    middle: int = 0,
    bias: bool = True,
) -> CapsuleNetwork:
    grid_after(shape, HALVED, (3, 2, 0), (3, 1, 0))
    first = ConvCapsules((*grid_after(shape, HALVED), types), types, pose, pose, routing, stride=2, matrix=True)
    second = ConvCapsules(first.grid, types, pose, pose, routing, matrix=True)
    layers: list[CapsuleLayer] = [first, second]
    children: int | tuple[int, int, int] = second.grid
    if middle:
        layers.append(DenseCapsules(children, middle, pose, pose, routing, matrix=True))
        children = middle
    layers.append(DenseCapsules(children, classes, pose, pose, routing, matrix=True))
    return CapsuleNetwork(backbone, normalised_primary(maps, types, pose, layers, bias=bias), layers)


def normalised_primary(
    maps: int,
    types: int,
    pose: int,
    layers: list[CapsuleLayer],
    *,
    kernel: int = 1,
    stride: int = 1,
    bias: bool = True,
) -> PrimaryCapsules:
    """Primary capsules with layer-normalised poses, and with activations if the layers above use them.

    Args:
        maps: feature maps that come in.
        types, pose, kernel, stride, bias: as for `PrimaryCapsules`.
        layers: the layers above.
    """
    presence = "logistic" if any(layer.routing.uses_activations for layer in layers) else "none"
    return PrimaryCapsules(
        maps, types, pose, kernel=kernel, stride=stride, presence=presence, bias=bias, layer_norm=True
    )
