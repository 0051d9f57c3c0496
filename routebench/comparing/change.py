"""One row of a comparison: a change with its evidence and its verdict."""

import math
from dataclasses import dataclass

from routebench.comparing.evidence import Evidence
from routebench.comparing.settings import Group, Setting

SETTING, METHOD, ALL = "setting", "method", "all methods"
REGRESSION, IMPROVEMENT, SAME = "regression", "improvement", "same"
NOISE, UNSHOWN = "within noise", "no difference shown"
UNDECIDED = "undecided"
UNJUDGED, UNCOMPARED = "not judged", "not compared"


@dataclass(frozen=True)
class Change:
    """One row: what one metric did from BASE to HEAD, in one setting or over several.

    Args:
        group: the metric.
        level: `SETTING`, `METHOD` (all its settings) or `ALL` (methods).
        name: of the method and setting.
        settings: what stands behind it.
        base, head: means over settings, seeds and repeats, in the metric's unit.
        evidence: on the scale of differences, or of logarithms of ratios.
        p_value: after Holm's correction; NaN where untestable.
        accepted: the tolerance, on the scale of the evidence.
        threshold: noise floor or tolerance, the larger.
        could_see: the smallest change that would have been found 8 times in 10; NaN if unknown.
        must_see: the smallest change that a gate has to see; infinite where none is stated.
        stated: whether the user says what must be seen.
        alpha: the level that `could_see` holds for.
        verdict: one of this module's words.
        why: where there is no verdict.
    """

    group: Group
    level: str
    name: str
    settings: tuple[Setting, ...]
    base: float
    head: float
    evidence: Evidence
    p_value: float = math.nan
    accepted: float = 0.0
    threshold: float = 0.0
    could_see: float = math.nan
    must_see: float = math.inf
    stated: bool = False
    alpha: float = math.nan
    verdict: str = UNJUDGED
    why: str = ""

    @property
    def method(self) -> str:
        """Label of the method; `all methods` over all."""
        return self.name if self.level == ALL else self.settings[0].method

    @property
    def of_one_seed(self) -> bool:
        """Whether networks of one seed were compared image by image."""
        return self.evidence.kind == "samples" and min(len(setting.seeds) for setting in self.settings) == 1

    @property
    def judged(self) -> bool:
        """Whether a verdict could be reached."""
        return self.verdict not in (UNDECIDED, UNJUDGED, UNCOMPARED)

    @property
    def blind(self) -> bool:
        """Whether a change that has to be seen could have gone unseen."""
        return self.must_see < math.inf and not self.could_see <= self.must_see + 1e-9

    @property
    def needed(self) -> int:
        """How many seeds or rounds, in all, would see what has to be seen; 0 if unknown."""
        return self.evidence.needed(self.alpha, self.must_see)
