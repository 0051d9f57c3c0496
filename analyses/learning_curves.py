"""Held-out accuracy against training time, and whether it still rose at the end."""

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Estimate, Runs, analysis_of, figures, mean_of, run, wording
from routebench.analysis.named import named_pairs

RISING = 0.5
"""Points gained in the last epoch; above this, training was cut short."""


@analysis_of("accuracy", "learning-curves", place=41)
def learning_curves(runs: Runs) -> Analysis | None:
    """Of suites that name comparisons: held-out accuracy by epoch and second, and its rise in the last epoch."""
    curves = _curves(runs) if named_pairs(runs) else DataFrame()
    if curves.empty or curves["epoch"].max() < 2:
        return None
    table = DataFrame([_row(method, rows) for method, rows in curves.groupby("method", sort=True)])
    table = table.sort_values("rise", key=lambda cells: -cells.astype(float), kind="stable", ignore_index=True)
    return Analysis(
        title="Learning curves",
        reading=_reading(table),
        table=table,
        figure=figures.figure_of(_draw, curves, runs, height=4.2),
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
            "In an epoch all methods see as many images and take as many steps; seconds are those of this machine.",
        ),
        alternative="Held-out accuracy against seconds of training, one line per method.",
    )


def _curves(runs: Runs) -> DataFrame:
    """One row per cell and epoch, with elapsed seconds if all epochs took equally long."""
    points = runs.values("held_out_accuracy")
    spent = runs.values("fit_seconds").set_index("cell")["value"]
    points = points[points["epoch"].notna()]
    whole = points.groupby("cell")["epoch"].transform("max")
    return points.assign(seconds=points["epoch"].astype(float) / whole * points["cell"].map(spent).astype(float))


def _row(method: object, rows: DataFrame) -> dict[str, object]:
    by_epoch = rows.pivot_table(index="seed", columns="epoch", values="value")
    last, before = by_epoch.iloc[:, -1], by_epoch.iloc[:, -2]
    mean = by_epoch.mean()
    near = int(mean.index[mean >= mean.iloc[-1] - 0.5][0])
    seconds = rows.groupby("epoch")["seconds"].mean()
    rise: Estimate = mean_of(last - before)
    return {
        "method": method,
        "rise": rise,
        "last": mean_of(last, whole=100),
        "area": mean_of(by_epoch.mean(axis=1), whole=100),
        "seconds": float(seconds[near]),
        "whole": float(seconds.iloc[-1]),
        "rising": rise.mean > RISING,
    }


def _reading(table: DataFrame) -> str:
    rising = [str(row["method"]) for row in table.to_dict("records") if row["rising"]]
    if rising:
        names = wording.listed(rising, 8)
        return f"Still rising by more than {RISING:g} points in the last epoch, so cut short by the budget: {names}."
    first = table.to_dict("records")[0]
    steepest = f"the most is {wording.signed(first['rise'].mean, 2)} points, of {first['method']}"
    return f"No held-out accuracy rose by more than {RISING:g} points in the last epoch; {steepest}."


def _draw(axes: Axes, curves: DataFrame, runs: Runs) -> None:
    best = {pair.ours.method for pair in named_pairs(runs)} | {pair.theirs.method for pair in named_pairs(runs)}
    ends, colours, longest = {}, {}, 0.0
    shown = curves[curves["method"].isin(best)]
    for method in sorted(best & {*shown["method"]}):
        line = shown[shown["method"] == method].groupby("epoch")[["seconds", "value"]].mean()
        colour, dashes = runs.colour(method), "--" if method.iterations == 1 else "-"
        axes.plot(line["seconds"], line["value"], color=colour, linestyle=dashes, linewidth=1.5)
        ends[str(method)], colours[str(method)] = float(line["value"].iloc[-1]), colour
        longest = max(longest, float(line["seconds"].iloc[-1]))
    figures.accuracy_axis(axes, [*shown.groupby(["method", "epoch"])["value"].mean()])
    axes.set_xlabel("seconds of training")
    if ends and not pd.isna(longest):
        axes.set_xlim(0, longest * 1.02)
        figures.label_ends(axes, longest, ends, colours)


if __name__ == "__main__":
    run(learning_curves)
