"""Convolutional baselines without capsules, of the size of the capsule networks."""

from torch import nn

from routebench.kernels import Convolution
from routebench.models.facts import facts
from routebench.models.plain import PlainNetwork
from routebench.registry import models


class ControlCNN(PlainNetwork):
    """The convolutions of a capsule network, then a hidden layer instead of capsules, then a linear classifier.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes.
        channels: output channels of both convolutions.
        kernel, stride: size and step of the first one's window; the second has stride 2.
        hidden: units of the hidden layer, which makes the sizes match.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        channels: tuple[int, int],
        kernel: int,
        stride: int,
        hidden: int,
    ):
        grid = [((side - kernel) // stride + 1 - kernel) // 2 + 1 for side in shape[1:]]
        if min(grid) < 1:
            raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
        first, second = channels
        body = nn.Sequential(
            Convolution(shape[0], first, kernel, stride),
            nn.ReLU(),
            Convolution(first, second, kernel, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * grid[0] * grid[1], hidden),
            nn.ReLU(),
        )
        super().__init__(body, nn.Linear(hidden, classes))


@models.register("cnn")
@facts(
    source="baseline: the convolutions of `capsnet`, its size, no capsules", routed=False, title="CNN", colour="sand"
)
def cnn(shape: tuple[int, int, int], classes: int) -> ControlCNN:
    """Matches `capsnet` in convolutions and, on 28 x 28 images of 10 classes, in size.

    Args:
        shape: (channels, height, width) of the images; at least 17 x 17.
        classes: number of classes.
    """
    return ControlCNN(shape, classes, channels=(256, 256), kernel=9, stride=1, hidden=159)


@models.register("cnn-small")
@facts(source="baseline: the convolutions of `capsnet-small`, its size, no capsules", routed=False)
def cnn_small(shape: tuple[int, int, int], classes: int) -> ControlCNN:
    """Matches `capsnet-small` in convolutions and, on 28 x 28 images of 10 classes, in size.

    Args:
        shape: (channels, height, width) of the images; at least 13 x 13.
        classes: number of classes.
    """
    return ControlCNN(shape, classes, channels=(32, 64), kernel=5, stride=2, hidden=159)
