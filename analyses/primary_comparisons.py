"""The comparisons that a suite named before training, and their verdicts."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Row,
    Runs,
    Verdict,
    analysis_of,
    figures,
    forest,
    palette,
    run,
    wording,
)
from routebench.analysis.comparison import OTHER_IMAGES, assumed, untested
from routebench.analysis.named import ChosenT, chosen_t, fold_images, named_table, on_these_images_alone

ANSWERS = {
    Verdict.BETTER: "better",
    Verdict.BETTER_BY_LITTLE: "better, by less than the margin",
    Verdict.WORSE: "worse",
    Verdict.WORSE_BY_LITTLE: "worse, by less than the margin",
    Verdict.EQUAL: "equivalent within the margin",
    Verdict.OPEN: "cannot tell",
    Verdict.UNTESTABLE: "cannot tell",
}

CLOSE = 4
"""Choices of T that are told; the others were clearer."""
MARKERS = {Verdict.EQUAL: "D"}


@analysis_of("accuracy", "primary-comparisons", place=12)
def primary_comparisons(runs: Runs) -> Analysis | None:
    """Each method against pre-specified others and its own first iteration: difference, interval, p (Holm), verdict."""
    if not runs.primary:
        return None
    margin, table = float(runs.primary["margin"]), named_table(runs)
    if table.empty:
        return None
    return Analysis(
        title="Pre-specified comparisons",
        reading=_reading(table, margin),
        table=table,
        figure=figures.figure_of(_draw, table, runs, margin, height=figures.height_of_rows(_lines(table))),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Against", "against", numeric=False),
            Column("Difference, points", "difference", "+.2"),
            Column("Seeds", "seeds", explained="that both have"),
            Column("p (Holm)", "difference.p_holm", "p"),
            Column("p of a larger one", "p_beyond", "p", f"that it is {margin:g} points or more, either way (Holm)"),
            Column("Answer", "verdict", lambda row: ANSWERS[row["verdict"]], numeric=False, judges=True),
            OTHER_IMAGES,
            Column(
                "Answer, other images",
                "both_verdict",
                lambda row: ANSWERS[row["both_verdict"]],
                "by the same tests over seeds and test images",
                numeric=False,
                judges=True,
            ),
        ),
        notes=(
            f"The suite named {wording.plural(len(table), 'comparison')} beforehand; Holm's correction is over those.",
            "All other comparisons on this page are exploratory.",
            *_notes_on_t(runs, table),
            f"Margin: {margin:g} points, the band. Intervals: 95 %, over seeds, each for itself.",
            "Filled: better or worse. Diamond: equivalent within the margin. Empty circle: cannot tell.",
            *_notes_on_images(table),
            *assumed(table["difference"]),
            *untested(runs, table["difference"]),
        ),
        alternative="Differences with intervals, one line per comparison, and the margin as a band.",
    )


def _notes_on_t(runs: Runs, table: DataFrame) -> Iterator[str]:
    compared = {*table["method"]}
    if len(compared) > len({method.family for method in compared}):
        return
    yield "The best T of a method is that of its highest tuning score, in which no test image has part."
    chosen = chosen_t(runs)
    if not chosen:
        return
    most = max(one.among for one in chosen)
    counts = f"{most} times as many trials as" if runs.trials is None else f"{most * runs.trials} trials, and"
    each = "" if runs.trials is None else f" {runs.trials}"
    yield (
        f"A limit: with the choice of T, a method is the best of up to {counts} a "
        f"configuration without T, such as a baseline, has{each}. The best of more trials is higher by chance alone."
    )
    images = fold_images(runs)
    yield f"How close that choice was: {wording.listed([_choice(one, images) for one in chosen], CLOSE)}."


def _choice(one: ChosenT, images: int | None) -> str:
    """`EM, T = 1 is ahead of T = 3 by 0.02 points, 1 of 5,500 images`."""
    told = f"{one.method} is ahead of T = {one.next.iterations} by {one.ahead:.2f} points"
    return told if images is None else f"{told} ({one.ahead / 100 * images:.0f} of {images:,} images)"


def _notes_on_images(table: DataFrame) -> Iterator[str]:
    if any(one.has_limits for one in table["both"]):
        yield (
            "Answers are for these test images. If they were drawn anew too, intervals would be wider (thin lines): "
            f"{_decided(table, 'both_verdict')} of {wording.plural(len(table), 'comparison')} would be decided by the "
            "same tests."
        )
    lost = [row for row in table.to_dict("records") if on_these_images_alone(row)]
    if lost:
        names = [f"{row['method']} {ANSWERS[row['verdict']].partition(',')[0]} {_than(row)}" for row in lost]
        yield f"Decided on these test images, and not if they were drawn anew too: {wording.listed(names, len(names))}."


def _than(row: Row) -> str:
    """`than the CNN`, or `with` it where the two are equivalent."""
    joined = "with" if row["verdict"] == Verdict.EQUAL else "than"
    return f"{joined} {row['against']}"


def _decided(table: DataFrame, verdict: str) -> int:
    return int((table[verdict].map(ANSWERS) != ANSWERS[Verdict.OPEN]).sum())


def _reading(table: DataFrame, margin: float) -> str:
    counts = table["verdict"].map(ANSWERS).value_counts()
    decided = _decided(table, "verdict")
    every = wording.plural(len(table), "pre-specified comparison")
    named = f"{decided} of {every} {'is' if decided == 1 else 'are'} decided"
    told = f"{named} at a margin of {margin:g} points"
    kinds = [f"{counts[answer]} {answer}" for answer in dict.fromkeys(ANSWERS.values()) if answer in counts]
    return f"{told}: {wording.listed(kinds, len(kinds))}."


def _lines(table: DataFrame) -> list[str]:
    """`EM, T = 3 – Uniform routing`; of a method's own first iteration `EM, T = 3 – T = 1`."""
    pairs = zip(table["method"], table["against"], strict=True)
    return [f"{one} – {f'T = {two.iterations}' if one.family == two.family else two}" for one, two in pairs]


def _draw(axes: Axes, table: DataFrame, runs: Runs, margin: float) -> None:
    axes.axvspan(-margin, margin, color=palette.GRID, linewidth=0)
    rows = zip(_lines(table), table.to_dict("records"), strict=True)
    lines = [
        forest.Line(name, row["difference"], runs.colour(row["method"]), row["both"], MARKERS.get(row["verdict"], "o"))
        for name, row in rows
    ]
    forest.draw(axes, lines, "difference, points")


if __name__ == "__main__":
    run(primary_comparisons)
