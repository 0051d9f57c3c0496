"""Every method with every iteration count of one suite, compared: means, gains over uniform coupling, rank groups.

The numbers behind the table, the figures and the headline of a report, so that the three cannot disagree.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, corrected
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs
from routebench.analysis._table import Column, best_first, flat

BASELINE = "uniform"
SAVED = (
    "name label iterations role model=method.model mean low high interval=mean.kind n_ok n_planned gain gain_low "
    "gain_high gain_interval=gain.kind p=gain.p parameters fit_seconds published published_id p_holm=gain.p_holm group"
)
"""The columns of the table as they are saved."""
COLUMNS = ["method", "mean", "n_ok", "n_planned", "gain", "parameters", "fit_seconds", "published", "published_id"]
ACCURACY = Column("Accuracy, %", "mean", "±0.2", "mean test accuracy with its 95 % interval")


@dataclass(frozen=True)
class Contender:
    """A method as it takes part in a comparison: its accuracies (%) and its cells, by seed."""

    method: Method
    accuracies: dict[int, float] = field(default_factory=dict)
    cells: dict[int, str] = field(default_factory=dict)
    planned: int = 0

    @property
    def name(self) -> str:
        """The text of the method."""
        return str(self.method)

    @property
    def label(self) -> str:
        """Of the method."""
        return self.method.label

    @property
    def model(self) -> str:
        """Its network."""
        return self.method.model

    @property
    def iterations(self) -> int | None:
        """T that it was trained with."""
        return self.method.iterations

    @property
    def role(self) -> str:
        """Of the method."""
        return self.method.role

    @property
    def values(self) -> list[float]:
        """Its accuracies, in the order of the seeds."""
        return [self.accuracies[seed] for seed in sorted(self.accuracies)]


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one data set.

    Args:
        table: one row per method, best mean first, those without a result last. Columns `method`, `mean`, `n_ok`,
            `n_planned`, `gain` over the baseline in points, `group`, which is missing where no test could be made,
            `parameters`, `fit_seconds`, `published`, `published_id`.
        contenders: the same methods in alphabetical order.
        baseline: the name of the row that gains are over; None where it was not measured.
        seeds: how many seeds the paired comparisons have; the smallest number of any of them.
        detectable: the smallest gain, in points, that one paired t-test finds 8 times in 10; NaN if unknown.
        test_samples: how many test images; None where unknown.
    """

    table: DataFrame
    contenders: Mapping[Method, Contender]
    baseline: str | None
    seeds: int
    detectable: float
    test_samples: int | None

    @property
    def measured(self) -> DataFrame:
        """The rows that have a result."""
        return self.table[self.table["n_ok"] > 0]


_KNOWN: WeakKeyDictionary[Runs, Comparison] = WeakKeyDictionary()
"""Of the runs in use, because most analyses of a page and its headline ask for the same."""


def comparison_of(runs: Runs) -> Comparison:
    """Compares everything that was planned; a method without a result keeps its row."""
    if runs not in _KNOWN:
        _KNOWN[runs] = _compared(runs)
    return replace(_KNOWN[runs], table=_KNOWN[runs].table.copy())


def compare(runs: Runs) -> Comparison:
    """The comparison with its table as plain numbers and texts, as it is saved."""
    found = comparison_of(runs)
    return replace(found, table=flat(found.table, SAVED))


def _compared(runs: Runs) -> Comparison:
    contenders = contenders_of(runs)
    samples = images_of(runs, contenders)
    base = next((one for one in contenders if one.label == BASELINE and one.accuracies), None)
    others = [one for one in contenders if base and one is not base]
    gains = corrected(difference_between(runs, one, base) for one in others if base)
    gain_of = {one.method: gain for one, gain in zip(others, gains, strict=True)}
    nothing = Estimate(kind="")
    rows = [_row(runs, one, samples) | {"gain": gain_of.get(one.method, nothing)} for one in contenders]
    table = best_first(DataFrame(rows, columns=COLUMNS), "mean")
    table["group"] = table["method"].map(str).map(_groups(runs, contenders, table)).astype("Int64")
    paired = [gain for gain in gains if gain.kind == statistics.OVER_SEEDS]
    return Comparison(
        table=table,
        contenders={one.method: one for one in contenders},
        baseline=base.name if base else None,
        seeds=min((gain.n for gain in paired), default=min(1, len(contenders))),
        detectable=_detectable(contenders, base),
        test_samples=samples,
    )


