"""Tells whether every hyperparameter does something: another legal value must change outputs or gradients somewhere.

Somewhere: in evaluation or in training, early or late in a run, at short or long poses, densely or in windows; and if
not as the method stands, then with another value of another hyperparameter, because some only count together.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from routebench.arguments import legal_values
from routebench.capsules import Capsules, Sizes
from routebench.capsules.layers import DenseCapsules, Routing
from routebench.capsules.schedules import SCHEDULES
from routebench.conformance._calls import CheckInputs, Trial, call, difference, in_one_line
from routebench.conformance._findings import NOT_REPEATED, Finding, Kind, Status
from routebench.conformance._method import CheckedMethod, seeded
from routebench.conformance._problems import DENSE, MATRICES, WINDOWS, Shape, draw

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
WHERE = "two dense layers of 6, 4 and 3 capsules, 5 images, evaluation"
SIZES = Sizes(children=6, parents=4, pose=9)


class NotKnown(Exception):
    """No other legal value was found; the message says what to declare."""


def options(inputs: CheckInputs) -> list[Finding]:
    """One finding per hyperparameter."""
    traces = Traces(inputs)
    return [option(traces, name) for name in inputs.subject.settings]


def option(traces: "Traces", name: str) -> Finding:
    """Tells whether one hyperparameter does something."""
    title, at = name if name == "iterations" else f"option {name}", WHERE if name == "schedule" else TRIED
    if not traces.inputs.repeats:
        return Finding(title, Kind.REQUIRED, Status.NOT_CHECKED, NOT_REPEATED)
    try:
        seen, advice = {"iterations": _iterations, "schedule": _schedule}.get(name, _effect)(traces, name)
    except NotKnown as reason:
        return Finding(title, Kind.REQUIRED, Status.NOT_CHECKED, str(reason))
    if advice:
        return Finding(title, Kind.REQUIRED, Status.WRONG, seen, at, advice)
    return Finding(title, Kind.REQUIRED, Status.OK, seen)


def parents(subject: CheckedMethod, changes: Mapping[str, Any]) -> Tensor:
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


def other_values(subject: CheckedMethod, name: str) -> list[Any]:
    """Values that the method takes besides the one that is set: all choices, or up to two numbers near by.

    Choices are read from a `Literal` or `Enum` annotation.

    Raises:
        NotKnown: there is no way to tell what else is legal.
    """
    now = subject.settings[name]
    legal = _legal(subject, name, _candidates(subject, name, now))
    if not legal:
        raise NotKnown(f"no other legal value than {now!r} is taken with the other hyperparameters as they are")
    return legal if isinstance(now, str | enum.Enum) else legal[:2]


def far_values(subject: CheckedMethod, name: str) -> list[Any]:
    """Numbers by orders of magnitude away, for guards such as `clip = 1e4` that nothing near by brings to act."""
    now = subject.settings[name]
    if isinstance(now, bool) or not isinstance(now, int | float):
        return []
    if isinstance(now, int):
        return _legal(subject, name, [now // 1000, now // 10**6, 1])  # upwards, a number of passes would never end
    return _legal(subject, name, [now * by for by in (1e-3, 1e-6, 1e3, 1e6)] + [1.0, 0.01])


@dataclass
class Traces:
    """The trials of a method under all circumstances, with some hyperparameters changed; each is computed once."""

    inputs: CheckInputs
    _known: dict[tuple[int, str], Trial] = field(default_factory=dict)

    def differ(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Tells whether two settings differ in one bit somewhere, of parents or of gradients."""
        return any(self._differ_at(at, before, after) for at in self._usable())

    def errors(self, changes: Mapping[str, Any]) -> list[str]:
        """The errors that the method raises, under each of the circumstances in which it raises any."""
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


