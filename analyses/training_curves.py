"""Training loss and held-out accuracy per epoch."""

from operator import attrgetter

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame, concat

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, figures, run, wording
from routebench.analysis.comparison import comparison_of

NONE_HELD_OUT = "All images trained, and none were held out: the table has training losses."
UNSEEN = "Held-out images are part of the training data and were not trained on; no test image is in these curves."
ONE_EPOCH = "One epoch was trained, so there is no course to draw yet."
RISE = 0.5
"""Points of held-out accuracy."""
HELD_OUT = "held_out_accuracy"
CURVES = (HELD_OUT, "train_loss")


@analysis_of("accuracy", "training-curves", place=40)
def training_curves(runs: Runs) -> Analysis | None:
    """Mean over seeds of held-out accuracy and training loss per epoch; each method at its best T."""
    points = concat([runs.values(metric) for metric in CURVES])
    points = points[points["epoch"].notna()]
    if points.empty:
        return None
    label = points["method"].map(attrgetter("apart"))
    points = points.astype({"epoch": int}).assign(
        label=label, iterations=[method.iterations or 0 for method in points["method"]]
    )
    curves = points.groupby(["label", "iterations", "metric", "epoch"])["value"]
    table = DataFrame(curves.agg(mean="mean", low="min", high="max", seeds="count")).reset_index()
    if table["epoch"].max() < 2:  # a point is no curve
        return Analysis(title="Training curves", reading=ONE_EPOCH, table=table.head(0))
    drawn = _at_best(table, runs)
    held_out = drawn[drawn["metric"] == HELD_OUT]  # none where all images train
    return Analysis(
        title="Training curves",
        reading="Was accuracy still rising when training ended?",
        table=table,
        figure=None if held_out.empty else figures.figure_of(_draw, held_out, runs, height=3.2),
        columns=(
            Column("Method", "label", lambda row: _title(row["label"]), numeric=False),
            Column("T", "iterations", lambda row: str(row["iterations"] or wording.NOTHING)),
            Column("Curve", "metric", lambda row: str(row["metric"]).replace("_", " "), numeric=False),
            Column("Epoch", "epoch"),
            Column("Mean", "mean", ".4g"),
            Column("Seeds", "seeds"),
        ),
        notes=(
            *_rising(held_out),
            "Each method at its T with the highest mean test accuracy; the table has all. Bands: all seeds.",
            NONE_HELD_OUT if held_out.empty else UNSEEN,
            "Training losses are in the table alone: those of different kinds cannot be compared.",
        ),
        alternative="Curves of held-out accuracy over epochs.",
    )


def _at_best(table: DataFrame, runs: Runs) -> DataFrame:
    """The rows of each label's best T, or of its smallest if no test accuracy is known."""
    ranked = [(method.apart, method.iterations or 0) for method in comparison_of(runs).measured["method"]]
    rows = []
    for label, part in table.groupby("label"):
        best = next((steps for name, steps in ranked if name == label), int(part["iterations"].min()))
        rows.append(part[part["iterations"] == best])
    return concat(rows)


def _rising(held_out: DataFrame) -> list[str]:
    """A note that names the methods that had not converged; nothing if all had."""
    ends = {label: line["mean"].iloc[-2:] for label, line in held_out.groupby("label") if len(line) > 1}
    rising = [_title(label) for label, (before, last) in ends.items() if last - before > RISE]
    return [f"Not converged, still gaining over half a point in the last epoch: {', '.join(rising)}."] if rising else []


def _draw(axes: Axes, curves: DataFrame, runs: Runs) -> None:
    figures.accuracy_axis(axes, [*curves["low"], *curves["high"]])
    ends: dict[str, float] = {}
    colours: dict[str, str] = {}
    of_labels = {method.apart: runs.colour(method) for method in runs.methods.values()}
    for label, line in curves.groupby("label"):
        colour = of_labels[str(label)]
        marker = "o" if len(line) < 3 else None
        sns.lineplot(data=line, x="epoch", y="mean", ax=axes, color=colour, marker=marker)
        axes.fill_between(line["epoch"], line["low"], line["high"], color=colour, alpha=0.12, linewidth=0)
        ends[_title(label)], colours[_title(label)] = float(line["mean"].iloc[-1]), colour
    last = float(curves["epoch"].max())
    axes.set_xlim(min(0.5, last - 1), last + 0.03 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_title("Held-out accuracy, %")
    axes.set(xlabel="epoch", ylabel="")
    if ends:
        figures.label_ends(axes, last, ends, colours, gap=0.11)


def _title(label: object) -> str:
    return Method.of(str(label)).title


if __name__ == "__main__":
    run(training_curves)
