"""Every pair of methods: which is better, which are equivalent within the margin, and which stay undecided."""

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import (
    ALPHA,
    MISSING,
    Analysis,
    Column,
    Estimate,
    Method,
    Runs,
    Verdict,
    analysis_of,
    figures,
    numbers,
    palette,
    run,
    wording,
)  # fmt: skip
from routebench.analysis._verdicts import GAINS, LOSSES
from routebench.analysis.comparison import (
    OTHER_IMAGES,
    Contender,
    PairedAnswers,
    answers_of,
    distinct,
    settled,
    untested,
    with_other_images,
)
from routebench.analysis.contenders import p_beyond_between

MOST = 16  # methods in the figure; more cannot be read on a phone
MARKED = "Coloured: better after Holm's correction. Pale: not told apart. With =: shown to be equal within the margin."
WORDS = {
    Verdict.BETTER: "better",
    Verdict.BETTER_BY_LITTLE: "better, by less than {margin:g}",
    Verdict.WORSE: "worse",
    Verdict.WORSE_BY_LITTLE: "worse, by less than {margin:g}",
    Verdict.EQUAL: "equal within {margin:g} points",
    Verdict.OPEN: "not told apart",
    Verdict.UNTESTABLE: "cannot be tested",
}
TOLD = (*GAINS, *LOSSES, Verdict.EQUAL)
"""Verdicts worth a figure; without any, the table is enough."""
P_HOLM = (
    "chance of a difference this large if there were none, corrected within its family (Holm): the pre-specified "
    "comparisons, the gains over uniform routing, and so on, as in other tables; what is in none of them, for all pairs"
)
EFFECT = (
    "Hedges' g: the mean difference in standard deviations of the differences between seeds, corrected for few seeds, "
    "with 95 % interval"
)
BY_SEED = (statistics.OVER_SEEDS, statistics.OVER_SEEDS_TWO_STAGES, statistics.CONSTANT)
ODDS = "how many times more test images only the first has right than only the second, all seeds together"


@analysis_of("accuracy", "accuracy-pairwise", place=17)
def accuracy_pairwise(runs: Runs) -> Analysis | None:
    """Difference, interval, corrected p, effect size and verdict for every pair of methods."""
    table, margin = pairs_of(runs), settled(runs).margin
    if table.empty:
        return None
    names = list(dict.fromkeys([*table["first"], *table["second"]]))
    drawn = names[:MOST]
    height = max(0.5 + 0.25 * len(drawn), 0.8 * figures.height_of_rows(map(str, drawn)))
    return Analysis(
        title="Every method against every other",
        reading="Which methods can be told apart?",
        table=table,
        figure=figures.figure_of(_draw, table, drawn, height=height) if table["verdict"].isin(TOLD).any() else None,
        columns=_columns(table, margin),
        notes=tuple(_notes(runs, table, len(names))),
        alternative="A matrix of differences in accuracy, one square per pair of methods.",
    )


def pairs_of(runs: Runs) -> DataFrame:
    """One row per pair of measured methods, the one with the higher mean accuracy first; in points.

    Methods that are the same function count once.

    Columns: `first, second`; `difference`, its p corrected as `families` says; `effect`, Hedges' g of the paired
    differences; `wins, seeds`; `deviation` of the differences; `p_equal` of a difference beyond the margin; `both`, the
    difference over seeds and test images; `odds`, of an image that only one has right; `discordant`, the share of such
    images; `p_equal_holm`; `verdict`.
    """
    measured = [one for one in distinct(runs) if one.accuracies]
    measured.sort(key=lambda one: -float(np.mean([*one.accuracies.values()])))
    return DataFrame([_row(runs, first, second) for first, second in combinations(measured, 2)])


