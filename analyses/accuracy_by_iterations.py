"""Test accuracy against the number of routing iterations; uniform routing is a line across."""

import math
from collections.abc import Set
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import (
    BASELINE,
    Analysis,
    Column,
    Method,
    Row,
    Runs,
    analysis_of,
    base_of,
    figures,
    palette,
    run,
    wording,
)
from routebench.analysis.comparison import ACCURACY, comparison_of, finished
from routebench.statistics import ONE_VALUE, OVER_SAMPLES, OVER_SEEDS, OVER_SEEDS_LOGIT

KINDS = (OVER_SEEDS, OVER_SEEDS_LOGIT, OVER_SAMPLES)


@analysis_of("accuracy", "accuracy-by-iterations", place=20)
def accuracy_by_iterations(runs: Runs) -> Analysis | None:
    """Mean test accuracy (%) with its 95 % interval, per method and T; in the figure, of those with several T."""
    found = comparison_of(runs).every[["method", "mean", "n_ok", "n_planned"]]
    table = found.sort_values("method", ignore_index=True, kind="stable")
    lines = _lines(table)
    several = {method for method, line in lines.items() if len(line) > 1}
    if not several:
        return None
    seen = {cell.kind for cell in table["mean"]}
    kinds = [kind for kind in KINDS if kind in seen] or [ONE_VALUE]
    return Analysis(
        title="Accuracy against routing iterations",
        reading="Do more routing iterations give a higher accuracy?",
        table=table,
        figure=_figure(table, several, runs),
        columns=(
            Column(
                "Method", "method.title", lambda row: f"{row['method'].title}{row['method'].counted}", numeric=False
            ),
            Column("T", "method.iterations"),
            replace(ACCURACY, explained=""),
            finished(),
        ),
        notes=(
            f"Dashed: uniform routing. Grey: others. Bars: {' or '.join(map(wording.interval_in_words, kinds))}.",
            "↓: a mean below the axis.",
        ),
        alternative="Lines of test accuracy over T, a panel for each method.",
    )


def _lines(table: DataFrame) -> dict[Method, list[Row]]:
    """The rows of each method that has a T, the fewest iterations first."""
    found: dict[Method, list[Row]] = {}
    for row in table.to_dict("records"):
        if row["method"].iterations:
            found.setdefault(row["method"].family, []).append(row)
    return found


def _figure(table: DataFrame, several: Set[Method], runs: Runs) -> Figure:
    """A panel per method with several T."""
    plain = table["method"].map(lambda method: method.family)
    iterated = table[plain.isin(several)]
    lines = iterated.assign(T=[method.iterations for method in iterated["method"]], method=plain)
    flat = table.drop(index=iterated.index)
    return figures.figure_of(_draw, lines, flat, runs, **figures.panels_of(lines))


def _draw(grid: list[Axes], lines: DataFrame, flat: DataFrame, runs: Runs) -> None:
    level = {
        method: cell for method, cell in zip(flat["method"], flat["mean"], strict=True) if method.label == BASELINE
    }
    cells = [*lines["mean"], *level.values()]
    lowest = figures.lowest_shown([cell.mean for cell in cells])
    ends = [end for cell in cells if cell.mean >= lowest for end in (cell.mean, cell.low, cell.high)]
    seen = [max(end, lowest) for end in ends if math.isfinite(end)]
    for axes, method in zip(grid, dict.fromkeys(lines["method"]), strict=False):  # the last row may not be full
        figures.accuracy_axis(axes, seen)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.grid(visible=False, axis="x")
        if base := base_of(method, BASELINE, level):
            axes.axhline(level[base].mean, color=palette.MUTED, linewidth=1.2, linestyle=(0, (5, 3)))
        for row in lines[lines["method"] == method].to_dict("records"):
            if row["mean"].mean < lowest:
                axes.text(
                    row["T"], 0.04, f"↓ {row['mean'].mean:.0f}",
                    transform=axes.get_xaxis_transform(), ha="center", fontsize=8, color=runs.colour(method),
                )  # fmt: skip
    figures.multiples(grid, lines, "T", "mean", runs.colour)
    grid[0].figure.supxlabel("routing iterations T", fontsize=9)
    grid[0].figure.supylabel("test accuracy, %", fontsize=9)


if __name__ == "__main__":
    run(accuracy_by_iterations)
