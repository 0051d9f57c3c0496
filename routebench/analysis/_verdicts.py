"""What a corrected test says of two methods, as a value; sentences are made from it elsewhere."""

import math
from enum import StrEnum

ALPHA = 0.05
MARGIN = 0.5
"""Points of accuracy; smaller differences count as equal."""


class Verdict(StrEnum):
    """On a difference, ours less theirs; its text is what a table saves."""

    BETTER = "better"
    BETTER_BY_LITTLE = "better by little"
    """Better, and shown to be so by less than a margin."""
    WORSE = "worse"
    EQUAL = "equal"
    """Shown to differ by less than a margin."""
    OPEN = "not told apart"
    UNTESTABLE = "cannot be tested"

    @classmethod
    def of(cls, difference: float, p_value: float, p_equal: float = math.nan) -> "Verdict":
        """At 5 %.

        Args:
            difference: ours less theirs.
            p_value: of 'there is none', corrected; NaN where no test could be made.
            p_equal: of 'it is the margin or more', corrected; NaN where nobody asked.
        """
        if math.isnan(p_value):
            return cls.UNTESTABLE
        if p_value < ALPHA:
            better = cls.BETTER_BY_LITTLE if p_equal < ALPHA else cls.BETTER
            return better if difference > 0 else cls.WORSE
        return cls.EQUAL if p_equal < ALPHA else cls.OPEN
