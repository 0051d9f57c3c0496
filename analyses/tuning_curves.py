"""Tuning curves: the expected best of k trials of every configuration, and how much its settings matter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame, Series, concat

from routebench.analysis import Analysis, Column, Main, Method, Row, Runs, analysis_of, figures, run, wording
from routebench.statistics import expected_best, stable_from

Line = tuple[Method, NDArray[np.float64], list[NDArray[np.float64]], str]
"""A configuration, its curve, those of its studies, and its colour."""


REPEATED = 2_000
"""Seeds of first runs of trials are smaller; those of repeats begin here."""
LOST = (
    "A configuration that lost trials stands behind those that lost fewer, whatever its best: those that failed may be "
    "its bad ones, so that its mean says too much good of it."
)
_AGAIN = (
    Column(
        "Again, %",
        "again",
        lambda row: f"{wording.fixed(row['again'], 2)}{'*' if row['is_other'] else ''}",
        "the best trial run again with other seeds, as the best of many is partly luck; *: another is then better",
    ),
)


@analysis_of("tuning", "tuning-curves", place=10)
def tuning_curves(runs: Runs) -> Analysis | None:
    """Expected best of k trials of every configuration (Dodge et al. 2019), with its spread over trials and studies."""
    scores = runs.values("score", split="fold")
    if scores.empty:
        return None
    ended = runs.values("diverged", split="fold")
    diverged = ended[_is_first(ended)].groupby("method")["value"].sum()
    table = DataFrame([_row(method, rows) for method, rows in scores.groupby("method", sort=False)])
    table["diverged"] = [int(diverged[method]) for method in table["method"]]
    table["lost"] = [sum(seed < REPEATED for seed in method.lost) for method in table["method"]]
    left = 1 - table["trials"] / (table["trials"] + table["lost"])
    table = table.assign(left=left).sort_values(["left", "best", "method"], ascending=[True, False, True])
    table = table.drop(columns="left").reset_index(drop=True)
    drawn = _curves(table, runs)
    return Analysis(
        title="What tuning finds",
        reading=_reading(table),
        table=table.drop(columns=["curve", "studies"]),
        figure=figures.figure_of(_draw, drawn, height=4.2),
        columns=(
            Column("Configuration", "method", numeric=False),
            Column("Best, %", "best", ".2"),
            *_AGAIN[: int(table["again"].notna().any())],
            Column("of 4, %", "of_four", ".2", "expected best of four trials"),
            Column("of 1, %", "mean", ".2", "mean of all trials: what one trial is expected to give"),
            Column("Spread, points", "spread", ".2", "standard deviation of the trials: how much settings matter"),
            Column("Studies differ, points", "between", ".2", "highest less lowest best of a study"),
            Column("Diverged", "diverged"),
            Column("Trials", "trials", _trials, "with a score, of all that ended"),
        ),
        notes=(
            "Scores are accuracies on a fold of the training images; no test image is in them.",
            "Curves: what the best of k trials is expected to score. Bands: from the lowest to the highest study.",
            "A trial that diverged scores chance; one that failed is in no curve. Repeats are in none.",
            *([LOST] if table["lost"].any() else []),
        ),
        alternative="Expected best score against the number of trials, one line per configuration.",
        main=Main.of("score", "best", "Best tuning score"),
    )


def _trials(row: Row) -> str:
    return f"{row['trials']} of {row['trials'] + row['lost']}" if row["lost"] else f"{row['trials']}"


def _row(method: Any, rows: DataFrame) -> dict[str, object]:
    is_first = _is_first(rows)
    rows, repeats = rows[is_first], rows[~is_first]
    means = concat([rows, repeats[["trial", "value"]]]).groupby("trial")["value"].mean()[[*repeats["trial"].unique()]]
    best = rows.groupby("trial")["value"].mean().idxmax()
    scores = rows["value"].to_numpy(dtype=float)
    studies = [expected_best(own["value"].to_numpy(dtype=float)) for _, own in rows.groupby("study")]
    curve, bests = expected_best(scores), [float(study[-1]) for study in studies]
    return {
        "method": method,
        "best": float(scores.max()),
        "again": float(repeats.loc[repeats["trial"] == best, "value"].mean()),
        "is_other": len(means) > 0 and means.idxmax() != best,
        "of_four": float(curve[min(3, len(curve) - 1)]),
        "mean": float(curve[0]),
        "spread": float(scores.std(ddof=1)) if len(scores) > 1 else float("nan"),
        "between": max(bests) - min(bests),
        "trials": len(scores),
        "curve": curve,
        "studies": studies,
    }


def _is_first(rows: DataFrame) -> "Series[bool]":
    """Tells whether a row is of a trial's first run, not of a repeat."""
    return rows["seed"] == rows.groupby(["method", "trial"])["seed"].transform("min")


def _curves(table: DataFrame, runs: Runs) -> list[Line]:
    """The best configuration of each method in each network: its curve, those of its studies, and its colour."""
    first = table.assign(family=[method.family for method in table["method"]]).drop_duplicates("family")
    return [
        (row["method"], row["curve"], row["studies"], runs.colour(row["method"])) for row in first.to_dict("records")
    ]


def _reading(table: DataFrame) -> str:
    rows = table.to_dict("records")
    trials = min(row["trials"] for row in rows)
    if max(row["trials"] for row in rows) < 2:
        return f"{_best(rows)}, of one trial of each configuration."
    found = stable_from(np.stack([row["curve"][:trials] for row in rows]))
    often = (
        f"On the images that scored them, all {len(rows)} configurations keep their order from {found} of {trials} "
        "trials on; test images may order them otherwise"
        if found < trials
        else f"The order of {len(rows)} configurations changed up to the last of {trials} trials: more may change it"
    )
    return f"{often}. {_best(rows)}."


def _best(rows: Sequence[Row]) -> str:
    lost = sum(row["lost"] > rows[0]["lost"] for row in rows)
    of = f" of the {len(rows) - lost} of {len(rows)} configurations that lost fewest trials" if lost else ""
    equal = [str(row["method"]) for row in rows if (row["lost"], row["best"]) == (rows[0]["lost"], rows[0]["best"])]
    have = "have" if len(equal) > 1 else "has"
    return f"{wording.listed(sorted(equal), 4)} {have} the best trial{of}, {rows[0]['best']:.2f} %"


def _draw(axes: Axes, drawn: list[Line]) -> None:
    ends, colours = {}, {}
    for method, curve, studies, colour in drawn:
        budget = np.arange(1, len(curve) + 1)
        axes.plot(budget, curve, color=colour)
        if len(studies) > 1:
            short = min(map(len, studies))
            bands = np.stack([study[:short] for study in studies])
            axes.fill_between(
                budget[:short], bands.min(axis=0), bands.max(axis=0), color=colour, alpha=0.1, linewidth=0
            )
        ends[str(method)], colours[str(method)] = float(curve[-1]), colour
    longest = max(len(curve) for _, curve, _, _ in drawn)
    low = min(float(curve[min(3, len(curve) - 1)]) for _, curve, _, _ in drawn)
    axes.set_xlim(1, longest * 1.03)
    axes.set_ylim(low - 1, max(ends.values()) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trials")
    axes.set_ylabel("expected best score, %")
    figures.label_ends(axes, longest, ends, colours)


if __name__ == "__main__":
    run(tuning_curves)
