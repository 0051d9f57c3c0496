"""Time and memory of one layer against tokens below and parents above, beside the least time of the machine."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, run
from routebench.analysis.cost import LINE_COLUMNS, layers_by_size
from routebench.analysis.palette import INK

DRAWN = {"ms": "training, ms", "mb": "peak memory, MB"}


@analysis_of("cost", "cost-by-size", place=50)
def cost_by_size(runs: Runs) -> Analysis | None:
    """Milliseconds and megabytes of forward and backward at each method's largest T, per tokens and parents."""
    table = layers_by_size(runs)
    if table.empty:
        return None
    batch = int(table["batch"].iloc[0])
    return Analysis(
        title="Time and memory against tokens and parents",
        reading="How does the cost of a layer grow with tokens and parents?",
        table=table,
        figure=figures.figure_of(
            _draw, table, runs, height=5.4, rows=len(DRAWN), columns=table["parents"].nunique(), sharex=True,
            sharey="row",
        ),
        columns=(
            Column("Method", "method", numeric=False),
            LINE_COLUMNS[-1],
            Column("Tokens", "tokens", ","),
            Column("Parents", "parents", ","),
            Column("ms", "ms", "~", f"of a forward and a backward pass of {batch:,} items"),
            Column("× least", "distance", "~", "multiple of the least time that the machine needs"),
            Column("MB", "mb", "~", "peak of what the pass takes above what was held before"),
        ),
        notes=(
            f"One layer, {batch:,} items at a time; a token has 4 children of 8, whose matrices all tokens share.",
            "Parents have 16 elements. Means over seeds and both measurements; both axes are logarithmic.",
            "Dotted: the least time, of arithmetic at the speed of a matrix product or of traffic at that of a copy.",
        ),
        alternative="Lines of milliseconds and megabytes over tokens, a panel for each number of parents.",
    )  # fmt: skip


def _draw(grid: Sequence[Axes], table: DataFrame, runs: Runs) -> None:
    wanted = sorted(set(table["parents"]))
    for number, axes in enumerate(grid):
        key, parents = [*DRAWN][number // len(wanted)], wanted[number % len(wanted)]
        own = table[table["parents"] == parents].sort_values("tokens", kind="stable")
        for method, line in own.groupby("method", sort=False):
            style = "--" if method.is_control else "-"
            axes.plot(line["tokens"], line[key], style, color=runs.colour(method), linewidth=1.4, label=str(method))
        if key == "ms":
            least = own.groupby("tokens")["floor"].min()
            axes.plot(least.index, least, ":", color=INK, linewidth=1, label="least time")
            axes.set_title(f"{parents:,} parents", fontsize=9)
        else:
            axes.set_xlabel("tokens", fontsize=9)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sorted(set(own["tokens"])), [f"{count:,}" for count in sorted(set(own["tokens"]))])
        axes.minorticks_off()
        figures.plain_log(axes.yaxis, (1,))
        axes.grid(visible=False, axis="x")
        if number % len(wanted) == 0:
            axes.set_ylabel(DRAWN[key], fontsize=9)
        else:
            axes.tick_params(labelleft=False)
    figures.legend_below(grid[0])


if __name__ == "__main__":
    run(cost_by_size)
