"""Published numbers: one table with their source, matched to what was run by identifiers, never by resemblance.

Each paper's folder has its own in a file `published.csv`, and a user's plug-in folder may have one. Columns: `id`, used
once in all files; `source`, `citation`, `where` (table, figure or section); `dataset` and `printed_method` as printed,
`data`, `method` and `model` as routebench calls the same thing, empty where it has none; `variant`;
`printed_iterations` and, where it is one number, `iterations`; `metric`, `unit`, `value`, `uncertainty`,
`uncertainty_kind`; `statistic` (what the number is: empty for one run, also where the paper does not say; `mean of 5`
or `best of 3` runs; `best of several` where nobody states how many); `params` (parameters, as printed);
`conditions` (how the number was made, and what to beware of).

How routebench measures the same thing, empty where it does not: `settings` (hyperparameters of the method that differ
from the defaults, as in a label's brackets; then, after `; `, the words of a variant); `relation` (`at least`,
`at most` or `about`; empty for the value itself); `rival` (the row that the paper compares it with); `any_network`
(`yes` where the row is the plain form of its method: the comparison with its rival can be made on other networks too);
`suite`, `preset` (that train and measure as the paper did; after `|` another preset that does so too); `cell_data` (the
data set of their runs, where it is not `data`); `measured` (their metric; after `|` one that will do where a suite
does not select as the paper did); `at` (columns of results and the value that they must have, `split=test;angle=45`;
`iterations` is the T of the run where the paper prints none, `best of 1,2,3` where it reports the best of several).
Where accuracies are measured, an error is called `test error`; `unit` is the measured one, or `fraction` for `%`.
Added when read: `rounding`, half a unit of the last printed digit; `spread`, the largest standard deviation that rounds
to `uncertainty`, where that is one.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from routebench.declared import as_recorded, declared
from routebench.errors import UserError, message_of
from routebench.received import permitted, read_plain
from routebench.registry import beside

FILE = "published.csv"
ADDED = ("rounding", "spread")
COORDINATE = re.compile(r"iterations=(best of )?[1-9]\d{0,8}(,[1-9]\d{0,8})*|(?!iterations=)[^=]+=.*")
"""The form of each coordinate in column `at`."""
NUMBERS = {"value": r"-?[0-9]+(\.[0-9]+)?", "uncertainty": r"([0-9]+(\.[0-9]+)?)?", "iterations": r"([1-9][0-9]{0,8})?"}
"""The form of the cells of a column; all but `value` may be empty."""
COLUMNS = (
    *("id", "source", "citation", "where", "dataset", "data", "printed_method", "method", "model", "variant"),
    *("printed_iterations", "iterations", "metric", "unit", "value", "uncertainty", "uncertainty_kind"),
    *(
        "statistic",
        "params",
        "conditions",
        "settings",
        "relation",
        "rival",
        "any_network",
        "suite",
        "preset",
        "cell_data",
    ),
    *("measured", "at", *ADDED),
)
PRINTED = COLUMNS[: -len(ADDED)]
"""Columns of the files."""
DEVIATION = "standard deviation"
SEVERAL = "several"
ERROR, ACCURACY = "test error", "test accuracy"
"""Metrics by name: an error is 100 % less the accuracy that is measured."""
WORDS = {
    "relation": ("at least", "at most", "about", ""),
    "any_network": ("yes", ""),
    "uncertainty_kind": (DEVIATION, "standard error", "confidence interval", "range", ""),
}
"""Legal cells of columns that are read."""
PRINTED_UNITS = {"%": ("%", "fraction", "percentage points"), "points": ("points", "percentage points")}
"""Units that a number may be printed in, by the unit that it is measured in; otherwise that alone."""


@dataclass(frozen=True)
class PublishedAccuracy:
    """A published accuracy.

    Args:
        id: its row in `published.csv`.
        accuracy: in %.
        source: authors and place, such as `Sabour, Table 1`.
        conditions: the way it was made, as far as the paper says.
    """

    id: str
    accuracy: float
    source: str
    conditions: str


@dataclass(frozen=True)
class Statistic:
    """The statistic that a printed number is.

    Args:
        runs: the number of runs; None where it is the best of a number that nobody states.
        best: whether it is the best of them; else their mean.
    """

    runs: int | None = 1
    best: bool = False

    @classmethod
    def read(cls, text: str) -> "Statistic":
        """Reads the statistic as `published.csv` has it: empty, `mean of 5`, `best of 3` or `best of several`.

        Raises:
            ValueError: it is none of these.
        """
        if not text:
            return cls()
        kind, _, runs = text.partition(" of ")
        if kind not in ("mean", "best") or not (re.fullmatch(r"[1-9]\d*", runs) or text == f"best of {SEVERAL}"):
            raise ValueError(f"expected 'mean of 5', 'best of 3', 'best of {SEVERAL}' or nothing, got {text!r}")
        return cls(None if runs == SEVERAL else int(runs), kind == "best")

    def __str__(self) -> str:
        if self.runs == 1:
            return "one run"
        return f"the {'best' if self.best else 'mean'} of {self.runs or SEVERAL} runs"


@cache
def _table(files: tuple[Path, ...]) -> DataFrame:
    texts = DataFrame(_rows(files), columns=PRINTED, dtype=str)
    numbers = {name: pd.to_numeric(texts[name]).astype(float) for name in ("value", "uncertainty")}
    rounding = texts["value"].map(_half_a_unit).astype(float)
    largest = numbers["uncertainty"] + texts["uncertainty"].map(_half_a_unit).astype(float)
    spread = largest.where(texts["uncertainty_kind"] == DEVIATION)
    iterations = pd.to_numeric(texts["iterations"]).astype("Int64")
    return texts.assign(**numbers, iterations=iterations, rounding=rounding, spread=spread)


def _rows(files: tuple[Path, ...]) -> list[dict[str, str]]:
    """All rows: of shipped papers those without a year first, then the newest; of plug-ins as they were loaded.

    Raises:
        UserError: two have the same id, or a file is none of these; see `_read`.
    """
    read = [(file, _read(file)) for file in files]
    read.sort(key=lambda one: _age(one[1]) if one[0].is_relative_to(Path(__file__).parent) else math.inf)
    known: dict[str, Path] = {}
    for file, rows in read:
        for row in rows:
            if other := known.get(row["id"]):
                raise UserError(
                    f"{file}: expected ids that no other row has, got {row['id']!r}, as in {other}; rename it"
                )
            known[row["id"]] = file
    of = {row["id"]: row for _, rows in read for row in rows}
    for row in of.values():
        if row["rival"] and (told := _fault_of_rival(row, of.get(row["rival"]))):
            raise UserError(
                f"{known[row['id']]}, id {row['id']}, column rival: {told}, got {row['rival']!r}; correct it"
            )
    return [*of.values()]


def _fault_of_rival(row: Mapping[str, str], rival: Mapping[str, str] | None) -> str:
    """The reason why a row cannot be compared with that of its rival; empty if it can."""
    if rival is None or rival is row:
        return "expected the id of another row"
    same = all(row[name] == rival[name] for name in ("metric", "unit"))
    return "" if same else "expected a row of the same metric and unit"


def _age(rows: list[dict[str, str]]) -> float:
    """Rises with the age of a paper whose citation ends with a year; lowest for one that names no year."""
    year = re.search(r"\d{4}$", rows[0]["citation"]) if rows else None
    return -int(year[0]) if year else -math.inf


def _read(file: Path) -> list[dict[str, str]]:
    """The rows of a file, checked.

    Raises:
        UserError: it cannot be read, a column is missing, a row has too many or too few cells, a number is none, or a
            word is not one of its column.
    """
    try:
        text = io.StringIO(read_plain(permitted(file), named=True)[0].decode("utf-8-sig"), newline="")
        lines = [line for line in csv.reader(text) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{file}: expected a CSV file in UTF-8, got another ({message_of(error)}); save it as one"
        ) from error
    header = lines[0] if lines else []
    if missing := [name for name in PRINTED if name not in header]:
        raise UserError(
            f"{file}: expected the columns of routebench's own, got none named {', '.join(missing)}; "
            "add them to the first line, their cells may be empty"
        )
    if twice := [name for name in PRINTED if header.count(name) > 1]:
        raise UserError(f"{file}: expected each column once, got two named {twice[0]}; take one out")
    rows = [_row(file, number, header, line) for number, line in enumerate(lines[1:], start=2)]
    return [{name: row[name] for name in PRINTED} for row in rows]


def _row(file: Path, number: int, header: list[str], line: list[str]) -> Mapping[str, str]:
    where = f"{file}, row {number}"
    if len(line) != len(header):
        raise UserError(
            f"{where}: expected {len(header)} cells, got {len(line)}; put quotation marks around text with commas"
        )
    row = dict(zip(header, line, strict=True))
    for name, pattern in NUMBERS.items():
        if not re.fullmatch(pattern, row[name]):
            raise UserError(f"{where}: expected a number such as 3 in column {name}, got {row[name]!r}; correct it")
    try:
        Statistic.read(row["statistic"])
    except ValueError as error:
        raise UserError(f"{where}, column statistic: {error}; correct it") from error
    for name, words in {**WORDS, **_words_of(row)}.items():
        if row[name] not in words:
            told = " or ".join(repr(word) if word else "nothing" for word in words)
            raise UserError(f"{where}, column {name}: expected {told}, got {row[name]!r}; correct it")
    low, high = _range_of(row)
    for name, least, most in (("value", low, high), ("uncertainty", 0.0, high - low)):
        printed = float(row[name] or 0)
        if not (least <= printed <= most and math.isfinite(printed)):
            raise UserError(
                f"{where}, column {name}: expected a number from {least:g} to {most:g} in unit {row['unit']!r}, got "
                f"{row[name]:.20}; correct one of them"
            )
    at = [one for one in row["at"].split(";") if one]
    if wrong := [one for one in at if not COORDINATE.fullmatch(one)]:
        raise UserError(
            f"{where}, column at: expected COLUMN=VALUE, such as split=test, iterations=3 or iterations=best of 1,2,3, "
            f"got {wrong[0]!r}; correct it"
        )
    columns = [one.partition("=")[0] for one in at]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise UserError(f"{where}, column at: expected each column once, got {twice[0]!r} twice; take one out")
    return row


def _range_of(row: Mapping[str, str]) -> tuple[float, float]:
    """The smallest and the largest value that a number can have in its unit; infinite for what nothing measures."""
    name = row["measured"].partition("|")[0]
    if not name:
        return -math.inf, math.inf
    is_fraction = row["unit"] == "fraction"
    unit = declared()[name].unit if name in declared() else "%" if is_fraction else row["unit"]
    low, high = as_recorded(name, unit).range
    return (low / 100, high / 100) if is_fraction and unit == "%" else (low, high)


def _words_of(row: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Legal units and names of a metric that is measured: other spellings would be compared as another number."""
    names = [name for name in row["measured"].split("|") if name]
    known = [declared()[name].unit for name in names if name in declared()]
    found = {"unit": PRINTED_UNITS.get(known[0], (known[0],))} if known and (known[0] or row["unit"] == "%") else {}
    plain = " ".join(row["metric"].casefold().split())
    is_error = "err" in plain and not any("err" in name for name in names)
    if names and (is_error or plain == ACCURACY):
        found["metric"] = (ERROR if is_error else ACCURACY,)
    return found


