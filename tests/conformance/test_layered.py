"""A schedule is checked where it counts: in two layers."""

from routebench.capsules import Sizes
from routebench.capsules.schedules import ScheduleName
from routebench.conformance import Status
from routebench.conformance._calls import CheckInputs
from routebench.conformance._method import subject_of
from routebench.conformance._options import Traces, option
from routebench.conformance._problems import DENSE
from routebench.routing.dynamic import DynamicRouting


class Deaf(DynamicRouting):
    """Does not pass its schedule on."""

    def __init__(self, sizes: Sizes, *, iterations: int = 3, schedule: ScheduleName = "sequential"):
        super().__init__(sizes, iterations=iterations)


class Stubborn(DynamicRouting):
    """Cannot go on from what it did not leave itself."""

    def __init__(self, sizes: Sizes, *, iterations: int = 3, schedule: ScheduleName = "sequential"):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.last = None

    def iterate(self, votes, activations, previous):
        if previous is not None and previous is not self.last:
            raise ValueError("where does this come from?")
        self.last = super().iterate(votes, activations, None if self.schedule == "concurrent" else previous)
        return Deaf.iterate(self, votes, activations, self.last) if self.schedule == "concurrent" else self.last


def found(method):
    return option(Traces(CheckInputs(subject_of(method), seed=0, shapes=(DENSE,))), "schedule")


def test_a_schedule_that_is_obeyed_is_ok():
    finding = found("dynamic")
    assert finding.outcome is Status.OK
    assert "'concurrent'" in finding.seen and "instead of 'sequential' changes the parents" in finding.seen


def test_a_schedule_that_is_not_read_is_wrong():
    finding = found(Deaf)
    assert finding.outcome is Status.WRONG
    assert "changes nothing in two layers" in finding.seen


def test_what_two_layers_raise_is_told():
    finding = found(Stubborn)
    assert finding.outcome is Status.WRONG
    assert "two layers raise: ValueError: where does this come from?" in finding.seen
