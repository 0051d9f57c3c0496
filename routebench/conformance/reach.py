"""Whether gradients reach what they should: votes, the children's activations, the method's own parameters."""

import torch
from torch import Tensor

from routebench.conformance.case import Case
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import Inputs
from routebench.conformance.problem import DENSE, ORDINARY, WINDOWS

CANCELLED = 1e-4
"""A gradient for activations below this share of the parents' size is rounding, or a constant in a denominator."""


def reach(inputs: Inputs) -> list[Finding]:
    """Whether gradients of poses and of activations reach votes, activations take part, and parameters can learn."""
    cases = [inputs.case(shape, training=training) for shape in inputs.among(ORDINARY) for training in (False, True)]
    cases = [case for case in cases if case.base.finite]
    found = [_reaches_votes("gradient of poses", "poses", cases)]
    if any("activations" in case.base.outputs for case in cases):
        found.append(_reaches_votes("gradient of activations", "activations", cases))
    return [*found, _activations_count(inputs), _parameters_learn(inputs)]


def _reaches_votes(name: str, output: str, cases: list[Case]) -> Finding:
    """Activations may be made of the children's poses alone, and then no gradient of theirs reaches weights."""
    advice = "detach(), .data, no_grad(), argmax and hard decisions between votes and parents"
    least, from_votes = 1.0, output == "poses"
    for case in cases:
        gradients = case.trial(gradients=True, of=(output,)).gradients
        share = _share(gradients.get("poses"))
        if from_votes or gradients.get("weight") is not None:
            share, from_votes = min(share, _share(gradients.get("weight"))), True
        if share == 0:
            how = "is zero" if gradients.get("weight") is not None else "stops before them"
            seen = f"no gradient of the parents' {output} reaches the votes: it {how}"
            return Finding(name, Kind.REQUIRED, Outcome.WRONG, seen, str(case), advice)
        least = min(least, share)
    seen = f"it reaches {least:.0%} of the children's poses" + (
        " and weights" if from_votes else ", and needs no votes"
    )
    return Finding(name, Kind.REQUIRED, Outcome.OK if cases else Outcome.NOT_CHECKED, seen if cases else "no input")


def _activations_count(inputs: Inputs) -> Finding:
    """A method may leave the children's activations alone; if it uses them, they must not cancel."""
    name, shapes = "children's activations", inputs.among((DENSE, WINDOWS))
    sizes = []
    for shape in shapes:
        trial = inputs.case(shape).trial(gradients=True)
        gradient = trial.gradients.get("activations")
        if gradient is not None:
            parents = max(float(value.abs().max()) for value in trial.outputs.values())
            sizes.append(float(gradient.abs().max()) / max(parents, 1e-30))
    if not sizes:
        return Finding(name, Kind.MEASURED, Outcome.NOT_CLAIMED, "they are not used: no parent depends on them")
    if max(sizes) < CANCELLED:
        seen = f"they enter the computation, but cancel: the gradient for them is {max(sizes):.1g} of the parents' size"
        advice = "a normalisation after the product of coupling and activations, which divides them out again"
        return Finding(name, Kind.REQUIRED, Outcome.WRONG, seen, str(inputs.case(shapes[0])), advice)
    seen = f"they count: the gradient for them is {min(sizes):.1g} of the parents' size or more"
    return Finding(name, Kind.REQUIRED, Outcome.OK, seen)


def _parameters_learn(inputs: Inputs) -> Finding:
    """A parameter without a gradient is counted in tables, and learns nothing."""
    name, idle = "parameters learn", None
    for shape in inputs.among((DENSE, WINDOWS)):
        case = inputs.case(shape, training=True)
        method = case.subject.make(shape.sizes, training=True)
        names = [key for key, value in method.named_parameters() if value.requires_grad]
        if not names:
            return Finding(name, Kind.MEASURED, Outcome.NOT_CLAIMED, "the method has no parameters of its own")
        votes, activations = case.problem.given_to(method)
        routed = method(votes, activations)
        outputs = [value for value in (routed.poses, routed.activations) if value is not None and value.requires_grad]
        total = torch.stack([value.sin().sum() for value in outputs]).sum() if outputs else None
        values = [method.get_parameter(key) for key in names]
        found = torch.autograd.grad(total, values, allow_unused=True) if total is not None else [None] * len(values)
        here = {key for key, value in zip(names, found, strict=True) if _share(value) == 0}
        idle = here if idle is None else idle & here
    if idle:
        seen = f"no gradient reaches {', '.join(sorted(idle))}: counted, but they never change"
        return Finding(name, Kind.MEASURED, Outcome.NOT_CLAIMED, seen)
    return Finding(name, Kind.MEASURED, Outcome.NOT_CLAIMED, "a gradient reaches every parameter")


def _share(gradient: Tensor | None) -> float:
    """Of the elements, those whose gradient is not zero."""
    return 0.0 if gradient is None else float((gradient != 0).double().mean())
