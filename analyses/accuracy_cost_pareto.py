"""Accuracy against cost: the Pareto front, and which methods are significantly dominated."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    ALPHA,
    METHOD,
    Analysis,
    Column,
    Estimate,
    Mean,
    Method,
    Role,
    Row,
    Runs,
    analysis_of,
    cost,
    figures,
    images_in_words,
    palette,
    run,
    standing,
    wording,
)
from routebench.analysis.comparison import ACCURACY, Contender, comparison_of, settled

VERDICTS = (
    "front: nothing that costs no more has a higher mean accuracy; dominated: something that costs no more is more "
    "accurate, significantly (paired, Holm, 5 %); not told apart: behind the front by a difference that "
    "may be noise"
)
Place = tuple[str, str, int]
"""Label, network and T, which is 0 for a method without iterations."""
Box = tuple[float, float, float, float]
"""Left, low, right and high end, in points."""
PANELS = 3
SIZE = (270.0, 150.0)  # of a panel, in points, at least
WIDE = 44  # characters of a panel's title in a line
LETTER, HEIGHT, MARK = 5.0, 10.0, 4.0  # mean width of a letter, height of a line, half of a mark; in points
CORNERS = ((6, 3), (6, -11), (-12, 3), (-12, -11))
STEP, FIT = "training step, ms", "fit, s"
EDGE, LINE = 0.03, 0.06  # the lowest name of a method at the edge, and the step to the next; shares of the height
FRONT, OPEN, DOMINATED = "front", "not told apart", "dominated"


@analysis_of("", "pareto", place=20, folder=True, role=Role.PRICE)
def accuracy_cost_pareto(parts: tuple[Runs, ...]) -> Analysis | None:
    """Accuracy (%) and cost of every method and T; costs are those of the suite `cost`, or else of the shortest fit."""
    fronts = [front for part in parts if part.protocol == "accuracy" and (front := _front(part, parts)) is not None]
    fronts = [front for front in fronts if front.unit == STEP] or fronts
    fronts.sort(key=lambda front: -len(front.table))
    if not fronts:
        return None
    shown = fronts[:PANELS]
    return Analysis(
        title="Accuracy against cost",
        reading="Which methods does nothing beat that costs no more?",
        table=pd.concat([front.table for front in fronts], ignore_index=True),
        figure=figures.figure_of(_panels, shown, height=3.2 * len(shown), rows=len(shown)),
        columns=_columns(several=len(fronts) > 1),
        notes=tuple(dict.fromkeys(note for front in fronts for note in _notes(front, len(fronts)))),
        alternative="Points of test accuracy over cost with intervals, the front joined.",
    )


@dataclass(frozen=True)
class Front:
    """One accuracy suite on one data set and network with the cost of its methods.

    Args:
        runs: the runs of the accuracy suite.
        table: one row per method and T with both numbers, the cheapest first.
        unit: the unit of the cost, `STEP` or `FIT`.
        noise: relative difference that two measurements of one cost may have; NaN if unknown.
        borrowed: labels whose cost is that of the default hyperparameters.
        left_out: names without a cost.
        fitted: a sentence on the machines of fits, if there were several.
    """

    runs: Runs
    table: DataFrame
    unit: str
    noise: float
    borrowed: tuple[str, ...]
    left_out: tuple[str, ...]
    fitted: tuple[str, ...] = ()

    @property
    def lowest(self) -> float:
        """The mean below which a method is too far off to be drawn in its place."""
        return figures.lowest_shown([float(mean) for mean in self.table["mean"]])


def _title(runs: Runs) -> str:
    """Names the results."""
    return f"{runs.suite}, {runs.preset}, {runs.data}, {runs.model}"


def _front(runs: Runs, parts: Iterable[Runs]) -> Front | None:
    found = comparison_of(runs)
    entries = {method: one for method, one in found.contenders.items() if one.accuracies}
    if len(entries) < 2:
        return None
    timed = (part for part in parts if part.protocol == "cost")
    measure = next((part for part in timed if (part.model, part.data) == (runs.model, runs.data)), None)
    costs = {} if measure is None else _step_costs(measure, runs, entries)
    unit = STEP if len(costs) > 1 else FIT
    if unit == FIT:
        costs = _fit_costs(runs, entries)
    rows: list[Row] = [row for row in found.measured.to_dict("records") if row["method"] in costs]
    if len(rows) < 2:
        return None
    where = {
        "title": _title(runs),
        "suite": runs.suite,
        "preset": runs.preset,
        "data": runs.data,
        "network": runs.model,
        "unit": unit,
    }
    rows = [{**row, **where, **costs[row["method"]]} for row in rows]
    table = DataFrame({**row, **verdict} for row, verdict in zip(rows, _verdicts(runs, rows), strict=True))
    table["order"] = [-row["mean"].mean for row in rows]
    table = table.assign(price=[row["cost"].mean for row in rows]).sort_values(["price", "order"], kind="stable")
    noise = cost.step_costs(measure, cost.WHOLE)[1] if measure is not None and unit == STEP else math.nan
    borrowed = sorted({row["method"].label for row in rows if row["borrowed"]})
    left_out = tuple(method.marked for method in entries if method not in costs)
    fitted = cost.machines_told(runs) if unit == FIT else ()
    return Front(runs, table.reset_index(drop=True), unit, noise, tuple(borrowed), left_out, fitted)


def _step_costs(measure: Runs, runs: Runs, entries: Iterable[Method]) -> dict[Method, dict[str, Any]]:
    """Milliseconds per training step and of inference at the largest batch, on the fastest back end.

    A method that was timed with other tuned settings has none: they may change what a step does.
    """
    training, inference = (_by_place(measure, metric) for metric in ("training_time", "inference_time"))
    timed, chosen = _tuned(measure), _tuned(runs)
    found = {}
    for method in entries:
        place = _place(method)
        if timed and timed.get(place) != chosen.get(place):
            continue
        for label in (method.label, method.label.partition("[")[0]):
            if (other := (label, *place[1:])) in training:
                own = label == method.label and (bool(timed) or place not in chosen)
                known = {"cost": training[other], "borrowed": not own}
                found[method] = known | {"inference": inference.get(other, Estimate()).mean}
                break
    return found


def _place(method: Method) -> Place:
    return method.label, method.model, method.iterations or 0


def _tuned(runs: Runs) -> dict[Place, list[str]]:
    """The tuned settings of each place, in words; empty where nothing was tuned."""
    found: dict[Place, set[str]] = {}
    for cell, method in runs.methods.items():
        if point := runs.tuning(cell).get("point"):
            found.setdefault(_place(method), set()).add(repr(sorted(point.items())))
    return {place: sorted(own) for place, own in found.items()}


def _by_place(measure: Runs, metric: str) -> dict[Place, Estimate]:
    """The cost of a step, by place."""
    table, _ = cost.step_costs(measure, cost.WHOLE, metric)
    return {_place(row["method"]): row["mean"] for row in table.to_dict("records")}


def _fit_costs(runs: Runs, entries: Mapping[Method, Contender]) -> dict[Method, dict[str, Any]]:
    """Seconds of the shortest fit: other work at the time makes fits longer, never shorter."""
    seconds = runs.values("fit_seconds")
    found: dict[Method, dict[str, Any]] = {}
    for method, one in entries.items():
        own = seconds.loc[seconds["cell"].isin([*one.cells.values()]), "value"]
        found[method] = {"cost": Estimate(float(own.min())), "borrowed": False, "inference": math.nan}
    return {method: known for method, known in found.items() if known["cost"].known}


def _verdicts(runs: Runs, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Tells which methods are on the front by means, and which a cheaper method beats significantly."""
    pairs = list(combinations([row["method"] for row in rows], 2))
    tested = [settled(runs).difference(*pair) for pair in pairs]
    surely = {
        pair if found.mean > 0 else pair[::-1]
        for pair, found in zip(pairs, tested, strict=True)
        if found.p_holm < ALPHA
    }

    def beats(other: Row, row: Row) -> bool:
        """Tells whether one beats another by the means, of which one over fewer of its seeds beats none over more."""
        cost, price = (float(one["cost"]) for one in (other, row))
        ours, theirs = (standing(one, "mean") for one in (other, row))
        return cost <= price and ours <= theirs and (ours < theirs or cost < price)

    verdicts = []
    for row in rows:
        by_means = [other for other in rows if other is not row and beats(other, row)]
        sure = [other for other in by_means if (other["method"], row["method"]) in surely]
        verdict = DOMINATED if sure else OPEN if by_means else FRONT
        ahead = [other["method"] for other in sorted(sure, key=lambda other: standing(other, "mean"))]
        verdicts.append({"verdict": verdict, "by": ", ".join(method.exact for method in ahead), "ahead": ahead})
    return verdicts


