"""The networks with which Tsai et al. 2020 ran EM routing: matrix poses with activations, class weights shared."""

from torch import nn

from routebench.capsules.layers import ConvCapsules, DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.backbones import Standardise, grid_after, resnet_backbone
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.registry import models

COORDINATES = 0.04
"""Distance from the centre of the image, in units of 100 pixels, that lies between positions of the last grid."""


@models.register("tsai-simple-em", version=1)
@facts(
    source="Tsai et al., ICLR 2020, tables 6 and 7; without the betas, 148 with 10 classes, it has 452,896 parameters",
    shape=(3, 32, 32),
    stated_parameters=450_000,
    method="em",
)
def tsai_simple_em(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """Conv 4x4 stride 2, 256 channels; primary capsules with activations; two layers of 32 types; class capsules.

    Poses are 4x4. Class weights are shared over positions, which the paper's count shows; as in Hinton et al. 2018, on
    which the paper bases it, positions are then added to the votes for classes, in the unit of those authors' code,
    100 pixels from the centre of the image. The paper says nothing of that, nor of how weights start: here they do as
    in its own networks.

    EM routing has two betas for each capsule type above the primary ones, 2 (32 + 32 + classes), which the count of
    the paper leaves out.

    Args:
        routing: makes the routing method of each layer.
        shape: (channels, height, width) of the images; at least 14 x 14, which leave one position to class capsules.
        classes: number of classes.
    """
    return _network(routing, shape, classes, _convolution(shape[0], 256), maps=256, below=(4, 2, 1))


@models.register("tsai-resnet-em", version=1)
@facts(
    source="Tsai et al., ICLR 2020, appendix A.1 and table 6; without 148 betas (10 classes), 1,710,432 parameters",
    shape=(3, 32, 32),
    stated_parameters=1_710_000,
    method="em",
)
def tsai_resnet_em(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-em` on the residual blocks of `tsai-resnet`.

    Args:
        routing, classes: as for `tsai-simple-em`.
        shape: (channels, height, width) of the images; at least 13 x 13, which leave one position to class capsules.
    """
    return _network(routing, shape, classes, resnet_backbone(shape[0]), maps=128, below=(3, 2, 1))


@models.register("tsai-small-em", version=1)
@facts(source="tsai-simple-em with fewer channels and types, sized to train in seconds on two cores", method="em")
def tsai_small_em(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-em` with 32 channels and 8 types. On 28 x 28 images grids are 14 x 14, 6 x 6 and 4 x 4.

    Args:
        routing, shape, classes: as for `tsai-simple-em`.
    """
    return _network(routing, shape, classes, _convolution(shape[0], 32), maps=32, below=(4, 2, 1), types=8)


@models.register("tsai-tiny-em", version=1)
@facts(source="tsai-small-em with half its channels and types", method="em")
def tsai_tiny_em(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-simple-em` with 16 channels and 4 types.

    Args:
        routing, shape, classes: as for `tsai-simple-em`.
    """
    return _network(routing, shape, classes, _convolution(shape[0], 16), maps=16, below=(4, 2, 1), types=4)


def _convolution(channels: int, maps: int) -> nn.Sequential:
    return nn.Sequential(
        Standardise(channels), nn.Conv2d(channels, maps, 4, 2, padding=1), nn.BatchNorm2d(maps), nn.ReLU()
    )


def _network(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    backbone: nn.Module,
    *,
    maps: int,
    below: tuple[int, int, int],
    types: int = 32,
) -> CapsuleNetwork:
    """`below`: kernel, stride and padding by which the backbone changes the grid."""
    grid_after(shape, below, (3, 2, 0), (3, 1, 0))
    primary = PrimaryCapsules(maps, types, 16, presence="logistic")
    first = ConvCapsules((*grid_after(shape, below), types), types, 16, 16, routing, stride=2, matrix=True)
    second = ConvCapsules(first.grid, types, 16, 16, routing, matrix=True)
    last = DenseCapsules(second.grid, classes, 16, 16, routing, matrix=True, share=True, coordinates=COORDINATES)
    return CapsuleNetwork(backbone, primary, [first, second, last])
