"""Every method with every iteration count of one suite, compared: means, gains over equal shares, ranks.

The table, the figures and the headline of a report use these numbers, so that they cannot disagree.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, corrected, unflattered
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._runs import Runs
from routebench.analysis._table import Column, Row, best_first, flat
from routebench.analysis._verdicts import Verdict
from routebench.catalogue import views_of

SAVED = (
    "name label iterations role model=method.model mean low high interval=mean.kind n_ok n_planned gain gain_low "
    "gain_high gain_interval=gain.kind p=gain.p parameters fit_seconds published published_id p_holm=gain.p_holm "
    "rank_low rank_high"
)
"""Columns of the saved table."""
COLUMNS = ["method", "mean", "n_ok", "n_planned", "gain", "parameters", "fit_seconds", "published", "published_id"]
ACCURACY = Column("Accuracy, %", "mean", "±0.2", "mean test accuracy with its 95 % interval")
OTHER_IMAGES = Column(
    "With other images",
    "both",
    "+.2",
    "the same, with an interval over seeds and test images: as if the test set were drawn anew, too",
)


@dataclass(frozen=True)
class Contender:
    """A method in a comparison: its accuracies (%) and its cells, by seed."""

    method: Method
    accuracies: dict[int, float] = field(default_factory=dict)
    cells: dict[int, str] = field(default_factory=dict)
    planned: int = 0

    @property
    def values(self) -> list[float]:
        """Its accuracies, in the order of the seeds."""
        return [self.accuracies[seed] for seed in sorted(self.accuracies)]


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one data set.

    Args:
        table: one row per method, best mean first, those without a result last. Columns `method`, `mean`, `n_ok`,
            `n_planned`, `gain` over the baseline in points, `rank_low` and `rank_high`, missing if no test is possible,
            `parameters`, `fit_seconds`, `published`, `published_id`.
        contenders: the same methods in alphabetical order.
        pairs: differences by pair, in the order of the table, with p corrected over all pairs. Seeds that both have
            count: where one failed with a seed, a difference need not have the sign of that of the means.
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
        """Whether the first of two methods is significantly better or worse on the seeds of both, over all pairs."""
        if (theirs, ours) in self.pairs:
            found = self.pairs[theirs, ours]
            return Verdict.of(-found.mean, found.p_holm)
        found = self.pairs.get((ours, theirs), Estimate())
        return Verdict.of(found.mean, found.p_holm)

    @property
    def over(self) -> dict[Method, Verdict]:
        """The verdict of the method of the highest mean against each other one that has a result."""
        first, *others = self.measured["method"]
        return {method: self.verdict(first, method) for method in others}

    def with_verdict(self, verdict: Verdict) -> list[Method]:
        """The methods against which that of the highest mean has a verdict."""
        return [method for method, found in self.over.items() if found is verdict]

    @property
    def every(self) -> DataFrame:
        """The same, with a row for every method, including those that are the same function as another."""
        rows = self.measured.to_dict("records")
        found = [{**row, "method": method} for row in rows for method in (row["method"], *row["method"].same)]
        return DataFrame(found, columns=self.table.columns)


_KNOWN: WeakKeyDictionary[Runs, Comparison] = WeakKeyDictionary()
"""Caches comparisons, because most analyses of a page and its headline need the same one."""


def comparison_of(runs: Runs) -> Comparison:
    """Compares all planned methods. A method without a result keeps its row; equal functions share one."""
    if runs not in _KNOWN:
        _KNOWN[runs] = _compared(runs)
    return replace(_KNOWN[runs], table=_KNOWN[runs].table.copy())


def compare(runs: Runs) -> Comparison:
    """The comparison, with its table as plain numbers and texts for saving."""
    found = comparison_of(runs)
    return replace(found, table=flat(found.table, SAVED))


def _compared(runs: Runs) -> Comparison:
    contenders = distinct(runs, contenders_of(runs))
    objects = objects_of(runs, contenders)
    bases = {one.method.model: one for one in contenders if one.method.label == BASELINE and one.accuracies}
    base = bases.get(runs.model, next(iter(bases.values()), None))
    own_base = {one.method: bases.get(one.method.model, base) for one in contenders}
    against = [(one, own) for one in contenders if (own := own_base[one.method]) and own is not one]
    gains = corrected(difference_between(runs, *pair) for pair in against)
    gains = gains if runs.strength.judges else [replace(gain, p=math.nan, p_holm=math.nan) for gain in gains]
    gain_of = {one.method: gain for (one, _), gain in zip(against, gains, strict=True)}
    nothing = Estimate(kind="")
    rows = [_row(runs, one, objects) | {"gain": gain_of.get(one.method, nothing)} for one in contenders]
    table = best_first(DataFrame(rows, columns=COLUMNS), "mean")
    pairs = _pairs(runs, contenders, [*table["method"]]) if runs.strength.judges else {}
    ranks = _ranks(table.loc[table["n_ok"] > 0, "method"], pairs)
    for place, key in enumerate(("rank_low", "rank_high")):
        table[key] = table["method"].map({method: ends[place] for method, ends in ranks.items()}).astype("Int64")
    paired = [statistics.shared_differences(one.accuracies, own.accuracies) for one, own in against]
    paired = [own for own in paired if len(own) > 1]
    return Comparison(
        table=table,
        contenders={one.method: one for one in contenders},
        pairs=pairs,
        baseline=str(base.method) if base else None,
        seeds=min(map(len, paired), default=max((len(one.accuracies) for one in contenders), default=0)),
        detectable=_detectable(paired),
        test_samples=images_of(runs, contenders),
    )


def contenders_of(runs: Runs) -> list[Contender]:
    """Every planned method, in alphabetical order, with its results by seed."""
    measured = runs.values("accuracy", split="test", as_trained=True).drop_duplicates("cell")
    accuracy = dict(zip(measured["cell"], measured["value"], strict=True))
    known: dict[Method, Contender] = {}
    for cell, seed, status in runs.planned[["cell", "seed", "status"]].itertuples(index=False, name=None):
        method = runs.methods[cell]
        one = known.get(method, Contender(method))
        known[method] = replace(one, planned=one.planned + 1)
        if cell in accuracy and status == "ok":
            one.accuracies[int(seed)], one.cells[int(seed)] = float(accuracy[cell]), str(cell)
    return [known[method] for method in sorted(known)]


def distinct(runs: Runs, contenders: Iterable[Contender]) -> list[Contender]:
    """The contenders that are different functions; `method.same` holds the others.

    Two are the same function if every seed of both gave bitwise equal losses and accuracies, as one iteration of
    dynamic routing and equal shares do. A control represents a method, else the first by name represents the others.
    """
    losses: dict[str, list[float]] = {}
    for metric in ("train_loss", "loss"):
        values = runs.values(metric, as_trained=True)
        for cell, value in zip(values["cell"], values["value"], strict=True):
            losses.setdefault(cell, []).append(float(value))

    def computed(one: Contender) -> object:
        known = {seed: tuple(sorted(losses.get(cell, ()))) for seed, cell in sorted(one.cells.items())}
        told = one.planned == len(known) and all(known.values())
        return (one.method.model, tuple(known.items()), tuple(one.values)) if told else one.method

    groups: dict[object, list[Contender]] = {}
    for one in sorted(contenders, key=lambda one: (not one.method.is_control, one.method)):
        groups.setdefault(computed(one), []).append(one)
    found = [replace(first, method=replace(first.method, same=tuple(other.method for other in others)))
             for first, *others in groups.values()]  # fmt: skip
    return sorted(found, key=lambda one: one.method)


def gains_of(runs: Runs) -> dict[Method, Estimate]:
    """Differences in accuracy to equal shares, in points, corrected over all of them."""
    table = comparison_of(runs).table
    return {method: gain for method, gain in zip(table["method"], table["gain"], strict=True) if gain.known}


def images_of(runs: Runs, contenders: Iterable[Contender]) -> int | None:
    """Number of test images, from the kept outcomes; None without any."""
    kept = (runs.correct(cell) for one in contenders for cell in one.cells.values())
    return next((int(correct.size) for correct in kept if correct is not None), None)


def objects_of(runs: Runs, contenders: Iterable[Contender]) -> int | None:
    """Number of different objects on test images; None where unknown, or without outcomes."""
    images = images_of(runs, contenders)
    views = images and views_of(runs.data, images)
    return images // views if images and views else None


def difference_between(runs: Runs, ours: Contender, theirs: Contender) -> Estimate:
    """`ours - theirs` in points: paired by seed, or by test image if each has one seed, and the same.

    Where one of them has more, one shared seed gives no test: it may be all that did not diverge. If all seeds differ
    by the same amount, other than none, their spread is unknown and there is no test.
    """
    seeds = sorted(set(ours.accuracies) & set(theirs.accuracies))
    if len(seeds) == len(ours.accuracies) == len(theirs.accuracies) == 1:
        answers = answers_of(runs, ours, theirs)
        if answers is not None:
            return answers.difference
    found = Estimate.of(statistics.paired_difference(ours.accuracies, theirs.accuracies))
    return unflattered(found, ours.method, theirs.method)


def with_other_images(runs: Runs, ours: Contender, theirs: Contender) -> Estimate:
    """`ours - theirs` in points, as if seeds and test images were both drawn anew; unknown if no answers were kept."""
    answers = answers_of(runs, ours, theirs)
    return Estimate() if answers is None else answers.difference


@dataclass(frozen=True)
class PairedAnswers:
    """Whether each of two methods had each test image right.

    Args:
        ours, theirs: (seed, image), with the seeds that both have.
        views: so many images in a row show the same object.
    """

    ours: NDArray[np.bool_]
    theirs: NDArray[np.bool_]
    views: int = 1

    @property
    def difference(self) -> Estimate:
        """`ours - theirs` in points, as if seeds and objects were both drawn anew; with one seed, objects alone."""
        return Estimate.of(statistics.crossed_difference(self.ours, self.theirs, views=self.views), 100)

    def p_beyond(self, margin: float) -> float:
        """The p-value of a difference of `margin` points or more, in either direction."""
        return statistics.crossed_equivalence_p(self.ours, self.theirs, margin / 100, views=self.views)


def answers_of(runs: Runs, ours: Contender, theirs: Contender) -> PairedAnswers | None:
    """What both answered with the seeds that both have.

    None unless outcomes were kept for each of these seeds, on as many images, of which it is known which show the same
    object.
    """
    seeds = sorted(set(ours.accuracies) & set(theirs.accuracies))
    kept = [(runs.correct(ours.cells[seed]), runs.correct(theirs.cells[seed])) for seed in seeds]
    right = [(one, other) for one, other in kept if one is not None and other is not None]
    sizes = {array.size for pair in right for array in pair}
    if len(right) < max(len(seeds), 1) or len(sizes) != 1 or (views := views_of(runs.data, *sizes)) is None:
        return None
    return PairedAnswers(np.stack([one for one, _ in right]), np.stack([other for _, other in right]), views)


def tied(differences: Iterable[Estimate]) -> str:
    """A note on pairs whose seeds all differ by the same amount; empty without any."""
    found = sum(one.kind == statistics.CONSTANT and math.isnan(one.p) for one in differences)
    if not found:
        return ""
    return (
        f"In {wording.plural(found, 'comparison')} all seeds differ by exactly the same amount. No test is possible "
        "there; another seed makes one."
    )


RANKS = (
    "the places that a method may have among all, 95 % for all methods together: some are significantly better, some "
    "significantly worse (Holm over all pairs), and the rest cannot be told apart; a dash where no test could be made"
)


def rank(row: Row) -> str:
    """`1 to 7`, `3`, or a dash."""
    low, high = row["rank_low"], row["rank_high"]
    if bool(pd.isna(low)):
        return wording.NOTHING
    return f"{low}" if low == high else f"{low} to {high}"


RANK = Column("Rank", "rank_low", rank, RANKS)


def finished(explained: str = "") -> Column:
    """Finished and planned runs of a method."""
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


def _pairs(
    runs: Runs, contenders: Iterable[Contender], best_first: Iterable[Method]
) -> dict[tuple[Method, Method], Estimate]:
    known = {one.method: one for one in contenders}
    pairs = [*combinations([method for method in best_first if known[method].accuracies], 2)]
    found = corrected(difference_between(runs, known[one], known[other]) for one, other in pairs)
    return dict(zip(pairs, found, strict=True))


def _ranks(
    measured: Iterable[Method], pairs: Mapping[tuple[Method, Method], Estimate]
) -> dict[Method, tuple[int, int]]:
    """The ranks among all measured methods, of those that some test compares with another."""
    better_first = {pair if found.mean > 0 else pair[::-1]: found.p_holm for pair, found in pairs.items()}
    tested = {method for pair, found in pairs.items() if not math.isnan(found.p_holm) for method in pair}
    ranks = statistics.rank_intervals([*measured], better_first)
    return {method: ends for method, ends in ranks.items() if method in tested}


def _detectable(gains: Sequence[NDArray[np.float64]]) -> float:
    """The detectable gain, from the median variance of the gains by seed and the smallest number of seeds."""
    if not gains:
        return math.nan
    # The median, so that one method that collapsed with one seed does not speak for all.
    variance = float(np.median([np.var(own, ddof=1) for own in gains]))
    return statistics.smallest_detectable_difference(math.sqrt(variance), min(map(len, gains)))
