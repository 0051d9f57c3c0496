"""Tables of measured values: one row per method, with limits in the cells; how to show and save them."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas import DataFrame, Series

from routebench.analysis._estimate import Estimate, shown
from routebench.analysis._method import Method
from routebench.analysis._verdicts import Verdict
from routebench.declared import measure_of

if TYPE_CHECKING:
    from routebench.analysis._runs import Runs

Row = Mapping[Any, Any]  # of a table: column to cell


@dataclass(frozen=True)
class Printed:
    """The cell of a table as shown: its text, and the value behind it.

    Args:
        text: as shown.
        value: what the text was made of, as it is in the table.
    """

    text: str
    value: Any

    @property
    def key(self) -> str:
        """The key by which a browser sorts and saves it: a number to seven digits, or the text; empty if missing."""
        value = self.value
        plain = float(value) if isinstance(value, Estimate) else value.exact if isinstance(value, Method) else value
        if pd.isna(plain):
            return ""
        return f"{plain:.7g}" if isinstance(plain, float) else str(plain)

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits of its interval to seven digits; empty without one."""
        value = self.value
        return (f"{value.low:.7g}", f"{value.high:.7g}") if isinstance(value, Estimate) and value.has_limits else ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on a difference; `UNTESTABLE` where the value is none."""
        return self.value.verdict if isinstance(self.value, Estimate) else Verdict.UNTESTABLE

    @property
    def packed(self) -> list[str]:
        """The cell for a table that the browser builds."""
        return [self.text] if self.text == self.key else [self.text, self.key, *self.limits]


@dataclass(frozen=True)
class Column:
    """A column as shown.

    Args:
        title: its heading.
        key: the column of the table that it sorts by, or part of its cells, as in `gain.p_holm` or `method.label`.
        text: how `shown` writes it, such as `±.1`; or a function of a row, as a dictionary.
        explained: one sentence that explains it.
        numeric: aligned by its right edge.
        extra: omitted if there is little room, as in a terminal.
        judges: compares methods, as a rank or a verdict does; runs too short to judge show none. One that writes a `p`
            always does.
    """

    title: str
    key: str
    text: Callable[[Row], str] | str = ""
    explained: str = ""
    numeric: bool = True
    extra: bool = False
    judges: bool = False

    def printed(self, row: Row) -> "Printed":
        """The cell as shown.

        Args:
            row: a row of the table, as a dictionary.
        """
        value = self.value(row)
        return Printed(shown(value, self.text) if isinstance(self.text, str) else self.text(row), value)

    @property
    def is_verdict(self) -> bool:
        """Tells whether it compares methods."""
        return self.judges or self.text == "p"

    def value(self, row: Row) -> Any:
        """Sort key of the cell.

        Args:
            row: a row of the table, as a dictionary.
        """
        if self.key in row:
            return row[self.key]
        key, _, part = self.key.rpartition(".")
        return getattr(row[key], part)


@dataclass(frozen=True)
class Mean(Column):
    """A column that `table_of` fills: the mean over seeds of a metric. `Mean.of` makes it of a declared measure.

    Args:
        metric: the measured metric; by default the key.
        where: further conditions, as for `Runs.values`.
    """

    metric: str = ""
    where: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, measure: str, key: str = "", title: str = "", explained: str = "", **more: Any) -> "Mean":
        """The column of a declared measure, which says its title, decimals and meaning.

        Args:
            measure: its name.
            key: the column of the table; by default the name.
            title, explained: instead of those declared.
            more: further fields of the column.

        Raises:
            UserError: nobody has declared the measure.
        """
        known = measure_of(measure)
        told = {"title": title or known.heading, "explained": explained or known.plain, "text": known.form}
        return cls(**{**told, "key": key or measure, "metric": measure, **more})


METHOD_SAVED = {"name": "exact", **{part: part for part in ("label", "iterations", "role", "model")}}
METHOD = Column(
    "Method", "method", lambda row: str(row["method"].marked),
    "routing method, and T, the iterations it was trained with", numeric=False,
)  # fmt: skip
MODEL = replace(METHOD, title="Model", explained="")
"""Replaces `METHOD` for models without routing."""
SEEDS = Column("Seeds", "n", explained="that the mean is over", extra=True)


def table_of(runs: "Runs", columns: Iterable[Column], by: Iterable[str] = (), order: str = "") -> DataFrame:
    """One row per measured method and value of the columns in `by`; without these, equal functions share a row.

    Args:
        runs: the runs of a suite.
        columns: to show; each `Mean` is computed.
        by: columns of `Runs.values` that distinguish rows.
        order: the column of estimates whose largest mean comes first; else by method.

    Returns:
        columns `method`, those of `by`, `n`, the most seeds of any estimate, and an `Estimate` for each `Mean`.
    """
    keys, wanted = ["method", *by], [column for column in columns if isinstance(column, Mean)]
    cells: dict[tuple[Any, ...], dict[str, Estimate]] = {}
    for column in wanted:
        found = runs.means(column.metric or column.key, keys[1:], **column.where)
        for row in found.to_dict("records"):
            cells.setdefault(tuple(row[key] for key in keys), {})[column.key] = row["mean"]
    rows = [
        dict(zip(keys, of, strict=True))
        | {"n": max(one.n for one in found.values())}
        | {column.key: found.get(column.key, Estimate()) for column in wanted}
        for of, found in cells.items()
    ]
    table = DataFrame(rows, columns=[*keys, "n", *(column.key for column in wanted)])
    table = table if by else runs.without_twins(table)
    table = table.sort_values(keys, kind="stable", ignore_index=True)
    return best_first(table, order) if order else table


def best_first(table: DataFrame, key: str, *, ascending: bool = False) -> DataFrame:
    """The table sorted by a column of estimates; those over fewer of a method's seeds come later, missing ones last.

    Every order of methods is this one: a mean over the seeds that are left may be high because bad ones are missing.

    Args:
        table: rows with estimates or numbers in the column, and mostly a column `method`.
        key: the column to sort by.
        ascending: put the smallest first.
    """
    sign = 1 if ascending else -1
    rows = table.to_dict("records")
    places = sorted(range(len(rows)), key=lambda place: standing(rows[place], key, sign))
    return table.iloc[places].reset_index(drop=True)


def standing(row: Row, key: str, sign: int = -1) -> tuple[bool, float, float]:
    """Sort key of a row with a `method`, by the estimate or number in `key`; `sign` is 1 where less is better.

    Args:
        row: a row of a table. Without a `method` it counts as having all its seeds.
        key: the column of the estimate or number.
        sign: 1 where less is better, -1 where more is.

    Returns:
        whether the value is missing, the share of planned seeds that it lacks, and the value with that sign.
    """
    cell, method = row[key], row.get("method")
    value = sign * float(f"{float(cell):.12g}")  # means that are equal but for rounding are equal
    if not isinstance(method, Method) or not method.planned:
        return math.isnan(value), 0.0, value
    known = min(cell.n, len(method.finished)) if isinstance(cell, Estimate) and cell.n else len(method.finished)
    return math.isnan(value), 1 - known / len(method.planned), value


def among(methods: Iterable[Method]) -> str:
    """The methods of which the first of an order is the best, in words; empty where none lacks more seeds than it."""
    first, *others = methods
    if all(method.missing <= first.missing for method in others):
        return ""
    return f" of the methods with {'most' if first.missing else 'all'} of their seeds"


def by_method(table: DataFrame) -> list[tuple[Method, DataFrame]]:
    """The rows of each method, in the order of the table."""
    return [(rows["method"].iloc[0], rows) for _, rows in table.groupby("method", sort=False)]


def numbers(cells: "Series[Any]") -> "Series[float]":
    """The means of a column of estimates; NaN if missing.

    Args:
        cells: the column.
    """
    return cells.astype(float)


def saved(table: DataFrame) -> DataFrame:
    """The table as plain numbers and texts, as it is saved: all its columns, in order, by what their cells are.

    - A number or a text is saved as it is.
    - `method` is saved as `name, label, iterations, role, model`, and another column of methods as their names.
    - An estimate `x` is saved as `x, x_low, x_high, x_n, x_interval`, and a tested one as `x_p, x_p_holm` too. One
      called `mean` is `mean, low, high, n, interval, p, p_holm`.
    - Anything else is left out. A column of the table goes before a part of a cell that would have its name.

    Args:
        table: with such cells.
    """
    found: dict[str, Any] = {}
    for key, cells in table.items():
        for name, part in _parts(str(key), cells).items():
            if name == key or name not in table:
                found[name] = _part(cells, part) if part else cells
    return DataFrame(found, index=table.index)


def _parts(key: str, cells: "Series[Any]") -> dict[str, str]:
    """The columns that a column is saved as, each with the attribute of its cells; empty for the cells themselves."""
    kinds = {type(cell) for cell in cells}
    if Method in kinds:
        return dict(METHOD_SAVED) if key == "method" else {key: "exact"}
    if Estimate in kinds:
        before = "" if key == "mean" else f"{key}_"
        tested = any(isinstance(cell, Estimate) and not math.isnan(cell.p) for cell in cells)
        parts = ("low", "high", "n", *(("p", "p_holm") if tested else ()))
        return {key: "mean", **{f"{before}{part}": part for part in parts}, f"{before}interval": "kind"}
    return {key: ""} if all(pd.api.types.is_scalar(cell) for cell in cells) else {}


def _part(cells: "Series[Any]", part: str) -> "Series[Any]":
    """One attribute of the cells of a column; for a missing cell, that of an empty estimate."""
    values = [getattr(Estimate() if isinstance(cell, float) else cell, part) for cell in cells]
    return Series(values, cells.index, dtype="Int64" if part == "iterations" else None)
