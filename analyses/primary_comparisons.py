"""The comparisons that a suite named before training, and their verdicts."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    ALPHA,
    Analysis,
    Column,
    Runs,
    Verdict,
    analysis_of,
    figures,
    palette,
    run,
    wording,
)
from routebench.analysis.named import named_table

ANSWERS = {
    Verdict.BETTER: "better",
    Verdict.BETTER_BY_LITTLE: "better, by less than the margin",
    Verdict.WORSE: "worse",
    Verdict.EQUAL: "equivalent within the margin",
    Verdict.OPEN: "cannot tell",
    Verdict.UNTESTABLE: "cannot tell",
}


@analysis_of("accuracy", "primary-comparisons", place=12)
def primary_comparisons(runs: Runs) -> Analysis | None:
    """Each method against named entries and its own first iteration: difference, interval, p (Holm), verdict."""
    if not runs.primary:
        return None
    margin, table = float(runs.primary["margin"]), named_table(runs)
    if table.empty:
        return None
    table["answer"] = table["verdict"].map(ANSWERS)
    return Analysis(
        title="Named comparisons",
        reading=_reading(table, margin),
        table=table,
        figure=figures.figure_of(_draw, table, runs, margin, height=figures.height_of_rows(_lines(table))),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Against", "against", numeric=False),
            Column("Difference, points", "difference", "+.2"),
            Column(
                "With other images",
                "both",
                "+.2",
                "the same, with an interval over seeds and test images: as if the test set were drawn anew, too",
            ),
            Column("Seeds", "difference.n"),
            Column("p (Holm)", "difference.p_holm", "p"),
            Column("p of a larger one", "p_beyond", "p", f"that it is {margin:g} points or more, either way (Holm)"),
            Column("Answer", "answer", numeric=False),
        ),
        notes=(
            f"The suite named these {len(table)} comparisons beforehand; Holm's correction is over them alone.",
            "All other comparisons on this page are exploratory.",
            *_notes_on_t(table),
            f"Margin: {margin:g} points, the band. Intervals: 95 %, each for itself.",
            *_notes_on_images(table),
            "Filled: better or worse. Diamond: equivalent within the margin. Empty circle: cannot tell.",
        ),
        alternative="Differences with intervals, one line per comparison, and the margin as a band.",
        saved="name label iterations role against difference difference_low difference_high n=difference.n "
        "both_low=both.low both_high=both.high "
        "p=difference.p p_holm=difference.p_holm p_beyond answer",
    )


def _notes_on_t(table: DataFrame) -> Iterator[str]:
    compared = {(method.label, method.iterations) for method in table["method"]}
    if len(compared) == len({label for label, _ in compared}):
        yield "The best T of a method is that of its highest tuning score, in which no test image has part."


def _notes_on_images(table: DataFrame) -> Iterator[str]:
    decided = table[table["verdict"].isin([Verdict.BETTER, Verdict.BETTER_BY_LITTLE, Verdict.WORSE])]
    known = [one for one in decided["both"] if one.has_limits]
    if known:
        apart = sum(one.low > 0 or one.high < 0 for one in known)
        count = "all" if apart == len(known) else str(apart)
        yield (
            "Answers are for this test set. Over seeds and test images, intervals are wider: of "
            f"{len(known)} that are better or worse, {count} stay on one side of zero."
        )


def _reading(table: DataFrame, margin: float) -> str:
    counts = table["answer"].value_counts()
    decided = len(table) - int(counts.get("cannot tell", 0))
    told = f"{decided} of {len(table)} named comparisons are decided at a margin of {margin:g} points"
    kinds = [f"{counts[answer]} {answer}" for answer in dict.fromkeys(ANSWERS.values()) if answer in counts]
    return f"{told}: {wording.listed(kinds, len(kinds))}."


def _lines(table: DataFrame) -> list[str]:
    """`em T=3 – uniform`; of a method's own first iteration `em T=3 – T=1`."""
    pairs = zip(table["method"], table["against"], strict=True)
    return [f"{one} – {f'T={two.iterations}' if one.label == two.label else two}" for one, two in pairs]


def _draw(axes: Axes, table: DataFrame, runs: Runs, margin: float) -> None:
    axes.axvspan(-margin, margin, color=palette.GRID, linewidth=0)
    axes.axvline(0, color=palette.INK, linewidth=1)
    for place, row in enumerate(table.to_dict("records")):
        one, colour = row["difference"], runs.colour(row["method"])
        if pd.isna(one.mean):
            continue
        face = colour if one.p_holm < ALPHA else palette.PAPER
        shape = "D" if row["verdict"] == Verdict.EQUAL else "o"  # a table keeps its text alone
        axes.hlines(place, one.low, one.high, color=colour, linewidth=2)
        axes.plot(one.mean, place, marker=shape, color=colour, markerfacecolor=face, markersize=6)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_yticks(range(len(table)), _lines(table), fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("difference, points")


if __name__ == "__main__":
    run(primary_comparisons)
