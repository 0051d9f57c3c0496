"""The order in which several capsule layers iterate."""

from collections.abc import Callable, Sequence
from typing import Literal

from routebench.capsules.equilibrium import Equilibrium
from routebench.capsules.iterating import common_iterations, update
from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.population import Capsules


def sequential(layers: Sequence[CapsuleLayer], primary: Capsules) -> list[Capsules]:
    """Each layer iterates to its end before the next one starts. Returns the capsules of every layer, primary first.

    Args:
        layers: the capsule layers, the lowest first.
        primary: the capsules below them.
    """
    found = [primary]
    for layer in layers:
        found.append(layer(found[-1]))
    return found


def concurrent(layers: Sequence[CapsuleLayer], primary: Capsules) -> list[Capsules]:
    """All layers iterate together: in each iteration every layer reads what the layer below was before it.

    The first iteration goes through the layers in order, so that one iteration is the same as `sequential`.
    Source: Tsai et al., ICLR 2020, Procedure 2.

    Args:
        layers: the capsule layers, the lowest first.
        primary: the capsules below them.

    Returns:
        the capsules of every layer, primary first.

    Raises:
        ValueError: a layer's routing method cannot be stopped between iterations, or their numbers differ.
    """
    iterations = common_iterations(layers, "concurrent")
    found, states = [primary], []
    for layer in layers:
        state, capsules = update(layer, found[-1], None)
        states.append(state)
        found.append(capsules)
    for _ in range(iterations - 1):
        below = found[:-1]
        updated = [update(*problem) for problem in zip(layers, below, states, strict=True)]
        states = [state for state, _ in updated]
        found = [primary, *(capsules for _, capsules in updated)]
    return found


Schedule = Callable[[Sequence[CapsuleLayer], Capsules], list[Capsules]]
"""Takes layers and primary capsules; gives the capsules of every layer, primary first."""
ScheduleName = Literal["sequential", "concurrent", "equilibrium", "equilibrium-implicit", "equilibrium-damped"]
SCHEDULES: dict[str, Schedule] = {
    "sequential": sequential,
    "concurrent": concurrent,
    "equilibrium": Equilibrium(),
    "equilibrium-implicit": Equilibrium(gradient="implicit"),
    "equilibrium-damped": Equilibrium(solver="damped"),
}