def _columns(*, several: bool) -> tuple[Column, ...]:
    of = Column("Of", "data", lambda row: f"{row['preset']}, {row['data']}, {row['network']}", numeric=False)
    return (
        METHOD,
        Column("Verdict", "verdict", explained=VERDICTS, numeric=False, judges=True),
        *((of,) if several else ()),
        ACCURACY,
        Column("Cost", "cost", _cost, "the shortest training step that was measured, or the shortest fit"),
        Mean.of("inference_time", "inference", explained="the same batch, no gradient", text="~"),
        Column("Beaten by", "by", _by, "cheaper by the means, and surely more accurate", numeric=False),
    )


def _cost(row: Row) -> str:
    return f"{row['cost']:~} {'ms' if row['unit'] == STEP else 's'}"


def _by(row: Row) -> str:
    return wording.listed(row["ahead"], 3) if row["ahead"] else wording.NOTHING


def _notes(front: Front, fronts: int) -> list[str]:
    far = [row["method"].marked for row in front.table.to_dict("records") if row["mean"].mean < front.lowest]
    notes = [
        "The front has dark edges and, where there is room, names; dominated methods are pale. Numbers: T of others.",
    ]
    if front.unit == STEP:
        told = (
            "Cost: a training step of the whole network, from the suite `cost`, at its largest batch, on the fastest "
            "back end; the shortest of its measurements"
        )
        notes.append(f"{'. '.join(filter(None, (told, cost.of_noise('shortest', front.noise).capitalize())))}.")
    else:
        notes.append(
            "Cost: seconds of the shortest fit on the wall clock, in which what else ran at the time counts. Run the "
            "suite `cost` into the same folder for a cost that was measured alone."
        )
    notes += front.fitted
    if front.borrowed:
        labels = wording.listed(list(front.borrowed), 4)
        notes.append(f"Cost of {labels}: that of the same method with its default hyperparameters.")
    if far:
        notes.append(f"At the lower edge, as too far off: {wording.listed(far, 6)}.")
    if front.left_out:
        notes.append(f"No cost with these settings, hence not here: {wording.listed(list(front.left_out), 6)}.")
    if fronts > PANELS:
        notes.append(f"The figure has the first {PANELS} of {fronts} comparisons, the table all.")
    return notes


