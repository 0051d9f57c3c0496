"""Novel against familiar accuracy, epoch by epoch: a path above another's generalises better at equal skill."""

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Mean,
    Runs,
    analysis_of,
    figures,
    numbers,
    palette,
    run,
    table_of,
)
from routebench.analysis.viewpoints import NAME, REFERENCE, Kinds

PARTS = {
    "held_out": ("Held-out, %", "accuracy on held-out images"),
    "familiar": ("Familiar, %", "accuracy on test images like those of training"),
    "novel": ("Novel, %", "accuracy on the other test images"),
}
COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("Epoch", "epoch"),
    *(Mean(title, part, ".1", told, metric=f"{part}_accuracy") for part, (title, told) in PARTS.items()),
)


@analysis_of("viewpoint", "viewpoint-paths", place=30)
def viewpoint_paths(runs: Runs) -> Analysis | None:
    """Accuracy on novel against accuracy on familiar test viewpoints after every epoch, mean over seeds."""
    table, kinds = table_of(runs, COLUMNS, by=["epoch"]), Kinds.of(runs)
    if table.empty:
        return None
    paths = table.assign(**{part: numbers(table[part]) for part in PARTS})
    last = paths.groupby("method", sort=False).last()
    drawn = table.assign(at=paths["familiar"])
    target = next((own for one, own in zip(last.index, last["familiar"], strict=True) if one.label == REFERENCE), None)
    return Analysis(
        title="Novel against familiar accuracy, over epochs",
        reading="Which method is better on novel viewpoints when it is equal on familiar ones?",
        table=table,
        figure=figures.figure_of(_draw, drawn, runs, target, kinds, **figures.panels_of(drawn)),
        columns=COLUMNS,
        notes=(
            "Mean over seeds. A path starts after the first epoch and ends, with its marker, after the last.",
            "One iteration is dashed. Grey: all others.",
            f"Where a path crosses the upright line, it is as good as {NAME} on {kinds.familiar} of the test part.",
        ),
        alternative="Paths of novel over familiar accuracy, a panel for each method.",
    )


def _draw(grid: list[Axes], paths: DataFrame, runs: Runs, target: float | None, kinds: Kinds) -> None:
    if target is not None:
        for axes in grid:
            axes.axvline(target, color=palette.INK, linewidth=1, linestyle=(0, (1, 2)))
    figures.multiples(grid, paths, "at", "novel", runs.colour, bars=False, markevery=[-1], linewidth=1.3)
    grid[0].figure.supxlabel(f"accuracy on {kinds.familiar}, %", fontsize=9)
    grid[0].figure.supylabel(f"accuracy on {kinds.novel}, %", fontsize=9)


if __name__ == "__main__":
    run(viewpoint_paths)
