"""Test accuracy against the number of routing iterations; methods without iterations are bands across the picture."""

from dataclasses import replace

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Estimate, Method, Runs, analysis_of, figures, run, wording
from routebench.analysis.comparison import comparison_of, finished
from routebench.statistics import ONE_VALUE, OVER_SAMPLES, OVER_SEEDS, OVER_SEEDS_LOGIT

SAVED = "label iterations role mean low high interval=mean.kind n_ok n_planned"
KINDS = (OVER_SEEDS, OVER_SEEDS_LOGIT, OVER_SAMPLES)


@analysis_of("accuracy", "accuracy-by-iterations", place=20)
def accuracy_by_iterations(runs: Runs) -> Analysis | None:
    """Mean test accuracy (%) with its 95 % interval, per method and iteration count T."""
    found = comparison_of(runs).every[["method", "mean", "n_ok", "n_planned"]]
    table = found.sort_values("method", ignore_index=True)
    labels = sorted({method.title for method in table["method"]})
    if not any(method.iterations for method in table["method"]):
        return None
    seen = {cell.kind for cell in table["mean"]}
    kinds = [kind for kind in KINDS if kind in seen] or [ONE_VALUE]
    return Analysis(
        title="Accuracy against routing iterations",
        reading=_reading(table),
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=4.0),
        columns=(
            Column("Method", "method.title", numeric=False),
            Column("T", "method.iterations"),
            Column("Accuracy, %", "mean", "±0.2"),
            finished(),
        ),
        notes=(f"Bars and bands: {' or '.join(wording.interval_in_words(kind) for kind in kinds)}.",),
        alternative=f"Lines of test accuracy over T for {wording.listed(labels, 8)}.",
        saved=SAVED,
    )


def _lines(table: DataFrame) -> dict[Method, dict[int, Estimate]]:
    """Accuracy by method, without its T, then by T, of the methods that have one."""
    found: dict[Method, dict[int, Estimate]] = {}
    for method, mean in zip(table["method"], table["mean"], strict=True):
        if method.iterations:
            found.setdefault(replace(method, iterations=None), {})[method.iterations] = mean
    return found


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    figures.accuracy_axis(axes, [end for cell in table["mean"] for end in (cell.mean, cell.low, cell.high)])
    found, ends, colours = _lines(table), {}, {}
    for place, (plain, line) in enumerate(found.items()):
        colour = colours[str(plain)] = runs.colour(plain)
        shifted = [steps + 0.07 * (place - (len(found) - 1) / 2) for steps in line]  # intervals stand side by side
        means = [cell.mean for cell in line.values()]
        sns.lineplot(x=shifted, y=means, ax=axes, color=colour, marker=figures.MARKERS[place % 10], markersize=7)
        lows, highs = ([getattr(cell, end) for cell in line.values()] for end in ("low", "high"))
        axes.vlines(shifted, lows, highs, color=colour, linewidth=1.6, alpha=0.75)
        ends[str(plain)] = means[-1]
    for method, cell in zip(table["method"], table["mean"], strict=True):
        if not method.iterations:
            colour = colours[str(method)] = runs.colour(method)
            axes.axhspan(cell.low, cell.high, color=colour, alpha=0.10, linewidth=0)
            axes.axhline(cell.mean, color=colour, linewidth=1.6, linestyle=(0, (5, 3)))
            ends[str(method)] = cell.mean
    every = [steps for line in found.values() for steps in line]
    axes.set_xlim(min(every) - 0.3, max(every) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="routing iterations T", ylabel="")
    axes.set_title("Test accuracy, %")
    figures.label_ends(axes, max(every) + 0.3, ends, colours)


def _reading(table: DataFrame) -> str:
    sentences = []
    for method, line in _lines(table).items():
        best, first = max(line, key=lambda steps: line[steps].mean), min(line)
        if len(line) == 1:
            sentences.append(f"{method} was run with T={first} only")
        elif best == first:
            sentences.append(f"{method} is best with its fewest iterations, T={best}")
        else:
            gain = line[best].mean - line[first].mean
            sentences.append(f"{method} is best with T={best}, {gain:.2f} points above T={first}")
    return f"By their means, {'; '.join(sentences)}."


if __name__ == "__main__":
    run(accuracy_by_iterations)