def _panels(grid: Sequence[Axes], fronts: Sequence[Front]) -> None:
    methods = [(front.runs, method) for front in fronts for method in front.table["method"]]
    titles = {method.apart: method.title for _, method in methods}
    labels = sorted(titles)
    marks = {label: figures.MARKERS[place % len(figures.MARKERS)] for place, label in enumerate(labels)}
    alike = Counter((front.runs.data, front.runs.model) for front in fronts)
    sets = [front.runs.data for front in fronts]
    for axes, front in zip(grid, fronts, strict=True):
        suite = f"{front.runs.suite}: " if alike[front.runs.data, front.runs.model] > 1 else ""
        _draw(axes, front, marks, f"{suite}{images_in_words(front.runs.data, sets)}, {front.runs.model}")
    colours = {method.apart: runs.colour(method) for runs, method in methods}
    for label in labels:
        grid[0].plot([], [], marks[label], color=colours[label], label=titles[label])
    figures.legend_below(grid[0])


def _draw(axes: Axes, front: Front, marks: Mapping[str, str], title: str) -> None:
    rows: list[Row] = [*front.table.to_dict("records")]
    near = [row for row in rows if row["mean"].mean >= front.lowest]
    figures.accuracy_axis(
        axes, [max(one, front.lowest) for row in near for one in _three(row["mean"]) if math.isfinite(one)]
    )
    _cost_axis(axes, [row["cost"].mean for row in rows])
    best = [row for row in rows if row["verdict"] == FRONT]
    joined = [row["cost"].mean for row in best], [row["mean"].mean for row in best]
    axes.plot(*joined, color=palette.INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
    for row in near:
        _point(axes, row, front.runs, marks[row["method"].apart])
    far = [row for row in rows if row["mean"].mean < front.lowest]
    for place, row in enumerate(far):
        _at_edge(axes, row, front.runs.colour(row["method"]), EDGE + place * LINE)
    _label(axes, near)
    axes.set(xlabel=f"cost: {front.unit}", ylabel="test accuracy, %")
    axes.set_title(fill(title, WIDE), pad=16)  # the best has a name above it
    axes.grid(visible=False, axis="x")


def _at_edge(axes: Axes, row: Row, colour: str, height: float) -> None:
    """An arrow and a number at the lower edge, for a method that is too far off."""
    bottom = axes.get_xaxis_transform()
    axes.plot(row["cost"].mean, height, "v", color=colour, markersize=6, transform=bottom)
    told = f"{_named(row['method'])}: {row['mean'].mean:.0f}"
    is_right = row["cost"].mean > sum(axes.get_xlim()) / 2
    axes.annotate(
        told, (row["cost"].mean, height), (-7 if is_right else 7, 0), xycoords=bottom, textcoords="offset points",
        ha="right" if is_right else "left", va="center", fontsize=8, color=palette.MUTED,
    )  # fmt: skip


def _named(method: Method) -> str:
    return f"{method.title}, T = {method.iterations}" if method.iterations else method.title


def _three(found: Estimate) -> tuple[float, float, float]:
    return found.mean, found.low, found.high


def _cost_axis(axes: Axes, costs: Sequence[float]) -> None:
    low, high = min(costs), max(costs)
    if high > 5 * low > 0:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.3, high * 1.3)
        figures.plain_log(axes.xaxis)
    else:
        margin = 0.08 * (high - low) if high > low else 0.1 * high
        axes.set_xlim(max(low - margin, 0), high + margin)


