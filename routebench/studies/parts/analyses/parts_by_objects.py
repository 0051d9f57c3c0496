"""Curve of how far coupling finds parts, against the number of objects in a scene, which may exceed training's."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import METHOD, Analysis, Column, Mean, Runs, analysis_of, figures, palette, run


@analysis_of("parts", "parts-by-objects", place=20)
def parts_by_objects(runs: Runs) -> Analysis | None:
    """Adjusted Rand index of coupling by number of objects, without clutter, at the T trained with."""
    table = runs.means("ari", ["objects", "clutter"], as_trained=True)
    if table.empty:
        return None
    clutter = int(table["clutter"].min())
    table = table[table["clutter"] == clutter].sort_values(["method", "objects"], ignore_index=True)
    table = table.astype({"objects": int}).drop(columns="clutter")
    best = runs.values("ceiling_ari", clutter=clutter).drop_duplicates("objects").sort_values("objects", kind="stable")
    return Analysis(
        title="Parts found, by number of objects",
        reading="Does coupling still find parts with more objects than in training?",
        table=table,
        figure=figures.figure_of(_draw, table, best, runs, **figures.panels_of(table)),
        columns=(
            METHOD,
            Column("Objects", "objects", explained="in a scene"),
            Mean.of("ari", "mean", explained="adjusted Rand index of the parent with most of a part's coupling "
                    "against its true object"),
        ),
        notes=("Dashed across: inference in the true model. Grey: other methods. Training has one object or two.",),
        alternative="A panel per method with lines of the adjusted Rand index over the number of objects.",
    )  # fmt: skip


def _draw(grid: list[Axes], table: DataFrame, best: DataFrame, runs: Runs) -> None:
    lowest = min(0.0, *(cell.low if cell.has_limits else cell.mean for cell in table["mean"]))
    for axes in grid:
        axes.set_ylim(max(lowest, -0.5) - 0.08, 1.05)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.grid(visible=False, axis="x")
        axes.plot(best["objects"], best["value"], color=palette.MUTED, linewidth=1.2, linestyle=(0, (5, 3)))
    figures.multiples(grid, table, "objects", "mean", runs.colour)
    grid[0].figure.supxlabel("objects in a scene", fontsize=9)
    grid[0].figure.supylabel("adjusted Rand index", fontsize=9)


if __name__ == "__main__":
    run(parts_by_objects)
