"""Every published number beside ours: reproduced, partly, not, undecided or not run."""

import math
from collections import Counter
from collections.abc import Callable

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Role, Row, Runs, Verdict, analysis_of, figures, palette, run, wording
from routebench.analysis.published_numbers import published_and_measured, repeat_papers
from routebench.published import Statistic

DRAWN: dict[str, tuple[str, str]] = {
    Verdict.REPRODUCED: (palette.HUES[2], "o"),
    Verdict.PARTLY: (palette.HUES[0], "D"),
    Verdict.NOT_REPRODUCED: (palette.HUES[1], "X"),
    Verdict.UNDECIDED: (palette.MUTED, "s"),
}
"""Colour and mark of a point, by verdict."""
AS_PERCENT: dict[str, Callable[[float], float]] = {
    "test error": lambda value: 100 - value,
    "linear-probe accuracy": lambda value: 100 * value,
}
PERCENTAGES = ("test accuracy", "test accuracy (all digits correct)", "accuracy after attack", *AS_PERCENT)
RULES = (
    (
        "Reproduced: trained under the paper's conditions, and the published value lies where 95 of 100 such values "
        "would, if the paper's runs were like ours: one run, or the mean or the best of some, as the paper says. It is "
        "predicted from our seeds and widened by the printed precision. It means compatible, not equal: a prediction "
        "wider than 3 points to either side (or a tenth of the number, where it is no share) is undecided. Not: the "
        "same conditions, and outside."
    ),
    (
        "Partly: another preset, suite or network, where the comparison with the paper's own rival comes out the same "
        "way (paired by seed, p below 0.05). Undecided: one seed, a wide interval, or that comparison is not shown."
    ),
)


@analysis_of("", "published-beside-measured", place=90, folder=True, role=Role.PUBLISHED)
def published_beside_measured(parts: tuple[Runs, ...]) -> Analysis | None:
    """One row per published number, with our mean and 95 % interval in its own unit, the gap and a verdict."""
    if not any(runs.results["value"].notna().any() for runs in parts):
        return None
    table = published_and_measured(parts)
    if (table["verdict"] == Verdict.NOT_RUN).all() and not repeat_papers(parts):
        return None  # what was never planned is not missing
    table = table.sort_values("verdict", key=lambda told: told == Verdict.NOT_RUN, kind="stable", ignore_index=True)
    points = _points(table)
    return Analysis(
        title="Published beside measured",
        reading="Which published numbers are reproduced here?",
        table=table,
        figure=None if points.empty else figures.figure_of(_draw, points, height=4.6),
        columns=COLUMNS,
        notes=(*(RULES if (table["verdict"] != Verdict.NOT_RUN).any() else ()), *_notes(table)),
        alternative="Measured against published accuracy, with intervals and the line of equality.",
        hidden=tuple(table["verdict"] == Verdict.NOT_RUN),
    )


def _method(row: Row) -> str:
    return wording.name_of(str(row["method"] or row["printed_method"] or wording.NOTHING), row["iterations"])


def _digits(row: Row) -> int:
    return 3 if row["unit"] == "fraction" else 2


def _published(row: Row) -> str:
    sign = {"at least": "≥ ", "at most": "≤ ", "about": "≈ "}.get(row["relation"], "")
    spread = "" if math.isnan(row["uncertainty"]) else f" ± {row['uncertainty']:g}"
    return f"{sign}{row['value']:g}{spread}{_unit(row)}"


def _unit(row: Row) -> str:
    return {"%": " %", "percentage points": " points", "x": " ×"}.get(row["unit"], "")


def _parameters(row: Row) -> str:
    if not row["printed_parameters"]:
        return wording.NOTHING
    if math.isnan(row["counted_parameters"]):
        return f"{row['printed_parameters']}; not counted"
    agree = {"yes": "agree", "no": "differ"}.get(row["parameters_agree"], "cannot be compared")
    return f"{row['printed_parameters']}; {wording.count(row['counted_parameters'])}: {agree}"


def _expected(row: Row) -> str:
    found, printed = row["expected"], Statistic.read(row["statistic"])
    if not found.has_limits:
        return wording.NOTHING
    return f"{wording.fixed(found.low, _digits(row))} to {wording.fixed(found.high, _digits(row))}, {printed}"


COLUMNS = (
    Column("Method", "method", _method, "as routebench calls it, or as printed", numeric=False),
    Column("Verdict", "verdict", "", "see the notes", numeric=False, judges=True),
    Column("Published", "value", _published),
    Column("Measured", "measured", lambda row: format(row["measured"], f"[].{_digits(row)}"),
           "mean over seeds with its 95 % interval, in the published unit"),
    Column("Expected", "expected", _expected,
           "where the paper's one run, mean or best of some lies in 95 of 100 cases, if its runs were like ours",
           extra=True),
    Column("Gap", "gap", lambda row: wording.signed(row["gap"], _digits(row)), "measured less published"),
    Column("Task", "dataset", lambda row: f"{row['dataset']}: {row['metric']}", numeric=False),
    Column("Paper", "source", lambda row: f"{row['source']}, {row['where']}", numeric=False),
    Column("Why", "reason", numeric=False),
    Column("Row", "id", "", "in published.csv of the paper's folder", numeric=False, extra=True),
    Column("Parameters", "printed_parameters", _parameters, "printed; counted here; whether they agree", extra=True),
)  # fmt: skip


def _notes(table: DataFrame) -> list[str]:
    not_run = table[table["verdict"] == Verdict.NOT_RUN]
    counted = f"Not run: {len(not_run)} of {len(table)} published numbers. The CSV file has them."
    notes = [] if not_run.empty else [counted]
    needed = Counter(not_run.loc[not_run["reason"].str.startswith("run the"), "reason"])
    if needed:
        told = [f"{reason.removeprefix('run ')} ({count})" for reason, count in needed.most_common(3)]
        more = f", and {len(needed) - 3} others" if len(needed) > 3 else ""
        notes.append(f"What measures most of those: {'; '.join(told)}{more}.")
    return notes


def _points(table: DataFrame) -> DataFrame:
    """The measured percentages, errors turned into accuracies, fractions into percentages."""
    points = []
    for row in table.to_dict("records"):
        found, turned = row["measured"], AS_PERCENT.get(row["metric"], float)
        if found.known and row["metric"] in PERCENTAGES:
            limits = row["expected"] if row["expected"].has_limits else found
            values = {"value": row["value"], "measured": found.mean, "low": limits.low, "high": limits.high}
            points.append({"verdict": row["verdict"], **{key: turned(value) for key, value in values.items()}})
    return DataFrame(points)


def _draw(axes: Axes, points: DataFrame) -> None:
    seen = points.drop(columns="verdict")
    least, most = float(seen.min().min()), float(seen.max().max())
    margin = max(0.08 * (most - least), 0.2)
    low, high = least - margin, most + margin
    axes.plot([low, high], [low, high], color=palette.INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for verdict, own in points.groupby("verdict"):
        colour, mark = DRAWN[str(verdict)]
        axes.vlines(own["value"], own["low"], own["high"], color=colour, linewidth=1.6, alpha=0.7)
        axes.plot(own["value"], own["measured"], mark, color=colour, markersize=7, label=f"{verdict} ({len(own)})")
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set(xlabel="published accuracy, %", ylabel="measured accuracy, %")
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    axes.set_title("Published and measured")


if __name__ == "__main__":
    run(published_beside_measured)
