"""Trained with T iterations, tested with T': the effect of longer or shorter routing on a trained network."""

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run

LONGEST = 30  # letters above one heat map
ACROSS = 2  # heat maps in a row; more are too small on a phone


@analysis_of("accuracy", "iteration-matrix", place=30)
def iteration_matrix(runs: Runs) -> Analysis | None:
    """Mean test accuracy (%) over seeds, per method, trained-with T and tested-with T'."""
    tested = runs.values("accuracy", split="test").dropna(subset="test_iterations")
    tested = tested.assign(
        label=[method.apart for method in tested["method"]],
        iterations=[method.iterations for method in tested["method"]],
    ).dropna(subset="iterations")
    points = tested.astype({"iterations": int, "test_iterations": int})
    accuracies = points.groupby(["label", "iterations", "test_iterations"])["value"]
    table = DataFrame(accuracies.agg(accuracy="mean", seeds="count")).reset_index()
    if table.empty or (table["iterations"] == table["test_iterations"]).all():
        return None
    labels = sorted(set(table["label"]))
    rows = -(-len(labels) // ACROSS)
    height, columns = 0.3 + 2.3 * rows, min(ACROSS, len(labels))
    return Analysis(
        title="Trained with T, tested with T′",
        reading="What if a network is tested with other iterations than it was trained with?",
        table=table,
        figure=figures.figure_of(_panels, table, height=height, columns=columns, rows=rows),
        columns=(
            Column("Method", "label", numeric=False),
            Column("Trained with T", "iterations"),
            Column("Tested with T′", "test_iterations"),
            Column("Accuracy, %", "accuracy", ".2"),
            Column("Seeds", "seeds"),
        ),
        notes=("Test accuracy in %, mean over seeds; outlined where T′ = T. Darker is better, on one scale for all.",),
        alternative="Heat maps of test accuracy, one for each method.",
    )


def _panels(grid: list[Axes], table: DataFrame) -> None:
    limits = float(table["accuracy"].quantile(0.05)), float(table["accuracy"].max())
    groups = table.groupby("label")
    for axes, (label, own) in zip(grid, groups, strict=False):
        _draw(axes, own, str(label), limits)
    for empty in grid[groups.ngroups :]:
        empty.set_axis_off()


def _draw(axes: Axes, table: DataFrame, label: str, limits: tuple[float, float]) -> None:
    matrix = table.pivot_table(index="iterations", columns="test_iterations", values="accuracy")
    best = float(np.nanmax(matrix.to_numpy()))
    digits = 0 if len(matrix.columns) > 4 and best > 99.95 else 1
    sns.heatmap(
        matrix,
        ax=axes,
        annot=True,
        fmt=f".{digits}f",
        annot_kws={"fontsize": 9},
        cmap=sns.color_palette("ch:start=2.8,rot=-.25,light=.93,dark=.28", as_cmap=True),
        vmin=min(limits[0], limits[1] - 0.5),
        vmax=limits[1],
        cbar=False,
        linewidths=1.5,
        linecolor=(1, 1, 1, 0),
        square=True,
    )
    for row, trained in enumerate(matrix.index):
        if trained in matrix.columns:
            column = list(matrix.columns).index(trained)
            axes.plot(*_box(column, row), color=palette.INK, linewidth=1.6, clip_on=False)
    axes.set(xlabel="tested with T′", ylabel="trained with T", title="")
    axes.set_title(_title(label), fontsize=10.5 if len(label) < 18 else 8.5)
    axes.tick_params(length=0, rotation=0)


def _title(label: str) -> str:
    """A label on one line if it fits above its squares, else one line per parameter."""
    return label if len(label) <= LONGEST else label.replace("[", "\n[").replace(",", ",\n")


def _box(x: float, y: float) -> tuple[list[float], list[float]]:
    left, right, top, bottom = x + 0.03, x + 0.97, y + 0.03, y + 0.97
    return [left, right, right, left, left], [top, top, bottom, bottom, top]


if __name__ == "__main__":
    run(iteration_matrix)
