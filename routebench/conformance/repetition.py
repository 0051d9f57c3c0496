"""Whether a call can be repeated: the same numbers again, whatever was called before or is in the batch beside."""

from collections.abc import Iterable
from dataclasses import replace

from routebench.claims import Claim
from routebench.conformance.case import Case, difference, where_apart
from routebench.conformance.claimed import NO_INPUT, NOT_REPEATED, finding_of, worst_of
from routebench.conformance.deviation import Deviation
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import Inputs
from routebench.conformance.problem import ORDINARY
from routebench.conformance.properties import MEASUREMENTS
from routebench.conformance.trial import call


def deterministic(inputs: Inputs) -> Finding:
    """Two fresh methods, the same input, the same seed of torch: the same bits, gradients included."""
    advice = "numbers drawn from another source than torch's generator, time, and the order of sets"
    deviations = [
        _bits(Case(inputs.subject, inputs.case(shape).problem, training=training), "when the same call is made again")
        for shape in inputs.among(ORDINARY)
        for training in (False, True)
    ]
    worst = worst_of(deviations)
    if worst is None:
        return Finding("deterministic", Kind.REQUIRED, Outcome.NOT_CHECKED, NO_INPUT)
    found = finding_of("deterministic", Kind.REQUIRED, worst, advice)
    return found if found.wrong else replace(found, seen="with one seed, the same bits, in evaluation and in training")


def noiseless(inputs: Inputs) -> Finding:
    """In evaluation mode, another seed of torch gives the same bits: what is tested does not depend on luck."""
    advice = "draw random numbers only `if self.training`, or once, when it is made"
    seen = (_luck(inputs.case(shape)) for shape in inputs.among(ORDINARY))
    return _if_repeated(inputs, "no noise in evaluation", seen, advice, "another seed of torch gives the same bits")


def _if_repeated(
    inputs: Inputs, name: str, seen: Iterable[Deviation | None], advice: str, otherwise: str | None = None
) -> Finding:
    """The worst deviation, where the method gives the same bits twice at all; `otherwise` is said if none is wrong."""
    if not inputs.repeats:
        return Finding(name, Kind.REQUIRED, Outcome.NOT_CHECKED, NOT_REPEATED)
    worst = worst_of(seen)
    if worst is None:
        return Finding(name, Kind.REQUIRED, Outcome.NOT_CHECKED, NO_INPUT)
    found = finding_of(name, Kind.REQUIRED, worst, advice)
    return found if found.wrong or otherwise is None else replace(found, seen=otherwise)


def _luck(case: Case) -> Deviation:
    one, other = case.trial(seed=0), case.trial(seed=1)
    size = difference(one, other)
    words = f"{where_apart(one, other)} differ by {size:.1g} of the largest value between two seeds of torch"
    return Deviation(size, 1e-30, words, str(case))


def _bits(case: Case, when: str) -> Deviation:
    one, other = case.trial(gradients=True), case.trial(gradients=True)
    size = difference(one, other)
    words = f"{where_apart(one, other)} differ by {size:.1g} of the largest value {when}, with the same seed of torch"
    return Deviation(size, 1e-30, words, str(case))


def forgetful(inputs: Inputs) -> Finding:
    """A method that was called on something else gives what a fresh one gives. In evaluation mode nothing may stay."""
    advice, seen = "what route() stores on self; make it anew in each call", inputs.among(ORDINARY)
    deviations = (_remembered(inputs.case(shape)) for shape in seen)
    otherwise = "a used method gives the same bits as a fresh one"
    return _if_repeated(inputs, "no state between calls", deviations, advice, otherwise)


def _remembered(case: Case) -> Deviation:
    """Called on other images, on one image alone, and then on what a fresh one is called on."""
    used = case.subject.make(case.problem.shape.sizes, case.problem.dtype, changes=case.changes)
    other = replace(case.problem, poses=-2 * case.problem.poses.flip(0), activations=0.5 * case.problem.activations)
    call(used, other, gradients=True)
    call(used, case.problem.image(0))
    found, expected = call(used, case.problem, gradients=True), case.trial(gradients=True)
    size = difference(found, expected)
    words = f"{where_apart(found, expected)} differ by {size:.1g} of the largest value after calls on other images"
    if found.error:
        words = f"after a call on one image, it raises: {found.error}"
    return Deviation(size, 1e-30, words, str(case))


def images_apart(inputs: Inputs) -> Finding:
    """Images in a batch do not influence each other, in evaluation mode."""
    measurement = MEASUREMENTS[Claim.BATCH_INDEPENDENCE]
    deviations = (measurement.measure(case) for case in inputs.compared)
    return _if_repeated(inputs, "batch independence", deviations, measurement.advice)
