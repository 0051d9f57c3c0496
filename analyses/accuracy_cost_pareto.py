"""Accuracy against cost: which methods no other beats in both, and which are beaten for certain."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Analysis, Column, Estimate, Row, Runs, analysis_of, cost, figures, palette, run, wording
from routebench.analysis.comparison import Contender, compare, difference_between

ALPHA = 0.05
PANELS = 3
STEP, FIT = "training step, ms", "fit, s"
FRONT, OPEN, DOMINATED = "front", "not told apart", "dominated"
WHOLE = "network"  # the suite `cost` times it as a part


@analysis_of("", "pareto", place=20, folder=True)
def accuracy_cost_pareto(parts: tuple[Runs, ...]) -> Analysis | None:
    """Accuracy (%) and cost of every method and T; costs are those of the suite `cost`, or the seconds of the fits."""
    fronts = [front for part in parts if part.protocol == "accuracy" and (front := _front(part, parts)) is not None]
    if not fronts:
        return None
    table = _joined(fronts)
    shown = fronts[:PANELS]
    with figures.look():
        figure, grid = figures.new_figure(sum(_height(front) for front in shown), rows=len(shown))
        for axes, front in zip(grid, shown, strict=True):
            _draw(axes, front)
    reading = " ".join(_reading(front, several=len(fronts) > 1) for front in fronts)
    return Analysis(
        title="Accuracy against cost",
        reading=reading,
        table=table,
        figure=figure,
        columns=_columns(several=len(fronts) > 1),
        notes=tuple(dict.fromkeys(note for front in fronts for note in _notes(front, len(fronts)))),
        alternative="Points of test accuracy over cost with intervals, the front joined.",
    )


@dataclass(frozen=True)
class Front:
    """One accuracy suite on one data set and network with the cost of its methods.

    Args:
        runs: of the accuracy suite.
        table: one row per method and T that has both numbers, the cheapest first.
        unit: of the cost, `STEP` or `FIT`.
        noise: share by which two measurements of one cost differ; NaN if unknown.
        borrowed: labels whose cost is that of the same method with other hyperparameters.
        left_out: names without a cost.
    """

    runs: Runs
    table: DataFrame
    unit: str
    noise: float
    borrowed: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def title(self) -> str:
        """Which results these are."""
        return f"{self.runs.suite}, {self.runs.preset}, {self.runs.data}, {self.runs.model}"


def _front(runs: Runs, parts: Iterable[Runs]) -> Front | None:
    found = compare(runs)
    measured = found.measured if not found.table.empty else found.table
    entries = {one.method.exact: one for one in found.contenders.values() if one.accuracies}
    if len(entries) < 2:
        return None
    timed = (part for part in parts if part.protocol == "cost")
    measure = next((part for part in timed if (part.model, part.data) == (runs.model, runs.data)), None)
    costs = {} if measure is None else _step_costs(measure, entries)
    unit = STEP if len(costs) > 1 else FIT
    if unit == FIT:
        costs = {name: _fit_cost(runs, entry) for name, entry in entries.items()}
    costs = {name: known for name, known in costs.items() if not math.isnan(known["cost"])}
    kept = [row for row in measured.to_dict("records") if row["name"] in costs]
    if len(kept) < 2:
        return None
    verdicts = _verdicts(runs, {row["name"]: entries[row["name"]] for row in kept}, costs)
    rows = [_row(runs, row, unit) | costs[row["name"]] | verdicts[row["name"]] for row in kept]
    table = (
        DataFrame(rows)
        .astype({"iterations": "Int64"})
        .sort_values(["cost", "mean"], ascending=[True, False], kind="stable")
    )
    noise = cost.costs_of(measure).noise if measure is not None and unit == STEP else math.nan
    borrowed = sorted({str(row["label"]) for row in rows if row["borrowed"]})
    left_out = tuple(name for name in entries if name not in costs)
    return Front(runs, table.reset_index(drop=True), unit, noise, tuple(borrowed), left_out)


def _row(runs: Runs, row: Row, unit: str) -> dict[str, object]:
    keys = ("name", "label", "iterations", "role", "mean", "low", "high", "interval", "n_ok")
    where = {"suite": runs.suite, "preset": runs.preset, "data": runs.data, "network": runs.model}
    return {**where, **{key: row[key] for key in keys}, "unit": unit}


def _step_costs(measure: Runs, entries: Mapping[str, Contender]) -> dict[str, dict[str, float | bool]]:
    """Milliseconds per training step and of inference at the largest batch, on the fastest back end, by name."""
    training, inference = (_fastest(measure, metric) for metric in ("training_time", "inference_time"))
    found: dict[str, dict[str, float | bool]] = {}
    for name, entry in entries.items():
        steps = entry.method.iterations or 0
        for label in (entry.method.label, entry.method.label.partition("[")[0]):
            if (label, steps) in training:
                mean, low, high = training[label, steps]
                known = {"cost": mean, "cost_low": low, "cost_high": high, "borrowed": label != entry.method.label}
                found[name] = known | {"inference": inference.get((label, steps), (math.nan,))[0]}
                break
    return found


def _fastest(measure: Runs, metric: str) -> dict[tuple[str, int], tuple[float, float, float]]:
    """Mean with its interval over seeds and repeats, by label and T."""
    rows = measure.results[(measure.results["metric"] == metric) & measure.results["value"].notna()]
    if "part" not in rows or rows.empty:
        return {}
    rows = rows[rows["part"] == WHOLE]
    rows = rows[rows["batch"] == rows["batch"].max()].assign(steps=rows["iterations"].fillna(0).astype(int))
    best: dict[tuple[str, int], tuple[float, float, float]] = {}
    for key, own in rows.groupby(["label", "steps", "backend"]):
        found = statistics.mean_interval(own.groupby("seed")["value"].mean().to_numpy(dtype=float))
        place = str(key[0]), int(str(key[1]))
        if place not in best or found.mean < best[place][0]:
            best[place] = found.mean, found.low, found.high
    return best


def _fit_cost(runs: Runs, entry: Contender) -> dict[str, float | bool]:
    own = runs.results[runs.results["cell"].isin(list(entry.cells.values()))]
    seconds = own.loc[(own["metric"] == "fit_seconds") & own["value"].notna(), "value"].to_numpy(dtype=float)
    found = statistics.mean_interval(seconds)
    known = {"cost": found.mean, "cost_low": found.low, "cost_high": found.high}
    return {**known, "borrowed": False, "inference": math.nan}


def _verdicts(
    runs: Runs, entries: Mapping[str, Contender], costs: Mapping[str, Mapping[str, float | bool]]
) -> dict[str, dict[str, str]]:
    """Who is on the front by the means, and who is beaten by something cheaper whose accuracy is surely higher."""
    pairs = list(combinations(entries, 2))
    found = {pair: difference_between(runs, entries[pair[0]], entries[pair[1]]) for pair in pairs}
    adjusted = dict(zip(pairs, statistics.holm([found[pair].p for pair in pairs]), strict=True))
    accuracy = {name: float(np.mean(list(entry.accuracies.values()))) for name, entry in entries.items()}

    def surely(better: str, worse: str) -> bool:
        pair, sign = ((better, worse), 1) if (better, worse) in found else ((worse, better), -1)
        return bool(adjusted[pair] < ALPHA and sign * found[pair].mean > 0)

    verdicts = {}
    for name in entries:
        cheaper = [other for other in entries if other != name and costs[other]["cost"] <= costs[name]["cost"]]
        by_means = [
            other
            for other in cheaper
            if accuracy[other] >= accuracy[name]
            and (accuracy[other] > accuracy[name] or costs[other]["cost"] < costs[name]["cost"])
        ]
        sure = sorted((other for other in by_means if surely(other, name)), key=lambda other: -accuracy[other])
        verdict = DOMINATED if sure else OPEN if by_means else FRONT
        verdicts[name] = {"verdict": verdict, "by": ", ".join(sure)}
    return verdicts


def _joined(fronts: list[Front]) -> DataFrame:
    rows = [row for front in fronts for row in front.table.to_dict("records")]
    return DataFrame(rows).astype({"iterations": "Int64"})


def _columns(*, several: bool) -> tuple[Column, ...]:
    of = Column("Of", "data", lambda row: f"{row['preset']}, {row['data']}, {row['network']}", numeric=False)
    return (
        Column("Method", "name", wording.marked, "routing method and T", numeric=False),
        *((of,) if several else ()),
        Column("Accuracy, %", "mean", _accuracy, "mean test accuracy with its 95 % interval"),
        Column("Cost", "cost", _cost, "of a training step, or of a whole fit, with its 95 % interval over seeds"),
        Column("Inference, ms", "inference", "~", "the same batch, no gradient"),
        Column("Verdict", "verdict", lambda row: str(row["verdict"]), "see the notes", numeric=False),
        Column("Beaten by", "by", _by, "cheaper by the means, and surely more accurate", numeric=False),
    )


def _accuracy(row: Row) -> str:
    return wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])


def _cost(row: Row) -> str:
    found = Estimate(row["cost"], row["cost_low"], row["cost_high"])
    return f"{found:~} {row['unit'].rpartition(' ')[2]}"


def _by(row: Row) -> str:
    return wording.listed(row["by"].split(", "), 3) if row["by"] else wording.NOTHING


def _reading(front: Front, *, several: bool) -> str:
    table = front.table
    best = [str(name) for name in table.loc[table["verdict"] == FRONT, "name"]]
    beaten, undecided = (int((table["verdict"] == kind).sum()) for kind in (DOMINATED, OPEN))
    where = f"{front.title}: " if several else ""
    only = "Only controls are" if set(table.loc[table["verdict"] == FRONT, "role"]) == {"control"} else "On the front"
    names = wording.listed(best, 5)
    told = f"{only} on the front: {names}" if only.startswith("Only") else f"{only}, by the means: {names}"
    return (
        f"{where}{told}; {beaten} of {len(table)} {'is' if beaten == 1 else 'are'} surely beaten by something that "
        f"costs no more, and {undecided} {'lies' if undecided == 1 else 'lie'} behind the front by less than noise."
    )


def _notes(front: Front, fronts: int) -> list[str]:
    notes = [
        "Numbers beside the points are T; marks of the front have a dark edge, dominated ones are pale.",
        (
            "On the front: nothing that costs no more has a higher mean accuracy. Dominated: something that costs no "
            "more, by the means, is more accurate, and the difference is no noise (paired, Holm over all pairs, 5 %). "
            "Not told apart: behind the front by the means, but by a difference that may be noise."
        ),
    ]
    if front.unit == STEP:
        noise = "" if math.isnan(front.noise) else f" Costs closer than {100 * front.noise:.2g} % are noise."
        notes.append(
            "Cost: a training step of the whole network, from the suite `cost`, at its largest batch, on the fastest "
            f"back end.{noise}"
        )
    else:
        notes.append(
            "Cost: seconds of the fits on the wall clock. What else ran at the time is in them; run the suite `cost` "
            "into the same folder for a cost that was measured alone."
        )
    if front.borrowed:
        labels = wording.listed(list(front.borrowed), 4)
        notes.append(f"Cost of {labels}: that of the same method with its default hyperparameters.")
    if front.left_out:
        notes.append(f"No cost, hence not here: {wording.listed(list(front.left_out), 6)}.")
    if fronts > PANELS:
        notes.append(f"The figure has the first {PANELS} of {fronts} comparisons, the table all.")
    return notes


def _height(front: Front) -> float:
    return 3.6 + 0.22 * len(set(front.table["label"]))


def _draw(axes: Axes, front: Front) -> None:
    table, runs = front.table, front.runs
    figures.accuracy_axis(axes, [*table["mean"], *table["low"], *table["high"]])
    low, high = float(table["cost"].min()), float(table["cost"].max())
    axes.set_xscale("log" if high > 5 * low > 0 else "linear")
    margin = 0.08 * (high - low) if high > low else 0.1 * high
    axes.set_xlim((low / 1.3, high * 1.3) if axes.get_xscale() == "log" else (max(low - margin, 0), high + margin))
    best = table[table["verdict"] == FRONT].sort_values("cost")
    axes.plot(best["cost"], best["mean"], color=palette.INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
    labels = sorted(set(table["label"]))
    for row in table.to_dict("records"):
        beaten = row["verdict"] == DOMINATED
        colour, alpha = (palette.MUTED, 0.35) if beaten else (runs.colours.get(row["label"], palette.MUTED), 0.9)
        axes.vlines(row["cost"], row["low"], row["high"], color=colour, linewidth=1.5, alpha=alpha)
        axes.hlines(row["mean"], row["cost_low"], row["cost_high"], color=colour, linewidth=1.2, alpha=alpha)
        size, edge = (9, palette.INK) if row["verdict"] == FRONT else (6, colour)
        mark = _marker(labels, row["label"])
        axes.plot(
            row["cost"], row["mean"], mark, color=colour, markersize=size, markeredgecolor=edge, alpha=alpha, zorder=3
        )
        if not pd.isna(row["iterations"]):
            place = (row["cost"], row["mean"])
            axes.annotate(
                f"{row['iterations']}", place, (6, 3), textcoords="offset points", fontsize=9, color=palette.MUTED
            )
    axes.set(xlabel=f"cost: {front.unit}", ylabel="")
    axes.set_title(f"Test accuracy, %: {front.runs.data}, {front.runs.model}")
    axes.grid(visible=False, axis="x")
    _legend(axes, runs, labels)


def _legend(axes: Axes, runs: Runs, labels: list[str]) -> None:
    """Below the axes: which mark is which method; T stands beside each point."""
    marks = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=_marker(labels, label),
            color=runs.colours.get(label, palette.MUTED),
            label=label,
        )
        for label in labels
    ]
    longest = max(len(label) for label in labels)
    columns = 3 if longest < 14 else 2 if longest < 26 else 1
    axes.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, frameon=False, fontsize=9)


def _marker(labels: list[str], label: str) -> str:
    return figures.MARKERS[labels.index(label) % len(figures.MARKERS)]


if __name__ == "__main__":
    run(accuracy_cost_pareto)
