"""CapsNet, the network of dynamic routing, at its published size and at one that two cores can train."""

from typing import Any, Literal

import torch
from torch import nn

from routebench.arguments import Count, Positive
from routebench.capsules.layers import DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.kernels import Convolution
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.registry import models

SABOUR = "Sabour, Frosst and Hinton, NeurIPS 2017, section 4 (arXiv:1710.09829)"


@models.register("capsnet")
@facts(source=SABOUR, stated_parameters=6_800_000)
def capsnet(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    *,
    decoder: bool = False,
    start: Literal["torch", "authors"] = "torch",
) -> CapsuleNetwork:
    """Conv 9x9, 256 channels; 32 types of primary capsules of 8, conv 9x9 stride 2; class capsules of 16.

    1,152 primary capsules on 28 x 28 images. The paper does not say how weights start. With `start="torch"`,
    transformation matrices are normal with standard deviation 0.1, and convolutions start as torch's; `authors`: all
    weights as in the authors' code, see `start_as_the_authors`.

    Args:
        routing: makes the routing method of the class capsules.
        shape: (channels, height, width) of the images; at least 17 x 17.
        classes: number of classes.
        decoder: add the reconstruction network, 512 - 1024 - pixels.
        start: how weights start.
    """
    return _capsnet(
        routing, shape, classes, decoder=decoder, start=start,
        channels=256, types=32, kernel=9, stride=1, weight_std=0.1,
    )  # fmt: skip