def _point(axes: Axes, row: Row, runs: Runs, mark: str) -> None:
    """One method: its mark, larger on the front and pale where beaten, and its intervals."""
    beaten, method = row["verdict"] == DOMINATED, row["method"]
    colour, alpha = (palette.MUTED, 0.35) if beaten else (runs.colour(method), 0.9)
    (cost, cheap, dear), (mean, low, high) = _three(row["cost"]), _three(row["mean"])
    axes.vlines(cost, low, high, color=colour, linewidth=1.5, alpha=alpha)
    axes.hlines(mean, cheap, dear, color=colour, linewidth=1.2, alpha=alpha)
    size, edge = (9, palette.INK) if row["verdict"] == FRONT else (6, colour)
    axes.plot(cost, mean, mark, color=colour, markersize=size, markeredgecolor=edge, alpha=alpha, zorder=3)


def _label(axes: Axes, rows: Sequence[Row]) -> None:
    """Writes the name of each method on the front beside it, and T beside others that are not beaten.

    What finds no free place is omitted: marks and table tell.
    """
    to_share = axes.transData + axes.transAxes.inverted()
    places = [to_share.transform((row["cost"].mean, row["mean"].mean)) * SIZE for row in rows]
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in places]

    def write(told: str, place: int, corners: Iterable[tuple[float, float]], colour: str) -> bool:
        """Writes a text at the first corner of a point, in points from it, where it covers nothing."""
        (x, y), width = places[place], LETTER * len(told)
        for right, up in corners:
            left, low = x + right, y + up
            box = left, low, left + width, low + HEIGHT
            if all(_is_apart(box, other) for number, other in enumerate(taken) if number != place):
                taken.append(box)
                point = rows[place]["cost"].mean, rows[place]["mean"].mean
                axes.annotate(told, point, (right, up), textcoords="offset points", fontsize=9, color=colour)
                return True
        return False

    order = sorted(range(len(rows)), key=lambda place: -rows[place]["mean"].mean)
    named = set[int]()
    for place in order:
        if rows[place]["verdict"] == FRONT:
            told = _named(rows[place]["method"])
            before = min(LETTER * len(told), places[place][0] - LETTER)  # within the axes
            if write(told, place, ((-before, 8), (8, -4)), palette.INK):
                named.add(place)
    for place in order:
        if (steps := rows[place]["method"].iterations) and rows[place]["verdict"] != DOMINATED and place not in named:
            write(str(steps), place, CORNERS, palette.MUTED)


def _is_apart(one: Box, other: Box) -> bool:
    return one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]


if __name__ == "__main__":
    run(accuracy_cost_pareto)
