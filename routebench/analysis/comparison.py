"""Every method with every iteration count of one suite, compared: means, gains over uniform routing, ranks.

The table, the figures and the headline of a report use these numbers, so that they cannot disagree.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._runs import Runs
from routebench.analysis._table import Column, Mean, Row, best_first
from routebench.analysis._verdicts import Verdict
from routebench.analysis.contenders import (
    Contender,
    PairedAnswers,
    answers_of,
    assumed,
    contenders_of,
    difference_between,
    distinct,
    images_of,
    objects_of,
    untested,
    with_other_images,
)
from routebench.analysis.families import gains_in, settled

__all__ = [
    "ACCURACY",
    "OTHER_IMAGES",
    "RANK",
    "RANKS",
    "Comparison",
    "Contender",
    "PairedAnswers",
    "answers_of",
    "assumed",
    "comparison_of",
    "contenders_of",
    "difference_between",
    "distinct",
    "finished",
    "gains_of",
    "images_of",
    "notes_on",
    "objects_of",
    "rank",
    "settled",
    "untested",
    "with_other_images",
]

COLUMNS = ["method", "mean", "n_ok", "n_planned", "gain", "parameters", "fit_seconds", "published", "published_id"]
ACCURACY = Mean.of("accuracy", "mean", explained="mean test accuracy with its 95 % interval", text="±0.2")
OTHER_IMAGES = Column(
    "With other images",
    "both",
    "+.2",
    "the same, with an interval over seeds and test images: as if the test set were drawn anew, too",
)


SIGNS = {statistics.OVER_SEEDS: "±", statistics.OVER_SEEDS_LOGIT: "[ ]", statistics.OVER_SAMPLES: "[ ]"}


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one data set.

    Args:
        table: one row per method, best mean first, those without a result last. Columns `method`, `mean`, `n_ok`,
            `n_planned`, `gain` over the baseline in points, `rank_low` and `rank_high`, missing if no test is possible,
            `parameters`, `fit_seconds`, `published`, `published_id`.
        contenders: the same methods in alphabetical order.
        pairs: differences by pair, in the order of the table, with p corrected as `families` says. Seeds that both
            have count: where one failed with a seed, a difference need not have the sign of that of the means.
        baseline: the text of the method that gains are over; None where it was not measured.
        seeds: the smallest number of seeds of any paired comparison; the largest of any method where none is paired.
        detectable: the smallest gain, in points, that one paired t-test finds 8 times in 10; NaN if unknown.
        test_samples: how many test images; None where unknown.
    """

    table: DataFrame
    contenders: Mapping[Method, Contender]
    pairs: Mapping[tuple[Method, Method], Estimate]
    baseline: str | None
    seeds: int
    detectable: float
    test_samples: int | None

    @property
    def measured(self) -> DataFrame:
        """The rows that have a result."""
        return self.table[self.table["n_ok"] > 0]

    def verdict(self, ours: Method, theirs: Method) -> Verdict:
        """Tells whether the first of two methods is significantly better or worse on the seeds of both.

        Args:
            ours: the method that the verdict is on.
            theirs: the method that it is compared with.
        """
        if (theirs, ours) in self.pairs:
            return (-self.pairs[theirs, ours]).verdict
        return self.pairs.get((ours, theirs), Estimate()).verdict

    @property
    def every(self) -> DataFrame:
        """The same, with a row for every method, including those that are the same function as another.

        What is the same function as the baseline differs from it by nothing.
        """
        found = []
        for row in self.measured.to_dict("records"):
            first: Method = row["method"]
            gain = row["gain"]
            if first.is_base:
                gain = Estimate(0.0, 0.0, 0.0, row["n_ok"], statistics.CONSTANT, 1.0, 1.0)
            found += [row, *({**row, "method": method, "gain": gain} for method in first.same)]
        return DataFrame(found, columns=self.table.columns)


_KNOWN: WeakKeyDictionary[Runs, Comparison] = WeakKeyDictionary()
"""Caches comparisons, because most analyses of a page and its headline need the same one."""


def comparison_of(runs: Runs) -> Comparison:
    """Compares all planned methods. A method without a result keeps its row; equal functions share one.

    Args:
        runs: the runs of a suite.
    """
    if runs not in _KNOWN:
        _KNOWN[runs] = _compared(runs)
    return replace(_KNOWN[runs], table=_KNOWN[runs].table.copy())


def _compared(runs: Runs) -> Comparison:
    contenders = distinct(runs)
    objects = objects_of(runs, contenders)
    found, against = settled(runs), gains_in(runs, contenders)
    gain_of = {one.method: found.difference(one.method, base.method) for one, base in against}
    if not runs.strength.judges:
        gain_of = {method: replace(gain, p=math.nan, p_holm=math.nan) for method, gain in gain_of.items()}
    nothing = Estimate(kind="")
    rows = [
        _row(runs, one, objects) | {"gain": gain_of.get(one.method, nothing)}
        for one in sorted(contenders, key=lambda one: one.method.is_control)  # of equal means, a method comes first
    ]
    table = best_first(DataFrame(rows, columns=COLUMNS), "mean")
    measured = [*table.loc[table["n_ok"] > 0, "method"]]
    order = [*combinations(measured, 2)] if runs.strength.judges else []
    pairs = {pair: found.difference(*pair) for pair in order}
    ranks = _ranks(measured, pairs, {pair: found.p_together(*pair) for pair in order})
    for place, key in enumerate(("rank_low", "rank_high")):
        table[key] = table["method"].map({method: ends[place] for method, ends in ranks.items()}).astype("Int64")
    paired = [statistics.shared_differences(one.accuracies, own.accuracies) for one, own in against]
    paired = [own for own in paired if len(own) > 1]
    return Comparison(
        table=table,
        contenders={one.method: one for one in contenders},
        pairs=pairs,
        baseline=_baseline(runs, contenders),
        seeds=min(map(len, paired), default=max((len(one.accuracies) for one in contenders), default=0)),
        detectable=_detectable(paired),
        test_samples=images_of(runs, contenders),
    )