def _half_a_unit(printed: str) -> float:
    """`0.005` for `0.97`, `0.5` for `20`."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def load_published() -> DataFrame:
    """Every published number; columns as the module says, `value` and `uncertainty` float, `iterations` Int64.

    Raises:
        UserError: a plug-in's file cannot be read, or has an id that is taken.
    """
    return _known().copy()


def _known() -> DataFrame:
    return _table(tuple(beside(FILE)))


def find(data: str, model: str, method: str, iterations: int | None) -> PublishedAccuracy | None:
    """The published test accuracy of the same data set, network, method and iteration count; None without one.

    Errors are turned into accuracies. What was printed for another network or an unnamed iteration count is no match.

    Args:
        data, model, method: registered names.
        iterations: T; None for a method without.
    """
    rows = same_task(data, method)
    rows = rows[(rows["model"] == model) & (model != "")]
    rows = rows[rows["iterations"].isna() if iterations is None else (rows["iterations"] == iterations).fillna(False)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    accuracy = 100 - row["value"] if row["metric"] == ERROR else row["value"]
    return PublishedAccuracy(row["id"], float(accuracy), f"{row['source']}, {row['where']}", row["conditions"])


def agrees(count: int, printed: str) -> bool | None:
    """Tells whether a number of parameters is the printed one, to its digits; None where none is printed.

    Args:
        count: the number counted.
        printed: the printed number, such as `310K`, `7.99M`, `<30000`.
    """
    found = re.fullmatch(r"([<>]?)([\d.]+)([KM]?)", printed)
    if found is None:
        return None
    sign, digits, unit = found.groups()
    scale = {"": 1, "K": 1_000, "M": 1_000_000}[unit]
    number = float(digits) * scale
    if sign:
        return count < number if sign == "<" else count > number
    return abs(count - number) <= _half_a_unit(digits) * scale


def same_task(data: str, method: str) -> DataFrame:
    """Published test accuracies and errors of a method on a data set, in %, whatever the network and the training.

    Args:
        data, method: registered names.
    """
    found, of_tasks = _tasks(tuple(beside(FILE)))
    rows: DataFrame = found.loc[of_tasks.get((data, method), [])]
    return rows


@cache
def _tasks(files: tuple[Path, ...]) -> tuple[DataFrame, Mapping[Any, Any]]:
    """All published test accuracies and errors, in %, and which of them are of each data set and method."""
    known = _table(files)
    measured = known["metric"].isin([ACCURACY, ERROR]) & known["unit"].isin(PRINTED_UNITS["%"])
    found = known[measured & (known["method"] != "")]
    scale = found["unit"].map(lambda unit: 100.0 if unit == "fraction" else 1.0).astype(float)
    numbers = {name: found[name] * scale for name in ("value", "uncertainty", *ADDED)}
    return found.assign(**numbers, unit="%"), found.groupby(["data", "method"]).groups
