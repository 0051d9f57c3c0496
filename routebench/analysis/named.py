"""The comparisons that a suite names beforehand, as a results folder has them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, corrected
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import GAINS, LOSSES, NOT_DECIDED, Verdict
from routebench.analysis.contenders import (
    Contender,
    contenders_of,
    distinct,
    p_beyond_other_images,
    with_other_images,
)
from routebench.analysis.families import first_of, gains_in, iterated_in, named_of, settled

FEWEST_SCORES, MOST_IMAGES = 8, 20_000
"""Different tuning scores that tell the number of images behind them, and the largest number."""


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
        """The number of seeds that both have."""
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
    first, half_width = int(runs.primary["first"]), runs.primary.get("half_width")
    return [NamedPair(ours, theirs, first, half_width) for ours, theirs in named_of(runs, contenders_of(runs))]


def named_table(runs: Runs) -> DataFrame:
    """One row per pre-specified comparison; Holm's correction is over them alone. Empty where the suite names none.

    Columns: `method, against`; `seeds` that both have; `difference`, in points; `p_beyond`, of a difference of the
    margin or more, corrected; `verdict`. And the same over seeds and test images, as if the test set were drawn anew
    too: `both`, `both_beyond`, `both_verdict`.
    """
    known = named_pairs(runs)
    pairs = [(pair.ours, pair.theirs) for pair in known]
    if not pairs:
        return DataFrame()
    found = settled(runs)
    methods = [(ours.method, theirs.method) for ours, theirs in pairs]
    differences = [found.difference(*pair) for pair in methods]
    beyond = [found.p_beyond(*pair) for pair in methods]
    return DataFrame({
        "method": [ours.method for ours, _ in pairs],
        "against": [theirs.method for _, theirs in pairs],
        "seeds": [pair.seeds for pair in known],
        "difference": differences,
        "p_beyond": beyond,
        "verdict": _verdicts(differences, beyond),
        **_over_both(runs, pairs, found.margin),
    })  # fmt: skip


def _over_both(runs: Runs, pairs: Sequence[tuple[Contender, Contender]], margin: float) -> dict[str, Any]:
    """`both`, `both_beyond`, `both_verdict`: over seeds and test images; no value where answers were not kept."""
    count = len(pairs)
    differences = corrected((with_other_images(runs, *pair) for pair in pairs), count)
    beyond = statistics.holm([p_beyond_other_images(runs, *pair, margin) for pair in pairs], count)
    return {"both": differences, "both_beyond": beyond, "both_verdict": _verdicts(differences, beyond)}


def _verdicts(differences: Sequence[Estimate], beyond: Iterable[float]) -> list[Verdict]:
    return [
        Verdict.of(one.mean, one.p_holm, float(p_beyond)) for one, p_beyond in zip(differences, beyond, strict=True)
    ]


def on_these_images_alone(row: Mapping[Any, Any]) -> bool:
    """Tells whether a row of `named_table` has a verdict that it would not have if test images were drawn anew too."""
    verdict, both = row["verdict"], row["both_verdict"]
    if not row["both"].has_limits or verdict in NOT_DECIDED:
        return False
    return verdict != both and not any(verdict in way and both in way for way in (GAINS, LOSSES))


@dataclass(frozen=True)
class ChosenT:
    """The choice of a method's T.

    Args:
        method: with the T of the highest tuning score.
        next: the T of the second highest.
        ahead: by so much, in points of the score.
        among: the number of T.
    """

    method: Method
    next: Method
    ahead: float
    among: int


def chosen_t(runs: Runs) -> list[ChosenT]:
    """The choice of T of each method of which several were tuned, the closest first."""
    scores: dict[tuple[str, str], dict[Method, float]] = {}
    for cell, method in runs.methods.items():
        score = runs.tuning(cell).get("score")
        if score is not None and not method.is_control:
            scores.setdefault((method.label, method.model), {})[method] = float(score)
    found = []
    for own in scores.values():
        if len(own) > 1:
            best, second = sorted(own, key=lambda method: (-own[method], method.iterations or 0))[:2]
            found.append(ChosenT(best, second, own[best] - own[second], len(own)))
    return sorted(found, key=lambda one: one.ahead)


def fold_images(runs: Runs) -> int | None:
    """The number of images that trials were scored on: the fewest that make all scores whole; None for few scores."""
    scores = {float(score) for cell in runs.methods if (score := runs.tuning(cell).get("score")) is not None}
    if len(scores) < FEWEST_SCORES:
        return None
    shares = np.array(sorted(scores)) / 100
    counts = np.arange(1, MOST_IMAGES + 1)[:, None]
    apart = np.abs(shares * counts - np.rint(shares * counts))
    whole = (apart <= 1e-6 * counts).all(axis=1)  # scores have four decimals
    return int(counts[whole.argmax(), 0]) if whole.any() else None


def named_gains(runs: Runs) -> dict[Method, Estimate] | None:
    """Differences to uniform routing that a suite names beforehand; None where it names no comparison at all."""
    table = named_table(runs)
    if table.empty:
        return None
    rows = table[[against.is_base for against in table["against"]]]
    return dict(zip(rows["method"], rows["difference"], strict=True))


def gains_with_other_images(runs: Runs) -> dict[Method, Estimate]:
    """Differences to uniform routing as if test images were drawn anew too, corrected over all of them.

    Those that a suite names are corrected over what it names, as in `named_table`. None are known for runs too short
    to judge methods.
    """
    if not runs.strength.judges:
        return {}
    against = gains_in(runs, distinct(runs))
    gains = corrected(with_other_images(runs, *pair) for pair in against)
    known = {ours.method: gain for (ours, _), gain in zip(against, gains, strict=True) if gain.known}
    named = named_table(runs)
    rows = [] if named.empty else named.to_dict("records")
    return known | {row["method"]: row["both"] for row in rows if row["against"].is_base}


def is_over_first(ours: Method, theirs: Method) -> bool:
    """Tells whether `theirs` is one iteration of `ours`, or the method that this is to the last bit.

    Args:
        ours: the method with several iterations.
        theirs: the method that it is compared with.
    """
    if (ours.iterations or 0) < 2 or ours.model != theirs.model:
        return False
    own = theirs.iterations == 1 and theirs.label == ours.label
    return own or theirs.label == first_of(ours)


def over_first(runs: Runs) -> dict[Method, Estimate]:
    """Differences of each method with more iterations to itself with one; those that no suite named are exploratory.

    Where one iteration is another method, and was not run, that stands in for it.
    """
    found = settled(runs)
    return {one.method: found.difference(one.method, first.method) for one, first in iterated_in(contenders_of(runs))}
