"""Whether parents and gradients are numbers: at every number of iterations, and at poses of 0, 1e-6 and 1e6."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from routebench.conformance.case import Case
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import DTYPES, Inputs
from routebench.conformance.problem import DENSE, ORDINARY, SHAPES, draw
from routebench.conformance.trial import Trial

SCALES = (1.0, 1e-6, 1e6, 0.0)
ITERATIONS = range(1, 11)
MOST = (10,)
"""Numbers of iterations that shapes other than the dense one are tried with, besides the method's own."""


def finite(inputs: Inputs) -> list[Finding]:
    """One finding about parents, and one about gradients where parents are finite."""
    tried = list(_extremes(inputs))
    parents, gradients = [], []
    for case in tried:
        trial = case.trial(gradients=True)
        if trial.error or not trial.finite:
            parents.append((case, _words(trial, trial.outputs)))
        elif bad := _not_finite(trial.gradients):
            gradients.append((case, f"the gradient for the children's {bad}" if bad != "weight" else "that of weights"))
    floors = "divisions, logarithms and roots: add a floor under what may be zero"
    roots = "norms, roots and divisions at zero, which have no gradient there: add a small number inside"
    return [_finding("finite parents", parents, tried, floors), _finding("finite gradients", gradients, tried, roots)]


def _extremes(inputs: Inputs) -> Iterator[Case]:
    for dtype in DTYPES:
        for scale in SCALES:
            for shape in inputs.among(SHAPES):
                case = Case(inputs.subject, draw(shape, inputs.seed, dtype=dtype, scale=scale))
                yield case
                if inputs.subject.iterative and dtype == torch.float32:  # where numbers end first
                    yield from map(case.with_iterations, ITERATIONS if shape is DENSE else MOST)
                if scale == 1.0 and shape in ORDINARY:
                    yield _absent(case)


def _absent(case: Case) -> Case:
    """No child is present: all their activations are 0."""
    shape = replace(case.problem.shape, name=f"{case.problem.shape.name}, all activations 0")
    problem = replace(case.problem, shape=shape, activations=torch.zeros_like(case.problem.activations))
    return replace(case, problem=problem)


def _words(trial: Trial, tensors: Mapping[str, Tensor | None]) -> str:
    return f"it raises: {trial.error}" if trial.error else f"{_not_finite(tensors)}"


def _not_finite(tensors: Mapping[str, Tensor | None]) -> str:
    """`poses are NaN`, of the first tensor that is not finite; empty if all are."""
    for name, value in tensors.items():
        if value is not None and not bool(torch.isfinite(value).all()):
            return f"{name} are {'NaN' if bool(value.isnan().any()) else 'infinite'}"
    return ""


def _finding(name: str, bad: list[tuple[Case, str]], tried: list[Case], advice: str) -> Finding:
    if not bad:
        counts = "1 to 10 iterations, " if tried and tried[0].subject.iterative else ""
        seen = f"finite at {len(tried)} inputs: {counts}all shapes, poses of 0, 1e-6, 1 and 1e6, no child present"
        return Finding(name, Kind.REQUIRED, Outcome.OK, seen)
    case, words = bad[0]
    always = _always([case for case, _ in bad], tried)
    seen = f"{words} at {len(bad)} of {len(tried)} inputs" + (f", always with {', '.join(always)}" if always else "")
    return Finding(name, Kind.REQUIRED, Outcome.WRONG, seen, str(case), advice)


def _always(bad: list[Case], tried: list[Case]) -> list[str]:
    """What the inputs that fail have in common: traits of which every input fails; none if everything fails."""
    failed, all_of = (Counter(trait for case in cases for trait in _traits(case)) for cases in (bad, tried))
    return [] if len(bad) == len(tried) else [trait for trait, count in all_of.items() if failed[trait] == count]


def _traits(case: Case) -> tuple[str, ...]:
    shape, iterations = case.problem.shape.name, case.changes.get("iterations")
    counted = () if iterations is None or case.problem.shape is not DENSE else (f"T = {iterations}",)
    return (shape, f"poses of {case.problem.scale:g}", *counted)
