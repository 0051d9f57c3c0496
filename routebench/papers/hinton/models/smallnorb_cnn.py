"""Convolutional networks without capsules, beside the networks of matrix capsules on smallNORB."""

from torch import nn

from routebench.models.facts import facts
from routebench.models.plain import PlainNetwork
from routebench.registry import models

from .window import Window, over_crops


class SmallNorbCNN(PlainNetwork):
    """Twice a 5x5 convolution, ReLU and 2x2 max pooling; a hidden layer with ReLU and dropout; a linear classifier.

    Convolutions are padded so that they keep the size of their input: with this the parameters are as many as the paper
    says. It looks at the same window of an image as `matrix-capsules`.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes.
        channels: output channels of both convolutions.
        hidden: units of the hidden layer.
        dropout: share of the hidden units that a training step does without; the paper does not say, a public code has
            0.5.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        channels: tuple[int, int],
        hidden: int,
        dropout: float = 0.5,
    ):
        window = Window(shape)
        height, width = (side // 2 // 2 for side in window.shape[1:])
        if min(height, width) < 3:  # the second convolution would be wider than its input
            raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
        first, second = channels
        body = nn.Sequential(
            window,
            nn.Conv2d(window.shape[0], first, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * height * width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        super().__init__(body, nn.Linear(hidden, classes))


@models.register("smallnorb-cnn", version=1)
@facts(
    source="Hinton, Sabour and Frosst, ICLR 2018, section 5: the baseline on smallNORB",
    shape=(2, 48, 48),
    classes=5,
    stated_parameters=4_200_000,
    routed=False,
    option_versions={"crops": {"13": 2}},
)
def smallnorb_cnn(shape: tuple[int, int, int], classes: int, *, dropout: float = 0.5, crops: int = 1) -> nn.Module:
    """Convolutions of 32 and 64 channels and 1,024 hidden units: 4,253,349 parameters, where the paper says 4.2M.

    Args:
        shape: (channels, height, width) of the images; of 48 x 48 or more, the middle 32 x 32 pixels are looked at.
        classes: number of classes.
        dropout: see `SmallNorbCNN`.
        crops: 1, or 13 windows over which scores are averaged outside training.
    """
    network = SmallNorbCNN(shape, classes, channels=(32, 64), hidden=1024, dropout=dropout)
    return over_crops(network, crops, shape)


@models.register("smallnorb-cnn-small", version=1)
@facts(source="smallnorb-cnn, sized to train in seconds on two cores", routed=False)
def smallnorb_cnn_small(shape: tuple[int, int, int], classes: int, *, dropout: float = 0.5) -> nn.Module:
    """`smallnorb-cnn` with convolutions of 8 and 16 channels and 64 hidden units.

    Args:
        shape, classes, dropout: as for `smallnorb-cnn`.
    """
    return SmallNorbCNN(shape, classes, channels=(8, 16), hidden=64, dropout=dropout)
