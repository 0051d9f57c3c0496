"""The verdict of a corrected test on two methods, as a value. Sentences are made elsewhere."""

import math
from enum import StrEnum

ALPHA = 0.05
MARGIN = 0.5
"""Points of accuracy; smaller differences count as equal."""


class Verdict(StrEnum):
    """The verdict on a difference, ours minus theirs. Its text is what a table saves."""

    BETTER = "better"
    BETTER_BY_LITTLE = "better by little"
    """Significantly better, but by significantly less than a margin."""
    WORSE = "worse"
    EQUAL = "equal"
    """Shown to differ by less than a margin (equivalence test)."""
    OPEN = "not told apart"
    UNTESTABLE = "cannot be tested"

    @classmethod
    def of(cls, difference: float, p_value: float, p_equal: float = math.nan) -> "Verdict":
        """The verdict at 5 %.

        Args:
            difference: ours minus theirs.
            p_value: of the null hypothesis of no difference, corrected; NaN if no test could be made.
            p_equal: of the null hypothesis that the difference is the margin or more, corrected; NaN if not tested.
        """
        if math.isnan(p_value):
            return cls.UNTESTABLE
        if p_value < ALPHA:
            better = cls.BETTER_BY_LITTLE if p_equal < ALPHA else cls.BETTER
            return better if difference > 0 else cls.WORSE
        return cls.EQUAL if p_equal < ALPHA else cls.OPEN
