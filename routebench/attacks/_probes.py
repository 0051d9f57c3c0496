"""Questions to a network before its adversarial accuracy is believed: its gradients, and whether it is random."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from routebench.attacks._losses import AttackLoss
from routebench.attacks._victim import BATCH, Victim, scaled
from routebench.capsules import Votes
from routebench.capsules.intercepted import intercepted, routed_layers
from routebench.capsules.layers import CapsuleLayer


def gradient_profile(victim: Victim, loss: AttackLoss, pixels: Tensor, labels: Tensor) -> dict[str, float]:
    """Statistics of the input gradient of a loss on unattacked images.

    Source: Hinton, Sabour and Frosst, ICLR 2018, section 6 (shares of exact zeros, and magnitude).

    Args:
        victim: the network.
        loss: the loss whose gradient is taken.
        pixels: uint8, (image, channel, height, width).
        labels: true classes, (image).

    Returns:
        `zero_gradient_elements` and `zero_gradient_images`, shares in % of exact zeros and of images with nothing else;
        `broken_gradient_images`, in %, with an element that is not finite; `gradient_magnitude`, mean of the absolute
        value, per unit of pixels from 0 to 1. Some pixels have a zero because no convolution sees them.
    """
    parts = []
    for images, own in zip(pixels.split(BATCH), labels.split(BATCH), strict=True):  # type: ignore[no-untyped-call]
        inputs = scaled(images, victim.device).requires_grad_()
        value = loss(victim.output(inputs), own.to(victim.device))
        parts.append(torch.autograd.grad(value, inputs)[0].flatten(1).cpu().double())
    gradient = torch.cat(parts)
    zero, finite = gradient == 0, gradient.isfinite()
    return {
        "zero_gradient_elements": 100 * float(zero.double().mean()),
        "zero_gradient_images": 100 * float(zero.all(dim=1).double().mean()),
        "broken_gradient_images": 100 * float((~finite).any(dim=1).double().mean()),
        "gradient_magnitude": float(gradient[finite].abs().mean()),
    }


def largest_difference(victim: Victim, pixels: Tensor, asked: int = 3) -> float:
    """The largest difference of logits when the same images are classified again.

    Args:
        victim: the network.
        pixels: uint8, (image, channel, height, width), all in one batch.
        asked: how many times they are classified.

    Returns:
        the largest absolute difference of any logit to that of the first time.
    """
    images = scaled(pixels, victim.device)
    answers = torch.stack([victim.output(images).logits for _ in range(asked)])
    return float((answers - answers[0]).abs().max())


@contextmanager
def constant_coupling(network: nn.Module) -> Iterator[None]:
    """Leads gradients around the routing loop while this lasts: coupling is what it is, but counts as a constant.

    Args:
        network: the network, whose layers are left as they were.
    """
    with intercepted(routed_layers(network), _hold):
        yield


def _hold(_layer: CapsuleLayer, votes: Votes, _present: Tensor) -> None:
    """Stops the gradient at the coupling, the method's own included."""
    sweep: Callable[..., Any] = votes.sweep
    aggregate = votes.aggregate
    votes.sweep = lambda *given, **named: sweep(*given, **{**named, "constant_coupling": True})  # type: ignore[method-assign]
    votes.aggregate = lambda coupling, **named: aggregate(coupling.detach(), **named)  # type: ignore[method-assign]
