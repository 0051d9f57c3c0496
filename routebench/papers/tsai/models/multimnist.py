"""The networks of Tsai et al. 2020 for images of one digit or two, DiverseMultiMNIST, and small ones.

Capsule networks and convolutional ones have the same layers with the same numbers of units, so that they differ in
routing against pooling. Tables 10 to 12 print three input channels, but the counts of the paper come out with one.
"""

from dataclasses import dataclass

from torch import nn

from routebench.capsules.layers import ConvCapsules, DenseCapsules, MakeRouting
from routebench.models.backbones import Standardise, grid_after, simple_backbone
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.models.plain import PlainNetwork
from routebench.registry import models

from .inverted import normalised_primary


@dataclass(frozen=True)
class Widths:
    """Units of the layers: maps of the first convolution, and types and pose elements of capsules.

    Convolutions above the first have as many maps as capsules have units: types x pose.
    """

    maps: int
    types: int
    pose: int


PAPER = Widths(1024, 16, 64)
SMALL = Widths(32, 8, 16)
WINDOWS = ((3, 2, 1), (3, 2, 0), (3, 1, 0))
"""Kernel, stride and padding of the three layers below the classes: 36 to 18 to 8 to 6."""
OWN = {"shape": (1, 36, 36), "method": "inverted-attention"}
PLAIN = {"shape": (1, 36, 36), "routed": False}


@models.register("tsai-multimnist-matrix", version=1)
@facts(source="Tsai et al., ICLR 2020, table 10", stated_parameters=9_960_000, **OWN)
def tsai_multimnist_matrix(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """Two convolutions of 1,024 channels; primary capsules and convolutional ones, 16 types; class capsules. 8x8 poses.

    Primary capsules are layer-normalised, and have activations only if the routing method weights children by them.

    Args:
        routing: makes the routing method of each layer.
        shape: (channels, height, width) of the images; at least 13 x 13.
        classes: number of classes.
    """
    return _capsules(routing, shape, classes, PAPER, matrix=True)


@models.register("tsai-multimnist-vector", version=1)
@facts(source="Tsai et al., ICLR 2020, table 11", stated_parameters=42_480_000, **OWN)
def tsai_multimnist_vector(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-multimnist-matrix` with vectors of 64 for poses, each element of which enters each element of a vote.

    Args:
        routing, shape, classes: as for `tsai-multimnist-matrix`.
    """
    return _capsules(routing, shape, classes, PAPER, matrix=False)


@models.register("tsai-multimnist-cnn", version=1)
@facts(source="Tsai et al., ICLR 2020, table 12", stated_parameters=19_550_000, **PLAIN)
def tsai_multimnist_cnn(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Three convolutions of 1,024 channels; 640 units at each position, whose mean is classified by a linear layer.

    The table lists "ReLU + Batch Norm", and so ReLU comes before batch norm; the 640 units have neither.

    Args:
        shape: (channels, height, width) of the images; at least 13 x 13.
        classes: number of classes.
    """
    return _plain(shape, classes, PAPER, learned_pooling=False)


@models.register("tsai-multimnist-cnn-pooling", version=1)
@facts(
    source="Tsai et al., ICLR 2020, section 6: the network of table 12, pooling learned",
    stated_parameters=42_490_000,
    **PLAIN,
)
def tsai_multimnist_cnn_pooling(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """`tsai-multimnist-cnn` with 640 units that see all positions, instead of the mean of 640 at each.

    Args:
        shape, classes: as for `tsai-multimnist-cnn`.
    """
    return _plain(shape, classes, PAPER, learned_pooling=True)


@models.register("tsai-small-multimnist-matrix", version=1)
@facts(source="tsai-multimnist-matrix with fewer channels and types, to train on two cores", **OWN)
def tsai_small_multimnist_matrix(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-multimnist-matrix` with 32 channels, 8 types and 4x4 poses.

    Args:
        routing, shape, classes: as for `tsai-multimnist-matrix`.
    """
    return _capsules(routing, shape, classes, SMALL, matrix=True)


@models.register("tsai-small-multimnist-vector", version=1)
@facts(source="tsai-multimnist-vector with fewer channels and types, to train on two cores", **OWN)
def tsai_small_multimnist_vector(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`tsai-multimnist-vector` with 32 channels, 8 types and vectors of 16.

    Args:
        routing, shape, classes: as for `tsai-multimnist-matrix`.
    """
    return _capsules(routing, shape, classes, SMALL, matrix=False)


@models.register("tsai-small-multimnist-cnn", version=1)
@facts(source="baseline: the layers of tsai-small-multimnist-matrix, their units, no capsules", **PLAIN)
def tsai_small_multimnist_cnn(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """`tsai-multimnist-cnn` with 32 and 128 channels, and 160 units whose mean is classified.

    Args:
        shape, classes: as for `tsai-multimnist-cnn`.
    """
    return _plain(shape, classes, SMALL, learned_pooling=False)


def _capsules(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, widths: Widths, *, matrix: bool
) -> CapsuleNetwork:
    grid_after(shape, *WINDOWS)
    types, pose = widths.types, widths.pose
    grid = (*grid_after(shape, *WINDOWS[:2]), types)
    middle = ConvCapsules(grid, types, pose, pose, routing, matrix=matrix)
    layers = [middle, DenseCapsules(middle.grid, classes, pose, pose, routing, matrix=matrix)]
    primary = normalised_primary(widths.maps, types, pose, [*layers], kernel=3, stride=2)
    return CapsuleNetwork(simple_backbone(shape[0], widths.maps), primary, layers)


def _plain(shape: tuple[int, int, int], classes: int, widths: Widths, *, learned_pooling: bool) -> PlainNetwork:
    rows, columns = grid_after(shape, *WINDOWS)
    maps, hidden = widths.types * widths.pose, classes * widths.pose
    everywhere = [nn.Flatten(), nn.Linear(maps * rows * columns, hidden)]
    pooled = [nn.Conv2d(maps, hidden, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]  # 1x1: a linear layer at each position
    body = nn.Sequential(
        Standardise(shape[0]),
        nn.Conv2d(shape[0], widths.maps, 3, 2, padding=1),
        nn.ReLU(),
        nn.Conv2d(widths.maps, maps, 3, 2),
        nn.ReLU(),
        nn.BatchNorm2d(maps),
        nn.Conv2d(maps, maps, 3),
        nn.ReLU(),
        nn.BatchNorm2d(maps),
        *(everywhere if learned_pooling else pooled),
    )
    return PlainNetwork(body, nn.Linear(hidden, classes))