def gains_of(runs: Runs) -> dict[Method, Estimate]:
    """Differences in accuracy to uniform routing, in points, corrected over all of them.

    Args:
        runs: the runs of a suite.
    """
    table = comparison_of(runs).table
    return {method: gain for method, gain in zip(table["method"], table["gain"], strict=True) if gain.known}


def notes_on(runs: Runs, found: Comparison) -> list[str]:
    """Notes for the reader of a comparison's table: on its intervals, and on what could not be tested.

    Args:
        runs: the runs of a suite.
        found: their comparison, as `comparison_of` gives it.
    """
    means, gains = ({cell.kind for cell in found.table[key]} for key in ("mean", "gain"))
    notes = [
        f"{sign} after a mean: {wording.interval_in_words(kind)}." for kind, sign in SIGNS.items() if kind in means
    ]
    if not math.isnan(found.detectable):
        notes.append(
            f"Smallest detectable difference: with {wording.plural(found.seeds, 'seed')}, a true gain of "
            f"{found.detectable:.1f} points is found 8 times in 10 by one paired t-test at 5 %."
        )
    elif not gains.isdisjoint(statistics.BY_SAMPLE):
        notes.append(
            "One seed only: gains are compared on the same test images (McNemar's exact test). They hold for these "
            "trained networks; another seed may order them otherwise."
        )
    if statistics.CONSTANT in means | gains:
        notes.append("An interval of width zero comes from seeds that gave the same value; it is no certainty.")
    if found.baseline is None and any(method.is_base for method in found.contenders):
        notes.append("No gain over uniform routing can be given: it has no finished run.")
    return [*notes, *assumed(found.table["gain"]), *untested(runs, found.table["gain"])]


RANKS = (
    "the places that a method may have among all, 95 % for all methods together, so p is corrected over all pairs "
    "(Holm): some are significantly better, some significantly worse, and the rest cannot be told apart by this; a "
    "dash where no test could be made"
)


def rank(row: Row) -> str:
    """`1 to 7`, `3`, or a dash.

    Args:
        row: a row of a comparison's table, with `rank_low` and `rank_high`.
    """
    low, high = row["rank_low"], row["rank_high"]
    if bool(pd.isna(low)):
        return wording.NOTHING
    return f"{low}" if low == high else f"{low} to {high}"


RANK = Column("Rank", "rank_low", rank, RANKS, judges=True)


def finished(explained: str = "") -> Column:
    """Finished and planned runs of a method.

    Args:
        explained: the sentence that explains the column; empty for none.
    """
    return Column("Seeds", "n_ok", lambda row: f"{row['n_ok']} / {row['n_planned']}", explained)


def _row(runs: Runs, one: Contender, objects: int | None) -> dict[str, object]:
    method = one.method
    known = None if method.params else published.find(runs.data, method.model, method.label, method.iterations)
    own = runs.results[runs.results["cell"].isin(list(one.cells.values()))]
    return {
        "method": method,
        "mean": Estimate.of(statistics.accuracy_interval(one.values, objects)),
        "n_ok": len(one.accuracies),
        "n_planned": one.planned,
        "parameters": _mean_of(own, "parameters"),
        "fit_seconds": _mean_of(own, "fit_seconds"),
        "published": known.accuracy if known else math.nan,
        "published_id": known.id if known else "",
    }


def _mean_of(results: DataFrame, metric: str) -> float:
    values = results.loc[(results["metric"] == metric) & results["value"].notna(), "value"]
    return float(values.mean()) if len(values) else math.nan


def _baseline(runs: Runs, contenders: Sequence[Contender]) -> str | None:
    bases = {one.method.model: one.method for one in contenders if one.method.label == BASELINE and one.accuracies}
    base = bases.get(runs.model, next(iter(bases.values()), None))
    return None if base is None else str(base)


def _ranks(
    measured: Sequence[Method],
    pairs: Mapping[tuple[Method, Method], Estimate],
    together: Mapping[tuple[Method, Method], float],
) -> dict[Method, tuple[int, int]]:
    """The ranks among all measured methods, of those that some test compares with another.

    A statement on all ranks at once needs p corrected over all pairs, which is never below that of a pair's family.
    """
    better_first = {pair if found.mean > 0 else pair[::-1]: together[pair] for pair, found in pairs.items()}
    tested = {method for pair, p_holm in together.items() if not math.isnan(p_holm) for method in pair}
    ranks = statistics.rank_intervals([*measured], better_first)
    return {method: ends for method, ends in ranks.items() if method in tested}


def _detectable(gains: Sequence[NDArray[np.float64]]) -> float:
    """The detectable gain, from the median variance of the gains by seed and the smallest number of seeds."""
    if not gains:
        return math.nan
    # The median, so that one method that collapsed with one seed does not speak for all.
    variance = float(np.median([np.var(own, ddof=1) for own in gains]))
    return statistics.smallest_detectable_difference(math.sqrt(variance), min(map(len, gains)))
