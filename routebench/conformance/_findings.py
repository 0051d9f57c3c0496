"""The findings of a check, one per question, and the verdict over all."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from routebench.quantities import plural

NOT_REPEATED = "two equal calls differ, so that there is nothing to compare"
NO_INPUT = "at every input the method is not finite, or blows rounding errors up"


class Kind(Enum):
    """The reason why a question is asked."""

    REQUIRED = "required of every method"
    CLAIMED = "claimed by this method"
    MEASURED = "measured besides; nothing of it is required, and a method may promise it by `claims`"


class Status(Enum):
    """The answer to a question. Only `WRONG` makes a method fail."""

    OK = "ok"
    WRONG = "WRONG"
    BESIDES = "measured"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Args:
        name: the name of the question, in two or three words.
        kind: why it was asked.
        outcome: the answer.
        seen: in words and with the number, what was seen.
        at: the input at which it was worst: shape, dtype, scale of the poses, iterations.
        advice: what to look at in the method's code; empty if nothing is wrong.
        deviation: the largest difference as a share of the largest value; infinite if there was nothing to compare;
            None where the question has no such number.
    """

    name: str
    kind: Kind
    outcome: Status
    seen: str
    at: str = ""
    advice: str = ""
    deviation: float | None = None

    @property
    def wrong(self) -> bool:
        """Tells whether this makes the method fail."""
        return self.outcome is Status.WRONG


@dataclass(frozen=True)
class Checkup:
    """All findings about one method.

    Args:
        method: as it was asked for, `dynamic[detach=true]`.
        seed: the seed of the random inputs; the same seed gives the same findings.
        device: `cpu` or `cuda`: what the processor was compared with.
        findings: in the order in which they are shown.
    """

    method: str
    seed: int
    device: str
    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are wrong."""
        return tuple(finding for finding in self.findings if finding.wrong)

    @property
    def conforms(self) -> bool:
        """Tells whether all that is required and claimed holds, as far as it could be checked."""
        return not self.faults

    def named(self, name: str) -> Finding:
        """The finding of this name.

        Raises:
            KeyError: the question was not asked.
        """
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    def __str__(self) -> str:
        if self.faults:
            count = plural(len(self.faults), "fault")
            return f"{self.method}: {count}: {', '.join(finding.name for finding in self.faults)}"
        kinds = {Kind.REQUIRED: "requirement", Kind.CLAIMED: "claim"}
        told = ", ".join(filter(None, (self._count(kind, word) for kind, word in kinds.items())))
        unchecked = sum(finding.outcome is Status.NOT_CHECKED for finding in self.findings)
        rest = f" ({unchecked} not checked)" if unchecked else ""
        return f"{self.method}: conforms{f': {told} hold' if told else ''}{rest}"

    def _count(self, kind: Kind, word: str) -> str:
        asked = [f for f in self.findings if f.kind is kind and f.outcome is not Status.NOT_CHECKED]
        return (
            f"{sum(finding.outcome is Status.OK for finding in asked)} of {plural(len(asked), word)}" if asked else ""
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`. A deviation that is not finite is null."""
        findings = [
            {**asdict(finding), "kind": finding.kind.name.lower(), "outcome": finding.outcome.value}
            for finding in self.findings
        ]
        for finding in findings:
            value = finding["deviation"]
            finding["deviation"] = value if value is not None and math.isfinite(value) else None
        return {
            "method": self.method,
            "seed": self.seed,
            "device": self.device,
            "conforms": self.conforms,
            "verdict": str(self),
            "findings": findings,
        }


@dataclass(frozen=True)
class Deviation:
    """A difference, what of it is allowed, and where it was seen.

    Args:
        size: as a share of the largest value.
        allowed: the largest size that is allowed.
        words: what was seen, with the number.
        at: the input.
    """

    size: float
    allowed: float
    words: str
    at: str

    @property
    def excess(self) -> float:
        """Size in units of what is allowed."""
        return self.size / self.allowed

    @property
    def wrong(self) -> bool:
        """Tells whether it is more than allowed."""
        return not self.size <= self.allowed


def worst_of(deviations: Iterable[Deviation | None]) -> Deviation | None:
    """The one that most exceeds what is allowed."""
    found = [deviation for deviation in deviations if deviation is not None]
    return max(found, key=lambda deviation: deviation.excess, default=None)


def judged(
    name: str, deviations: Iterable[Deviation | None], advice: str, *, repeats: bool, otherwise: str | None = None
) -> Finding:
    """The finding on a requirement: the worst deviation, where the method gives the same bits twice at all.

    Args:
        name: the name of the question.
        deviations: None at an input that says nothing.
        advice: what to look at if the worst is wrong.
        repeats: whether two equal calls give the same.
        otherwise: said if none is wrong, instead of the worst.
    """
    worst = worst_of(deviations) if repeats else None
    if worst is None:
        return Finding(name, Kind.REQUIRED, Status.NOT_CHECKED, NO_INPUT if repeats else NOT_REPEATED)
    found = finding_of(name, Kind.REQUIRED, worst, advice)
    return found if found.wrong or otherwise is None else replace(found, seen=otherwise)


def finding_of(name: str, kind: Kind, worst: Deviation, advice: str) -> Finding:
    """The finding, wrong if the worst deviation is more than allowed."""
    if worst.wrong:
        return Finding(name, kind, Status.WRONG, worst.words, worst.at, advice, worst.size)
    return Finding(name, kind, Status.OK, worst.words, worst.at, deviation=worst.size)
