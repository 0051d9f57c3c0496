"""Exact match of every method, its gain over uniform routing, and its errors."""

import math

from pandas import DataFrame

from routebench import published
from routebench.analysis import (
    METHOD,
    Analysis,
    Column,
    Estimate,
    Main,
    Row,
    Runs,
    analysis_of,
    answer_of,
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


@analysis_of("overlap", "overlap-table", place=10)
def overlap_table(runs: Runs) -> Analysis | None:
    """Exact match of every method and T with its interval, gain over uniform routing, rank, and errors."""
    found = comparison_of(runs)
    if found.table.empty or found.measured.empty:
        return None
    table = _with_parts(runs, found.table)
    both = gains_with_other_images(runs)
    table["both"] = table["method"].map(lambda method: both.get(method, Estimate()))
    main = Main.of("accuracy", "mean", "Overlapping digits", gains=gains_of(runs), both=both)
    return Analysis(
        title="Finding every digit of an image",
        reading=answer_of(main, runs) or "Which methods find every digit of an image?",
        table=table,
        columns=_columns(found, (OTHER_IMAGES,) if any(one.has_limits for one in both.values()) else ()),
        notes=(THRESHOLD, *notes_on(runs, found), *_published_notes(runs)),
        main=main,
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
