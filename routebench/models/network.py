"""The form of all capsule networks: features, primary capsules, capsule layers, class scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from routebench.arguments import Count, Legal, Share
from routebench.capsules import Capsules
from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.schedules import SCHEDULES
from routebench.ops import length_logit

ITERATIONS, PASSED = Legal.of(Count), Legal.of(Share)


@dataclass(frozen=True)
class Output:
    """Answer of a network to a batch of images.

    Args:
        logits: logits of the classes, unbounded: for cross entropies.
        scores: scores of the classes, in [0, 1]: lengths or activations of class capsules, or sigmoids of the logits.
        layers: the capsules of every layer, primary first; empty for a network without capsules.
    """

    logits: Float[Tensor, "batch classes"]
    scores: Float[Tensor, "batch classes"]
    layers: list[Capsules] = field(default_factory=list)

    @property
    def added_loss(self) -> Float[Tensor, ""] | None:
        """The sum of the losses that routing methods add, over layers; None where none does."""
        found = [layer.loss for layer in self.layers if layer.loss is not None]
        return torch.stack(found).sum() if found else None


class CapsuleNetwork(nn.Module):
    """A capsule classifier: the capsules of the last layer are the classes.

    Where the routing method gives no activations, class logits are read off the poses of the class capsules by one
    linear unit that all classes share (Tsai et al. 2020, section 3).

    Args:
        features: images to feature maps.
        primary: feature maps to capsules.
        layers: capsule layers, the last of which has one capsule per class.
        schedule: a name in `SCHEDULES`; None for that of the routing method.
        decoder: reconstructs images from the poses of class capsules, all but one of which are zero; None for none.
    """

    def __init__(
        self,
        features: nn.Module,
        primary: nn.Module,
        layers: Sequence[CapsuleLayer],
        *,
        schedule: str | None = None,
        decoder: nn.Module | None = None,
    ):
        super().__init__()
        self.features = features
        self.primary = primary
        self.layers = nn.ModuleList(layers)
        for place, layer in enumerate(layers):
            layer.routing.layer, layer.routing.layers = place, len(layers)
        last = layers[-1].routing
        self.run_layers = SCHEDULES[last.schedule if schedule is None else schedule]
        self.readout = None if last.gives_activations else nn.Linear(last.sizes.pose, 1)
        self.decoder = decoder

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Output:
        """Answers to images, with the capsules of every layer.

        Args:
            images: (batch, channel, height, width), values in [0, 1].
        """
        return self.above(self.primary(self.features(images)))

    def above(self, primary: Capsules) -> Output:
        """The answer to primary capsules.

        Args:
            primary: the capsules of the first layer.
        """
        found = self.run_layers(list(self.layers), primary)  # type: ignore[arg-type]
        classes = found[-1]
        if self.readout is None:
            logits = length_logit(classes.activations) if classes.logits is None else classes.logits
            return Output(logits, classes.activations, found)
        logits = self.readout(classes.poses)[..., 0]
        return Output(logits, logits.sigmoid(), found)

    def reconstruct(self, output: Output, labels: Int[Tensor, " batch"]) -> Float[Tensor, "batch channel height width"]:
        """Images decoded from the capsules of the given classes; all other capsules are set to zero.

        Args:
            output: the network's answer to a batch.
            labels: the class whose capsule is decoded, for each image.

        Raises:
            ValueError: the network has no decoder.
        """
        if self.decoder is None:
            raise ValueError("this network has no decoder; build it with decoder=True")
        poses = output.layers[-1].poses
        chosen = nn.functional.one_hot(labels, poses.shape[1]).to(poses.dtype)
        decoded: Tensor = self.decoder((poses * chosen[..., None]).flatten(1))
        return decoded


def set_iterations(network: nn.Module, iterations: int) -> None:
    """Makes every iterative routing method in the network iterate so many times.

    Args:
        network: the network.
        iterations: number of routing iterations.

    Raises:
        ValueError: the number is no integer of at least 1.
    """
    iterations = ITERATIONS.take("iterations", iterations)
    for module in routing_methods(network):
        if hasattr(module, "iterations"):
            module.iterations = iterations


def trained_parts(network: nn.Module) -> frozenset[str]:
    """The parts of a network without which some recipes cannot train it: `objective` and `decoder`, if it has them."""
    return frozenset(part for part in ("objective", "decoder") if getattr(network, part, None) is not None)


def set_progress(network: nn.Module, progress: float) -> None:
    """Tells every routing method how much of the training run has passed, 0 to 1, and the network, if it asks.

    Args:
        network: the network.
        progress: the share that has passed, 0 to 1.

    Raises:
        ValueError: it is no share.
    """
    progress = PASSED.take("progress", progress)
    for module in routing_methods(network):
        module.progress = progress
    if hasattr(network, "progress"):
        network.progress = progress  # type: ignore[assignment]  # it is no parameter


def routing_methods(network: nn.Module) -> list[Any]:
    """The routing methods of all capsule layers, from the first layer to the last."""
    return [module.routing for module in network.modules() if isinstance(module, CapsuleLayer)]


@torch.no_grad()
def count_parameters(network: nn.Module) -> int:
    """Learned numbers in the network."""
    return sum(parameter.numel() for parameter in network.parameters())
