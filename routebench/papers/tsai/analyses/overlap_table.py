"""Exact match of every method, its gain over uniform routing, and its errors."""

import math

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    BASELINE,
    METHOD,
    Analysis,
    Column,
    Estimate,
    Main,
    Row,
    Runs,
    Verdict,
    analysis_of,
    numbers,
    run,
    wording,
)
from routebench.analysis.comparison import (
    OTHER_IMAGES,
    RANK,
    Comparison,
    comparison_of,
    finished,
    gains_of,
    notes_on,
)
from routebench.analysis.named import gains_with_other_images

PARTS = (
    Column("One digit, %", "exact_match_one_digit", ".1", "exact match on the test images that show one digit"),
    Column("Two digits, %", "exact_match_two_digits", ".1", "exact match on the test images that show two digits"),
    Column("At one half, %", "exact_match_half", ".1", "exact match with a threshold of 0.5, instead of the best on "
           "held-out images"),
    Column("Count given, %", "exact_match_given_count", ".1", "exact match of the highest scores, if the network is "
           "told how many digits each image shows", extra=True),
)  # fmt: skip
GAIN = (
    Column("Gain over uniform routing", "gain", "+.2", "points, paired; for this gain alone"),
    Column("p (Holm)", "gain.p_holm", "p", "corrected for all gains"),
)
THRESHOLD = "A digit is answered if its score is above a threshold: one for all digits, the best on held-out images."
LOST = 5.0
"""Smallest loss (points) by a fixed threshold that the sentence mentions."""


@analysis_of("overlap", "overlap-table", place=10)
def overlap_table(runs: Runs) -> Analysis | None:
    """Exact match of every method and T with its interval, gain over uniform routing, rank, and errors."""
    found = comparison_of(runs)
    if found.table.empty or found.measured.empty:
        return None
    table = _with_parts(runs, found.table)
    both = gains_with_other_images(runs)
    table["both"] = table["method"].map(lambda method: both.get(method, Estimate()))
    return Analysis(
        title="Finding every digit of an image",
        reading=_reading(found, table),
        table=table,
        columns=_columns(found, (OTHER_IMAGES,) if any(one.has_limits for one in both.values()) else ()),
        notes=(THRESHOLD, *notes_on(runs, found), *_published_notes(runs)),
        main=Main.of("accuracy", "mean", "Overlapping digits", gains=gains_of(runs), both=both),
    )


def _with_parts(runs: Runs, table: DataFrame) -> DataFrame:
    """Adds `PARTS`, and `worst_digit` with its `worst_recall` (%): lowest in the mean over seeds."""
    recalls = runs.means("recall", by=["digit"])
    worst = recalls.assign(mean=numbers(recalls["mean"])).sort_values(["mean", "digit"]).drop_duplicates("method")
    for key, found in [*((column.key, runs.means(column.key)) for column in PARTS), ("worst_recall", worst)]:
        table[key] = numbers(table["method"].map(dict(zip(found["method"], found["mean"], strict=True))))
    digits = dict(zip(worst["method"], worst["digit"], strict=True))
    table["worst_digit"] = table["method"].map(digits).astype("Int64")
    return table


def _columns(found: Comparison, other_images: tuple[Column, ...]) -> tuple[Column, ...]:
    return (
        METHOD,
        Column("Exact match, %", "mean", "±0.2", "test images of which exactly the digits shown are answered"),
        finished("finished, of those planned"),
        *(GAIN if found.baseline is not None else ()),
        *other_images,
        RANK,
        Column("Worst digit, %", "worst_recall", _worst, "the digit found least often, and its recall"),
        *PARTS,
    )


def _worst(row: Row) -> str:
    known = not math.isnan(row["worst_recall"])
    return f"{row['worst_digit']}: {row['worst_recall']:.1f}" if known else wording.NOTHING


def _reading(found: Comparison, table: DataFrame) -> str:
    rows: list[Row] = [*table[table["n_ok"] > 0].to_dict("records")]
    best, *others = rows
    reading = f"{best['method']} answers exactly the digits shown in {best['mean']:±0.2} % of test images"
    base = [row for row in others if found.baseline and row["method"].label == BASELINE]
    if base:
        reading += f", uniform routing in {base[0]['mean']:.2} %"
    standing = f" {_standing(found)}" if others else ""
    return f"{reading}.{standing}{_lost(rows)}"


def _standing(found: Comparison) -> str:
    seen = {*found.over.values()}
    if seen == {Verdict.UNTESTABLE}:
        return "No test could compare it with the others."
    peers, ahead = (found.with_verdict(verdict) for verdict in (Verdict.OPEN, Verdict.WORSE))
    told = f"On the seeds that both finished, it is significantly behind {wording.listed(ahead, 4)}. " if ahead else ""
    told += f"It cannot be told apart from {wording.listed(peers, 4)}." if peers else ""
    if told:
        return told.strip()
    left = " that were tested" if Verdict.UNTESTABLE in seen else ""
    return f"That is significantly more than all others{left}."


def _lost(rows: list[Row]) -> str:
    """Methods that a fixed threshold would hold back."""
    falling = [row for row in rows if row["mean"].mean - row["exact_match_half"] > LOST]
    if not falling:
        return ""
    most = max(falling, key=lambda row: row["mean"].mean - row["exact_match_half"])
    told = f"{most['method']} from {most['mean']:.1} to {most['exact_match_half']:.1f} %"
    others = f", and {wording.plural(len(falling) - 1, 'other')} by more than {LOST:g} points" if falling[1:] else ""
    return f" A fixed threshold of one half would take {told}{others}."


def _published_notes(runs: Runs) -> list[str]:
    """Numbers of the paper for the same data set; its networks differ, so no row has them."""
    known = published.load_published()
    rows = known[(known["data"] == runs.data) & (known["metric"] == "test accuracy (all digits correct)")]
    if rows.empty:
        return []
    printed = [
        f"{row['method']} ({row['variant']}) {row['value']:.2f} % ({row['id']})" for row in rows.to_dict("records")
    ]
    return [f"Published by {rows['citation'].iloc[0]}, for networks that are not these: {'; '.join(printed)}."]


if __name__ == "__main__":
    run(overlap_table)
