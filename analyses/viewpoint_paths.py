"""Novel against familiar accuracy, epoch by epoch: a path above another's generalises better at equal skill."""

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import means_of
from routebench.analysis.viewpoints import REFERENCE, dashes_of

KEYS = ["name", "label", "iterations", "epoch"]


@analysis_of("viewpoint", "viewpoint-paths", place=30)
def viewpoint_paths(runs: Runs) -> Analysis | None:
    """Accuracy on novel against accuracy on familiar test viewpoints after every epoch, mean over seeds."""
    table = _table(runs)
    if table.empty:
        return None
    last = table.groupby("name", sort=False).last()
    theirs = last["familiar"].to_dict().get(REFERENCE)
    target = None if theirs is None else float(theirs)
    reading = _reading(table, last, target)
    with figures.look():
        figure, (axes,) = figures.new_figure(3.8)
        _draw(axes, table, runs, target)
    return Analysis(
        title="Novel against familiar accuracy, over epochs",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Epoch", "epoch", lambda row: wording.whole(row["epoch"])),
            Column("Held-out, %", "held_out", lambda row: f"{row['held_out']:.1f}", "accuracy on held-out objects"),
            Column("Familiar, %", "familiar", lambda row: f"{row['familiar']:.1f}", "accuracy on familiar test views"),
            Column("Novel, %", "novel", lambda row: f"{row['novel']:.1f}", "accuracy on novel test views"),
        ),
        notes=(
            "Mean over seeds. A path starts after the first epoch and ends, with its marker, after the last.",
            f"Where a path crosses the upright line, it is as good as {REFERENCE} on familiar test images.",
        ),
        alternative="Paths of novel over familiar accuracy.",
    )


def _table(runs: Runs) -> DataFrame:
    parts = [
        means_of(runs, f"{part}_accuracy", by=("epoch",))[[*KEYS, "mean"]].rename(columns={"mean": part})
        for part in ("held_out", "familiar", "novel")
    ]
    table = parts[0].merge(parts[1], on=KEYS).merge(parts[2], on=KEYS)
    return table.sort_values(["label", "iterations", "epoch"], kind="stable").reset_index(drop=True)


def _draw(axes: Axes, table: DataFrame, runs: Runs, target: float | None) -> None:
    if target is not None:
        axes.axvline(target, color=palette.INK, linewidth=1, linestyle=(0, (1, 2)))
    for place, (name, line) in enumerate(table.groupby("name", sort=False)):
        colour = runs.colours.get(str(line["label"].iloc[0]), palette.MUTED)
        dashes = dashes_of(line)
        axes.plot(line["familiar"], line["novel"], color=colour, linestyle=dashes, linewidth=1.3, alpha=0.8)
        axes.plot(
            line["familiar"].iloc[-1], line["novel"].iloc[-1], color=colour, marker=figures.MARKERS[place % 10],
            markersize=7, linestyle=dashes, linewidth=1.3, label=str(name),
        )  # fmt: skip
    axes.set_xlabel("accuracy on familiar test viewpoints, %")
    axes.set_title("Accuracy on novel test viewpoints, %")
    figures.legend_below(axes)


def _reading(table: DataFrame, last: DataFrame, target: float | None) -> str:
    best = last["novel"].sort_values(ascending=False)
    told = f"After the last epoch {best.index[0]} is best on novel viewpoints, {best.iloc[0]:.1f} %"
    if target is None:
        return f"{told}."
    peaks = table[table["label"] != REFERENCE].groupby("name")["familiar"].max()
    short = [str(name) for name in peaks.index[peaks < target]]
    reached = f"all paths reach {REFERENCE}'s familiar accuracy of {target:.1f} %"
    if short:
        reached = f"{wording.listed(short)} never reach{'es' if len(short) == 1 else ''} {REFERENCE}'s {target:.1f} %"
    return f"{told}; by their means, {reached} on familiar ones."


if __name__ == "__main__":
    run(viewpoint_paths)