def _row(runs: Runs, first: Contender, second: Contender) -> dict[str, object]:
    found, pair = settled(runs), (first.method, second.method)
    seeds = sorted(set(first.accuracies) & set(second.accuracies))
    gains = statistics.shared_differences(first.accuracies, second.accuracies)
    difference = found.difference(*pair)
    effect = Estimate.of(statistics.standardised_difference(first.accuracies, second.accuracies))
    return {
        "first": first.method,
        "second": second.method,
        "difference": difference,
        "effect": effect.untested(difference.kind) if difference.kind == MISSING else effect,
        "wins": int((gains > 0).sum()),
        "seeds": len(seeds),
        "deviation": float(gains.std(ddof=1)) if len(seeds) > 1 else math.nan,
        "p_equal": p_beyond_between(runs, first, second, found.margin),
        "p_equal_holm": found.p_beyond(*pair),
        "verdict": found.verdict(*pair),
        "both": with_other_images(runs, first, second),
        **_by_image(answers_of(runs, first, second)),
    }


def _by_image(answers: PairedAnswers | None) -> dict[str, object]:
    """Statistics per test image, if outcomes were kept."""
    if answers is None:
        return {"odds": math.nan, "discordant": math.nan}
    return {
        "odds": statistics.discordant_odds(answers.ours.ravel(), answers.theirs.ravel()).mean,
        "discordant": float((answers.ours != answers.theirs).mean()),
    }


def detectable_in(table: DataFrame, tests: int = 1) -> float:
    """The difference, in points, that one of the tests detects with power 0.8 at family-wise 5 %.

    From the median spread of the pairs and the smallest number of seeds of any; with one seed from the median share of
    images that only one has right.

    Args:
        table: from `pairs_of`.
        tests: number of tests that share the 5 %, as in Holm's first step.

    Returns:
        NaN where the spread is unknown.
    """
    kinds = table["difference"].map(lambda found: found.kind)
    counts = table["difference"].map(lambda found: found.n)
    by_seed = kinds.isin(BY_SEED)
    if by_seed.any():
        spread = math.sqrt(float((table.loc[by_seed, "deviation"] ** 2).median()))
        return statistics.smallest_detectable_difference(spread, int(counts[by_seed].min()), ALPHA / tests)
    by_image = kinds == statistics.OVER_SAMPLES
    if not by_image.any():
        return math.nan
    share = float(table.loc[by_image, "discordant"].median())
    return 100 * statistics.smallest_detectable_share(share, int(counts[by_image].min()), ALPHA / tests)


def _columns(table: DataFrame, margin: float) -> tuple[Column, ...]:
    columns = [
        Column("First", "first", lambda row: row["first"].marked, "higher mean accuracy", numeric=False),
        Column("Second", "second", lambda row: row["second"].marked, "lower mean accuracy", numeric=False),
        Column(
            "Verdict",
            "verdict",
            lambda row: WORDS[row["verdict"]].format(margin=margin),
            "at 5 % within a family; not told apart is not the same as equal",
            numeric=False,
            judges=True,
        ),
        Column("Difference, points", "difference", "+.2", "first minus second, with 95 % interval"),
        Column("p (Holm)", "difference.p_holm", "p", P_HOLM),
    ]
    if numbers(table["effect"]).notna().any():
        columns.append(Column("Effect size", "effect", "+.1", EFFECT))
    if (table["seeds"] > 1).any():
        columns.append(Column("Seeds won", "wins", lambda row: f"{row['wins']} / {row['seeds']}", "by the first"))
    if table["odds"].notna().any():
        columns.append(Column("Image odds", "odds", lambda row: _ratio(row["odds"]), ODDS, extra=True))
    if any(found.kind == statistics.OVER_BOTH for found in table["both"]):
        columns.append(replace(OTHER_IMAGES, extra=True))
    return tuple(columns)


def _ratio(value: float) -> str:
    if math.isnan(value):
        return wording.NOTHING
    return "∞" if math.isinf(value) else f"{value:.2f}"


