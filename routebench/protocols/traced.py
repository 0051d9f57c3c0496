"""A network's capsules and coupling, as its routing leaves them after a given number of iterations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from routebench.capsules import Capsules, Votes
from routebench.capsules.intercepted import intercepted, routed_layers
from routebench.models.network import Output, routing_methods, set_iterations


@dataclass(frozen=True)
class LayerTrace:
    """One capsule layer after its last iteration.

    Args:
        capsules: the layer's capsules.
        coupling: coupling coefficients of the last sweep over the children, (lane, child, parent); None for a layer
            that made none.
        votes: votes that were routed, and the activations of the children, (lane, child).
        present: activations of the children, (lane, child).
    """

    capsules: Capsules
    coupling: Tensor | None
    votes: Votes
    present: Tensor


@dataclass(frozen=True)
class Trace:
    """Record of a network's work on a batch: its output, and every capsule layer above the primary one."""

    output: Output
    layers: list[LayerTrace]


@torch.no_grad()
def trace(network: nn.Module, images: Tensor, iterations: int | None) -> Trace:
    """Runs a network and keeps what its layers did.

    Votes are stored while this runs, so that it is for few images.

    Args:
        network: the network in evaluation mode; it is left as it was.
        images: (batch, channel, height, width), values in [0, 1].
        iterations: number of routing iterations; None for a method that has none.
    """
    layers = routed_layers(network)
    seen = {layer: _Seen() for layer in layers}
    with (
        _iterating(network, iterations),
        intercepted(layers, lambda layer, votes, present: seen[layer].watch(votes, present)),
    ):
        output: Output = network(images)
    found = output.layers[1:]
    return Trace(output, [_layer_trace(capsules, seen[layer]) for capsules, layer in zip(found, layers, strict=True)])


@dataclass
class _Seen:
    coupling: Tensor | None = None
    votes: Votes | None = None
    present: Tensor | None = None

    def watch(self, votes: Votes, present: Tensor) -> None:
        """Keeps a layer's votes, and the coupling of their latest sweep.

        Args:
            votes: the layer's votes, before they are routed.
            present: activations of the children, (lane, child).
        """
        self.votes, self.present = votes, present
        votes.watch = self._keep

    def _keep(self, coupling: Tensor) -> None:
        self.coupling = coupling


def _layer_trace(capsules: Capsules, seen: _Seen) -> LayerTrace:
    assert seen.votes is not None and seen.present is not None  # every layer that ran made votes
    return LayerTrace(capsules, seen.coupling, seen.votes, seen.present)


@contextmanager
def _iterating(network: nn.Module, iterations: int | None) -> Iterator[None]:
    """Has routing iterate so many times while this lasts."""
    before = [(method, method.iterations) for method in routing_methods(network) if hasattr(method, "iterations")]
    if iterations is not None:
        set_iterations(network, iterations)
    try:
        yield
    finally:
        for method, count in before:
            method.iterations = count
