"""The work that is timed, with ours and with the yardstick: layers on random capsules, networks on random images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from reports.speed import tsai, yardstick
from routebench import kernels
from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules, PrimaryCapsules
from routebench.losses import loss_at_end
from routebench.models import CapsuleNetwork, Output, build
from routebench.ops import length, squash
from routebench.routing import factory

MNIST_TRAINING_IMAGES = 60_000


class Work:
    """What is timed: `step` is one forward and backward pass, for a network a whole training step."""

    def step(self) -> None:
        """Once."""
        raise NotImplementedError

    def found(self) -> dict[str, Tensor]:
        """Outputs and all gradients of one step that starts from the weights as they are, for the comparison."""
        raise NotImplementedError


class LayerWork(Work):
    """One layer: the gradients of its weights and of the capsules below, for a random gradient of its output."""

    def __init__(self, layer: nn.Module, children: Capsules):
        self.layer, self.children = layer, children
        self.leaves = [leaf for leaf in (children.poses, children.activations) if leaf.requires_grad]
        with torch.no_grad():
            outputs = self._outputs()
        draw = torch.Generator().manual_seed(1)
        self.directions = [torch.randn(output.shape, generator=draw) for output in outputs]

    def step(self) -> None:
        """Forward and backward."""
        for leaf in (*self.layer.parameters(), *self.leaves):
            leaf.grad = None
        outputs = self._outputs()
        pairs = [pair for pair in zip(outputs, self.directions, strict=True) if pair[0].requires_grad]
        torch.autograd.backward(*zip(*pairs, strict=True))

    def in_double(self) -> "LayerWork":
        """The same in double precision; for the yardstick, which can do it whatever the kernels can."""
        leaves = [leaf.detach().double() for leaf in (self.children.poses, self.children.activations)]
        wanted = [leaf.requires_grad for leaf in (self.children.poses, self.children.activations)]
        children = Capsules(*(leaf.requires_grad_(is_wanted) for leaf, is_wanted in zip(leaves, wanted, strict=True)))
        work = LayerWork(deepcopy(self.layer).double(), children)
        work.directions = [direction.double() for direction in self.directions]
        return work

    def found(self) -> dict[str, Tensor]:
        """Poses and activations of parents; gradients."""
        self.step()
        with torch.no_grad():
            outputs = self._outputs()
        below = {f"child {number}": leaf.grad for number, leaf in enumerate(self.leaves) if leaf.grad is not None}
        return {"poses": outputs[0], "activations": outputs[1], **below, **yardstick.gradients(self.layer)}

    def _outputs(self) -> list[Tensor]:
        parents = self.layer(self.children)
        return [parents.poses, parents.activations]


class TrainingWork(Work):
    """One training step: loss, gradients, optimizer.

    Args:
        network: in training mode.
        images, labels: the batch.
        loss: mean over images.
        optimiser: the optimizer of the network's parameters.
        passes: parts of the batch that go through one after another, their gradients adding up to those of the batch.
    """

    def __init__(
        self,
        network: nn.Module,
        images: Tensor,
        labels: Tensor,
        loss: Callable[[Output, Tensor], Tensor],
        *,
        optimiser: torch.optim.Optimizer,
        passes: int = 1,
    ):
        self.network, self.loss, self.optimiser, self.passes = network, loss, optimiser, passes
        self.batches = list(zip(images.chunk(passes), labels.chunk(passes), strict=True))
        self.images = len(images)

    def step(self) -> None:
        """All passes and the optimizer's step."""
        self.optimiser.zero_grad()
        for images, labels in self.batches:
            loss = self.loss(self.network(images), labels)
            (loss * (len(images) / self.images)).backward()
        self.optimiser.step()

    def found(self) -> dict[str, Tensor]:
        """Logits of the classes; gradients for a random gradient of them.

        That of the loss will not do: by symmetry, some gradients of a cross entropy are zero but for rounding.
        """
        self.optimiser.zero_grad()
        images = torch.cat([images for images, _ in self.batches])
        logits = self.network(images).logits
        logits.backward(torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)))
        return {"logits": logits.detach(), **yardstick.gradients(self.network)}


class ConvolutionWork(Work):
    """Only the convolutions of a network, forward and backward: what no routing code can save."""

    def __init__(self, network: CapsuleNetwork, images: Tensor):
        primary = network.primary
        assert isinstance(primary, PrimaryCapsules)
        self.layers = nn.Sequential(network.features, primary.convolution)
        self.images = images
        with torch.no_grad():
            self.direction = torch.randn_like(self.layers(images))

    def step(self) -> None:
        """Forward and backward."""
        self.layers.zero_grad()
        self.layers(self.images).backward(self.direction)


