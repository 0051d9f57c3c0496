"""The convolutional network that Tsai et al. 2020 compare capsules with, and one of the size of `tsai-small`."""

from torch import nn

from routebench.models.backbones import Standardise, grid_after
from routebench.models.facts import facts
from routebench.models.plain import PlainNetwork
from routebench.registry import models


@models.register("tsai-cnn", version=1)
@facts(
    source="Tsai et al., ICLR 2020, tables 2 and 3",
    shape=(3, 32, 32),
    stated_parameters=18_920_000,
    routed=False,
)
def tsai_cnn(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Three convolutions 3x3 stride 2 of 1,024 channels, 2x2 average pooling after the last two, linear classifier.

    The tables list "ReLU + Batch Norm", and so ReLU comes before batch norm. The last pooling is over all positions,
    which on 32 x 32 images are 2 x 2, so that images may have another size, from 16 x 16.

    Args:
        shape: (channels, height, width) of the images; at least 16 x 16.
        classes: number of classes.
    """
    return _cnn(shape, classes, 1024)


@models.register("tsai-small-cnn", version=1)
@facts(source="baseline: `tsai-cnn` with 48 channels, the size of `tsai-small`, no capsules", routed=False)
def tsai_small_cnn(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """`tsai-cnn` with so many channels that it has the size of `tsai-small` on 28 x 28 images of 10 classes.

    Args:
        shape, classes: as for `tsai-cnn`.
    """
    return _cnn(shape, classes, 48)


def _cnn(shape: tuple[int, int, int], classes: int, maps: int) -> PlainNetwork:
    grid_after(shape, (3, 2, 1), (3, 2, 1), (2, 2, 0), (2, 2, 0))  # of 8 x 8 the last convolution would see padding
    body = nn.Sequential(
        Standardise(shape[0]),
        nn.Conv2d(shape[0], maps, 3, 2, padding=1),
        nn.ReLU(),
        nn.Conv2d(maps, maps, 3, 2, padding=1),
        nn.ReLU(),
        nn.BatchNorm2d(maps),
        nn.AvgPool2d(2),
        nn.Conv2d(maps, maps, 3, 2, padding=1),
        nn.ReLU(),
        nn.BatchNorm2d(maps),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return PlainNetwork(body, nn.Linear(maps, classes))
