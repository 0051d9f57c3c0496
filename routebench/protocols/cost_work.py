"""Work that the protocol `cost` measures: a network, its routed layers, or one dense layer, with random weights."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from routebench import kernels
from routebench.capsules import Capsules
from routebench.capsules.intercepted import routed_layers
from routebench.capsules.layers import CapsuleLayer, DenseCapsules
from routebench.models import CapsuleNetwork, Output, build
from routebench.ops import length, squash
from routebench.optimizers import make_optimizer
from routebench.protocols.base import FitRequest
from routebench.recipe import Moment, Recipe
from routebench.routing import factory
from routebench.training import training_step

NETWORK, LAYERS, DENSE, TOKENS = "network", "layers", "dense", "tokens"
"""Parts: a whole network with its loss and optimizer; its routed layers alone; one dense layer of a given size, with
transformation matrices of each child's own, or shared by tokens."""
TYPES = 4
"""Primary capsules of a token, as networks on tokens have them."""
IMAGES = 16  # at a time, where the capsules are made that layers are measured with


@dataclass(frozen=True)
class Subject:
    """Something to be measured.

    Args:
        part: `network`, `layers`, `dense N` for N children with poses of 8 and 10 parents with poses of 16, or
            `tokens N P` for 4 children of each of N tokens and P parents, whose matrices tokens share.
        request: the network and its routing; nothing is trained.
        shape, classes: shape of the images, and number of classes.
    """

    part: str
    request: FitRequest
    shape: tuple[int, ...]
    classes: int

    def plain(self) -> dict[str, Any]:
        """The subject as JSON, for another process."""
        return asdict(self)

    @staticmethod
    def from_plain(known: Mapping[str, Any]) -> "Subject":
        """The subject that `plain` gave, after its way through JSON.

        Args:
            known: the answer of `plain`.
        """
        request = FitRequest(**{**known["request"], "recipe": Recipe(**known["request"]["recipe"])})
        return Subject(known["part"], request, tuple(known["shape"]), known["classes"])


@dataclass(frozen=True)
class Work:
    """A subject with one batch, ready to run.

    Args:
        inference: runs it once without gradients, as a trained network runs.
        training: once with gradients, which for the network is a step of the optimizer.
        held: says how many bytes inputs, weights and outputs have.
        layers: the layers that route.
    """

    inference: Callable[[], object]
    training: Callable[[], object]
    held: Callable[[], int]
    layers: list[CapsuleLayer]


Prepare = Callable[[int], Work]


def prepare(subject: Subject, device: torch.device) -> Prepare:
    """Builds a subject with random weights; it can then be given any batch size.

    Args:
        subject: the network, its layers, or one dense layer.
        device: the device that it runs on.

    Returns:
        a function from a batch size to the work with a random batch of that size.
    """
    torch.manual_seed(subject.request.seed)
    if subject.part.startswith((DENSE, TOKENS)):
        return _prepare_dense(subject, device)
    network = network_of(subject).to(device).train()
    if subject.part == NETWORK:
        return _prepare_network(network, subject, device)
    assert isinstance(network, CapsuleNetwork)
    return _prepare_layers(network, subject, device)


def _prepare_network(network: nn.Module, subject: Subject, device: torch.device) -> Prepare:
    recipe = subject.request.recipe
    optimiser = make_optimizer(network, recipe)

    def with_batch(batch: int) -> Work:
        images = torch.rand(batch, *subject.shape, device=device)
        labels = torch.randint(subject.classes, (batch,), device=device)

        @torch.no_grad()
        def infer() -> Output:
            _switch([network], training=False)
            output: Output = network(images)
            return output

        def train() -> object:
            _switch([network], training=True)
            return training_step(network, optimiser, (images,), labels, recipe=recipe, moment=Moment())

        held = [images, *network.parameters()]
        return Work(infer, train, lambda: _bytes([*held, infer().logits]), routed_layers(network))

    return with_batch


