"""Gain from routing: each method against uniform routing, which splits every child equally between all parents."""

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Runs,
    analysis_of,
    figures,
    forest,
    run,
)
from routebench.analysis.comparison import OTHER_IMAGES, comparison_of, untested, with_other_images
from routebench.analysis.families import gains_in
from routebench.statistics import BY_SAMPLE

EXPLORATORY = "These gains are exploratory. Pre-specified comparisons have a table of their own."


@analysis_of("accuracy", "gain-over-uniform", place=15)
def gain_over_uniform(runs: Runs) -> Analysis | None:
    """Difference in test accuracy (points) to uniform routing, paired by seed, with its 95 % interval."""
    found = comparison_of(runs)
    table = found.table.loc[[gain.known for gain in found.table["gain"]], ["method", "gain"]].reset_index(drop=True)
    if table.empty:
        return None
    bases = {ours.method: theirs for ours, theirs in gains_in(runs, [*found.contenders.values()])}
    table["both"] = table["method"].map(lambda one: with_other_images(runs, found.contenders[one], bases[one]))
    images = any(one.has_limits for one in table["both"])
    return Analysis(
        title="Gain over uniform routing",
        reading="How much does each method gain over uniform routing?",
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=figures.height_of_rows(map(str, table["method"]))),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Gain, points", "gain", "+.2"),
            Column("p", "gain.p", "p"),
            Column("p (Holm)", "gain.p_holm", "p"),
            *([OTHER_IMAGES] if images else []),
        ),
        notes=(
            f"Points of test accuracy, with 95 % intervals over {_over(table)}, for each gain alone.",
            *(["Thin lines: if the test images were drawn anew, too."] if images else []),
            _filled(runs, len(table)),
            *untested(runs, table["gain"]),
            *([EXPLORATORY] if runs.primary else []),
        ),
        alternative="Gains over uniform routing with intervals, one line per method.",
    )


def _over(table: DataFrame) -> str:
    by_image = [gain.kind in BY_SAMPLE for gain in table["gain"]]
    return "test images" if all(by_image) else "seeds"


def _filled(runs: Runs, gains: int) -> str:
    beside = " (of pre-specified ones: for the pre-specified comparisons)" if runs.primary else ""
    these = "this gain" if gains == 1 else f"these {gains} gains"
    return f"Filled: significant after Holm's correction for {these}{beside}. {forest.EDGES}"


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    rows = zip(table["method"], table["gain"], table["both"], strict=True)
    lines = [forest.Line(str(method), gain, runs.colour(method), both) for method, gain, both in rows]
    forest.draw(axes, lines, "points above uniform routing")


if __name__ == "__main__":
    run(gain_over_uniform)