@models.register("capsnet-reconstruction")
@facts(source=SABOUR, stated_parameters=8_200_000)
def capsnet_reconstruction(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`capsnet` with the decoder, as published.

    Args:
        routing, shape, classes: as for `capsnet`.
    """
    return capsnet(routing, shape, classes, decoder=True)


@models.register("capsnet-small")
@facts(source="capsnet with fewer and smaller convolutions, sized to train in seconds on two cores")
def capsnet_small(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    *,
    decoder: bool = False,
    start: Literal["torch", "authors"] = "torch",
    weight_std: Positive = 0.3,
    presence: Literal["length", "batch-norm"] = "length",
) -> CapsuleNetwork:
    """Conv 5x5 stride 2, 32 channels; 8 types of primary capsules of 8, conv 5x5 stride 2; class capsules of 16.

    128 primary capsules on 28 x 28 images.

    Args:
        routing, classes, decoder, start: as for `capsnet`.
        shape: (channels, height, width) of the images; at least 13 x 13.
        weight_std: standard deviation of the initial transformation matrices; 0.3 makes up for the ninth part of
            children that add up to a parent.
        presence: how primary capsules arise: `length`, by squashing; `batch-norm`, as in the networks of self-routing
            (Hahn, Pyeon and Kim, NeurIPS 2019): poses and the logit of a presence of its own, batch-normalised. It
            needs batches of two or more where images are so small that the grid has one cell.
    """
    return _capsnet(
        routing, shape, classes, decoder=decoder, start=start, presence=presence,
        channels=32, types=8, kernel=5, stride=2, weight_std=weight_std,
    )  # fmt: skip


@models.register("capsnet-small-reconstruction")
@facts(source="capsnet-small with a decoder a quarter as wide as that of Sabour et al. 2017")
def capsnet_small_reconstruction(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`capsnet-small` with a small reconstruction network, 128 - 256 - pixels.

    Args:
        routing, shape, classes: as for `capsnet-small`.
    """
    network = capsnet_small(routing, shape, classes)
    network.decoder = Decoder(classes * 16, shape, hidden=(128, 256))
    return network


@models.register("capsnet-intermediate")
@facts(source="capsnet with a capsule layer in between, as in Capsule networks as generative models, section 3")
def capsnet_intermediate(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, middle: Count = 32
) -> CapsuleNetwork:
    """`capsnet` with `middle` capsules of 8 between primary and class capsules, routed by the same method.

    Weights of both capsule layers start as in Tsai et al. 2020, because few children feed the class capsules here.

    Args:
        routing: makes the routing method of each capsule layer.
        shape, classes: as for `capsnet`.
        middle: number of capsules in between.
    """
    return _capsnet(routing, shape, classes, middle=middle, channels=256, types=32, kernel=9, stride=1, weight_std=None)


@models.register("capsnet-small-intermediate")
@facts(source="capsnet-intermediate on the convolutions of capsnet-small")
def capsnet_small_intermediate(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, middle: Count = 32
) -> CapsuleNetwork:
    """`capsnet-small` with `middle` capsules of 8 between primary and class capsules, as in `capsnet-intermediate`.

    Args:
        routing, classes, middle: as for `capsnet-intermediate`.
        shape: as for `capsnet-small`.
    """
    return _capsnet(routing, shape, classes, middle=middle, channels=32, types=8, kernel=5, stride=2, weight_std=None)


def _capsnet(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    *,
    channels: int,
    types: int,
    kernel: int,
    stride: int,
    weight_std: float | None,
    decoder: bool = False,
    start: str = "torch",
    presence: str = "length",
    middle: int = 0,
) -> CapsuleNetwork:
    grid = [((side - kernel) // stride + 1 - kernel) // 2 + 1 for side in shape[1:]]
    if min(grid) < 1:
        raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
    features = nn.Sequential(Convolution(shape[0], channels, kernel, stride), nn.ReLU())
    how: dict[str, Any] = {"presence": "length"}
    if presence == "batch-norm":
        how = {"presence": "logistic", "batch_norm": True, "bias": False}
    primary = PrimaryCapsules(channels, types, 8, kernel=kernel, stride=2, **how)
    children: int | tuple[int, int, int] = (grid[0], grid[1], types)
    layers = []
    if middle:
        layers.append(DenseCapsules(children, middle, 8, 8, routing, weight_std=weight_std))
        children = middle
    layers.append(DenseCapsules(children, classes, 8, 16, routing, weight_std=weight_std))
    network = CapsuleNetwork(features, primary, layers, decoder=Decoder(classes * 16, shape) if decoder else None)
    if start == "authors":
        start_as_the_authors(network)
    return network


@torch.no_grad()
def start_as_the_authors(network: CapsuleNetwork) -> None:
    """Weights as they start in the authors' code, `Sarasra/models`.

    All are normal with standard deviation 0.1, of the first convolution 0.05, drawn again where they are more than
    twice as large. All biases are 0.1, that of dynamic routing too; what other methods learn is theirs to set.

    Departure: their primary capsules come out of a routing of one iteration, which multiplies the convolution by
    1 / types before its bias. Here its weights start smaller by that, so that Adam moves them further, as a share.
    """
    primary: Any = network.primary
    for name, value in network.named_parameters():
        kind, deviation = name.rpartition(".")[2], 0.05 if name.startswith("features") else 0.1
        if ".routing." in name or "batch_norm" in name:
            continue
        if kind == "weight":
            deviation /= primary.types if name.startswith("primary") else 1
            nn.init.trunc_normal_(value, std=deviation, a=-2 * deviation, b=2 * deviation)
        elif kind == "bias":
            value.fill_(0.1)
    for layer in network.layers:
        method: Any = layer.routing
        bias = getattr(method, "bias", None)
        if bias is not None and bias.shape == (method.sizes.parents, method.sizes.pose):  # added to every parent
            bias.fill_(0.1)


class Decoder(nn.Module):
    """Three fully connected layers from masked class poses to pixels in [0, 1]: 512 ReLU, 1024 ReLU, sigmoid.

    Args:
        width: elements of all class poses together.
        shape: (channels, height, width) of the images.
        hidden: units of the first two layers.
    """

    def __init__(self, width: int, shape: tuple[int, int, int], hidden: tuple[int, int] = (512, 1024)):
        super().__init__()
        self.shape = shape
        pixels = shape[0] * shape[1] * shape[2]
        first, second = hidden
        self.layers = nn.Sequential(
            nn.Linear(width, first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.ReLU(),
            nn.Linear(second, pixels),
            nn.Sigmoid(),
        )

    def forward(self, poses: torch.Tensor) -> torch.Tensor:
        """(batch, classes x pose) to (batch, channel, height, width)."""
        images: torch.Tensor = self.layers(poses).unflatten(1, self.shape)
        return images
