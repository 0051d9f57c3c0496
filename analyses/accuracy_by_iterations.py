"""Test accuracy against the number of routing iterations; methods without iterations are bands across the picture."""

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.comparison import compare
from routebench.statistics import ONE_VALUE, OVER_SAMPLES, OVER_SEEDS, OVER_SEEDS_LOGIT

COLUMNS = ["label", "iterations", "role", "mean", "low", "high", "interval", "n_ok", "n_planned"]
KINDS = (OVER_SEEDS, OVER_SEEDS_LOGIT, OVER_SAMPLES)


@analysis_of("accuracy", "accuracy-by-iterations", place=20)
def accuracy_by_iterations(runs: Runs) -> Analysis | None:
    """Mean test accuracy (%) with its 95 % interval, per method and iteration count T."""
    found = compare(runs).measured
    if found.empty or found["iterations"].notna().sum() == 0:
        return None
    table = found[COLUMNS].sort_values(["label", "iterations"]).reset_index(drop=True)
    kinds = [kind for kind in KINDS if kind in set(table["interval"])] or [ONE_VALUE]
    reading = _reading(table[table["iterations"].notna()])
    with figures.look():
        figure, (axes,) = figures.new_figure(4.0)
        _draw(axes, table, runs)
    return Analysis(
        title="Accuracy against routing iterations",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "label", lambda row: str(row["label"]), numeric=False),
            Column("T", "iterations", lambda row: wording.whole(row["iterations"])),
            Column("Accuracy, %", "mean", _accuracy),
            Column("Seeds", "n_ok", lambda row: f"{row['n_ok']} / {row['n_planned']}"),
        ),
        notes=(f"Bars and bands: {' or '.join(wording.interval_in_words(kind) for kind in kinds)}.",),
        alternative=f"Lines of test accuracy over T for {wording.listed(sorted(set(table['label'])), 8)}.",
    )


def _accuracy(row: Row) -> str:
    return wording.mean_with_interval(row["mean"], row["low"], row["high"], row["interval"])


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    iterative = table[table["iterations"].notna()].astype({"iterations": int})
    figures.accuracy_axis(axes, [*table["mean"], *table["low"], *table["high"]])
    first, last = int(iterative["iterations"].min()), int(iterative["iterations"].max())
    labels = sorted(set(iterative["label"]))
    for place, label in enumerate(labels):
        line = iterative[iterative["label"] == label]
        colour = runs.colours.get(label, palette.MUTED)
        shifted = line["iterations"] + 0.07 * (place - (len(labels) - 1) / 2)  # so that intervals stand side by side
        sns.lineplot(x=shifted, y=line["mean"], ax=axes, color=colour, marker=figures.MARKERS[place % 10], markersize=7)
        axes.vlines(shifted, line["low"], line["high"], color=colour, linewidth=1.6, alpha=0.75)
    ends = {str(label): float(line["mean"].iloc[-1]) for label, line in iterative.groupby("label")}
    for row in table[table["iterations"].isna()].to_dict("records"):
        colour = runs.colours.get(row["label"], palette.MUTED)
        axes.axhspan(row["low"], row["high"], color=colour, alpha=0.10, linewidth=0)
        axes.axhline(row["mean"], color=colour, linewidth=1.6, linestyle=(0, (5, 3)))
        ends[row["label"]] = row["mean"]
    axes.set_xlim(first - 0.3, last + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="routing iterations T", ylabel="")
    axes.set_title("Test accuracy, %")
    figures.label_ends(axes, last + 0.3, ends, runs.colours)


def _reading(table: DataFrame) -> str:
    sentences = []
    for label, line in table.groupby("label"):
        best, first = line.iloc[int(line["mean"].argmax())], line.iloc[0]
        if len(line) == 1:
            sentences.append(f"{label} was run with T={first['iterations']} only")
        elif best["iterations"] == first["iterations"]:
            sentences.append(f"{label} is best with its fewest iterations, T={best['iterations']}")
        else:
            gain = best["mean"] - first["mean"]
            sentences.append(
                f"{label} is best with T={best['iterations']}, {gain:.2f} points above T={first['iterations']}"
            )
    return f"By their means, {'; '.join(sentences)}."


if __name__ == "__main__":
    run(accuracy_by_iterations)
