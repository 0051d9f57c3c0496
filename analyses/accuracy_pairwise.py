"""Every pair of methods: which is better, which are equal for all that matters, and which these runs cannot tell."""

import math
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.pairs import (
    BETTER,
    BETTER_BY_LITTLE,
    EQUAL,
    MARGIN,
    OPEN,
    UNTESTABLE,
    detectable_in,
    pairs_of,
)
from routebench.statistics import OVER_BOTH, OVER_SAMPLES, smallest_sign_flip_p

MOST = 16  # methods in the figure; more cannot be read on a phone
MARKED = (
    "Coloured: better after Holm's correction over all pairs. Pale: not told apart. "
    f"With =: shown to be equal within {MARGIN:g} points."
)
WORDS = {
    BETTER: "better",
    BETTER_BY_LITTLE: f"better, by less than {MARGIN:g}",
    EQUAL: f"equal within {MARGIN:g} points",
    OPEN: "not told apart",
    UNTESTABLE: "cannot be tested",
}
P_HOLM = "chance of a difference this large if there were none, corrected for the number of pairs (Holm)"
EFFECT = (
    "Hedges' g: the mean difference in standard deviations of the differences between seeds, corrected for few seeds, "
    "with 95 % interval"
)
BOTH = "95 % interval if seeds and test images were both drawn anew; the one before keeps the test images"
ODDS = "how many times more test images only the first has right than only the second, all seeds together"


@analysis_of("accuracy", "accuracy-pairwise", place=17)
def accuracy_pairwise(runs: Runs) -> Analysis | None:
    """Difference, interval, corrected p, effect size and verdict for every pair of methods."""
    table = pairs_of(runs)
    if table.empty:
        return None
    names = list(dict.fromkeys([*table["first"], *table["second"]]))
    drawn = names[:MOST]
    with figures.look():
        figure, (axes,) = figures.new_figure(max(0.5 + 0.25 * len(drawn), 0.8 * figures.height_of_rows(drawn)))
        _draw(axes, table, drawn)
    reading = _reading(table)
    return Analysis(
        title="Every method against every other",
        reading=reading,
        table=table,
        figure=figure,
        columns=_columns(table),
        notes=tuple(_notes(table, len(names))),
        alternative="A matrix of differences in accuracy, one square per pair of methods.",
    )


def _columns(table: DataFrame) -> tuple[Column, ...]:
    columns = [
        Column("First", "first", lambda row: str(row["first"]), "higher mean accuracy", numeric=False),
        Column("Second", "second", lambda row: str(row["second"]), "lower mean accuracy", numeric=False),
        Column("Difference, points", "difference", _difference, "first minus second, with 95 % interval"),
        Column("p (Holm)", "p_holm", lambda row: wording.probability(row["p_holm"]), P_HOLM),
        Column("Verdict", "verdict", lambda row: WORDS[row["verdict"]], "at 5 % over all pairs", numeric=False),
    ]
    if table["effect"].notna().any():
        columns.append(Column("Effect size", "effect", _effect, EFFECT))
    if (table["seeds"] > 1).any():
        columns.append(Column("Seeds won", "wins", lambda row: f"{row['wins']} / {row['seeds']}", "by the first"))
    if table["odds"].notna().any():
        columns.append(Column("Image odds", "odds", lambda row: _ratio(row["odds"]), ODDS, extra=True))
    if (table["both_interval"] == OVER_BOTH).any():
        columns.append(Column("Other images too", "both_low", _both, BOTH, extra=True))
    return tuple(columns)


def _difference(row: Row) -> str:
    return wording.gain_with_interval({"gain": row["difference"], "gain_low": row["low"], "gain_high": row["high"]})


def _effect(row: Row) -> str:
    if math.isnan(row["effect"]):
        return wording.NOTHING
    limits = f"[{wording.signed(row['effect_low'], 1)}, {wording.signed(row['effect_high'], 1)}]"
    return f"{wording.signed(row['effect'], 1)} {limits}"


def _both(row: Row) -> str:
    if math.isnan(row["both_low"]):
        return wording.NOTHING
    return f"[{wording.signed(row['both_low'])}, {wording.signed(row['both_high'])}]"


def _ratio(value: float) -> str:
    if math.isnan(value):
        return wording.NOTHING
    return "∞" if math.isinf(value) else f"{value:.2f}"


