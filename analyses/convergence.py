"""The convergence of routing: how far each iteration moves the class capsules, and how coupling sharpens."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Mean,
    Method,
    Runs,
    analysis_of,
    by_method,
    figures,
    numbers,
    run,
    table_of,
)

CLASSES = {"layer": "classes"}
COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("Iterations", "test_iterations"),
    Mean.of("residual", explained="|f(z) - z| / |z| of the poses, mean over test images", where=CLASSES),
    Mean.of("t_score", explained="1: one parent per child; 0: all alike", text=".3", where=CLASSES),
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
    panels = figures.panels_of(table)
    doubled = {key: 2 * panels.pop(key) for key in ("rows", "height")}
    return Analysis(
        title="Does routing come to rest?",
        reading="How far does each further iteration move the class capsules?",
        table=table,
        figure=figures.figure_of(_draw, table, runs, **doubled, **panels | {"sharey": False}),
        columns=COLUMNS,
        notes=(
            "Trained with T (circled), followed from the same weights with more iterations.",
            "Mean over some test images, then over seeds.",
        ),
        alternative="A panel per method over iterations: above the residual, logarithmic, below the T-score.",
    )


def _draw(grid: list[Axes], table: DataFrame, runs: Runs) -> None:
    half = len(grid) // 2
    for panels, (key, title) in zip((grid[:half], grid[half:]), PANELS.items(), strict=True):
        known = numbers(table[key]).dropna()
        for axes in panels:
            axes.sharey(panels[0])
        panels[0].set_yscale("log" if key == "residual" else "linear")
        panels[0].set_ylim(*((known.min() / 2, known.max() * 2) if key == "residual" else (-0.05, 1.05)))
        figures.multiples(panels, table, "test_iterations", key, runs.colour, bars=False, markersize=3)
        for axes, (_, own) in zip(panels, table.groupby(table["method"].map(_family), sort=False), strict=False):
            for method, line in by_method(own):
                at = line["test_iterations"] == method.iterations
                style: dict[str, Any] = {"color": runs.colour(method), "markersize": 9, "fillstyle": "none"}
                axes.plot(line.loc[at, "test_iterations"], numbers(line.loc[at, key]), "o", **style)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
            axes.label_outer()
            axes.tick_params(labelbottom=True)
        panels[0].set_ylabel(title)
    grid[0].figure.supxlabel("iterations", fontsize=9)


def _family(method: Method) -> Method:
    return method.family


if __name__ == "__main__":
    run(convergence)
