"""The network under attack, as foolbox sees it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import eagerpy as ep
import torch
from foolbox.models import Model
from foolbox.types import Bounds
from torch import Tensor, nn

from routebench.attacks._losses import margins
from routebench.models.network import Output

BATCH = 250
"""Images per pass."""


class Victim(Model):  # type: ignore[misc]  # foolbox comes without types that mypy reads
    """A network whose logits foolbox asks for. Images have values in [0, 1].

    For capsule networks without logits of their own these are the log odds of lengths, as `Output` has them: lengths
    within 1e-6 of 0 or 1 are clamped and pass no gradient, which the checks for zero gradients would show.

    Args:
        network: the network in evaluation mode, its parameters without gradient; see `under_attack`.
        device: the device that it is on.
    """

    def __init__(self, network: nn.Module, device: torch.device):
        self.network = network
        self.device = device
        self.queries = 0
        """Images that were classified so far, with or without gradient."""

    @property
    def bounds(self) -> Bounds:
        """Bounds of pixels."""
        return Bounds(0, 1)

    def __call__(self, inputs: Any) -> Any:
        """Logits of images, in the kind of tensor that came."""
        images, restore = ep.astensor_(inputs)
        return restore(ep.astensor(self.output(images.raw).logits))

    def output(self, images: Tensor) -> Output:
        """All that the network says; with a gradient if the images have one.

        Args:
            images: (image, channel, height, width), values in [0, 1], on the network's device.
        """
        self.queries += len(images)
        with torch.set_grad_enabled(images.requires_grad):
            found: Output = self.network(images)
        if not images.requires_grad or found.logits.requires_grad:
            return found
        nothing = 0 * images.flatten(1).sum(dim=1, keepdim=True)  # a network that passes no gradient passes zeros
        return Output(found.logits + nothing, found.scores + nothing, found.layers)

    @torch.no_grad()
    def predict(self, pixels: Tensor) -> Tensor:
        """The class of highest score of each image, as the suite `accuracy` judges.

        Args:
            pixels: uint8, (image, channel, height, width).

        Returns:
            (image), on the CPU.
        """
        found = [self.output(scaled(part, self.device)).scores.argmax(dim=1).cpu() for part in pixels.split(BATCH)]  # type: ignore[no-untyped-call]
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)

    @torch.no_grad()
    def judge(self, pixels: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The answer to each image, as `predict` gives it, and by how much another class is ahead of the label.

        Args:
            pixels: uint8, (image, channel, height, width), at least one.
            labels: (image).

        Returns:
            (image) and (image), on the CPU; the second are `margins` of the logits.
        """
        found = [self.output(scaled(part, self.device)) for part in pixels.split(BATCH)]  # type: ignore[no-untyped-call]
        answers = torch.cat([one.scores.argmax(dim=1) for one in found])
        return answers.cpu(), margins(torch.cat([one.logits for one in found]).cpu(), labels)


@contextmanager
def under_attack(network: nn.Module, device: torch.device) -> Iterator[Victim]:
    """Keeps the network in evaluation mode and computes no gradient for its parameters while this lasts.

    Args:
        network: the network. Its mode and its parameters are afterwards as before.
        device: the device that it is on.

    Yields:
        the network as foolbox asks for it.
    """
    was_training = network.training
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval().requires_grad_(requires_grad=False)
    try:
        yield Victim(network, device)
    finally:
        network.train(was_training)
        for parameter in learned:
            parameter.requires_grad_()


def scaled(pixels: Tensor, device: torch.device) -> Tensor:
    """uint8 to values in [0, 1], on the device."""
    return pixels.to(device).to(torch.float32).div(255)