def _effect(traces: Traces, name: str) -> tuple[str, str]:
    """The effect of another value; if there is none, advice."""
    subject = traces.inputs.subject
    values, now = other_values(subject, name), subject.settings[name]
    enough = all if isinstance(now, str) else any  # each word must do something; of numbers, one
    idle = [value for value in values if not traces.differ({}, {name: value})]
    if not idle or (enough is any and len(idle) < len(values)):
        return f"{_listed(values)} instead of {now!r} {CHANGES}", ""
    far = [value for value in far_values(subject, name) if value not in values]
    if acting := [value for value in far if traces.differ({}, {name: value})]:
        return f"{_listed(acting)} instead of {now!r} {CHANGES}, {_listed(idle, 'or')} does not", ""
    idle += far
    for others in _other_settings(subject, name):
        if enough(traces.differ(others, {**others, name: value}) for value in idle):
            ((key, value),) = others.items()
            return f"{idle[0]!r} instead of {now!r} changes something, but only with {key} = {value!r}", ""
    if errors := traces.errors({name: idle[0]}):
        return f"{idle[0]!r} instead of {now!r} makes it raise: {errors[0]}", "what the message says"
    seen = f"{_listed(idle, 'or')} instead of {now!r} changes not one bit of parents or gradients"
    return seen, f"where {name} is used: perhaps it is stored and then not read"


def _schedule(traces: Traces, name: str) -> tuple[str, str]:
    """Every other schedule gives other parents in the second of two layers, the only place where one can be seen."""
    subject = traces.inputs.subject
    values, now = other_values(subject, name), subject.settings[name]
    try:
        before = parents(subject, {})
        idle = [value for value in values if torch.equal(before, parents(subject, {name: value}))]
    except Exception as error:  # noqa: BLE001  # whatever a method raises is a finding
        return f"two layers raise: {in_one_line(error)}", "what iterate() needs besides `previous`"
    if idle:
        seen = f"{' or '.join(map(repr, idle))} instead of {now!r} changes nothing in two layers"
        return seen, "whether __init__ sets self.schedule, which the network reads"
    return f"{', '.join(map(repr, values))} instead of {now!r} changes the parents in the second of two layers", ""


def _listed(values: list[Any], last: str = "") -> str:
    """`2.0, 0.5 or 0.001`."""
    *most, final = [repr(float(f"{value:.6g}") if isinstance(value, float) else value) for value in values]
    return f"{', '.join(most)} {last} {final}" if most and last else ", ".join([*most, final])


def _iterations(traces: Traces, name: str) -> tuple[str, str]:
    """Each number of iterations from 1 to 4 gives other parents than the next."""
    same = [(few, more) for few, more in pairwise(COUNTS) if not traces.differ({name: few}, {name: more})]
    if not same:
        return "1, 2, 3 and 4 of them all give other parents", ""
    seen = " and ".join(f"T = {few} and {more}" for few, more in same) + " give the same parents to the last bit"
    if len(same) == len(COUNTS) - 1:
        seen = "their number changes nothing: 1, 2, 3 and 4 give the same parents to the last bit"
    if errors := [error for count in COUNTS for error in traces.errors({name: count})]:
        seen = f"it raises for some of 1, 2, 3, 4: {errors[0]}"
    return seen, "the loop: it must run over range(self.iterations), and each pass must use the last one's result"


def _other_settings(subject: CheckedMethod, name: str) -> Iterator[dict[str, Any]]:
    for key in subject.settings:
        if key not in {name, "iterations", "schedule"}:
            try:
                yield from ({key: value} for value in other_values(subject, key))
            except NotKnown:
                continue


def _legal(subject: CheckedMethod, name: str, values: list[Any]) -> list[Any]:
    """Those that the method takes besides the one that is set, each once."""
    now = subject.settings[name]
    return list(dict.fromkeys(value for value in values if value != now and not refusal(subject, name, value)))


def refusal(subject: CheckedMethod, name: str, value: Any) -> str:
    """The method's error for a value; empty if it takes the value."""
    try:
        subject.make(SIZES, changes={name: value})
    except Exception as error:  # noqa: BLE001  # any is a refusal
        return str(error) or type(error).__name__
    return ""


def _candidates(subject: CheckedMethod, name: str, now: Any) -> list[Any]:
    if choices := legal_values(subject.method.__init__)[name].choices:
        return list(choices)
    if isinstance(now, bool):
        return [not now]
    if isinstance(now, int):
        return [now + 1, 2 * now, now - 1, now // 2, now + 2]
    if isinstance(now, float):
        return [2 * now, now / 2, now + 1.0, now + 0.1, 0.5 * (now + 1)]
    if isinstance(now, str):
        raise NotKnown("it takes any word, so that a mistyped one is not noticed; declare the legal ones: Literal[...]")
    return [1, 0.5, 2, True, False, 0.1]  # None, or no default: whatever is taken
