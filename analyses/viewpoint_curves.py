"""Test accuracy against the angle from which objects are seen, with the angles that training had shaded."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import script, wording
from routebench.analysis.figures import MARKERS, look, new_figure
from routebench.analysis.means import means_of, value_with_interval
from routebench.analysis.palette import MUTED
from routebench.analysis.result import Analysis, Column, Row, Runs, belongs_to
from routebench.analysis.viewpoints import dashes_of, legend_below
from routebench.registry import analyses

FAMILIAR, NOVEL = "familiar", "novel"


@analyses.register("viewpoint-curves")
@belongs_to("viewpoint", place=20)
def viewpoint_curves(runs: Runs) -> Analysis | None:
    """Test accuracy at the last epoch, per azimuth or elevation, whichever training had in part only."""
    table = _table(runs)
    if table.empty:
        return None
    axis, reading = str(table["axis"].iloc[0]), _reading(table)
    with look():
        figure, (axes,) = new_figure(3.5)
        _draw(axes, table, runs, axis)
    return Analysis(
        title=f"Accuracy against {axis}",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column(axis.capitalize(), "degrees", lambda row: f"{row['degrees']:g}°", "of the camera"),
            Column("In training", "viewpoints", lambda row: "yes" if row["viewpoints"] == FAMILIAR else "no"),
            Column("Accuracy, %", "mean", _accuracy, "on test objects from there, after the last epoch"),
        ),
        notes=("After the last epoch, not matched. Mean over seeds.", "Shaded: viewpoints that training had."),
        alternative=f"Lines of test accuracy over {axis}. {reading}",
    )


def _table(runs: Runs) -> DataFrame:
    """One row per method and angle of the axis that has both familiar and novel viewpoints, in order of the angle."""
    found = means_of(runs, "accuracy_by_view", by=("axis", "degrees", "viewpoints"))
    found = found[found["viewpoints"].isin([FAMILIAR, NOVEL])].reset_index(drop=True)
    degrees = found["degrees"].astype(float)
    turned = (found["axis"] == "azimuth") & (degrees > 180)  # so that the angles around 0 stand together
    found["degrees"] = degrees.where(~turned, degrees - 360)
    return found.sort_values(["label", "iterations", "degrees"], kind="stable").reset_index(drop=True)


def _accuracy(row: Row) -> str:
    return value_with_interval(row["mean"], row["low"], row["high"], 1)


def _draw(axes: Axes, table: DataFrame, runs: Runs, axis: str) -> None:
    angles = np.unique(table["degrees"])
    half = float(np.diff(angles).min()) / 2 if len(angles) > 1 else 1.0
    for angle in np.unique(table.loc[table["viewpoints"] == FAMILIAR, "degrees"]):
        axes.axvspan(angle - half, angle + half, color=MUTED, alpha=0.13, linewidth=0)
    for place, (name, line) in enumerate(table.groupby("name", sort=False)):
        colour = runs.colours.get(str(line["label"].iloc[0]), MUTED)
        axes.plot(
            line["degrees"], line["mean"], color=colour, linestyle=dashes_of(line), marker=MARKERS[place % 10],
            markersize=4, linewidth=1.4, label=str(name),
        )  # fmt: skip
    axes.set_xlim(angles[0] - half, angles[-1] + half)
    axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 4, 5, 6, 10]))
    axes.set_xlabel(f"{axis}, degrees (shaded: in training)")
    axes.set_title("Test accuracy, %")
    legend_below(axes)


def _reading(table: DataFrame) -> str:
    means = table.pivot_table(index="name", columns="viewpoints", values="mean")
    if not {FAMILIAR, NOVEL} <= set(means.columns):
        return "Only one kind of viewpoint was measured."
    loss = (means[FAMILIAR] - means[NOVEL]).sort_values()
    least, most = loss.index[0], loss.index[-1]
    novel = table[table["viewpoints"] == NOVEL].groupby("degrees")["mean"].mean()
    told = f"{least} by least, {loss.iloc[0]:.1f} points"
    if len(loss) > 1:
        told += f", {most} by most, {loss.iloc[-1]:.1f}"
    worst = wording.signed(float(str(novel.idxmin())), 0).lstrip("+")
    return f"From familiar to novel viewpoints accuracy falls: {told}; novel views are hardest at {worst}°."


if __name__ == "__main__":
    script.run(viewpoint_curves, "viewpoint-curves")
