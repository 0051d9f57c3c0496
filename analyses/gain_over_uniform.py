"""What routing gains: each method against uniform coupling, which sends every child evenly to all parents."""

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.comparison import compare

COLUMNS = ["name", "label", "role", "gain", "gain_low", "gain_high", "gain_interval", "p", "p_holm"]
FAR = 6.0  # a loss this many times the largest gain is drawn at the edge, so that the others can be seen


@analysis_of("accuracy", "gain-over-uniform", place=15)
def gain_over_uniform(runs: Runs) -> Analysis | None:
    """Difference in test accuracy (points) to `uniform`, paired by seed, with its 95 % interval."""
    found = compare(runs)
    if found.baseline is None:
        return None
    table = found.table.loc[found.table["gain"].notna(), COLUMNS].reset_index(drop=True)
    if table.empty:
        return None
    with figures.look():
        figure, (axes,) = figures.new_figure(figures.height_of_rows(table["name"]))
        _draw(axes, table, runs)
    reading = f"{_reading(table)} {_family(len(table))}"
    return Analysis(
        title="Gain over uniform coupling",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Gain, points", "gain", wording.gain_with_interval),
            Column("p", "p", lambda row: wording.probability(row["p"])),
            Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"])),
        ),
        notes=(
            "Points of test accuracy, with 95 % intervals for each gain alone.",
            "Filled: significant after Holm's correction. Arrows and lines at the edge go on beyond it.",
        ),
        alternative="Gains over uniform coupling with intervals, one line per method.",
    )


def _family(gains: int) -> str:
    """Over what p was corrected, said in the open, because other parts of a report ask more at once."""
    if gains < 2:
        return "One comparison needs no correction."
    return (
        f"Here p is corrected for these {gains} gains together; where every method is compared with every other, the "
        "same two may count as not told apart, because more is asked at once."
    )


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    low, high = _limits(table)
    axes.set(xlim=(low, high), ylim=(len(table) - 0.4, -0.6))
    axes.axvline(0, color=palette.INK, linewidth=1)
    for place, row in enumerate(table.to_dict("records")):
        colour = runs.colours.get(row["label"], palette.MUTED)
        start, end = max(row["gain_low"], low), min(row["gain_high"], high)
        axes.hlines(place, start, end, color=colour, linewidth=2)
        if row["gain"] < low:
            axes.plot(low + 0.02 * (high - low), place, marker="<", color=colour, markersize=7)
            axes.text(low + 0.05 * (high - low), place, wording.signed(row["gain"], 1), va="center", fontsize=9)
        else:
            face = colour if row["p_holm"] < 0.05 else palette.PAPER
            axes.plot(row["gain"], place, marker="o", color=colour, markerfacecolor=face, markersize=7)
    axes.set_yticks(range(len(table)), [wording.in_lines(name) for name in table["name"]])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("points above uniform")


def _limits(table: DataFrame) -> tuple[float, float]:
    """Around the gains; a method that collapsed, or an interval from two seeds, does not set the scale."""
    reach = max(1.0, float(table["gain"].max()), float(table["gain"].abs().median()) * 1.5)
    low = float(table.loc[table["gain"] > -FAR * reach, "gain"].min())
    high = max(float(table["gain"].max()), 0.0)
    arm = float(((table["gain_high"] - table["gain_low"]) / 2).median())
    margin = max(0.35 * (high - min(low, 0.0)), 0.5, 1.2 * arm if arm < FAR * reach else 0.0)
    return min(low, 0.0) - margin, high + margin


def _reading(table: DataFrame) -> str:
    ahead = [str(name) for name in table.loc[(table["p_holm"] < 0.05) & (table["gain"] > 0), "name"]]
    behind = [str(name) for name in table.loc[(table["p_holm"] < 0.05) & (table["gain"] < 0), "name"]]
    if not ahead and not behind:
        return f"None of {wording.plural(len(table), 'comparison')} with uniform coupling is significant."
    gains = (
        f"Significantly better than uniform: {wording.listed(ahead, 6)}." if ahead else "None is significantly better."
    )
    return f"{gains} Significantly worse: {wording.listed(behind, 6)}." if behind else gains


if __name__ == "__main__":
    run(gain_over_uniform)
