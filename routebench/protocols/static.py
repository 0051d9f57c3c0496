"""Accuracy with coupling held at its mean over training images, and how far coupling depends on the image."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.capsules import Votes
from routebench.capsules.intercepted import intercepted, routed_layers
from routebench.capsules.layers import CapsuleLayer
from routebench.data import Images
from routebench.losses import loss_at_end
from routebench.models.network import Output
from routebench.protocols.base import Metric
from routebench.protocols.chosen import evenly
from routebench.recipe import Recipe
from routebench.training import answers, is_right

BATCH = 250
TRAINING = 1000
"""Training images that coupling is averaged over, taken evenly."""

Coefficients = Float[Tensor, "position child parent"]


@dataclass
class SweepMean:
    """The coupling of one sweep of a layer, added up over images."""

    total: Coefficients | float = 0.0
    images: int = 0

    def add(self, coupling: Float[Tensor, "lane child parent"], images: int) -> None:
        """Adds the coupling of a batch; lanes are images, or images x positions with positions running fastest.

        Args:
            coupling: coupling coefficients of the sweep, (lane, child, parent).
            images: number of images in the batch.
        """
        self.total = self.total + coupling.reshape(images, -1, *coupling.shape[1:]).sum(dim=0)
        self.images += images

    def of(self, images: int) -> Float[Tensor, "lane child parent"]:
        """The mean coupling, repeated for as many images.

        Args:
            images: number of images in the batch.
        """
        assert isinstance(self.total, Tensor)  # added to before
        return (self.total / self.images).repeat(images, 1, 1)


@dataclass
class HeldCoupling:
    """The mean coupling of every sweep of every layer; `differs` where a mean took the place of another coupling."""

    found: dict[tuple[CapsuleLayer, int], SweepMean] = field(default_factory=dict)
    images: int = 0
    is_used: bool = False
    differs: bool = False

    def see(self, layer: CapsuleLayer, votes: Votes, _present: Tensor) -> None:
        """Adds the coupling of each sweep, or puts the mean in its place.

        Args:
            layer: the layer that routes.
            votes: its votes, whose sweeps are watched and whose `aggregate` is replaced.
        """
        sweeps = count()
        aggregate = votes.aggregate

        def meet(coupling: Tensor) -> Tensor:
            mean = self.found.setdefault((layer, next(sweeps)), SweepMean())
            if self.is_used:
                held = mean.of(self.images)
                self.differs = self.differs or not torch.allclose(held, coupling, atol=1e-4)
                return held
            mean.add(coupling, self.images)
            return coupling

        def aggregated(coupling: Tensor, *, shown: Tensor | None = None) -> Tensor:
            votes.watch = None
            try:
                return aggregate(meet(coupling.expand(votes.lanes, -1, -1)), shown=shown)
            finally:
                votes.watch = meet

        votes.watch = meet
        votes.aggregate = aggregated  # type: ignore[method-assign]


@torch.no_grad()
def static_metrics(network: nn.Module, train: Images, test: Images, device: torch.device) -> Iterator[Metric]:
    """Accuracy with the mean coupling of training images, as the network was trained; nothing where none is seen.

    Every sweep of every layer has the mean that this sweep has over training images, so that poses and activations
    still depend on the image, and coupling does not. Methods that weigh votes without `Votes.sweep` and
    `Votes.aggregate` are left out, and those whose scores take another way, as self-routing's, which are sums of
    coupling and not made of weighted votes.

    Source: the question is that of Mitterreiter, Koch, Giesen and Laue, AAAI 2023.

    Args:
        network: the trained network, in evaluation mode.
        train: training images that coupling is averaged over.
        test: test images that are classified.
        device: the network's device.

    Yields:
        `static_accuracy` in per cent, and `static_loss`, by how many points that is less than with its own coupling.
    """
    means = HeldCoupling()
    with intercepted(routed_layers(network), means.see):
        for _ in _outputs(network, train, means, device):
            pass
        if not means.found:
            return
        means.is_used = True
        held = torch.cat([scores.cpu() for scores in _outputs(network, test, means, device)])
    free = torch.cat([scores.cpu() for scores in _outputs(network, test, means, device)])
    if means.differs and torch.equal(held, free):
        return
    static, own = _accuracy(held, test), _accuracy(free, test)
    yield Metric.of("static_accuracy", "test", static)
    yield Metric.of("static_loss", "test", own - static)


def gradient_metrics(network: nn.Module, images: Images, recipe: Recipe, device: torch.device) -> Iterator[Metric]:
    """Metric `gradient_norm` of every capsule layer: of the loss of an image with respect to the layer's poses, mean.

    Over `BATCH` of the images, taken evenly, with the loss that the network was trained with.

    Layers whose poses the loss does not depend on are left out, such as class capsules with activations of their own.

    Source: the question is that of Mitterreiter, Koch, Giesen and Laue, AAAI 2023: do gradients vanish with depth?

    Args:
        network: the trained network, in evaluation mode.
        images: training images, of which some are looked at.
        recipe: the recipe that it was trained with, which names the loss.
        device: the network's device.
    """
    some = images.at(evenly(len(images), BATCH))
    output: Output = network(some.pixels.to(device).to(torch.float32).div(255))
    loss = len(some) * loss_at_end(recipe.loss, recipe.label_smoothing)(output, some.labels.to(device))
    names = layer_names(len(output.layers))
    gradients = torch.autograd.grad(loss, [layer.poses for layer in output.layers], allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is not None:
            norm = gradient.flatten(1).norm(dim=1).double().mean()
            yield Metric.of("gradient_norm", "train", float(norm), where={"layer": name})


def layer_names(count: int) -> list[str]:
    """`primary`, `middle`, `classes`; with more layers between, `middle-1`, `middle-2` and so on.

    Args:
        count: number of capsule layers, the primary one among them.
    """
    between = count - 2
    middle = ["middle"] if between == 1 else [f"middle-{number}" for number in range(1, between + 1)]
    return ["primary", *middle, "classes"][:count]


def _accuracy(scores: Tensor, images: Images) -> float:
    return 100 * float(is_right(answers(scores, images.labels), images.labels).double().mean())


def _outputs(network: nn.Module, images: Images, means: HeldCoupling, device: torch.device) -> Iterator[Tensor]:
    """Scores of all images, batch by batch."""
    for start in range(0, len(images), BATCH):
        pixels = images.pixels[start : start + BATCH]
        means.images = len(pixels)
        yield network(pixels.to(device).to(torch.float32).div(255)).scores
