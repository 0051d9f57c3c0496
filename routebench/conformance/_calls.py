"""Calls of a method on problems: what came of one, and how far two calls may differ for no other reason than rounding.

A difference is a share of the largest value of its tensor. What is allowed is the greater of `FLOOR` and `MARGIN` times
the difference that one unit of rounding in every input makes: a routing that is steep there, as one of many iterations
and long poses is, may magnify rounding, and a fault is larger than that by far. Where more than `TOO_STEEP` would be
allowed, nothing can be said, and the input is left out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from routebench.capsules import Sizes
from routebench.conformance._findings import Deviation
from routebench.conformance._method import CheckedMethod, seeded
from routebench.conformance._problems import ORDINARY, Problem, Shape, draw
from routebench.errors import place_of
from routebench.routing import Routed, RoutingError, RoutingMethod
from routebench.routing.base import NotFinite

OUTPUTS = ("poses", "activations", "logits", "loss")
LEAVES = ("poses", "activations", "weight")
"""Tensors of a problem that gradients are taken for."""
WRITTEN = {"poses": "the children's poses", "activations": "the children's activations", "weight": "weights of votes"}
"""These tensors in words."""
FLOOR = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Always allowed: well above rounding and the constants that code adds to denominators (1e-8), well below a fault."""
MARGIN = 30
TOO_STEEP = 0.03
DTYPES = (torch.float64, torch.float32)
SCALES = (1.0, 0.01, 100.0)
"""Scales of poses, for what is compared. Weights are standard normal, so these are about the lengths of votes, too."""


@dataclass(frozen=True)
class Trial:
    """The result of one call.

    Args:
        outputs: poses and, where there are any, activations and logits of the parents, and the added loss.
        gradients: those of a fixed random weighting of outputs, by name of the leaf; None where nothing depends on it.
        coupling: that of every pass, (lane, child, parent), if it was watched.
        error: what the method raised, in one line; empty if it raised nothing.
    """

    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    coupling: tuple[Tensor, ...] = ()
    error: str = ""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Outputs, and gradients named by the tensor that they are for."""
        found = {f"gradient for {name}": value for name, value in self.gradients.items() if value is not None}
        return {**self.outputs, **found}

    @property
    def finite(self) -> bool:
        """Tells whether the outputs are there and finite."""
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
        seed: the seed of torch's generator, during the call.
    """
    given_to = [getattr(problem, name).detach() for name in LEAVES]
    leaves = tuple(one.clone().requires_grad_(gradients) for one in given_to)
    poses, activations, weight = leaves
    problem = replace(problem, poses=poses, activations=activations, weight=weight)
    seen: list[Tensor] = []
    try:
        with seeded(seed), torch.set_grad_enabled(gradients):
            routed = _route(method, problem, seen if watch else None)
            given = {name: getattr(routed, name) for name in OUTPUTS}
            outputs = {name: value for name, value in given.items() if value is not None}
            _expect_unchanged(given_to, leaves)
            found = _gradients([outputs[name] for name in of if name in outputs], leaves) if gradients else {}
    except Exception as error:  # noqa: BLE001  # whatever a method raises is a finding, not a crash
        return Trial(error=in_one_line(error))
    if routed.coupling is not None and watch:
        seen.append(routed.coupling)
    outputs = {name: value.detach() for name, value in outputs.items()}
    return Trial(outputs, found, tuple(coupling.detach() for coupling in seen))


def _expect_unchanged(before: Iterable[Tensor], after: Iterable[Tensor]) -> None:
    """Raises RoutingError where a method wrote into what it was given, which the network reads as well."""
    for name, one, other in zip(LEAVES, before, after, strict=True):
        if not torch.equal(one.nan_to_num(), other.detach().nan_to_num()):
            raise RoutingError(f"it overwrites {WRITTEN[name]} that it is given; work on a copy, such as `x.clone()`")


def in_one_line(error: Exception) -> str:
    """The error in one line, with the user's line that it comes from."""
    text = " ".join(str(error).split())
    text = text if len(text) < 300 else f"{text[:300]} ..."
    place = f" ({at})" if (at := place_of(error)) else ""
    return f"{text}{place}" if isinstance(error, RoutingError) else f"{type(error).__name__}: {text}{place}"