def _prepare_layers(network: CapsuleNetwork, subject: Subject, device: torch.device) -> Prepare:
    layers: list[CapsuleLayer] = list(network.layers)  # type: ignore[arg-type]

    def with_batch(batch: int) -> Work:
        some = network.primary(network.features(torch.rand(min(batch, IMAGES), *subject.shape, device=device)))
        poses, activations = (_repeated(tensor, batch) for tensor in (some.poses, some.activations))
        return _routed(lambda below: network.run_layers(layers, below), Capsules(poses, activations), layers)

    return with_batch


def _prepare_dense(subject: Subject, device: torch.device) -> Prepare:
    request, (kind, *sizes) = subject.request, subject.part.split()
    assert request.method is not None
    below, parents = (int(sizes[0]), 10) if kind == DENSE else ((int(sizes[0]), 1, TYPES), int(sizes[1]))
    routing = factory(request.method, **_params(request))
    layer = DenseCapsules(below, parents, 8, 16, routing, share=kind == TOKENS, weight_std=0.1).to(device)
    children = int(sizes[0]) * (1 if kind == DENSE else TYPES)

    def with_batch(batch: int) -> Work:
        poses = squash(torch.randn(batch, children, 8, device=device))
        found = Capsules(poses.requires_grad_(), length(poses).detach().requires_grad_())
        return _routed(lambda found: [layer(found)], found, [layer])

    return with_batch


def _routed(run: Callable[[Capsules], list[Capsules]], below: Capsules, layers: list[CapsuleLayer]) -> Work:
    """Forward through capsule layers, and back to their weights and to the capsules below them."""
    inputs, weights = [below.poses, below.activations], [weight for layer in layers for weight in layer.parameters()]
    leaves = [tensor for tensor in (*inputs, *weights) if tensor.requires_grad]

    def forward() -> list[Tensor]:
        above = run(below)[-1]
        return [above.poses, above.activations if above.logits is None else above.logits]

    @torch.no_grad()
    def infer() -> list[Tensor]:
        _switch(layers, training=False)
        return forward()

    def train() -> None:
        _switch(layers, training=True)
        for leaf in leaves:
            leaf.grad = None
        outputs = [output for output in forward() if output.requires_grad]
        torch.autograd.backward(outputs, [*map(torch.ones_like, outputs)])

    return Work(infer, train, lambda: _bytes([*inputs, *weights, *infer()]), layers)


def _switch(modules: Iterable[nn.Module], *, training: bool) -> None:
    """Sets the mode, where it is another one: batch statistics, noise and dropout belong to training alone."""
    for module in modules:
        if module.training != training:
            module.train(training)


def _repeated(tensor: Tensor, batch: int) -> Tensor:
    """The number of images asked for, the same again and again, as a leaf of autograd where it was part of one."""
    copies = math.ceil(batch / len(tensor))
    return tensor.detach().repeat(copies, *[1] * (tensor.ndim - 1))[:batch].clone().requires_grad_(tensor.requires_grad)


def network_of(subject: Subject) -> nn.Module:
    """The network of a subject."""
    request = subject.request
    return build(
        request.model,
        shape=subject.shape,
        classes=subject.classes,
        method=request.method,
        method_params=_params(request),
        **request.model_params,
    )


def _params(request: FitRequest) -> dict[str, Any]:
    iterations = {} if request.iterations is None else {"iterations": request.iterations}
    return {**request.method_params, **iterations}


def probed(subject: Mapping[str, Any], backend: str) -> Callable[[int], Callable[[], object]]:
    """Work that the memory probe runs in its own process.

    Args:
        subject: a subject as `Subject.plain` gives it.
        backend: the back end of sweeps, one of `routebench.kernels.BACKENDS`.

    Returns:
        a function from a batch size to one pass with gradients on the processor, ready to be run.
    """
    kernels.use(backend)
    made = prepare(Subject.from_plain(subject), torch.device("cpu"))
    return lambda batch: made(batch).training


def _bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