Make = Callable[[str, int, int, bool], Work]
"""From implementation, batch, iterations and whether it shall be tiny, to the work."""


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Args:
        work: in words.
        make: the work.
        batch, iterations: of the measurement.
        check: images on which outputs and gradients are compared.
        implementations: what is timed in turn, `ours` first.
        faster, leaner: goals: how many times faster, and with how many times less extra memory, than the yardstick.
        fits: goal for the peak memory of the whole process with ours, in GiB.
        passes: parts in which the yardstick takes the batch, because the whole does not fit.
        memory_batch: images of the measurement of memory against T; None for a case without one.
        steps: optimizer steps of one epoch, for a case whose table row says what an epoch takes.
        note: what a reader of its row must know.
    """

    work: str
    make: Make
    batch: int
    iterations: int
    check: int
    implementations: tuple[str, ...] = ("ours", "yardstick")
    faster: float | None = None
    leaner: float | None = None
    fits: float | None = None
    passes: int = 1
    memory_batch: int | None = None
    steps: float | None = None
    note: str = ""


def _dense_dynamic(implementation: str, batch: int, iterations: int, tiny: bool) -> Work:
    children = 24 if tiny else 1152
    layer = DenseCapsules(children, 10, 8, 16, factory("dynamic", iterations=iterations), weight_std=0.1)
    poses = squash(torch.randn(batch, children, 8)).requires_grad_()
    if implementation == "yardstick":
        return LayerWork(yardstick.DenseDynamic(layer), Capsules(poses, length(poses).detach()))
    return LayerWork(layer, Capsules(poses, length(poses).detach()))


def _conv_attention(implementation: str, batch: int, iterations: int, tiny: bool) -> Work:
    grid, types = ((5, 5, 3), 4) if tiny else ((16, 16, 32), 32)
    routing = factory("inverted-attention", iterations=iterations)
    layer = ConvCapsules(grid, types, 16, 16, routing, kernel=3, stride=2, matrix=True)
    poses = torch.randn(batch, *grid, 16, requires_grad=True)
    chosen = yardstick.ConvAttention(layer) if implementation == "yardstick" else layer
    return LayerWork(chosen, Capsules(poses, torch.ones(batch, *grid)))


def _conv_em(implementation: str, batch: int, iterations: int, tiny: bool) -> Work:
    grid, types = ((5, 5, 3), 4) if tiny else ((14, 14, 32), 32)
    competition = "types+positions" if implementation == "ours, types+positions" else "types"
    routing = factory("em", iterations=iterations, competition=competition)
    layer = ConvCapsules(grid, types, 16, 16, routing, kernel=3, stride=2, matrix=True)
    poses = torch.randn(batch, *grid, 16, requires_grad=True)
    activations = torch.rand(batch, *grid).requires_grad_()
    chosen = yardstick.ConvEM(layer) if implementation == "yardstick" else layer
    return LayerWork(chosen, Capsules(poses, activations))


def _tsai(implementation: str, batch: int, iterations: int, tiny: bool, *, passes: int) -> Work:
    side = 16 if tiny else 32
    sizes = {"side": side, "channels": 8, "types": 4} if tiny else {}
    network = tsai.simple_network(iterations=iterations, **sizes)
    images, labels = torch.rand(batch, 3, side, side), torch.randint(10, (batch,))
    if implementation == "convolutions":
        return ConvolutionWork(network, images)
    if implementation == "yardstick":
        network = tsai.as_yardstick(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    parts = min(passes, batch) if implementation == "yardstick" else 1
    return TrainingWork(network, images, labels, _cross_entropy, optimiser=optimiser, passes=parts)


def _capsnet(implementation: str, batch: int, iterations: int, tiny: bool) -> Work:
    name = "capsnet-small" if tiny else "capsnet"
    params = {"iterations": iterations}
    network = build(name, shape=(1, 28, 28), classes=10, method="dynamic", method_params=params)
    assert isinstance(network, CapsuleNetwork)
    images, labels = torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))
    if implementation == "convolutions":
        return ConvolutionWork(network, images)
    if implementation == "yardstick":
        (digits,) = network.layers
        assert isinstance(digits, DenseCapsules)
        network.layers = nn.ModuleList([yardstick.DenseDynamic(digits)])
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    return TrainingWork(network, images, labels, _margin, optimiser=optimiser)


def _cross_entropy(output: Output, labels: Tensor) -> Tensor:
    return cross_entropy(output.logits, labels)


def _margin(output: Output, labels: Tensor) -> Tensor:
    return loss_at_end("margin")(output, labels)


TSAI_PASSES = 4

CASES = {
    "dense-dynamic": Case(
        work="dense layer 1152 x 8 to 10 x 16, B = 128, T = 3, dynamic routing",
        make=_dense_dynamic,
        batch=128,
        iterations=3,
        check=48,
        faster=12,
        leaner=10,
        memory_batch=128,
    ),
    "conv-attention": Case(
        work="conv capsules 32 to 32 types, 4x4 poses, 3x3 stride 2 on 16x16, B = 32, T = 2, inverted attention",
        make=_conv_attention,
        batch=32,
        iterations=2,
        check=4,
        faster=40,
        leaner=30,
        memory_batch=32,
    ),
    "conv-em": Case(
        work="conv capsules 32 to 32 types, 4x4 poses, 3x3 stride 2 on 14x14, B = 32, T = 3, EM",
        make=_conv_em,
        batch=32,
        iterations=3,
        check=4,
        implementations=("ours", "yardstick", "ours, types+positions"),
        faster=30,
        leaner=30,
        memory_batch=16,
        note="In ours and in the yardstick, the parents of one position compete (`types`), as in the public code. By "
        "default, all parents that see a child compete in ours; that is compared with the same yardstick, which does "
        "less.",
    ),
    "tsai-cifar10": Case(
        work="training step of the simple CIFAR-10 network of Tsai et al. 2020, B = 128, T = 2",
        make=partial(_tsai, passes=TSAI_PASSES),
        batch=128,
        iterations=2,
        check=4,
        implementations=("ours", "yardstick", "convolutions"),
        faster=15,
        fits=4,
        passes=TSAI_PASSES,
        note=f"The yardstick takes the 128 images in {TSAI_PASSES} passes whose gradients add up: all of them at once "
        "need about 20 GiB. Its memory is that of one pass.",
    ),
    "capsnet-mnist": Case(
        work="CapsNet epoch on MNIST, B = 128, T = 3",
        make=_capsnet,
        batch=128,
        iterations=3,
        check=8,
        implementations=("ours", "yardstick", "convolutions"),
        faster=4,
        steps=MNIST_TRAINING_IMAGES / 128,
        note="An epoch is extrapolated from the median training step: 60,000 / 128 of them, on random images, without "
        "reading data and without the reconstruction network. On a machine with AVX-512 a step takes 0.65 s against "
        "2.08; with freed memory kept for both, as suites keep it, 0.44 s against 1.26 to 1.41.",
    ),
}


def make(case: Case, implementation: str, *, batch: int, iterations: int, tiny: bool) -> Work:
    """The work of a case, with weights and inputs that do not depend on the implementation."""
    torch.manual_seed(0)
    return case.make(implementation, batch, iterations, tiny)


def disagreement(case: Case, implementation: str, *, iterations: int, tiny: bool) -> dict[str, float]:
    """For outputs and each gradient, the largest difference from the yardstick, as a share of its largest value.

    A variant of ours that the yardstick does not have is compared with plain torch that stores the votes.
    """
    sizes = {"batch": 3 if tiny else case.check, "iterations": iterations, "tiny": tiny}
    found = make(case, implementation, **sizes).found()
    if implementation == "ours":
        return _shares(found, make(case, "yardstick", **sizes).found())
    with _votes_stored():
        return _shares(found, make(case, implementation, **sizes).found())


def rounding(case: Case, *, iterations: int, tiny: bool) -> dict[str, float]:
    """The yardstick's own error: its difference from double precision. Of layers; none for networks."""
    work = make(case, "yardstick", batch=3 if tiny else case.check, iterations=iterations, tiny=tiny)
    return _shares(work.found(), work.in_double().found()) if isinstance(work, LayerWork) else {}


@contextmanager
def _votes_stored() -> Iterator[None]:
    before, kernels.reference.TILE = kernels.reference.TILE, 1 << 40
    try:
        with kernels.using("reference"):
            yield
    finally:
        kernels.reference.TILE = before


def _shares(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    if list(found) != list(expected):
        raise ValueError(f"expected the same outputs and gradients, got {list(found)} and {list(expected)}")
    return {name: share(found[name], right) for name, right in expected.items()}


def share(mine: Tensor, right: Tensor) -> float:
    """The largest difference of two tensors, as a share of the second's largest value; infinite for NaN."""
    largest = right.abs().max().clamp(min=torch.finfo(right.dtype).tiny)
    error = float((mine - right).abs().max() / largest)
    return error if error == error else float("inf")  # noqa: PLR0124  # nan is a failure
