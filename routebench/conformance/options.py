"""Whether every hyperparameter does something: another legal value must change outputs or gradients somewhere.

Somewhere: in evaluation or in training, early or late in a run, at short or long poses, densely or in windows; and if
not as the method stands, then with another value of another hyperparameter, because some only count together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from routebench.conformance.case import difference
from routebench.conformance.claimed import NOT_REPEATED
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import Inputs
from routebench.conformance.layered import schedule
from routebench.conformance.problem import DENSE, MATRICES, WINDOWS, Shape, draw
from routebench.conformance.subject import Subject
from routebench.conformance.trial import Trial, call, in_one_line
from routebench.conformance.values import NotKnown, far_values, other_values

CIRCUMSTANCES: tuple[tuple[Shape, float, bool, float], ...] = (
    (DENSE, 1.0, False, 0.5),
    (WINDOWS, 1.0, True, 0.5),
    (DENSE, 30.0, True, 0.1),
    (WINDOWS, 0.03, False, 1.0),
    (MATRICES, 3.0, True, 0.9),
)
"""Shape, scale of poses, training mode, and the share of the training run that has passed."""
TRIED = "dense, matrices and windows, short and long poses, evaluation and training, early and late in a run"
CHANGES = "changes parents or gradients"
ENOUGH = 3
"""Iterations, for what acts from the second or third on."""
COUNTS = (1, 2, 3, 4)
"""Numbers of iterations of which each must differ from the next."""


def options(inputs: Inputs) -> list[Finding]:
    """One finding per hyperparameter."""
    traces = Traces(inputs)
    apart = {"iterations": lambda: _iterations(traces), "schedule": lambda: schedule(inputs)}
    return [apart[name]() if name in apart else _option(traces, name) for name in inputs.subject.settings]


@dataclass
class Traces:
    """What a method does under all circumstances, with some hyperparameters changed; each is computed once."""

    inputs: Inputs
    _known: dict[tuple[int, str], Trial] = field(default_factory=dict)

    def differ(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether two settings differ in one bit somewhere, of parents or of gradients."""
        return any(self._differ_at(at, before, after) for at in self._usable())

    def errors(self, changes: Mapping[str, Any]) -> list[str]:
        """What the method raises, under each of the circumstances in which it raises anything."""
        return [error for at in self._usable() if (error := self._at(at, changes).error)]

    def _usable(self) -> list[int]:
        return [at for at, (shape, *_) in enumerate(CIRCUMSTANCES) if shape in self.inputs.shapes]

    def _differ_at(self, at: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        one, other = self._at(at, before), self._at(at, after)
        return not (one.error or other.error) and difference(one, other) > 0

    def _at(self, at: int, changes: Mapping[str, Any]) -> Trial:
        key = (at, repr(sorted(changes.items())))
        if key not in self._known:
            self._known[key] = self._called(at, changes)
        return self._known[key]

    def _called(self, at: int, changes: Mapping[str, Any]) -> Trial:
        shape, scale, training, progress = CIRCUMSTANCES[at]
        subject = self.inputs.subject
        if subject.iterative:
            changes = {"iterations": max(ENOUGH, subject.settings["iterations"]), **changes}
        try:
            method = subject.make(shape.sizes, changes=changes, apart=True, training=training)
        except Exception as error:  # noqa: BLE001  # a refusal
            return Trial(error=in_one_line(error))
        method.progress = progress
        return call(method, draw(shape, self.inputs.seed, scale=scale), gradients=True)


def _option(traces: Traces, name: str) -> Finding:
    title, subject = f"option {name}", traces.inputs.subject
    if not traces.inputs.repeats:
        return Finding(title, Kind.REQUIRED, Outcome.NOT_CHECKED, NOT_REPEATED)
    try:
        values = other_values(subject, name)
    except NotKnown as reason:
        return Finding(title, Kind.REQUIRED, Outcome.NOT_CHECKED, str(reason))
    now = subject.settings[name]
    enough = all if isinstance(now, str) else any  # each word must do something; of numbers, one
    idle = [value for value in values if not traces.differ({}, {name: value})]
    if not idle or (enough is any and len(idle) < len(values)):
        return Finding(title, Kind.REQUIRED, Outcome.OK, f"{_listed(values)} instead of {now!r} {CHANGES}")
    far = [value for value in far_values(subject, name) if value not in values]
    if acting := [value for value in far if traces.differ({}, {name: value})]:
        seen = f"{_listed(acting)} instead of {now!r} {CHANGES}, {_listed(idle, 'or')} does not"
        return Finding(title, Kind.REQUIRED, Outcome.OK, seen)
    idle += far
    for others in _other_settings(subject, name):
        if enough(traces.differ(others, {**others, name: value}) for value in idle):
            ((key, value),) = others.items()
            seen = f"{idle[0]!r} instead of {now!r} changes something, but only with {key} = {value!r}"
            return Finding(title, Kind.REQUIRED, Outcome.OK, seen)
    return _idle(traces, name, now, idle)


def _idle(traces: Traces, name: str, now: Any, same: list[Any]) -> Finding:
    seen = f"{_listed(same, 'or')} instead of {now!r} changes not one bit of parents or gradients"
    advice = f"where {name} is used: perhaps it is stored and then not read"
    if errors := traces.errors({name: same[0]}):
        seen, advice = f"{same[0]!r} instead of {now!r} makes it raise: {errors[0]}", "what the message says"
    return Finding(f"option {name}", Kind.REQUIRED, Outcome.WRONG, seen, TRIED, advice)


def _listed(values: list[Any], last: str = "") -> str:
    """`2.0, 0.5 or 0.001`."""
    *most, final = [repr(float(f"{value:.6g}") if isinstance(value, float) else value) for value in values]
    return f"{', '.join(most)} {last} {final}" if most and last else ", ".join([*most, final])


def _iterations(traces: Traces) -> Finding:
    """Each number of iterations from 1 to 4 gives other parents than the next."""
    title = "iterations"
    if not traces.inputs.repeats:
        return Finding(title, Kind.REQUIRED, Outcome.NOT_CHECKED, NOT_REPEATED)
    same = [
        (fewer, more)
        for fewer, more in pairwise(COUNTS)
        if not traces.differ({"iterations": fewer}, {"iterations": more})
    ]
    if not same:
        return Finding(title, Kind.REQUIRED, Outcome.OK, "1, 2, 3 and 4 of them all give other parents")
    if len(same) == len(COUNTS) - 1:
        seen = "their number changes nothing: 1, 2, 3 and 4 give the same parents to the last bit"
    else:
        seen = " and ".join(f"T = {fewer} and {more}" for fewer, more in same)
        seen += " give the same parents to the last bit"
    if errors := [error for count in COUNTS for error in traces.errors({"iterations": count})]:
        seen = f"it raises for some of 1, 2, 3, 4: {errors[0]}"
    advice = "the loop: it must run over range(self.iterations), and each pass must use the last one's result"
    return Finding(title, Kind.REQUIRED, Outcome.WRONG, seen, TRIED, advice)


def _other_settings(subject: Subject, name: str) -> Iterator[dict[str, Any]]:
    for key in subject.settings:
        if key not in {name, "iterations", "schedule"}:
            try:
                yield from ({key: value} for value in other_values(subject, key))
            except NotKnown:
                continue
