"""The simple network of Tsai et al. 2020 for CIFAR-10, from parts of routebench."""

from torch import nn

from reports.speed import yardstick
from routebench.capsules.layers import ConvCapsules, DenseCapsules, PrimaryCapsules
from routebench.models import CapsuleNetwork
from routebench.routing import factory


def simple_network(
    *, iterations: int = 2, side: int = 32, channels: int = 256, types: int = 32, classes: int = 10
) -> CapsuleNetwork:
    """Conv 3x3 stride 2, 256; primary capsules 1x1; conv capsules 3x3 stride 2, then stride 1; class capsules.

    Source: Tsai et al., ICLR 2020, section 4 and table 8, with the concurrent schedule. 4x4 matrix poses; 561,809
    parameters, of which the paper states 0.56 million. Weights of the class layer are not shared over positions.

    Args:
        iterations: of all layers together.
        side: of the images, in pixels.
        channels: of the convolution.
        types: of capsules in each convolutional layer.
        classes: class capsules.
    """
    routing = factory("inverted-attention", iterations=iterations)
    features = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.ReLU())
    primary = PrimaryCapsules(channels, types, 16, presence="none")
    grid = ((side + 1) // 2, (side + 1) // 2, types)
    first = ConvCapsules(grid, types, 16, 16, routing, stride=2, matrix=True)
    second = ConvCapsules(first.grid, types, 16, 16, routing, stride=1, matrix=True)
    last = DenseCapsules(second.grid, classes, 16, 16, routing, matrix=True)
    return CapsuleNetwork(features, primary, [first, second, last], schedule="concurrent")


def as_yardstick(network: CapsuleNetwork) -> CapsuleNetwork:
    """Puts yardsticks in place of the capsule layers of such a network, with the same weights."""
    made = [
        yardstick.DenseAttention(layer) if isinstance(layer, DenseCapsules) else yardstick.ConvAttention(layer)
        for layer in network.layers
    ]
    network.layers = nn.ModuleList(made)
    network.run_layers = yardstick.concurrent
    return network
