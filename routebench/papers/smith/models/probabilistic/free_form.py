"""Inference without an encoder: gradient ascent on the approximate posterior of each image."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.arguments import Count, Natural, Positive, checked

from .beliefs import Belief
from .model import Batch, GenerativeCapsules, Posterior, Scene

ROUNDING = 1e-4
"""Rotated images may leave [0, 1] by this much."""
OPTIMISERS: dict[str, Callable[..., Any]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


@dataclass(frozen=True)
class FreeForm:
    """Result of gradient ascent for a batch of images.

    Args:
        posterior: the posterior at the end.
        bounds: the bound in nats before every step, mean over the step's samples.
    """

    posterior: Posterior
    bounds: Float[Tensor, "batch step"]


@checked
def climb(
    network: GenerativeCapsules,
    images: Batch,
    *,
    steps: Natural = 300,
    learning_rate: Positive = 3e-4,
    optimiser: Literal["sgd", "adam"] = "sgd",
    samples: Count = 1,
    generator: Generator | None = None,
) -> FreeForm:
    """Raises the bound of each image by gradient ascent from the encoders' posterior; the model stays fixed.

    Every image has its own parameters, so images of a batch do not influence each other. Objects no longer depend on
    parts.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", section 2.4: "basic gradient descent", in
    "hundreds or thousands" of steps. The paper does not give the rate.

    Args:
        network: it is not changed.
        images: values in [0, 1], of the network's type.
        steps: number of steps of gradient ascent; 0 returns the encoders' posterior.
        learning_rate: falls to a tenth over the last half, so that noise averages out. The default suits `sgd`; for
            `adam` use 0.02.
        optimiser: `sgd`: plain gradient steps, as in the paper. `adam`: its step size does not depend on the
            gradient's, so parameters that hardly change the bound walk at random.
        samples: number of samples of the bound in each step; their mean is raised.
        generator: generator of the samples, on the images' device.

    Raises:
        TypeError: the network is no `GenerativeCapsules`.
        ValueError: another argument has an illegal value.
    """
    _check(network, images)
    with torch.no_grad():
        start = network.middle(images)
    free = Posterior(_copy(start.objects), _copy(start.parts))
    numbers = [value for belief in (free.objects, free.parts) for value in vars(belief).values() if value is not None]
    descent = OPTIMISERS[optimiser](numbers, lr=learning_rate)
    bounds = []
    for step in range(steps):
        descent.param_groups[0]["lr"] = learning_rate * min(1.0, 0.1 ** (2 * step / steps - 1))
        with torch.enable_grad():
            drawn = (network.bound(images, free, drawn_from(network, free, generator)).total for _ in range(samples))
            bound = torch.stack(list(drawn)).mean(dim=0)
            for number, slope in zip(numbers, torch.autograd.grad(-bound.sum(), numbers), strict=True):
                number.grad = slope
        descent.step()
        bounds.append(bound.detach())
    found = Posterior(_frozen(free.objects), _frozen(free.parts))
    return FreeForm(found, torch.stack(bounds, dim=1) if bounds else images.new_empty(len(images), 0))


def drawn_from(network: GenerativeCapsules, posterior: Posterior, generator: Generator | None = None) -> Scene:
    """Draws capsules from a posterior whose layers are independent.

    Args:
        network: gives the temperature of presences.
        posterior: beliefs about both layers.
        generator: a generator on the posterior's device; None for torch's own.
    """
    temperature = network.temperature
    parts = posterior.parts.sample(temperature, generator)
    return Scene(posterior.objects.sample(temperature, generator), parts)


@torch.no_grad()
def mean_bound(
    network: GenerativeCapsules, images: Batch, posterior: Posterior, *, samples: int, generator: Generator
) -> Float[Tensor, " batch"]:
    """The bound of each image at a posterior in nats, mean over samples.

    Args:
        network: the model, which is not changed.
        images: values in [0, 1].
        posterior: beliefs about these images.
        samples: number of samples of the bound, at least 1.
        generator: generator of the samples, on the images' device.
    """
    found = [network.bound(images, posterior, drawn_from(network, posterior, generator)).total for _ in range(samples)]
    return torch.stack(found).mean(dim=0)


def _check(network: nn.Module, images: Tensor) -> None:
    if not isinstance(network, GenerativeCapsules):
        raise TypeError(f"expected a network of GenerativeCapsules, got {type(network).__name__}")
    drawn = network.sprites.raw_colours
    if images.ndim != 4 or images.shape[1] != drawn.shape[1]:
        channels, came = drawn.shape[1], tuple(images.shape)
        raise ValueError(f"expected images of shape (batch, {channels}, height, width), got {came}")
    if images.dtype != drawn.dtype:
        raise ValueError(f"expected images of {drawn.dtype}, as the network is, got {images.dtype}")
    if not bool(((images > -ROUNDING) & (images < 1 + ROUNDING)).all()):  # nan is neither
        least, greatest = images.min(), images.max()
        raise ValueError(f"expected values of images in [0, 1], got {float(least):g} to {float(greatest):g}")


def _copy(belief: Belief) -> Belief:
    """A copy of the parameters that requires gradients."""
    still = _frozen(belief)
    deviations = None if still.log_deviations is None else still.log_deviations.clone().requires_grad_()
    return Belief(still.log_odds.clone().requires_grad_(), still.poses.clone().requires_grad_(), deviations)


def _frozen(belief: Belief) -> Belief:
    deviations = None if belief.log_deviations is None else belief.log_deviations.detach()
    return Belief(belief.log_odds.detach(), belief.poses.detach(), deviations)
