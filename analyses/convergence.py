"""Whether routing converges: how far each iteration moves the class capsules, and how coupling sharpens."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Mean,
    Runs,
    analysis_of,
    best_first,
    by_method,
    figures,
    numbers,
    run,
    table_of,
    wording,
)

AT_REST = 0.01
CLASSES = {"layer": "classes"}
COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("Iterations", "test_iterations"),
    Mean("Residual", "residual", "±.4", "|f(z) - z| / |z| of the poses, mean over test images", where=CLASSES),
    Mean("T-score", "t_score", ".3", "1: one parent per child; 0: all alike", where=CLASSES),
)
PANELS = {"residual": "Residual of class capsules", "t_score": "T-score of coupling"}


@analysis_of("sparsity", "convergence", place=20)
def convergence(runs: Runs) -> Analysis | None:
    """Residual |f(z) - z| / |z| of the class capsules' poses, and T-score, after each iteration; same weights."""
    table = table_of(runs, COLUMNS, by=["test_iterations"])
    table = table[table["test_iterations"].notna()].astype({"test_iterations": int})
    moved = table[numbers(table["residual"]).notna()]
    if moved.empty:
        return None
    height = max(5.6, 1.4 * figures.height_of_rows(map(str, table["method"].unique())))
    return Analysis(
        title="Does routing come to rest?",
        reading=_reading(moved),
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=height, rows=2, sharex=True),
        columns=COLUMNS,
        notes=(
            "Trained with the T in the name (circled), followed from the same weights with more iterations.",
            "Mean over some test images, then over seeds.",
        ),
        alternative="Two panels over iterations: residual, logarithmic, and T-score.",
        saved="name label iterations test_iterations t_score residual low=residual.low high=residual.high",
    )


def _draw(grid: list[Axes], table: DataFrame, runs: Runs) -> None:
    for axes, (key, title) in zip(grid, PANELS.items(), strict=True):
        for place, (method, line) in enumerate(by_method(table)):
            style: dict[str, Any] = {"color": runs.colour(method), "linestyle": figures.dashes_of(method)}
            steps, values = line["test_iterations"], numbers(line[key])
            axes.plot(steps, values, marker=figures.MARKERS[place % 10], markersize=4, **style)
            own = steps == method.iterations
            axes.plot(steps[own], values[own], "o", color=runs.colour(method), markersize=11, fillstyle="none")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(title)
    grid[0].set_yscale("log")
    grid[1].set_xlabel("routing iterations, same weights")
    for axes, key in zip(grid, PANELS, strict=True):
        last = {method: numbers(line[key]).dropna().iloc[-1] for method, line in by_method(table)}
        ends = {str(method): end for method, end in last.items()}
        colours = {str(method): runs.colour(method) for method in last}
        figures.label_ends(axes, float(table["test_iterations"].max()), ends, colours, gap=min(0.1, 0.8 / len(ends)))


def _reading(moved: DataFrame) -> str:
    last = best_first(moved.groupby("method").last().reset_index(), "residual").to_dict("records")
    still = sorted(row["method"] for row in last if row["residual"].mean < AT_REST)
    who = f"{wording.listed(still, 6)} moved by less than 1 %" if still else "no method has come to rest"
    told = f"After {moved['test_iterations'].max()} iterations {who}"
    if len(still) == len(last):
        return f"{told}."
    worst, share = last[0]["method"], 100 * last[0]["residual"].mean
    return f"{told}; {worst} still moves by {share:.0f} % in its last iteration."


if __name__ == "__main__":
    run(convergence)
