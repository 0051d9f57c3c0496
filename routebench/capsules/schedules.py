"""The order in which several capsule layers iterate."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.population import Capsules


def sequential(layers: Sequence[CapsuleLayer], primary: Capsules) -> list[Capsules]:
    """Each layer iterates to its end before the next one starts. Returns the capsules of every layer, primary first."""
    found = [primary]
    for layer in layers:
        found.append(layer(found[-1]))
    return found


def concurrent(layers: Sequence[CapsuleLayer], primary: Capsules) -> list[Capsules]:
    """All layers iterate together: in each iteration every layer reads what the layer below was before it.

    The first iteration goes through the layers in order, so that one iteration is the same as `sequential`.
    Source: Tsai et al., ICLR 2020, Procedure 2.

    Raises:
        ValueError: a layer's routing method cannot be stopped between iterations, or their numbers differ.
    """
    iterations = _common_iterations(layers)
    found, states = [primary], []
    for layer in layers:
        state, capsules = _update(layer, found[-1], None)
        states.append(state)
        found.append(capsules)
    for _ in range(iterations - 1):
        below = found[:-1]
        updated = [_update(*problem) for problem in zip(layers, below, states, strict=True)]
        states = [state for state, _ in updated]
        found = [primary, *(capsules for _, capsules in updated)]
    return found


SCHEDULES = {"sequential": sequential, "concurrent": concurrent}


def _update(layer: CapsuleLayer, below: Capsules, state: Any) -> tuple[Any, Capsules]:
    routing: Any = layer.routing
    return layer.update(below, partial(routing.iterate, previous=state))


def _common_iterations(layers: Sequence[CapsuleLayer]) -> int:
    methods: list[Any] = [layer.routing for layer in layers]
    for method in methods:
        if not hasattr(method, "iterate"):
            raise ValueError(
                f"the concurrent schedule needs methods with single iterations, got {type(method).__name__}"
            )
    counts = {method.iterations for method in methods}
    if len(counts) != 1:
        raise ValueError(f"the concurrent schedule needs one number of iterations for all layers, got {sorted(counts)}")
    return int(counts.pop())
