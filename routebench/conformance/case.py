"""A method at one input: its plain call, and how far two calls may differ for no other reason than rounding.

A difference is a share of the largest value of its tensor. What is allowed is the greater of `FLOOR` and `MARGIN` times
the difference that one unit of rounding in every input makes: a routing that is steep there, as one of many iterations
and long poses is, may magnify rounding, and a fault is larger than that by far. Where more than `TOO_STEEP` would be
allowed, nothing can be said, and the input is left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from routebench.conformance.problem import Problem
from routebench.conformance.subject import Subject
from routebench.conformance.trial import Trial, call, in_one_line

FLOOR = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Always allowed: well above rounding and the constants that code adds to denominators (1e-8), well below a fault."""
MARGIN = 30
TOO_STEEP = 0.03


@dataclass(frozen=True)
class Case:
    """A method at one input.

    Args:
        subject: the method.
        problem: the input.
        changes: of hyperparameters, such as the number of iterations.
        training: call it in training mode.
        apart: its parameters differ by element, as after training; else all were moved by the same.
    """

    subject: Subject
    problem: Problem
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    apart: bool = False

    def trial(self, problem: Problem | None = None, *, parents: torch.Tensor | None = None, **how: Any) -> Trial:
        """A fresh method, called on the problem of the case or on another one, with its parents in an order."""
        given = self.problem if problem is None else problem
        how_made: dict[str, Any] = {
            "changes": self.changes,
            "apart": self.apart,
            "training": self.training,
            "parents": parents,
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

    @property
    def says_something(self) -> bool:
        """Whether the plain call is finite, and rounding small enough to see a fault."""
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
    """Which tensor differs most, or why nothing could be compared; in words."""
    if error := found.error or expected.error:
        return f"raises: {error}"
    if odd := found.tensors.keys() ^ expected.tensors.keys():
        return f"{' and '.join(sorted(odd))} are there only sometimes"
    return max(found.tensors, key=lambda name: _apart(found.tensors[name], expected.tensors[name]))


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