def _notes(runs: Runs, table: DataFrame, methods: int) -> list[str]:
    one_seed = all(found.kind in statistics.BY_SAMPLE for found in table["difference"])
    notes = []
    if table["verdict"].isin(TOLD).any():
        notes.append(f"Each square: points of test accuracy by which the column is ahead of the row. {MARKED}")
    if methods > MOST:
        notes.append(
            f"The figure shows the {MOST} methods of the highest mean accuracy; the table shows all {methods}."
        )
    single, corrected = detectable_in(table), detectable_in(table, len(table))
    if not math.isnan(single):
        fewest = min((found.n for found in table["difference"] if found.kind in BY_SEED), default=0)
        tested = f"with {wording.plural(fewest, 'seed')}" if fewest else "on the same test images"
        asks = "" if math.isnan(corrected) else f"; after correction for all pairs it has to be {corrected:.2f} points"
        notes.append(
            f"Smallest detectable difference: {tested}, one test finds a true difference of {single:.2f} points "
            f"8 times in 10{asks}."
        )
    if one_seed:
        notes.append("One seed: McNemar's exact test on the same test images. Another seed may order them otherwise.")
    return [*notes, *untested(runs, table["difference"])]


def _draw(axes: Axes, table: DataFrame, names: list[Method]) -> None:
    place = {name: index for index, name in enumerate(names)}
    gains, texts = np.full((len(names), len(names)), np.nan), np.full((len(names), len(names)), "", dtype=object)
    shown = table[table["first"].isin(names) & table["second"].isin(names)]
    for row in shown.to_dict("records"):
        is_worse = row["verdict"] in LOSSES  # on the seeds that both finished
        ahead, behind = ("second", "first") if is_worse else ("first", "second")
        at, size = (place[row[behind]], place[row[ahead]]), (-1 if is_worse else 1) * row["difference"].mean
        better = row["verdict"] in GAINS or is_worse
        gains[at] = size if better else np.nan
        texts[at] = _short(size) + ("=" if row["verdict"] == Verdict.EQUAL else "")
    columns = len(names) - (not any(texts[:, -1]))
    gains, texts = gains[:, :columns], texts[:, :columns]
    colours = sns.color_palette("ch:start=2.8,rot=-.25,light=.86,dark=.3", as_cmap=True)
    top = float(np.nanquantile(gains, 0.9)) if np.isfinite(gains).any() else 1.0
    sns.heatmap(gains, ax=axes, cmap=colours, vmin=0, vmax=max(top, 1e-9), cbar=False, linewidths=0)
    for (row_at, column_at), text in np.ndenumerate(texts):
        if text and not np.isfinite(gains[row_at, column_at]):
            pale = Rectangle((column_at + 0.04, row_at + 0.04), 0.92, 0.92, color=palette.GRID, alpha=0.45, linewidth=0)
            axes.add_patch(pale)
        strong = np.isfinite(gains[row_at, column_at])
        dark = strong and gains[row_at, column_at] > 0.55 * top
        ink = "white" if dark else "#14181d" if strong else palette.MUTED
        style: dict[str, Any] = {"color": ink, "weight": "bold" if strong else "normal", "fontsize": 6.5}
        axes.text(column_at + 0.5, row_at + 0.5, text, ha="center", va="center", **style)
    numbered = [f"{number}.  {wording.in_lines(str(name))}" for number, name in enumerate(names, 1)]
    axes.set_xticks(np.arange(columns) + 0.5, [str(number) for number in range(1, columns + 1)], fontsize=8)
    axes.set_yticks(np.arange(len(names)) + 0.5, numbered, rotation=0, fontsize=8)
    axes.tick_params(length=0, labelcolor=palette.INK, labeltop=True, labelbottom=False)
    axes.grid(visible=False)


def _short(value: float) -> str:
    """`.42`, `1.3`, `87`: three characters, which fit into a square; `−.42` where seeds failed."""
    if math.isnan(value):
        return ""
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size >= 9.95:
        return f"{sign}{size:.0f}"
    return sign + (f"{size:.1f}" if size >= 0.995 else f"{size:.2f}"[1:])


if __name__ == "__main__":
    run(accuracy_pairwise)
