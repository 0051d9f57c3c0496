"""What an analysis is: a pure function from the runs of one suite to a table, a figure and a sentence.

A file in `analyses/` holds one, registered by name:

    @analyses.register("accuracy-by-iterations")
    @belongs_to("accuracy", place=20)
    def accuracy_by_iterations(runs: Runs) -> Analysis | None: ...

None says that these runs hold nothing for it. Without `belongs_to` an analysis is asked about every suite. One that
belongs to a protocol `across=True` gets a tuple of `Runs` instead: one suite, preset and model on several data sets.
One with `folder=True` gets every part of a results folder at once, of all suites, the newest plan first.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pandas import DataFrame

Analyse = TypeVar("Analyse", bound=Callable[..., Any])
Row = Mapping[Any, Any]  # of a table: column to value
LAST = 1000
LONGEST = 150  # characters of a part's name: file systems take 255 bytes, endings and analyses' names included
WHOLE_FOLDER = "whole-folder"
"""Stands for a part's name in the files of an analysis that reads all parts."""


def no_samples(cell: str) -> NDArray[np.bool_] | None:  # noqa: ARG001  # the signature is the interface
    """Knows of no per-sample outputs."""
    return None


def no_arrays(cell: str) -> Mapping[str, NDArray[Any]]:  # noqa: ARG001  # the signature is the interface
    """Knows of no raw outputs."""
    return {}


@dataclass(frozen=True, eq=False)
class Runs:
    """Everything that one suite measured with one preset, one data set and one model.

    Args:
        suite, preset, data, model, protocol: names.
        results: rows of `routebench.load_results` for the planned cells only.
        planned: one row per planned cell, with `cell, label, role, iterations, model, data, seed, status, reason`.
        correct: cell key to (n_test,) right or wrong per test image; None where it was not kept.
        colours: label to hex colour, the same in every figure of a report.
        arrays: cell key to its raw outputs by name; empty where none were kept.
    """

    suite: str
    preset: str
    data: str
    model: str
    protocol: str
    results: DataFrame
    planned: DataFrame
    correct: Callable[[str], NDArray[np.bool_] | None] = no_samples
    colours: Mapping[str, str] = field(default_factory=dict)
    arrays: Callable[[str], Mapping[str, NDArray[Any]]] = no_arrays

    @property
    def name(self) -> str:
        """Names these runs among others, usable in a file name."""
        whole = re.sub(r"[:/\\]", "-", "-".join((self.suite, self.preset, self.data, self.model)))
        if len(whole) <= LONGEST:
            return whole
        return f"{whole[:LONGEST]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Column:
    """A column as shown.

    Args:
        title: its heading.
        key: the column of the table that it sorts by.
        text: a row of the table, as a dictionary, to what the cell says.
        explained: one sentence for the reader who does not know what it is.
        numeric: aligned by its right edge.
        extra: left out where there is little room, as in a terminal.
    """

    title: str
    key: str
    text: Callable[[Row], str]
    explained: str = ""
    numeric: bool = True
    extra: bool = False


@dataclass(frozen=True)
class Main:
    """The one number per method that a suite puts beside those of other suites, in the overview of a report.

    The first analysis of a suite names it, as `Analysis(..., main=Main("hoyer", "Sparsity of outputs"))`. The table
    needs `label` and `column`, may have `iterations` and `role`, and one row per method and T. Limits are read from
    `<column>_low` and `<column>_high`, or, of a column `mean`, from `low` and `high`, where the table has them. Nothing
    is called the best, except by a column `group`, rank groups of which the first row's is the best.

    Args:
        column: of the table.
        title: what it is, in two or three words.
        unit: in which, such as `%`; empty for a plain number.
        higher_is_better: None where neither is.
        digits: after the decimal point.
        table: where the numbers are, if not in the table of the analysis.
    """

    column: str
    title: str
    unit: str = ""
    higher_is_better: bool | None = None
    digits: int = 2
    table: DataFrame | None = None


@dataclass(frozen=True)
class Analysis:
    """What an analysis found.

    Args:
        title: a heading.
        reading: one sentence in plain English, made from the numbers.
        table: the numbers, tidy and unrounded; it is what is saved as CSV.
        figure: what the table looks like, or None.
        columns: how the table is shown; empty for every column as it is.
        notes: what the reader has to know before believing it.
        alternative: what the figure shows, for who cannot see it; empty for the reading.
        main: of a suite's first analysis, the number per method that the overview shows; None for none.
    """

    title: str
    reading: str
    table: DataFrame
    figure: Figure | None = None
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    alternative: str = ""
    main: Main | None = None

    def shown(self, *, extra: bool = True) -> DataFrame:
        """The table as text, one column per `Column`; without the extra ones if so asked."""
        rows = self.table.to_dict("records")
        columns = [column for column in self.columns or plain_columns(self.table) if extra or not column.extra]
        return DataFrame({column.title: [column.text(row) for row in rows] for column in columns})


def plain_columns(table: DataFrame) -> tuple[Column, ...]:
    """Every column of a table under its own name, with numbers as they are."""

    def text_of(key: str) -> Callable[[Row], str]:
        return lambda row: str(row[key])

    return tuple(
        Column(str(key).replace("_", " "), str(key), text_of(str(key)), numeric=table[key].dtype.kind in "iuf")
        for key in table
    )


def belongs_to(
    protocol: str, place: int = LAST, *, across: bool = False, folder: bool = False
) -> Callable[[Analyse], Analyse]:
    """A decorator that says which protocol's results an analysis reads, and where it stands in a report.

    Args:
        protocol: its name; empty for every protocol.
        place: smaller comes first.
        across: it reads `tuple[Runs, ...]`, one per data set.
        folder: it reads `tuple[Runs, ...]`, every part of a results folder; its protocol is then empty.
    """

    def mark(analysis: Analyse) -> Analyse:
        analysis.protocol, analysis.place = protocol, place  # type: ignore[attr-defined]  # functions carry attributes
        analysis.across = across  # type: ignore[attr-defined]
        analysis.folder = folder  # type: ignore[attr-defined]
        return analysis

    return mark


def place_of(analysis: Callable[..., Any]) -> int:
    """Where an analysis stands in a report."""
    return int(getattr(analysis, "place", LAST))


def takes_several(analysis: Callable[..., Any]) -> bool:
    """Whether an analysis reads the results on several data sets together."""
    return bool(getattr(analysis, "across", False))


def reads_folder(analysis: Callable[..., Any]) -> bool:
    """Whether an analysis reads all parts of a results folder together."""
    return bool(getattr(analysis, "folder", False))


def reads(analysis: Callable[..., Any], protocol: str) -> bool:
    """Whether an analysis is to be asked about results of a protocol on one data set."""
    together = takes_several(analysis) or reads_folder(analysis)
    return getattr(analysis, "protocol", "") in ("", protocol) and not together


def reads_across(analysis: Callable[..., Any], protocol: str) -> bool:
    """Whether an analysis is to be asked about results of a protocol on several data sets together."""
    return getattr(analysis, "protocol", "") in ("", protocol) and takes_several(analysis)


def across_data(parts: Iterable[Runs]) -> list[tuple[Runs, ...]]:
    """Groups of runs that differ in nothing but their data set, two data sets or more, those sorted by name."""
    groups: dict[tuple[str, ...], dict[str, Runs]] = {}
    for runs in parts:
        groups.setdefault((runs.suite, runs.preset, runs.model, runs.protocol), {}).setdefault(runs.data, runs)
    return [tuple(group[data] for data in sorted(group)) for group in groups.values() if len(group) > 1]
