"""One call of a method on one problem, and what came of it: parents, gradients, coupling, or an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from routebench.conformance.draws import seeded
from routebench.conformance.problem import Problem
from routebench.routing import Routed, RoutingError, RoutingMethod

OUTPUTS = ("poses", "activations", "logits")
LEAVES = ("poses", "activations", "weight")
"""Of a problem: what gradients are taken for."""


@dataclass(frozen=True)
class Trial:
    """What one call left.

    Args:
        outputs: poses and, where there are any, activations and logits of the parents.
        gradients: of a fixed random weighting of outputs, by name of the leaf; None where nothing depends on it.
        coupling: of every pass, (lane, child, parent), if it was watched.
        error: what the method raised, in one line; empty if it raised nothing.
    """

    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    coupling: tuple[Tensor, ...] = ()
    error: str = ""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Outputs, and gradients under the name of what they are taken for."""
        found = {f"gradient for {name}": value for name, value in self.gradients.items() if value is not None}
        return {**self.outputs, **found}

    @property
    def finite(self) -> bool:
        """Whether the outputs are there and finite."""
        return not self.error and all(bool(torch.isfinite(value).all()) for value in self.outputs.values())

    def own(self, lanes: slice) -> "Trial":
        """The outputs of some lanes."""
        return Trial({name: value[lanes] for name, value in self.outputs.items()}, error=self.error)


def call(
    method: RoutingMethod,
    problem: Problem,
    *,
    gradients: bool = False,
    of: tuple[str, ...] = OUTPUTS,
    watch: bool = False,
    seed: int = 0,
) -> Trial:
    """Calls a method. Whatever it raises is in the trial, not raised.

    Args:
        method: to be called.
        problem: that it is given.
        gradients: take them, for children's poses and activations and for weights.
        of: the outputs that gradients are taken of.
        watch: keep the coupling of every pass.
        seed: of torch's generator, during the call.
    """
    leaves = tuple(getattr(problem, name).detach().clone().requires_grad_(gradients) for name in LEAVES)
    poses, activations, weight = leaves
    problem = replace(problem, poses=poses, activations=activations, weight=weight)
    seen: list[Tensor] = []
    try:
        with seeded(seed), torch.set_grad_enabled(gradients):
            routed = _route(method, problem, seen if watch else None)
            given = {name: getattr(routed, name) for name in OUTPUTS}
            outputs = {name: value for name, value in given.items() if value is not None}
            found = _gradients([outputs[name] for name in of if name in outputs], leaves) if gradients else {}
    except Exception as error:  # noqa: BLE001  # whatever a method raises is a finding, not a crash
        return Trial(error=in_one_line(error))
    if routed.coupling is not None and watch:
        seen.append(routed.coupling)
    outputs = {name: value.detach() for name, value in outputs.items()}
    return Trial(outputs, found, tuple(coupling.detach() for coupling in seen))


def in_one_line(error: Exception) -> str:
    """What was raised. A RoutingError says all by itself."""
    text = " ".join(str(error).split())
    text = text if len(text) < 300 else f"{text[:300]} ..."
    return text if isinstance(error, RoutingError) else f"{type(error).__name__}: {text}"


def _route(method: RoutingMethod, problem: Problem, seen: list[Tensor] | None) -> Routed:
    def once() -> tuple[object, Tensor]:
        votes, activations = problem.given_to(method)
        votes.watch = None if seen is None else seen.append
        return votes, activations

    try:
        routed = method(*once())
    except RoutingError as error:
        if "not finite" not in str(error):
            raise
        routed = method.route(*once())  # type: ignore[arg-type]  # to see where it is not finite
    assert isinstance(routed, Routed)  # the base class has checked it
    return routed


def _gradients(outputs: list[Tensor], leaves: tuple[Tensor, ...]) -> dict[str, Tensor | None]:
    source = torch.Generator().manual_seed(1)
    total = sum(((value * _weights(value, source)).sum() for value in outputs), start=leaves[0].new_zeros(()))
    if not total.requires_grad:
        return dict.fromkeys(LEAVES)
    return dict(zip(LEAVES, torch.autograd.grad(total, leaves, allow_unused=True), strict=True))


def _weights(value: Tensor, source: torch.Generator) -> Tensor:
    return torch.randn(value.shape, generator=source, dtype=torch.float64).to(value)
