"""Test accuracy against the angle of view; the angles of training are shaded."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run

FAMILIAR, NOVEL = "familiar", "novel"


@analysis_of("viewpoint", "viewpoint-curves", place=20)
def viewpoint_curves(runs: Runs) -> Analysis | None:
    """Test accuracy at the last epoch, per azimuth or elevation, whichever training covered only in part."""
    table = _table(runs)
    if table.empty:
        return None
    axis = str(table["axis"].iloc[0])
    return Analysis(
        title=f"Accuracy against {axis}",
        reading="How far does accuracy fall beyond the viewpoints of training?",
        table=table,
        figure=figures.figure_of(_draw, table, runs, axis, **figures.panels_of(table)),
        columns=(
            Column("Method", "method", numeric=False),
            Column(axis.capitalize(), "degrees", lambda row: f"{row['degrees']:g}°", "of the camera"),
            Column("In training", "viewpoints", lambda row: "yes" if row["viewpoints"] == FAMILIAR else "no"),
            Column("Accuracy, %", "mean", "±.1", "on test objects from there, after the last epoch"),
        ),
        notes=(
            "After the last epoch, not matched. Mean over seeds.",
            "Shaded: viewpoints that training had. One iteration is dashed. Grey: all others.",
        ),
        alternative=f"Lines of test accuracy over {axis}, a panel for each method.",
    )


def _table(runs: Runs) -> DataFrame:
    """One row per method and angle of the axis that has both familiar and novel viewpoints, in order of the angle."""
    found = runs.means("accuracy_by_view", by=("axis", "degrees", "viewpoints"))
    found = found[found["viewpoints"].isin([FAMILIAR, NOVEL])].reset_index(drop=True)
    degrees = found["degrees"].astype(float)
    turned = (found["axis"] == "azimuth") & (degrees > 180)  # so that the angles around 0 stand together
    found["degrees"] = degrees.where(~turned, degrees - 360)
    return found.sort_values(["method", "degrees"], kind="stable").reset_index(drop=True)


def _draw(grid: list[Axes], table: DataFrame, runs: Runs, axis: str) -> None:
    angles = np.unique(table["degrees"])
    half = float(np.diff(angles).min()) / 2 if len(angles) > 1 else 1.0
    for axes in grid:
        for angle in np.unique(table.loc[table["viewpoints"] == FAMILIAR, "degrees"]):
            axes.axvspan(angle - half, angle + half, color=palette.MUTED, alpha=0.13, linewidth=0)
        axes.set_xlim(angles[0] - half, angles[-1] + half)
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 3, 5, 6, 9, 10]))
    figures.multiples(grid, table, "degrees", "mean", runs.colour, bars=False, marker="", linewidth=1.4)
    grid[0].figure.supxlabel(f"{axis}, degrees (shaded: in training)", fontsize=9)
    grid[0].figure.supylabel("test accuracy, %", fontsize=9)


if __name__ == "__main__":
    run(viewpoint_curves)
