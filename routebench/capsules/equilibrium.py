"""Capsule layers that iterate until they rest: "infinite iterations", with gradients that need memory for one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from routebench.capsules import fixed_point
from routebench.capsules.iterating import common_iterations, update
from routebench.capsules.layers import CapsuleLayer
from routebench.capsules.population import Capsules
from routebench.measures import residual

LATE = 10_000
"""The iteration that updates after the first are told they follow. What changes from iteration to iteration, as lambda
of EM routing does, has then reached its limit: a fixed point needs an update that stays the same."""

PARTS = ("poses", "activations", "logits")
"""Parts that a `Routed` has besides its memory and its coupling, which no iteration reads."""

NO_EQUATION = (
    "schedule equilibrium-implicit needs a method whose state has a fixed point, and this one's sums grow with every "
    "iteration; use equilibrium, whose gradient is that of the last update"
)


@dataclass(frozen=True)
class Solve:
    """Course of a batch of images to rest.

    Args:
        of: `routing`, or `gradient` for the equation of the implicit gradient.
        residual: residual of each layer and image, in the last update; for the gradient one row, relative to the
            gradient that came in. NaN where there was no update after the first.
        updates: number that each image took, the first and the last included; for the gradient, products with the
            Jacobian.
        tolerance: residual below which an image counts as at rest.
    """

    of: str
    residual: Float[Tensor, "layer image"]
    updates: Int[Tensor, " image"]
    tolerance: float


@dataclass(frozen=True)
class Equilibrium:
    """A schedule: the layers' common update is repeated until parents rest, at most `iterations` times.

    The update f goes once through all layers, in order; each takes one iteration on the capsules that the layer below
    has just made. So does the first iteration of Tsai et al. 2020, Procedure 2. Its later ones read what the layer
    below was before (`concurrent`); the fixed points are the same, and passing in order lets the last update carry a
    gradient through every layer. Where there are several fixed points, schedules and solvers may come to different
    ones.

    The residual of an image is the largest over layers of |f(z) - z| / |z|, of the poses and of the activations of the
    parents, each by itself. An image whose residual falls below the tolerance is left alone. The last update starts
    from there, is made for all images, and is what comes out. The first iteration, the ones in between and the last
    are at most `iterations` in all: 1 is the same as in every other schedule.

    Gradients: `one-step` takes that of the last update alone, as if it started from constants (Chang, Griffiths and
    Levine, NeurIPS 2022, for slot attention). `implicit` takes that of the fixed point: with J = df/dz there,
    `g = dL/dz + J^T g` is solved by products with J^T and then goes back through the last update (Bai, Kolter and
    Koltun, NeurIPS 2019, theorem 1). It is exact at a fixed point only; an image whose equation is not solved within
    `gradient_limit` products keeps its best g. Both store what one update stores. With one iteration there is no
    fixed point, and both are the ordinary gradient.

    Updates after the first use the limit of what changes with iterations. Lambda of EM routing is then `final_lambda`,
    seven times that of its third iteration: with `mass_normalisation=ratio` the logits of untrained class capsules in
    `capsnet-small-intermediate` were 50 to 60, activations 1, and gradients nearly zero. A seventh of
    it gave gradients, but in one trial of two epochs the network still did not learn.

    A method whose `settles` is false has a state that has no fixed point, though its parents may come to rest: dynamic
    routing sums its agreements for ever. It takes plain steps, because
    nothing else would lead where its iterations lead, and the implicit gradient, which has no equation there, is
    refused.

    Args:
        solver: `anderson`, or `damped` with half steps; see `routebench.capsules.fixed_point`.
        gradient: `one-step` or `implicit`.
        tolerance: residual below which an image counts as at rest.
        gradient_limit: most products with the Jacobian.
    """

    solver: str = "anderson"
    gradient: str = "one-step"
    tolerance: float = 1e-4
    gradient_limit: int = 50

    def __call__(self, layers: Sequence[CapsuleLayer], primary: Capsules) -> list[Capsules]:
        """The capsules of every layer, primary first.

        Raises:
            ValueError: a layer's routing method cannot be stopped between iterations, or their numbers differ; or the
                implicit gradient is asked for, and a method's state has no fixed point.
        """
        iterations = common_iterations(layers, "equilibrium")
        settles = all(getattr(layer.routing, "settles", True) for layer in layers)
        if self.gradient == "implicit" and not settles:
            raise ValueError(NO_EQUATION)
        if iterations == 1:
            _, capsules = _pass(layers, primary, None)
            _note_one_iteration(capsules, self.tolerance)
            return [primary, *capsules]
        with torch.no_grad(), _buffers_kept(layers):
            first, _ = _pass(layers, primary, None)
        packing = Packing(first, len(primary.poses))

        def once(states: Tensor, images: Tensor) -> Tensor:
            updated, _ = _pass(layers, primary.at(images), packing.unpack(states))
            return packing.pack(updated)

        with _buffers_kept(layers):
            rest = fixed_point.solve(
                once,
                packing.pack(first),
                lambda before, after: packing.residuals(before, after).amax(dim=0),
                solver=self._solver(packing.parts, settles),
                tolerance=self.tolerance,
                limit=iterations - 2,
            )
        implicit = self.gradient == "implicit" and torch.is_grad_enabled()
        start = rest.states.requires_grad_(implicit)
        states, capsules = _pass(layers, primary, packing.unpack(start))
        if _notebooks:
            moved = packing.residuals(start.detach(), packing.pack(states).detach())
            _note(Solve("routing", moved, rest.updates + 2, self.tolerance))
        if implicit:
            found = packing.unpack(self._at_rest(start, packing.pack(states)))
            passed = zip(layers, found, [primary, *capsules[:-1]], strict=True)
            capsules = [layer.capsules(routed, below) for layer, routed, below in passed]
        return [primary, *capsules]

    def _solver(self, parts: list[int], settles: bool) -> fixed_point.Solver:
        if settles and self.solver == "anderson":
            return fixed_point.Anderson(parts)
        return fixed_point.Damped(0.5 if settles else 1.0)

    def _at_rest(self, start: fixed_point.States, last: fixed_point.States) -> fixed_point.States:
        """The same values as `last`, with the gradient of the fixed point."""

        def adjoint(incoming: Tensor) -> Tensor:
            size = incoming.norm(dim=1, keepdim=True)
            unit = incoming / size.clamp(min=torch.finfo(size.dtype).tiny)  # the equation is linear

            def once(states: Tensor, images: Tensor) -> Tensor:
                whole = torch.zeros_like(unit).index_copy(0, images, states)
                (product,) = torch.autograd.grad(last, start, whole, retain_graph=True)
                moved: Tensor = unit[images] + product[images]
                return moved

            found = fixed_point.solve(
                once,
                unit,
                lambda before, after: (after - before).norm(dim=1),
                solver=fixed_point.Anderson([unit.shape[1]]),
                tolerance=self.tolerance,
                limit=self.gradient_limit,
            )
            _note(Solve("gradient", found.residual[None], found.updates, self.tolerance))
            scaled: Tensor = size * found.states
            return scaled

        result: Tensor = _Adjoint.apply(last, adjoint)  # type: ignore[no-untyped-call]
        return result


class _Adjoint(torch.autograd.Function):
    """The identity, whose gradient is what a function makes of the one that comes in."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.adjoint = adjoint
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.adjoint(gradients[0]), None


