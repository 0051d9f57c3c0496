"""Recall and precision of each digit, per method."""

import seaborn as sns
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Mean,
    Method,
    Runs,
    analysis_of,
    best_first,
    figures,
    numbers,
    run,
    table_of,
)

MOST = 12
"""Most classes for which squares have room for numbers."""
LONGEST = 22
"""Letters of a method's name on one line."""
HALF = 50.0
"""Mean precision (%) below which recall means nothing: a method that answers every digit has full recall."""
MARKED = "* Most digits that it answers are not there, which makes recall easy: see its precision."


COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("Digit", "digit"),
    Mean.of("recall"),
    Mean.of("precision", text=".1"),
)  # fmt: skip


@analysis_of("overlap", "overlap-recall", place=20)
def overlap_recall(runs: Runs) -> Analysis | None:
    """Recall and precision (%) of every digit, mean over seeds, per method and T."""
    table = table_of(runs, COLUMNS, by=["digit"])
    table = table[numbers(table["recall"]).notna()]
    if table.empty:
        return None
    plain = table.assign(recall=numbers(table["recall"]), precision=numbers(table["precision"]))
    precision = plain.groupby("method")["precision"].mean()
    careless = [*precision.index[precision < HALF]]
    return Analysis(
        title="Recall of each digit",
        reading="Which digits are found, and which are missed?",
        table=table,
        figure=figures.figure_of(_draw, plain, careless, height=1.0 + 0.34 * table["method"].nunique()),
        columns=COLUMNS,
        notes=(
            "Mean over seeds, at the threshold of exact match; ± in the table is its 95 % t interval.",
            *((MARKED,) if careless else ()),
        ),
        alternative="Heat map of recall, one row per method, one column per digit.",
    )


def _draw(axes: Axes, table: DataFrame, careless: list[Method]) -> None:
    matrix = table.pivot_table(index="method", columns="digit", values="recall", sort=False)
    mean = best_first(matrix.mean(axis=1).rename("mean").reset_index(), "mean")["method"]
    order = sorted(mean, key=lambda method: method in careless)
    sns.heatmap(
        matrix.loc[order, sorted(matrix.columns)],
        ax=axes,
        annot=len(matrix.columns) <= MOST,
        fmt=".0f",
        annot_kws={"fontsize": 7.5},
        cmap=sns.color_palette("ch:start=2.8,rot=-.25,light=.93,dark=.28", as_cmap=True),
        vmin=0,
        vmax=100,
        cbar=False,
        linewidths=1.2,
        linecolor=(1, 1, 1, 0),
    )
    axes.set(xlabel="digit", ylabel="")
    axes.set_title("Recall, % of images that show the digit", fontsize=9.5, loc="right")
    names = [_short(str(method)) + ("*" if method in careless else "") for method in order]
    axes.set_yticks([place + 0.5 for place in range(len(order))], names)
    axes.tick_params(length=0, rotation=0)
    axes.tick_params(axis="y", labelsize=10 if max(len(str(method)) for method in order) <= LONGEST else 8)


def _short(name: str) -> str:
    """The name on two lines, if hyperparameters make it long."""
    return name if len(name) <= LONGEST else name.replace("[", "\n[", 1)


if __name__ == "__main__":
    run(overlap_recall)