@dataclass(frozen=True)
class Case:
    """A method at one input.

    Args:
        subject: the method.
        problem: the input.
        changes: changes of hyperparameters, such as the number of iterations.
        training: call it in training mode.
        apart: its parameters differ by element, as after training; else all were moved by the same.
    """

    subject: CheckedMethod
    problem: Problem
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    apart: bool = False

    def trial(
        self,
        problem: Problem | None = None,
        *,
        parents: torch.Tensor | None = None,
        like: Sizes | None = None,
        **how: Any,
    ) -> Trial:
        """A fresh method, called on the problem of the case or on another one.

        Args:
            problem: the problem; None for that of the case.
            parents: an order of parents, in which its parameters are.
            like: sizes of fewer children, whose parameters the first ones have; None for its own.
            how: arguments of `call`.
        """
        given = self.problem if problem is None else problem
        how_made: dict[str, Any] = {
            "changes": self.changes,
            "apart": self.apart,
            "training": self.training,
            "parents": parents,
            "like": like,
        }
        try:
            method = self.subject.make(given.shape.sizes, given.dtype, **how_made)
        except Exception as error:  # noqa: BLE001  # as in `call`
            return Trial(error=in_one_line(error))
        return call(method, given, **how)

    @cached_property
    def base(self) -> Trial:
        """The plain call."""
        return self.trial()

    @cached_property
    def allowed(self) -> float:
        """The difference of outputs that rounding explains."""
        return self.rounding()

    def rounding(self, **how: Any) -> float:
        """The difference of all tensors of a trial that rounding explains."""
        base = self.trial(**how)
        steep = max(difference(self.trial(self.problem.jittered(seed), **how), base) for seed in (1, 2))
        return max(FLOOR[self.problem.dtype], MARGIN * steep)

    def deviation(self, found: Trial, expected: Trial, allowed: float, when: str = "") -> Deviation:
        """The distance of one trial from another, in words that end with when it was."""
        size, what = difference(found, expected), where_apart(found, expected)
        return Deviation(size, allowed, f"{what} differ by {size:.1g} of the largest value {when}".rstrip(), str(self))

    @property
    def says_something(self) -> bool:
        """Tells whether the plain call is finite, and rounding small enough to see a fault."""
        return self.base.finite and self.allowed <= TOO_STEEP

    @cached_property
    def learned(self) -> "Case":
        """The same with parameters that differ by element; itself where it has none, or becomes too steep by it."""
        method, case = self.subject.make(self.problem.shape.sizes, changes=self.changes), replace(self, apart=True)
        return case if any(True for _ in method.parameters()) and case.says_something else self

    def with_iterations(self, count: int) -> "Case":
        """The same with another number of iterations."""
        return replace(self, changes={**self.changes, "iterations": count})

    def __str__(self) -> str:
        text = str(self.problem)
        count = {**self.subject.settings, **self.changes}.get("iterations")
        text += "" if count is None else f", T = {count}"
        return text + (", training" if self.training else "")


def difference(found: Trial, expected: Trial) -> float:
    """The largest difference in any tensor as a share of its largest expected value; infinite if one cannot compare."""
    if found.error or expected.error or found.tensors.keys() != expected.tensors.keys():
        return math.inf
    return max((_apart(value, expected.tensors[name]) for name, value in found.tensors.items()), default=0.0)


def where_apart(found: Trial, expected: Trial) -> str:
    """The tensor that differs most, or why nothing could be compared; in words."""
    if error := found.error or expected.error:
        return f"raises: {error}"
    if odd := found.tensors.keys() ^ expected.tensors.keys():
        return f"{' and '.join(sorted(odd))} are there only sometimes"
    return max(found.tensors, key=lambda name: _apart(found.tensors[name], expected.tensors[name]))


@dataclass(frozen=True)
class CheckInputs:
    """The inputs of a check.

    Args:
        subject: the method.
        seed: the seed of the numbers.
        shapes: on which it raises nothing.
        repeats: whether two equal calls give the same; otherwise nothing can be compared.
    """

    subject: CheckedMethod
    seed: int
    shapes: tuple[Shape, ...]
    repeats: bool = True

    def among(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Those of the shapes that the method can be called on."""
        return tuple(shape for shape in shapes if shape in self.shapes)

    @property
    def plain(self) -> list[Case]:
        """The plainest input of each ordinary shape."""
        return [self.case(shape) for shape in self.among(ORDINARY)]

    def case(self, shape: Shape, *, training: bool = False) -> Case:
        """The plainest input of a shape."""
        return Case(self.subject, draw(shape, self.seed), training=training)

    @cached_property
    def compared(self) -> tuple[Case, ...]:
        """Ordinary shapes in both precisions, at all scales, with 1 and 5 iterations; where that says something."""
        return tuple(case for case in self._ordinary() if case.says_something)

    @cached_property
    def learned(self) -> tuple[Case, ...]:
        """The same with parameters that differ by element: a claim must hold after training, too."""
        return tuple(case.learned for case in self.compared)

    @cached_property
    def trained(self) -> tuple[Case, ...]:
        """Ordinary shapes in training mode."""
        cases = (self.case(shape, training=True).learned for shape in self.among(ORDINARY))
        return tuple(case for case in cases if case.says_something)

    def _ordinary(self) -> Iterator[Case]:
        for shape in self.among(ORDINARY):
            for dtype in DTYPES:
                for scale in SCALES:
                    yield Case(self.subject, draw(shape, self.seed, dtype=dtype, scale=scale))
            if self.subject.iterative:
                for count in (1, 5):
                    yield self.case(shape).with_iterations(count)


def _route(method: RoutingMethod, problem: Problem, seen: list[Tensor] | None) -> Routed:
    def once() -> tuple[object, Tensor]:
        votes, activations = problem.given_to(method)
        votes.watch = None if seen is None else seen.append
        return votes, activations

    try:
        routed = method(*once())
    except NotFinite:
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


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    if found.shape != expected.shape:
        return math.inf
    known = torch.isfinite(expected)
    if not torch.equal(known, torch.isfinite(found)):
        return math.inf
    if not bool(known.any()):
        return 0.0
    found, expected = found[known].double(), expected[known].double()
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