class Packing:
    """The states of all layers, as one row of numbers for each image.

    Args:
        states: `Routed` of each layer, for their shapes.
        images: number of images in the batch. The lanes of one image are next to each other.
    """

    def __init__(self, states: Sequence[Any], images: int):
        self._like = [replace(state, coupling=None, iteration=LATE) for state in states]
        for tensor in (tensor for state in states for tensor in _tensors(state)):
            if tensor.ndim == 0 or tensor.shape[0] % images:
                raise ValueError(
                    f"the equilibrium schedule needs state with lanes as its first axis, got {tuple(tensor.shape)}"
                )
        self.parts = [tensor.numel() // images for state in states for tensor in _tensors(state)]
        """Elements of each tensor of the states."""

    def pack(self, states: Sequence[Any]) -> Float[Tensor, "image element"]:
        """Poses, activations, logits and memory of each layer."""
        parts = zip(self.parts, (tensor for state in states for tensor in _tensors(state)), strict=True)
        return torch.cat([tensor.reshape(-1, size) for size, tensor in parts], dim=1)

    def unpack(self, packed: Float[Tensor, "image element"]) -> list[Any]:
        """`Routed` of each layer, which say that they are late."""
        rows = iter(packed.split(self.parts, dim=1))  # type: ignore[no-untyped-call]
        return [_filled(like, rows) for like in self._like]

    def residuals(
        self, before: Float[Tensor, "image element"], after: Float[Tensor, "image element"]
    ) -> Float[Tensor, "layer image"]:
        """The relative change of each layer's parents: of their poses or their activations, whichever is larger.

        Args:
            before, after: states, as `pack` gives them.
        """
        old, new = iter(before.split(self.parts, dim=1)), iter(after.split(self.parts, dim=1))  # type: ignore[no-untyped-call]
        found = []
        for like in self._like:
            moved = [residual(next(old), next(new)) for _ in _tensors(like)]
            parents = 1 if like.activations is None else 2  # poses come first, then activations
            found.append(torch.stack(moved[:parents]).amax(dim=0))
        return torch.stack(found)


def _tensors(state: Any) -> list[Tensor]:
    parts = (getattr(state, name) for name in PARTS)
    return [*(tensor for tensor in parts if tensor is not None), *state.memory]


def _filled(like: Any, rows: Iterator[Tensor]) -> Any:
    """A state of the same shapes, from rows of numbers."""
    parts = [next(rows).reshape(-1, *tensor.shape[1:]).to(tensor.dtype) for tensor in _tensors(like)]
    names = [name for name in PARTS if getattr(like, name) is not None]
    own, memory = parts[: len(names)], tuple(parts[len(names) :])
    return replace(like, **dict(zip(names, own, strict=True)), memory=memory)


def _pass(
    layers: Sequence[CapsuleLayer], primary: Capsules, states: Sequence[Any] | None
) -> tuple[list[Any], list[Capsules]]:
    """One iteration of every layer, each reading what the layer below has just become."""
    below, updated, capsules = primary, [], []
    for layer, state in zip(layers, [None] * len(layers) if states is None else states, strict=True):
        after, below = update(layer, below, state)
        updated.append(after)
        capsules.append(below)
    return updated, capsules


@contextmanager
def _buffers_kept(layers: Sequence[CapsuleLayer]) -> Iterator[None]:
    """Keeps what a method counts in training, such as running statistics, to the last update of a batch alone."""
    training = [layer for layer in layers if layer.training]
    before = [(buffer, buffer.clone()) for layer in training for buffer in layer.buffers()]
    try:
        yield
    finally:
        for buffer, kept in before:
            if not torch.equal(buffer, kept):  # the others may wait in the graph of an earlier batch
                buffer.copy_(kept)


_notebooks: list[list[Solve]] = []


@contextmanager
def noting() -> Iterator[list[Solve]]:
    """Gives a list, which gets every solve from here to the end of the block."""
    found: list[Solve] = []
    _notebooks.append(found)
    try:
        yield found
    finally:
        _notebooks.remove(found)


def _note(solve: Solve) -> None:
    for notebook in _notebooks:
        notebook.append(solve)


def _note_one_iteration(capsules: Sequence[Capsules], tolerance: float) -> None:
    if _notebooks:
        poses = capsules[0].poses
        nothing = poses.new_full((len(capsules), len(poses)), torch.nan)
        _note(Solve("routing", nothing, torch.ones(len(poses), dtype=torch.long, device=poses.device), tolerance))
