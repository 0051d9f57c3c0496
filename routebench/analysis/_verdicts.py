"""All verdicts, and the strength of a preset. Sentences are made elsewhere."""

import math
from enum import IntEnum, StrEnum

from routebench.statistics import ALPHA

MARGIN = 0.5
"""Points of accuracy; smaller differences count as equal."""


class Verdict(StrEnum):
    """A verdict of any kind. Its text is what a table saves and what `compare` writes."""

    # on a difference, ours minus theirs
    BETTER = "better"
    BETTER_BY_LITTLE = "better by little"
    """Significantly better, but by significantly less than a margin."""
    WORSE = "worse"
    WORSE_BY_LITTLE = "worse by little"
    """Significantly worse, but by significantly less than a margin."""
    EQUAL = "equal"
    """Shown to differ by less than a margin (equivalence test)."""
    OPEN = "not told apart"
    UNTESTABLE = "cannot be tested"

    # on a claim; the last also on a published number
    HOLDS = "holds here"
    FAILS = "does not hold here"
    NOT_TESTED = "not tested"
    NOT_RUN = "not run"

    # on a published number
    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not"

    # on a change from BASE to HEAD; the second on claims and published numbers, too
    REGRESSION = "regression"
    UNDECIDED = "undecided"
    IMPROVEMENT = "improvement"
    SAME = "same"
    NOISE = "within noise"
    UNSHOWN = "no difference shown"
    UNJUDGED = "not judged"
    UNCOMPARED = "not compared"

    # on adversarial accuracy
    BELIEVABLE = "believable"
    SUSPECT = "suspect"

    @classmethod
    def of(cls, difference: float, p_value: float, p_equal: float = math.nan) -> "Verdict":
        """The verdict on a difference at 5 %.

        Args:
            difference: ours minus theirs.
            p_value: for the null hypothesis of no difference, corrected; NaN if no test could be made.
            p_equal: for the null hypothesis that the difference is the margin or more, corrected; NaN if not tested.
        """
        if math.isnan(p_value):
            return cls.UNTESTABLE
        if p_value < ALPHA:
            little = p_equal < ALPHA
            if difference > 0:
                return cls.BETTER_BY_LITTLE if little else cls.BETTER
            return cls.WORSE_BY_LITTLE if little else cls.WORSE
        return cls.EQUAL if p_equal < ALPHA else cls.OPEN

    @property
    def in_words(self) -> str:
        """The verdict on a difference as a terminal says it."""
        said = {
            Verdict.BETTER: "significantly better",
            Verdict.WORSE: "significantly worse",
            Verdict.OPEN: "no difference is shown",
            Verdict.UNTESTABLE: "no test could be made",
        }
        return said.get(self, self)


GAINS = (Verdict.BETTER, Verdict.BETTER_BY_LITTLE)
"""Verdicts that ours is better, by whatever size."""
LOSSES = (Verdict.WORSE, Verdict.WORSE_BY_LITTLE)
"""Verdicts that ours is worse, by whatever size."""
NOT_DECIDED = (Verdict.OPEN, Verdict.UNTESTABLE)
"""Verdicts that leave a difference open."""


class Strength(IntEnum):
    """The strength of the evidence of a preset."""

    SMOKE = 0
    """Shows only that everything runs: no test, no rank, no verdict."""
    QUICK = 1
    """A first look."""
    FULL = 2
    OWN = 3
    """A preset of the user."""

    @classmethod
    def of(cls, preset: str) -> "Strength":
        """The strength of a preset, by its name."""
        return {"smoke": cls.SMOKE, "quick": cls.QUICK, "full": cls.FULL}.get(preset, cls.OWN)

    @property
    def tier(self) -> int:
        """Presets of a suite's highest tier are the subject of its summary: a user's own stands beside `full`."""
        return min(self, Strength.FULL)

    @property
    def judges(self) -> bool:
        """Tells whether methods may be compared at all."""
        return self is not Strength.SMOKE

    @property
    def caveat(self) -> str:
        """The caveat to quote with a number; empty for none."""
        return {
            Strength.SMOKE: "The smoke preset only shows that everything runs: do not read anything into its numbers.",
            Strength.QUICK: "The quick preset trains small networks briefly: a first look, not a finding.",
        }.get(self, "")
