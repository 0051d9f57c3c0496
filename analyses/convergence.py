"""Whether routing comes to rest: how far each iteration still moves the class capsules, and how coupling sharpens."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import means_of, value_with_interval

AT_REST = 0.01


@analysis_of("sparsity", "convergence", place=20)
def convergence(runs: Runs) -> Analysis | None:
    """Residual |f(z) - z| / |z| of the class capsules' poses, and T-score, after each iteration; same weights."""
    table = _table(runs)
    if table["residual"].isna().all():
        return None
    reading = _reading(table)
    with figures.look():
        figure, axes = figures.new_figure(
            max(5.6, 1.4 * figures.height_of_rows(table["name"].unique())), rows=2, sharex=True
        )
        _draw(axes[0], table, runs, "residual", "Residual of class capsules")
        axes[0].set_yscale("log")
        _draw(axes[1], table, runs, "t_score", "T-score of coupling")
        axes[1].set_xlabel("routing iterations, same weights")
        for one, key in zip(axes, ("residual", "t_score"), strict=True):
            _name_ends(one, table, runs, key)
    return Analysis(
        title="Does routing come to rest?",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Iterations", "test_iterations", lambda row: wording.whole(row["test_iterations"])),
            Column("Residual", "residual", _residual, "|f(z) - z| / |z| of the poses, mean over test images"),
            Column("T-score", "t_score", lambda row: _shown(row["t_score"]), "1: one parent per child; 0: all alike"),
        ),
        notes=(
            "Trained with the T in the name (circled), followed from the same weights with more iterations.",
            "Mean over some test images, then over seeds.",
        ),
        alternative="Two panels over iterations: residual, logarithmic, and T-score.",
    )


def _table(runs: Runs) -> DataFrame:
    by, where = ("test_iterations",), {"layer": "classes"}
    score = means_of(runs, "t_score", by, where).rename(columns={"mean": "t_score"})
    score = score[score["test_iterations"].notna()]
    moved = means_of(runs, "residual", by, where).rename(columns={"mean": "residual"})
    keys = ["name", "label", "iterations", "test_iterations"]
    return score[[*keys, "t_score"]].merge(moved[[*keys, "residual", "low", "high"]], on=keys, how="left")


def _residual(row: Row) -> str:
    return value_with_interval(row["residual"], row["low"], row["high"], 4)


def _shown(value: float) -> str:
    return value_with_interval(value, value, value)


def _draw(axes: Axes, table: DataFrame, runs: Runs, key: str, title: str) -> None:
    for place, (_, line) in enumerate(table.groupby("name")):
        colour = runs.colours.get(str(line["label"].iloc[0]), palette.MUTED)
        steps = line["test_iterations"].astype(int)
        own = (line["test_iterations"] == line["iterations"]).fillna(False).astype(bool)
        dashes = "-" if int(line["iterations"].iloc[0]) > 1 else (0, (3, 2))
        axes.plot(steps, line[key], color=colour, linestyle=dashes, marker=figures.MARKERS[place % 10], markersize=4)
        axes.plot(steps[own], line.loc[own, key], "o", color=colour, markersize=11, fillstyle="none")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(title)


def _name_ends(axes: Axes, table: DataFrame, runs: Runs, key: str) -> None:
    last = table.dropna(subset=[key]).sort_values("test_iterations").groupby("name").last()
    colours = {str(name): runs.colours.get(str(row["label"]), palette.MUTED) for name, row in last.iterrows()}
    ends = {str(name): float(row[key]) for name, row in last.iterrows()}
    figures.label_ends(axes, float(table["test_iterations"].max()), ends, colours, gap=min(0.1, 0.8 / len(ends)))


def _reading(table: DataFrame) -> str:
    last = table.dropna(subset=["residual"]).sort_values("test_iterations").groupby("name").last()
    still = [str(name) for name in last.index[last["residual"] < AT_REST]]
    moving = last[last["residual"] >= AT_REST].sort_values("residual", ascending=False)
    steps = int(table["test_iterations"].max())
    told = f"After {steps} iterations {wording.listed(still, 6)} moved by less than 1 %" if still else (
        f"After {steps} iterations no method has come to rest"
    )  # fmt: skip
    if moving.empty:
        return f"{told}."
    worst = moving.iloc[0]
    return f"{told}; {worst.name} still moves by {100 * worst['residual']:.0f} % in its last iteration."


if __name__ == "__main__":
    run(convergence)
