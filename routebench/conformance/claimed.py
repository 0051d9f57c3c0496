"""Every claim, measured on every input, whether the method makes it or not."""

from collections.abc import Iterable

from routebench.claims import Claim
from routebench.conformance.coupling import other_axes
from routebench.conformance.deviation import Deviation
from routebench.conformance.findings import Finding, Kind, Outcome
from routebench.conformance.inputs import Inputs
from routebench.conformance.properties import MEASUREMENTS

NOT_REPEATED = "two equal calls differ, so that there is nothing to compare"
NO_INPUT = "no input at which the method is finite and not so steep that rounding hides everything"


def claims(inputs: Inputs) -> list[Finding]:
    """One finding per claim; that of a batch is about training, because in evaluation it is required."""
    return [measured(claim, inputs) for claim in Claim]


def measured(claim: Claim, inputs: Inputs) -> Finding:
    """What was seen of one claim."""
    claimed, advice = claim in inputs.subject.claims, MEASUREMENTS[claim].advice
    name = claim.name.lower().replace("_", " ") + (" in training" if _is_about_training(claim) else "")
    kind = Kind.CLAIMED if claimed else Kind.MEASURED
    if not inputs.repeats:
        return Finding(name, kind, Outcome.NOT_CHECKED, NOT_REPEATED)
    worst = worst_seen(claim, inputs)
    if worst is None:
        return Finding(name, kind, Outcome.NOT_CHECKED, NO_INPUT)
    if claimed:
        return finding_of(name, kind, worst, advice)
    if claim is Claim.MASS_CONSERVATION and worst.wrong and any(other_axes(case) for case in inputs.compared):
        return finding_of(name, Kind.REQUIRED, worst, advice)  # what is said of the axis is wrong, claim or none
    words = f"does not hold: {worst.words}" if worst.wrong else f"holds too, and could be claimed: {worst.words}"
    return Finding(name, kind, Outcome.NOT_CLAIMED, words, worst.at, deviation=worst.size)


def worst_seen(claim: Claim, inputs: Inputs) -> Deviation | None:
    """The worst deviation from a claim; None where no input says anything about it."""
    cases = inputs.trained if _is_about_training(claim) else inputs.learned
    return worst_of(MEASUREMENTS[claim].measure(case) for case in cases)


def _is_about_training(claim: Claim) -> bool:
    """In evaluation, independence of the batch is required, and a finding of its own."""
    return claim is Claim.BATCH_INDEPENDENCE


def worst_of(deviations: Iterable[Deviation | None]) -> Deviation | None:
    """The one that most exceeds what is allowed."""
    found = [deviation for deviation in deviations if deviation is not None]
    return max(found, key=lambda deviation: deviation.excess, default=None)


def finding_of(name: str, kind: Kind, worst: Deviation, advice: str) -> Finding:
    """Wrong if the worst deviation is more than allowed."""
    if worst.wrong:
        return Finding(name, kind, Outcome.WRONG, worst.words, worst.at, advice, worst.size)
    return Finding(name, kind, Outcome.OK, worst.words, worst.at, deviation=worst.size)
