"""Routed layers whose votes somebody else sees first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.population import Capsules
from routebench.capsules.votes import Votes

Seen = Callable[[CapsuleLayer, Votes, Tensor], None]


def routed_layers(network: nn.Module) -> list[CapsuleLayer]:
    """The capsule layers of a network above the primary one, in the order in which they are registered."""
    return [module for module in network.modules() if isinstance(module, CapsuleLayer)]


@contextmanager
def intercepted(layers: list[CapsuleLayer], see: Seen) -> Iterator[None]:
    """Passes the votes of the layers by somebody before they are routed, while this lasts.

    Args:
        layers: that are left as they were.
        see: gets a layer, its votes, which it may change, and the activations of its children, (lane, child).
    """

    def intercept(layer: CapsuleLayer) -> None:
        make = layer.votes

        def votes(children: Capsules) -> tuple[Votes, Tensor]:
            made, present = make(children)
            see(layer, made, present)
            return made, present

        layer.votes = votes  # type: ignore[method-assign]

    for layer in layers:
        intercept(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.votes  # the class's own is found again
