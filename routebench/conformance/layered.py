"""Two layers routed by the method, one on the other: the only place where a schedule can be seen."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from routebench.capsules import Capsules, Sizes
from routebench.capsules.layers import DenseCapsules, Routing
from routebench.capsules.schedules import SCHEDULES
from routebench.conformance.claimed import NOT_REPEATED
from routebench.conformance.draws import seeded
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import Inputs
from routebench.conformance.subject import Subject
from routebench.conformance.trial import in_one_line
from routebench.conformance.values import NotKnown, other_values

ENOUGH = 3
"""Iterations; with one, all schedules are the same."""
WHERE = "two dense layers of 6, 4 and 3 capsules, 5 images, evaluation"


def schedule(inputs: Inputs) -> Finding:
    """Whether every other schedule gives other parents in the second of two layers."""
    title, now = "option schedule", inputs.subject.settings["schedule"]
    if not inputs.repeats:
        return Finding(title, Kind.REQUIRED, Outcome.NOT_CHECKED, NOT_REPEATED)
    try:
        values = other_values(inputs.subject, "schedule")
        before = parents(inputs.subject, {})
        idle = [value for value in values if torch.equal(before, parents(inputs.subject, {"schedule": value}))]
    except NotKnown as reason:
        return Finding(title, Kind.REQUIRED, Outcome.NOT_CHECKED, str(reason))
    except Exception as error:  # noqa: BLE001  # whatever a method raises is a finding
        seen, advice = f"two layers raise: {in_one_line(error)}", "what iterate() needs besides `previous`"
        return Finding(title, Kind.REQUIRED, Outcome.WRONG, seen, WHERE, advice)
    if idle:
        seen = f"{' or '.join(map(repr, idle))} instead of {now!r} changes nothing in two layers"
        advice = "whether __init__ sets self.schedule, which the network reads"
        return Finding(title, Kind.REQUIRED, Outcome.WRONG, seen, WHERE, advice)
    seen = f"{', '.join(map(repr, values))} instead of {now!r} changes the parents in the second of two layers"
    return Finding(title, Kind.REQUIRED, Outcome.OK, seen)


def parents(subject: Subject, changes: Mapping[str, Any]) -> Tensor:
    """Poses in the second of two layers that are routed by the method with its own schedule."""
    changes = {"iterations": max(ENOUGH, subject.settings["iterations"]), **changes} if subject.iterative else changes

    def routing(sizes: Sizes) -> Routing:
        method: Any = subject.make(sizes, changes=changes, apart=True)
        made: Routing = method
        return made

    with seeded(0), torch.no_grad():
        layers = [DenseCapsules(6, 4, 3, 5, routing).double(), DenseCapsules(4, 3, 5, 5, routing).double()]
        poses = torch.randn(5, 6, 3, dtype=torch.float64)
        primary = Capsules(poses, torch.rand(5, 6, dtype=torch.float64))
        return SCHEDULES[layers[0].routing.schedule](layers, primary)[-1].poses
