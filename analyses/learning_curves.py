"""Held-out accuracy against training time, and whether it still rose at the end."""

import math

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Estimate, Runs, analysis_of, cost, figures, mean_of, run
from routebench.analysis.named import named_pairs

RISING = 0.5
"""Points gained in the last epoch; above this, training was cut short."""


@analysis_of("accuracy", "learning-curves", place=41)
def learning_curves(runs: Runs) -> Analysis | None:
    """Held-out accuracy by epoch and second, its rise in the last epoch; for suites with pre-specified comparisons."""
    curves = _curves(runs) if named_pairs(runs) else DataFrame()
    if curves.empty or curves["epoch"].max() < 2:
        return None
    drawn = _drawn(curves, runs)
    table = DataFrame([_row(method, rows) for method, rows in curves.groupby("method", sort=True)])
    table = table.sort_values("rise", key=lambda cells: -cells.astype(float), kind="stable", ignore_index=True)
    return Analysis(
        title="Learning curves",
        reading="Which methods were still learning at the end?",
        table=table,
        figure=None if drawn.empty else figures.figure_of(_draw, drawn, runs, **figures.panels_of(drawn)),
        columns=(
            Column("Method", "method", lambda row: str(row["method"].marked), numeric=False),
            Column("Last epoch, points", "rise", "+.2", "held-out accuracy after it less that before"),
            Column("At its end, %", "last", "±.1"),
            Column("Mean of epochs, %", "area", "±.1", "the area under the curve: higher where it learns earlier"),
            Column("Half a point short after, s", "seconds", ".0f", "seconds until the mean is within 0.5 of its end"),
            Column("Seconds", "whole", ".0f", "of training"),
            Column("Still rising", "rising", lambda row: "yes" if row["rising"] else "no", numeric=False),
        ),
        notes=(
            f"Still rising: by more than {RISING:g} points in the last epoch, mean over seeds.",
            "Held-out images are part of the training data and were not trained on.",
            "In an epoch all methods see as many images and take as many steps; seconds depend on machine and load.",
            "Drawn: methods of the pre-specified comparisons, one iteration dashed. Grey: the others among them.",
            "Bar at the end: 95 % interval over seeds.",
            *cost.machines_told(runs),
        ),
        alternative="Held-out accuracy against seconds of training, a panel for each method.",
    )


def _curves(runs: Runs) -> DataFrame:
    """One row per run and epoch, with elapsed seconds if all epochs took equally long."""
    points = runs.values("held_out_accuracy")
    spent = runs.values("fit_seconds").set_index("cell")["value"]
    points = points[points["epoch"].notna()]
    whole = points.groupby("cell")["epoch"].transform("max")
    return points.assign(seconds=points["epoch"].astype(float) / whole * points["cell"].map(spent).astype(float))


def _row(method: object, rows: DataFrame) -> dict[str, object]:
    by_epoch = rows.pivot_table(index="seed", columns="epoch", values="value")
    last = by_epoch.iloc[:, -1]
    before = by_epoch.iloc[:, -2] if by_epoch.shape[1] > 1 else last * math.nan
    mean = by_epoch.mean()
    near = int(mean.index[mean >= mean.iloc[-1] - 0.5][0])
    seconds = rows.groupby("epoch")["seconds"].mean()
    rise: Estimate = mean_of((last - before).dropna(), within=(-100.0, 100.0))
    return {
        "method": method,
        "rise": rise,
        "last": mean_of(last.dropna(), whole=100),
        "area": mean_of(by_epoch.mean(axis=1), whole=100),
        "seconds": float(seconds[near]),
        "whole": float(seconds.iloc[-1]),
        "rising": rise.mean > RISING,
    }


def _drawn(curves: DataFrame, runs: Runs) -> DataFrame:
    """The curves of named methods: mean seconds and held-out accuracy by method and epoch, an interval at the last."""
    named = {one.method for pair in named_pairs(runs) for one in (pair.ours, pair.theirs)}
    groups = curves[curves["method"].isin(named)].groupby(["method", "epoch"], sort=True)
    last = curves["epoch"].max()
    rows = [
        {"method": method, "seconds": rows["seconds"].mean(), "mean": found if epoch == last else Estimate(found.mean)}
        for (method, epoch), rows in groups
        for found in [mean_of(rows["value"], whole=100)]
    ]
    return DataFrame(rows)


def _draw(grid: list[Axes], lines: DataFrame, runs: Runs) -> None:
    for axes in grid[: lines["method"].map(lambda method: method.family).nunique()]:
        figures.accuracy_axis(axes, [cell.mean for cell in lines["mean"]])
        axes.set_xscale("log")
        figures.plain_log(axes.xaxis, (1,))
        axes.grid(visible=False, axis="x")
    figures.multiples(grid, lines, "seconds", "mean", runs.colour, marker="", linewidth=1.5)
    grid[0].figure.supxlabel("seconds of training", fontsize=9)
    grid[0].figure.supylabel("held-out accuracy, %", fontsize=9)


if __name__ == "__main__":
    run(learning_curves)
