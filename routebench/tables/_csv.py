"""Rows as CSV that a spreadsheet opens without running any of it."""

from typing import Any

from pandas import DataFrame

FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""Beginnings of text that spreadsheets take for a formula."""
MARK = "'"
"""The mark before such text: spreadsheets then show it."""


def as_csv(rows: DataFrame, **options: Any) -> str:
    """Rows as CSV; text that begins as a formula, names of columns too, has `MARK` before it. Numbers stay.

    Args:
        rows: to write.
        options: those of pandas' `to_csv`.
    """
    shown = rows.rename(columns=_shown)
    for place, kind in enumerate(rows.dtypes):
        if kind.kind not in "biufcmM":
            shown.isetitem(place, rows.iloc[:, place].map(_shown, na_action="ignore").array)
    text: str = shown.to_csv(index=False, lineterminator="\n", **options)
    return text


def _shown(value: Any) -> Any:
    """The value, marked if it is text that begins as a formula and is no number; lines in it end as those of a file."""
    if not isinstance(value, str) or _is_number(value):
        return value
    value = "\n".join(value.splitlines()) if "\r" in value else value  # else a spreadsheet begins a new row there
    return f"{MARK}{value}" if value.startswith(FORMULA) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
