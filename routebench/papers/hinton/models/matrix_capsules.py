"""Networks of matrix capsules: a convolution, primary capsules, two convolutional capsule layers, class capsules.

`list models --json` counts their parameters with EM routing, whose two betas for each type of capsule add
2 (C + D + classes) to the counts given here: 138 for `matrix-capsules` and 5 classes.
"""

import math
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import NonNegative, Positive
from routebench.capsules.coordinates import Field, coordinates
from routebench.capsules.layers import CapsuleLayer, ConvCapsules, DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.registry import models

from .window import Window, over_crops

HINTON = "Hinton, Sabour and Frosst, ICLR 2018, sections 4 and 5"
POSE = 16
NORB = (2, 48, 48)


@dataclass(frozen=True)
class Widths:
    """A, B, C and D of the paper: channels of the convolution, types of primary and of convolutional capsules."""

    channels: int = 32
    primary: int = 32
    first: int = 32
    second: int = 32


SMALL = Widths(channels=16, primary=8, first=8, second=8)
CHANGED = {"coordinates": {"hinton": 2}, "crops": {"13": 2}}
"""Versions of options' values, see `Facts`."""


class Options(TypedDict, total=False):
    """Options that each network of this file takes."""

    coordinates: str
    """The way in which a child's place enters its votes for the classes, see `COORDINATES`; `none` for not at all."""
    start: str
    """`even`, votes of standard deviation 0.6 from poses of 1 in each layer; `authors`, see `start_as_the_authors`."""
    class_lambda: NonNegative
    """Times the method's final lambda in the class layer, for a method that has one; the authors' code has 0.25."""
    class_mass_floor: Positive
    """The method's mass floor in the class layer, for a method that has one; the authors' code has 1e-5 there."""
    crops: int
    """1, or 13 windows over which scores are averaged outside training, see `AveragedOverCrops`."""


