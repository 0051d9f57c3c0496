"""One iteration of one layer, for schedules that do not leave a layer to itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.population import Capsules


def update(layer: CapsuleLayer, below: Capsules, state: Any) -> tuple[Any, Capsules]:
    """One iteration of a layer's method, and the layer's capsules after it; `state` is None in the first.

    Args:
        layer: the layer.
        below: the capsules that it reads.
        state: what the last iteration of its method returned.
    """
    routing: Any = layer.routing
    return layer.update(below, partial(routing.iterate, previous=state))


def common_iterations(layers: Sequence[CapsuleLayer], schedule: str) -> int:
    """The number of iterations that all layers' methods have.

    Args:
        layers: the capsule layers.
        schedule: name of the schedule, for the message.

    Raises:
        ValueError: a layer's routing method cannot be stopped between iterations, or their numbers differ.
    """
    methods: list[Any] = [layer.routing for layer in layers]
    for method in methods:
        if not hasattr(method, "iterate"):
            raise ValueError(
                f"the {schedule} schedule needs methods with single iterations, got {type(method).__name__}"
            )
    counts = {method.iterations for method in methods}
    if len(counts) != 1:
        raise ValueError(f"the {schedule} schedule needs one number of iterations for all layers, got {sorted(counts)}")
    return int(counts.pop())
