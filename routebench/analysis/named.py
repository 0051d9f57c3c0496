"""The comparisons that a suite names beforehand, as a results folder has them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, corrected, unflattered
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import Verdict
from routebench.analysis.comparison import Contender, answers_of, contenders_of, difference_between

FIRST_IS = {"dynamic": BASELINE}
"""Methods whose first iteration is another method, to the last bit: `first_is` of suites, which plans do not keep."""


@dataclass(frozen=True)
class NamedPair:
    """Two methods that a suite compares.

    Args:
        ours, theirs: with what they reached by seed.
        first: the number of seeds of the first stage.
        half_width: that the interval of their difference is to have, in points; None for what comes.
    """

    ours: Contender
    theirs: Contender
    first: int
    half_width: float | None

    @property
    def seeds(self) -> int:
        """That both have."""
        return len({*self.ours.accuracies} & {*self.theirs.accuracies})

    @property
    def more(self) -> int | None:
        """Seeds that are missing; None while the first stage is not whole, or where nothing was asked for."""
        if self.half_width is None:
            return None
        ours, theirs = self.ours.accuracies, self.theirs.accuracies
        wanted = statistics.seeds_needed(ours, theirs, self.first, self.half_width)
        return None if wanted is None else max(0, wanted - self.seeds)

    def __str__(self) -> str:
        names = f"{self.ours.method} against {self.theirs.method}"
        if self.more is None:
            wanted = "how many it needs is known once all have"
            return f"{names}: {self.seeds} of the first {self.first} seeds have results; {wanted}"
        wanted = f"{wording.plural(self.more, 'more seed')} needed" if self.more else "enough"
        return f"{names}: {self.seeds} seeds, {wanted} for ± {self.half_width:g} points"


def named_pairs(runs: Runs) -> list[NamedPair]:
    """The comparisons of a suite's plan, in its order, of which both sides were planned; none where it names none."""
    if not runs.primary:
        return []
    known = {_key(one.method): one for one in contenders_of(runs)}
    first, half_width = int(runs.primary["first"]), runs.primary.get("half_width")
    found = [(known.get(_entry(pair["ours"])), known.get(_entry(pair["theirs"]))) for pair in runs.primary["pairs"]]
    return [
        NamedPair(ours, theirs, first, half_width) for ours, theirs in found if ours is not None and theirs is not None
    ]


def named_table(runs: Runs) -> DataFrame:
    """One row per named comparison; Holm's correction is over them alone. Empty where the suite names none.

    Columns: `method, against`; `difference`, in points; `p_beyond`, of a difference of the margin or more, corrected;
    `verdict`. And the same over seeds and test images, as if the test set were drawn anew too: `both`, `both_beyond`,
    `both_verdict`.
    """
    pairs = [(pair.ours, pair.theirs) for pair in named_pairs(runs)]
    if not pairs:
        return DataFrame()
    margin, first = float(runs.primary["margin"]), int(runs.primary["first"])
    values = [(ours.accuracies, theirs.accuracies) for ours, theirs in pairs]
    differences = corrected(
        unflattered(Estimate.of(statistics.two_stage_difference(*pair, first)), ours.method, theirs.method)
        for pair, (ours, theirs) in zip(values, pairs, strict=True)
    )
    beyond = statistics.holm([statistics.two_stage_equivalence_p(*pair, first, margin) for pair in values])
    return DataFrame({
        "method": [ours.method for ours, _ in pairs],
        "against": [theirs.method for _, theirs in pairs],
        "difference": differences,
        "p_beyond": beyond,
        "verdict": _verdicts(differences, beyond),
        **_over_both(runs, pairs, margin),
    })  # fmt: skip


def _over_both(runs: Runs, pairs: Sequence[tuple[Contender, Contender]], margin: float) -> dict[str, Any]:
    """`both`, `both_beyond`, `both_verdict`: over seeds and test images; no value where answers were not kept."""
    answers = [answers_of(runs, *pair) for pair in pairs]
    differences = corrected(
        Estimate() if known is None else unflattered(known.difference, ours.method, theirs.method)
        for known, (ours, theirs) in zip(answers, pairs, strict=True)
    )
    beyond = statistics.holm([math.nan if pair is None else pair.p_beyond(margin) for pair in answers])
    return {"both": differences, "both_beyond": beyond, "both_verdict": _verdicts(differences, beyond)}


def _verdicts(differences: Sequence[Estimate], beyond: Iterable[float]) -> list[Verdict]:
    return [
        Verdict.of(one.mean, one.p_holm, float(p_beyond)) for one, p_beyond in zip(differences, beyond, strict=True)
    ]


def named_gains(runs: Runs) -> dict[Method, Estimate] | None:
    """Differences to equal shares that a suite names beforehand; None where it names no comparison at all."""
    table = named_table(runs)
    if table.empty:
        return None
    rows = table[[against.label == BASELINE for against in table["against"]]]
    return dict(zip(rows["method"], rows["difference"], strict=True))


def is_over_first(ours: Method, theirs: Method) -> bool:
    """Whether `theirs` is one iteration of `ours`, or the method that this is to the last bit."""
    if (ours.iterations or 0) < 2 or ours.model != theirs.model:
        return False
    own = theirs.iterations == 1 and theirs.label == ours.label
    return own or theirs.label == FIRST_IS.get(ours.label)


def over_first(runs: Runs) -> dict[Method, Estimate]:
    """Differences of each method with more iterations to itself with one, corrected over all of them: exploratory.

    Where one iteration is another method, and was not run, that stands in for it.
    """
    known = {_key(one.method): one for one in contenders_of(runs) if one.accuracies}
    pairs = [
        (one, known.get((label, model, 1)) or known.get((FIRST_IS.get(label, ""), model, None)))
        for (label, model, steps), one in known.items()
        if (steps or 0) > 1
    ]
    own = [(one, first) for one, first in pairs if first is not None]
    found = corrected(difference_between(runs, one, first) for one, first in own)
    return {one.method: difference for (one, _), difference in zip(own, found, strict=True)}


def _key(method: Method) -> tuple[str, str, int | None]:
    return method.label, method.model, method.iterations


def _entry(named: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return str(named["label"]), str(named["model"]), named["iterations"]