@models.register("matrix-capsules", version=1)
@facts(source=HINTON, shape=NORB, classes=5, stated_parameters=310_000, method="em", option_versions=CHANGED)
def matrix_capsules(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """The network of the paper, A = B = C = D = 32: 317,056 parameters besides betas, where the paper says 310K.

    Args:
        routing: makes the routing method of each layer.
        shape: (channels, height, width) of the images; of 48 x 48 or more, the middle 32 x 32 pixels are looked at.
        classes: number of classes.
        options: see `Options`: coordinates `paper`, start `even`, class_lambda 1, the method's mass floor,
            crops 1.
    """
    return _network(routing, shape, classes, Widths(), options)


@models.register("matrix-capsules-68k", version=1)
@facts(source=HINTON, shape=NORB, classes=5, stated_parameters=68_000, method="em", option_versions=CHANGED)
def matrix_capsules_68k(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """The paper's smaller network, A = 64, B = 8, C = D = 16: 68,680 parameters besides betas.

    Args:
        routing, shape, classes, options: as for `matrix-capsules`.
    """
    return _network(routing, shape, classes, Widths(64, 8, 16, 16), options)


@models.register("matrix-capsules-cifar", version=1)
@facts(source=HINTON, shape=(3, 32, 32), method="em", option_versions=CHANGED)
def matrix_capsules_cifar(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """`matrix-capsules` with A = 256, as the paper has it for CIFAR-10: 459,296 parameters besides betas.

    Args:
        routing, shape, classes, options: as for `matrix-capsules`.
    """
    return _network(routing, shape, classes, Widths(channels=256), options)


@models.register("matrix-capsules-vector", version=1)
@facts(source=f"{HINTON}, table 1, pose structure: vector", shape=NORB, classes=5, method="em", option_versions=CHANGED)
def matrix_capsules_vector(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """`matrix-capsules` with poses that are vectors of 16, and so transformations of 16 x 16.

    The paper says no more of them; coordinates are added to the same elements of the flat pose.

    Args:
        routing, shape, classes, options: as for `matrix-capsules`.
    """
    return _network(routing, shape, classes, Widths(), options, matrix=False)


@models.register("matrix-capsules-small", version=1)
@facts(source="matrix-capsules, sized to train in seconds on two cores", method="em", option_versions=CHANGED)
def matrix_capsules_small(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """`matrix-capsules` with A = 16 and B = C = D = 8.

    Args:
        routing, shape, classes, options: as for `matrix-capsules`.
    """
    return _network(routing, shape, classes, SMALL, options)


@models.register("matrix-capsules-small-vector", version=1)
@facts(source="matrix-capsules-vector, sized to train in seconds on two cores", method="em", option_versions=CHANGED)
def matrix_capsules_small_vector(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, **options: Unpack[Options]
) -> nn.Module:
    """`matrix-capsules-small` with poses that are vectors of 16.

    Args:
        routing, shape, classes, options: as for `matrix-capsules`.
    """
    return _network(routing, shape, classes, SMALL, options, matrix=False)


def _network(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,
    widths: Widths,
    options: Options,
    *,
    matrix: bool = True,
) -> nn.Module:
    """The paper does not say how convolutions are padded; none is, as in the authors' code."""
    if unknown := options.keys() - Options.__annotations__:
        raise TypeError(f"expected options among {', '.join(Options.__annotations__)}, got {min(unknown)!r}")
    window = Window(shape)
    below = [Field(side, side).below(5, 2) for side in window.shape[1:]]
    seen = [field.below(3, 2).below(3, 1) for field in below]
    if min(field.cells for field in seen) < 1:
        raise ValueError(f"images of {shape[1]} x {shape[2]} are too small for this network")
    std = EVEN_VOTES / 2 if matrix else EVEN_VOTES / 4  # 4 or 16 products add up to an element of a vote
    grid = (below[0].cells, below[1].cells, widths.primary)
    first = ConvCapsules(grid, widths.first, POSE, POSE, routing, stride=2, matrix=matrix, weight_std=std)
    second = ConvCapsules(first.grid, widths.second, POSE, POSE, routing, matrix=matrix, weight_std=std)
    place = coordinates(options.get("coordinates", "paper"), seen[0], seen[1], POSE)
    last = DenseCapsules(
        second.grid, classes, POSE, POSE, routing, matrix=matrix, share=True, coordinates=place, weight_std=std
    )
    network = CapsuleNetwork(
        nn.Sequential(window, nn.Conv2d(window.shape[0], widths.channels, 5, 2), nn.ReLU()),
        PrimaryCapsules(widths.channels, widths.primary, POSE, presence="logistic"),
        [first, second, last],
    )
    _start(network, options.get("start", "even"))
    _scale_lambda(last, options.get("class_lambda", 1.0))
    _set_mass_floor(last, options.get("class_mass_floor"))
    return over_crops(network, options.get("crops", 1), shape)


EVEN_VOTES = 0.6
"""Standard deviation of the elements of votes whose children have pose elements of deviation 1, at the start.

For matrices it makes weights of deviation 0.3, as the authors' code has in convolutional layers. Against the start of
Tsai et al. and weights of 0.5 and 1 it learned best in trials on held-out digits, with EM of two iterations.
"""


def _start(network: CapsuleNetwork, start: str) -> None:
    if start not in ("even", "authors"):
        raise ValueError(f"start must be one of even, authors, got {start!r}")
    if start == "authors":
        start_as_the_authors(network)


def _scale_lambda(layer: CapsuleLayer, share: float) -> None:
    method: Any = layer.routing
    if hasattr(method, "final_lambda"):
        method.final_lambda *= share


def _set_mass_floor(layer: CapsuleLayer, floor: float | None) -> None:
    method: Any = layer.routing
    if floor is not None and hasattr(method, "mass_floor"):
        method.mass_floor = floor


@torch.no_grad()
def start_as_the_authors(network: CapsuleNetwork) -> None:
    """Weights and betas as they start in the authors' code.

    Weights are drawn from normal distributions that are cut off at twice their standard deviation: first convolution
    0.05, with a bias of 0.1; primary capsules 0.5 and 3, see `_authors_primary`, the logit of whose activations starts
    at -1; convolutional capsules 0.3, class capsules 0.01. Betas (of EM routing): their logit is
    lambda (S (-sum_h log var_h - 16 b_u (1 + log 2 pi)) - 5000 b_a) with b_u = b_a = 0.5, for the classes 2 and 1; with
    beta_u = b_u (1 + log 2 pi) / 2, beta_a = -2500 b_a and twice their final lambda, 0.02, ours is the same.
    That lambda is the method's to set, and `class_lambda` the network's. With the method's `beta_a_unit=2500`, a step
    of the optimizer moves the logit by b_a as far as theirs.

    Departure: primary capsules keep their bias; theirs have none.
    """
    convolution: Any = network.features[1]  # type: ignore[index]  # a sequence, made above
    primary: Any = network.primary
    convolution.weight.copy_(_cut_normal(torch.tensor(0.05).expand_as(convolution.weight)))
    convolution.bias.fill_(0.1)
    deviations = _authors_primary(primary.types, primary.pose)[:, None, None, None]
    primary.convolution.weight.copy_(_cut_normal(deviations.expand_as(primary.convolution.weight)))
    primary.convolution.bias.zero_()
    primary.convolution.bias[primary.types * primary.pose :] = -1.0
    starts = [(0.3, 0.5, 0.5), (0.3, 0.5, 0.5), (0.01, 2.0, 1.0)]
    layers: Any = network.layers
    for layer, (std, b_u, b_a) in zip(layers, starts, strict=True):
        layer.weight.copy_(_cut_normal(torch.tensor(std).expand_as(layer.weight)))
        if hasattr(layer.routing, "beta_u"):
            layer.routing.beta_u.fill_(b_u * (1 + math.log(2 * math.pi)) / 2)
            layer.routing.beta_a.fill_(-2500 * b_a / getattr(layer.routing, "beta_a_unit", 1.0))


def _cut_normal(deviation: Tensor) -> Tensor:
    """Normal numbers of these standard deviations, drawn again where they are more than twice as large."""
    return (
        nn.init.trunc_normal_(torch.empty_like(deviation, memory_format=torch.contiguous_format), a=-2, b=2) * deviation
    )


def _authors_primary(types: int, pose: int) -> Float[Tensor, " channel"]:
    """Standard deviations of what makes each channel of the primary capsules: first poses, then activations.

    Their code draws channels for poses with 0.5, then channels for activations with 3. It then cuts the row of all
    channels into one piece for each capsule, whose last channel becomes the activation: with 32 types, all but the
    last two capsules have activations from weights of 0.5, and these two have poses from weights of 3.
    """
    row = torch.cat([torch.full((types * pose,), 0.5), torch.full((types,), 3.0)]).reshape(types, pose + 1)
    return torch.cat([row[:, :pose].flatten(), row[:, pose]])