def contenders_of(runs: Runs) -> list[Contender]:
    """Every planned method, in alphabetical order, with what it reached by seed."""
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


def images_of(runs: Runs, contenders: Iterable[Contender]) -> int | None:
    """How many test images there are, from the outcomes that were kept; None without any."""
    kept = (runs.correct(cell) for one in contenders for cell in one.cells.values())
    return next((int(correct.size) for correct in kept if correct is not None), None)


def difference_between(runs: Runs, ours: Contender, theirs: Contender) -> Estimate:
    """`ours - theirs` in points: paired by seed, or by test image where they share one seed.

    Where all seeds differ by the same amount, they do not tell how it spreads: test images of all of them do.
    """
    paired = Estimate.of(statistics.paired_difference(ours.accuracies, theirs.accuracies))
    seeds = sorted(set(ours.accuracies) & set(theirs.accuracies))
    if len(seeds) != 1 and not (paired.kind == statistics.CONSTANT and paired.mean):
        return paired
    kept = [(runs.correct(ours.cells[seed]), runs.correct(theirs.cells[seed])) for seed in seeds]
    right = [(one, other) for one, other in kept if one is not None and other is not None]
    if len(right) < len(seeds) or len({array.shape for pair in right for array in pair}) != 1:
        return paired
    if len(seeds) == 1:
        return Estimate.of(statistics.paired_samples(*right[0]), 100)
    one, other = (np.stack(arrays) for arrays in zip(*right, strict=True))
    return Estimate.of(statistics.paired_samples_of_seeds(one, other), 100)


def tied(differences: Iterable[Estimate]) -> str:
    """A note on those that only test images could test; empty without any."""
    found = sum(one.kind == statistics.OVER_SAMPLES_ONLY for one in differences)
    if not found:
        return ""
    return (
        f"In {wording.plural(found, 'comparison')} all seeds differ by exactly the same amount, so that a t-test is "
        "undefined. There the test is over the images (signs of whole images): it holds for these trained networks."
    )


def finished(explained: str = "") -> Column:
    """How many runs of a method finished, of those planned."""
    return Column("Seeds", "n_ok", lambda row: f"{row['n_ok']} / {row['n_planned']}", explained)


def _row(runs: Runs, one: Contender, samples: int | None) -> dict[str, object]:
    method = one.method
    known = None if method.params else published.find(runs.data, one.model, one.label, one.iterations)
    own = runs.results[runs.results["cell"].isin(list(one.cells.values()))]
    return {
        "method": method,
        "mean": Estimate.of(statistics.accuracy_interval(one.values, samples)),
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


def _groups(runs: Runs, contenders: Iterable[Contender], table: DataFrame) -> dict[str, int]:
    """Rank groups by name, without the methods that cannot be tested against the best of theirs."""
    known = {one.name: one for one in contenders}
    names = [str(method) for method in table["method"] if known[str(method)].accuracies]

    @cache
    def p_value(one: str, other: str) -> float:
        return difference_between(runs, known[one], known[other]).p

    pairs = [pair for pair in combinations(names, 2) if not math.isnan(p_value(*pair))]
    testable = {name for pair in pairs for name in pair}
    groups = statistics.rank_groups([name for name in names if name in testable], p_value)
    leaders = {group: name for name, group in reversed(groups.items())}
    return {
        name: group
        for name, group in groups.items()
        if name == leaders[group] or not math.isnan(p_value(leaders[group], name))
    }


def _detectable(contenders: Iterable[Contender], base: Contender | None) -> float:
    """From the median variance of the gains over the baseline, at the smallest number of seeds of any of them."""
    if base is None:
        return math.nan
    gains = [statistics.shared_differences(one.accuracies, base.accuracies) for one in contenders if one is not base]
    gains = [own for own in gains if len(own) > 1]
    if not gains:
        return math.nan
    # The median, so that one method that collapsed with one seed does not speak for all.
    variance = float(np.median([np.var(own, ddof=1) for own in gains]))
    return statistics.smallest_detectable_difference(math.sqrt(variance), min(map(len, gains)))