def _reading(table: DataFrame) -> str:
    counts = table["verdict"].value_counts()
    better = int(counts.get(BETTER, 0) + counts.get(BETTER_BY_LITTLE, 0))
    said = [f"in {_count(better)} one method is better"]
    if EQUAL in counts:
        said.append(f"in {_count(int(counts[EQUAL]))} both are equal within {MARGIN:g} points")
    if OPEN in counts:
        said.append(f"{_count(int(counts[OPEN]))} cannot be told apart, which is not the same as equal")
    if UNTESTABLE in counts:
        said.append(f"{_count(int(counts[UNTESTABLE]))} cannot be tested")
    said_all = f"Of {wording.plural(len(table), 'pair')} of methods, {'; '.join(said)}."
    if len(table) < 2:
        return said_all
    return (
        f"{said_all} Here p is corrected for all {len(table)} pairs together, which asks for more than the gains over "
        "uniform alone."
    )


def _count(number: int) -> str:
    return {0: "none", 1: "one"}.get(number, str(number))


def _notes(table: DataFrame, methods: int) -> list[str]:
    one_seed = (table["interval"] == OVER_SAMPLES).all()
    notes = [
        f"Each square: points of test accuracy that the method of the column is ahead of that of the row. {MARKED}"
    ]
    if methods > MOST:
        notes.append(
            f"The figure shows the {MOST} methods of the highest mean accuracy; the table shows all {methods}."
        )
    single, corrected = detectable_in(table), detectable_in(table, len(table))
    if not math.isnan(single):
        tested = "on the same test images" if one_seed else f"with {wording.plural(int(table['seeds'].min()), 'seed')}"
        asks = "" if math.isnan(corrected) else f"; after correction for all pairs it has to be {corrected:.2f} points"
        notes.append(
            f"Smallest detectable difference: {tested}, one test finds a true difference of {single:.2f} points "
            f"8 times in 10{asks}."
        )
    if one_seed:
        notes.append("One seed: McNemar's exact test on the same test images. Another seed may order them otherwise.")
    else:
        fewest = int(table["seeds"].min())
        notes.append(
            "Paired t-test over seeds, on these test images; equal by two one-sided t-tests. "
            f"Without assuming a normal distribution, {wording.plural(fewest, 'seed')} can give no p below "
            f"{smallest_sign_flip_p(max(fewest, 1)):.2g}."
        )
    return notes


def _draw(axes: Axes, table: DataFrame, names: list[str]) -> None:
    place = {name: index for index, name in enumerate(names)}
    gains, texts = np.full((len(names), len(names)), np.nan), np.full((len(names), len(names)), "", dtype=object)
    shown = table[table["first"].isin(names) & table["second"].isin(names)]
    for row in shown.to_dict("records"):
        at = place[row["second"]], place[row["first"]]
        better = row["verdict"] in (BETTER, BETTER_BY_LITTLE)
        gains[at] = row["difference"] if better else np.nan
        texts[at] = _short(row["difference"]) + ("=" if row["verdict"] == EQUAL else "")
    gains, texts = gains[:, :-1], texts[:, :-1]
    colours = sns.color_palette("ch:start=2.8,rot=-.25,light=.86,dark=.3", as_cmap=True)
    top = float(np.nanquantile(gains, 0.9)) if np.isfinite(gains).any() else 1.0
    sns.heatmap(gains, ax=axes, cmap=colours, vmin=0, vmax=max(top, 1e-9), cbar=False, linewidths=1.2)
    for (row_at, column_at), text in np.ndenumerate(texts):
        strong = np.isfinite(gains[row_at, column_at])
        dark = strong and gains[row_at, column_at] > 0.55 * top
        ink = "white" if dark else "#14181d" if strong else palette.MUTED
        style: dict[str, Any] = {"color": ink, "weight": "bold" if strong else "normal", "fontsize": 6.5}
        axes.text(column_at + 0.5, row_at + 0.5, text, ha="center", va="center", **style)
    numbered = [f"{wording.in_lines(name)}  {number}" for number, name in enumerate(names, 1)]
    axes.set_xticks(np.arange(len(names) - 1) + 0.5, [str(number) for number in range(1, len(names))], fontsize=8)
    axes.set_yticks(np.arange(len(names)) + 0.5, numbered, rotation=0, fontsize=8)
    axes.tick_params(length=0, labelcolor=palette.INK, labeltop=True, labelbottom=False)
    axes.grid(visible=False)


def _short(value: float) -> str:
    """`.42`, `1.3`, `87`: three characters, which is what a square holds."""
    if math.isnan(value):
        return ""
    if value >= 9.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"[1:]


if __name__ == "__main__":
    run(accuracy_pairwise)
