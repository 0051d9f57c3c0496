"""Every method with every iteration count of one suite, compared: means, gains over uniform coupling, rank groups.

The numbers behind the table, the figures and the headline of a report, so that the three cannot disagree.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import wording
from routebench.analysis._runs import Runs

BASELINE = "uniform"


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a method with one iteration count, its accuracies (%) and its cells by seed."""

    label: str
    model: str
    iterations: int | None
    role: str
    accuracies: Mapping[int, float]
    cells: Mapping[int, str]
    planned: int
    name: str


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one data set.

    Args:
        table: one row per entry, best mean first, those without a result last; columns as `_row` makes them, with
            `gain*` in percentage points, and `p`, `p_holm`, `group`, which is missing where no test could be made.
        baseline: the name of the row that gains are over; None where it was not measured.
        seeds: how many seeds the paired comparisons have; the smallest number of any of them.
        detectable: the smallest gain, in points, that one paired t-test finds 8 times in 10; NaN if unknown.
        test_samples: how many test images; None where unknown.
    """

    table: DataFrame
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


def headline_accuracies(results: DataFrame) -> DataFrame:
    """Rows of test accuracy at the iteration count trained with."""
    tested = results[(results["metric"] == "accuracy") & (results["split"] == "test") & results["value"].notna()]
    same = (tested["test_iterations"] == tested["iterations"]).fillna(False).astype(bool)
    return tested[same | tested["test_iterations"].isna()]


def compare(runs: Runs) -> Comparison:
    """Compares everything that was planned; a method without a result keeps its row."""
    if runs not in _KNOWN:
        _KNOWN[runs] = _compared(runs)
    return replace(_KNOWN[runs], table=_KNOWN[runs].table.copy())


def _compared(runs: Runs) -> Comparison:
    entries = entries_of(runs)
    samples = _test_samples(runs, entries)
    base = next((entry for entry in entries if entry.label == BASELINE and entry.accuracies), None)
    gains = {entry.name: difference_between(runs, entry, base) for entry in entries if base and entry is not base}
    table = DataFrame([_row(runs, entry, samples, gains.get(entry.name)) for entry in entries])
    if not table.empty:
        table["p_holm"] = statistics.holm(table["p"].to_numpy(dtype=float))
        table = table.sort_values("mean", ascending=False, na_position="last", kind="stable").reset_index(drop=True)
        table["group"] = table["name"].map(_groups(runs, entries, table)).astype("Int64")
    paired = [gain for gain in gains.values() if gain.kind == statistics.OVER_SEEDS]
    return Comparison(
        table=table,
        baseline=base.name if base else None,
        seeds=min((gain.n for gain in paired), default=min(1, len(entries))),
        detectable=_detectable(entries, base),
        test_samples=samples,
    )


def compare_samples(runs: Runs, ours: str, theirs: str) -> statistics.Difference:
    """The difference of two rows, by name, in points: paired by seed, or by test image where they share one seed."""
    entries = {entry.name: entry for entry in entries_of(runs)}
    return difference_between(runs, entries[ours], entries[theirs])


def entries_of(runs: Runs) -> list[Entry]:
    """Every planned method with each T and network, in alphabetical order, with what it reached by seed."""
    measured = headline_accuracies(runs.results).drop_duplicates("cell")
    accuracy = dict(zip(measured["cell"], measured["value"], strict=True))
    planned = runs.planned.assign(steps=runs.planned["iterations"].fillna(0).astype(int))
    networks = planned.groupby("label")["model"].nunique()
    entries = []
    for key, cells in planned.groupby(["label", "model", "steps"], sort=True):
        label, model, steps = str(key[0]), str(key[1]), int(str(key[2]))
        done = cells[cells["cell"].isin(accuracy) & (cells["status"] == "ok")]
        by_seed = {int(seed): str(cell) for seed, cell in zip(done["seed"], done["cell"], strict=True)}
        entries.append(
            Entry(
                label=label,
                model=model,
                iterations=steps or None,
                role=str(cells["role"].iloc[0]),
                accuracies={seed: float(accuracy[cell]) for seed, cell in by_seed.items()},
                cells=by_seed,
                planned=len(cells),
                name=wording.name_of(f"{label} ({model})" if networks[label] > 1 else label, steps),
            )
        )
    return entries


def _test_samples(runs: Runs, entries: Iterable[Entry]) -> int | None:
    for entry in entries:
        for cell in entry.cells.values():
            correct = runs.correct(cell)
            if correct is not None:
                return int(correct.size)
    return None


def difference_between(runs: Runs, ours: Entry, theirs: Entry) -> statistics.Difference:
    """`ours - theirs` in points: paired by seed, or by test image where they share one seed."""
    shared = set(ours.accuracies) & set(theirs.accuracies)
    if len(shared) == 1:
        seed = shared.pop()
        right, others_right = runs.correct(ours.cells[seed]), runs.correct(theirs.cells[seed])
        if right is not None and others_right is not None and right.shape == others_right.shape:
            found = statistics.paired_samples(right, others_right)
            return statistics.Difference(
                100 * found.mean, 100 * found.low, 100 * found.high, found.n, found.kind, found.p_value
            )
    return statistics.paired_difference(ours.accuracies, theirs.accuracies)


def _row(runs: Runs, entry: Entry, samples: int | None, gain: statistics.Difference | None) -> dict[str, object]:
    values = [entry.accuracies[seed] for seed in sorted(entry.accuracies)]
    interval = statistics.accuracy_interval(values, samples)
    default = "[" not in entry.label
    known = published.find(runs.data, entry.model, entry.label, entry.iterations) if default else None
    own = runs.results[runs.results["cell"].isin(list(entry.cells.values()))]
    return {
        "name": entry.name,
        "label": entry.label,
        "iterations": pd.NA if entry.iterations is None else entry.iterations,
        "role": entry.role,
        "model": entry.model,
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "interval": interval.kind,
        "n_ok": len(values),
        "n_planned": entry.planned,
        "gain": gain.mean if gain else math.nan,
        "gain_low": gain.low if gain else math.nan,
        "gain_high": gain.high if gain else math.nan,
        "gain_interval": gain.kind if gain else "",
        "p": gain.p_value if gain else math.nan,
        "parameters": _mean_of(own, "parameters"),
        "fit_seconds": _mean_of(own, "fit_seconds"),
        "published": known.accuracy if known else math.nan,
        "published_id": known.id if known else "",
    }


def _mean_of(results: DataFrame, metric: str) -> float:
    values = results.loc[(results["metric"] == metric) & results["value"].notna(), "value"]
    return float(values.mean()) if len(values) else math.nan


def _groups(runs: Runs, entries: Iterable[Entry], table: DataFrame) -> dict[str, int]:
    """Rank groups by name, without the methods that cannot be tested against the best of theirs."""
    known = {entry.name: entry for entry in entries}
    names = [name for name in table["name"] if known[name].accuracies]

    @cache
    def p_value(one: str, other: str) -> float:
        return difference_between(runs, known[one], known[other]).p_value

    pairs = [pair for pair in combinations(names, 2) if not math.isnan(p_value(*pair))]
    testable = {name for pair in pairs for name in pair}
    groups = statistics.rank_groups([name for name in names if name in testable], p_value)
    leaders = {group: name for name, group in reversed(groups.items())}
    return {
        name: group
        for name, group in groups.items()
        if name == leaders[group] or not math.isnan(p_value(leaders[group], name))
    }


def _detectable(entries: Iterable[Entry], base: Entry | None) -> float:
    """From the median variance of the gains over the baseline, at the smallest number of seeds of any of them."""
    if base is None:
        return math.nan
    variances, seeds = [], []
    for entry in entries:
        shared = sorted(set(entry.accuracies) & set(base.accuracies))
        if entry is not base and len(shared) > 1:
            gains = [entry.accuracies[seed] - base.accuracies[seed] for seed in shared]
            variances.append(float(np.var(gains, ddof=1)))
            seeds.append(len(shared))
    if not variances:
        return math.nan
    # The median, so that one method that collapsed with one seed does not speak for all.
    return statistics.smallest_detectable_difference(math.sqrt(float(np.median(variances))), min(seeds))
