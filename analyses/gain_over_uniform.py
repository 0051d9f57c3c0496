"""Gain from routing: each method against equal shares, which split every child equally between all parents."""

from matplotlib.axes import Axes
from pandas import DataFrame, Series

from routebench.analysis import (
    ALPHA,
    Analysis,
    Column,
    Runs,
    Verdict,
    analysis_of,
    figures,
    numbers,
    palette,
    run,
    wording,
)
from routebench.analysis.comparison import comparison_of

SAVED = "name label role gain gain_low gain_high gain_interval=gain.kind p=gain.p p_holm=gain.p_holm"
NONE_BETTER = "None is significantly better."
EXPLORATORY = "Exploratory: comparisons that the suite named beforehand have a table of their own."
FAR = 6.0  # a loss this many times the largest gain is drawn at the edge, so that the others can be seen


@analysis_of("accuracy", "gain-over-uniform", place=15)
def gain_over_uniform(runs: Runs) -> Analysis | None:
    """Difference in test accuracy (points) to equal shares, paired by seed, with its 95 % interval."""
    found = comparison_of(runs).table[["method", "gain"]]
    table = found[[gain.known for gain in found["gain"]]].reset_index(drop=True)
    if table.empty:
        return None
    return Analysis(
        title="Gain over equal shares",
        reading=_reading(table),
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=figures.height_of_rows(map(str, table["method"]))),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Gain, points", "gain", "+.2"),
            Column("p", "gain.p", "p"),
            Column("p (Holm)", "gain.p_holm", "p"),
        ),
        notes=(
            "Points of test accuracy, with 95 % intervals for each gain alone.",
            _filled(len(table)),
            *([EXPLORATORY] if runs.primary else []),
        ),
        alternative="Gains over equal shares with intervals, one line per method.",
        saved=SAVED,
    )


def _filled(gains: int) -> str:
    told = f"Filled: significant after Holm's correction for these {wording.plural(gains, 'gain')}."
    return f"{told} Arrows and lines at the edge go on beyond it."


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    low, high = _limits(table)
    axes.set(xlim=(low, high), ylim=(len(table) - 0.4, -0.6))
    axes.axvline(0, color=palette.INK, linewidth=1)
    for place, (method, gain) in enumerate(zip(table["method"], table["gain"], strict=True)):
        colour = runs.colour(method)
        axes.hlines(place, max(gain.low, low), min(gain.high, high), color=colour, linewidth=2)
        if gain.mean < low:
            axes.plot(low + 0.02 * (high - low), place, marker="<", color=colour, markersize=7)
            axes.text(low + 0.05 * (high - low), place, wording.signed(gain.mean, 1), va="center", fontsize=9)
        else:
            face = colour if gain.p_holm < ALPHA else palette.PAPER
            axes.plot(gain.mean, place, marker="o", color=colour, markerfacecolor=face, markersize=7)
    axes.set_yticks(range(len(table)), [wording.in_lines(str(method)) for method in table["method"]])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("points above equal shares")


def _limits(table: DataFrame) -> tuple[float, float]:
    """Limits of the axis: a collapsed method, or an interval from two seeds, does not set the scale."""
    gains = numbers(table["gain"])
    reach = max(1.0, float(gains.max()), float(gains.abs().median()) * 1.5)
    low, high = min(float(gains[gains > -FAR * reach].min()), 0.0), max(float(gains.max()), 0.0)
    arm = float(Series([gain.half_width for gain in table["gain"]]).median())
    margin = max(0.35 * (high - low), 0.5, 1.2 * arm if arm < FAR * reach else 0.0)
    return low - margin, high + margin


def _reading(table: DataFrame) -> str:
    ahead, behind = (
        [row["method"] for row in table.to_dict("records") if row["gain"].verdict == verdict]
        for verdict in (Verdict.BETTER, Verdict.WORSE)
    )
    if not ahead and not behind:
        return f"None of {wording.plural(len(table), 'comparison')} with equal shares is significant."
    better = f"Significantly better than equal shares: {wording.listed(ahead, 6)}." if ahead else NONE_BETTER
    return f"{better} Significantly worse: {wording.listed(behind, 6)}." if behind else better


if __name__ == "__main__":
    run(gain_over_uniform)
