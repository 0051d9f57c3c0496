"""An analysis is a pure function from the runs of one suite to a table, a figure and a sentence.

A file in `analyses/` holds one, registered by name:

    @analysis_of("accuracy", "accuracy-by-iterations", place=20)
    def accuracy_by_iterations(runs: Runs) -> Analysis | None: ...

None means that these runs contain nothing to analyse. An analysis without a protocol reads every suite. One of a
protocol with `across=True` gets a tuple of `Runs` instead: one suite, preset and model on several data sets. One with
`folder=True` gets every part of a results folder at once, of all suites, the newest plan first.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from matplotlib.figure import Figure
from pandas import DataFrame

from routebench.analysis._estimate import Estimate
from routebench.analysis._method import CONTROL, Method
from routebench.analysis._table import Column, Printed, Row, saved
from routebench.declared import measure_of
from routebench.registry import analyses

Analyse = TypeVar("Analyse", bound=Callable[..., Any])
LAST = 1000
INCOMPLETE = (
    "A method of whose seeds some have no result stands behind those with more of theirs, whatever its mean, and is "
    "tested only where it is behind: the seeds that it lost may be its bad ones."
)


class Role(StrEnum):
    """Kinds of verdicts and results that the summary of a folder takes from analyses."""

    CLAIMS = "verdicts on what papers say in words"
    PUBLISHED = "verdicts on numbers that papers print"
    NETWORKS = "each method on one network beside itself on another"
    PRICE = "accuracy against cost"


@dataclass(frozen=True)
class Main:
    """The one number per method by which a suite appears in the scorecard of a report.

    The first analysis of a suite names it, as `Analysis(..., main=Main.of("hoyer"))` of a declared measure. The table
    has one row per `method`, T among it.

    Args:
        column: the column of the table: estimates or numbers.
        title: its name, in two or three words.
        unit: such as `%`; empty for a plain number.
        higher_is_better: None if neither is better.
        explained: what its values mean, for a number that readers do not know, such as `0: uniform coupling`.
        digits: after the decimal point; those of a percentage are always the same.
        table: the table with the numbers, if not that of the analysis.
        gains: differences to uniform routing, in the unit of the numbers or in points, corrected over all of them;
            empty without comparisons. `gains_over` makes them from values by seed.
        both: the same differences as if test samples were drawn anew too; empty where nothing is known of that.
        named: the methods whose gain the suite named beforehand; those of others are exploratory. None: all count.
        shown: texts in place of the numbers, such as multiples of a baseline's, which `explained` then explains.
        small: texts that stand small beside them.
    """

    column: str
    title: str
    unit: str = ""
    higher_is_better: bool | None = None
    explained: str = ""
    digits: int = 2
    table: DataFrame | None = None
    gains: Mapping[Method, Estimate] = field(default_factory=dict)
    both: Mapping[Method, Estimate] = field(default_factory=dict)
    named: Set[Method] | None = None
    shown: Mapping[Method, str] = field(default_factory=dict)
    small: Mapping[Method, str] = field(default_factory=dict)

    @classmethod
    def of(cls, measure: str, column: str = "", title: str = "", **more: Any) -> "Main":
        """The number of a declared measure, which says its title, unit, direction and decimals.

        Args:
            measure: its name.
            column: the column of the table; by default the name.
            title: instead of that declared.
            more: further fields.

        Raises:
            UserError: nobody has declared the measure.
        """
        known = measure_of(measure)
        told = {"unit": known.sign, "higher_is_better": known.higher_is_better, "digits": known.digits or 0}
        return cls(column or measure, title or known.title, **{**told, **more})


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis.

    Args:
        title: a heading.
        reading: the question that the table answers, in one line. The first analysis of a suite gives the first lines
            of its page and answers in plain English, made from the numbers.
        table: the numbers, tidy and unrounded; cells may be a `Method` or an `Estimate`.
        figure: the figure of the table, or None.
        columns: how to show the table; empty shows every column as it is.
        notes: limits that the reader has to know.
        alternative: what the figure shows, for readers who cannot see it; a reading that answers is added.
        main: the number per method that the scorecard shows, of a suite's first analysis; None for none.
        hidden: per row, whether a page leaves it to the CSV file; empty for none.
    """

    title: str
    reading: str
    table: DataFrame
    figure: Figure | None = None
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    alternative: str = ""
    main: Main | None = None
    hidden: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        """Says what the order of the rows means where methods lack some of their seeds."""
        methods = [method for method in self.table.get("method", ()) if isinstance(method, Method)]
        if INCOMPLETE not in self.notes and any(method.finished and method.missing for method in methods):
            object.__setattr__(self, "notes", (*self.notes, INCOMPLETE))

    @property
    def described(self) -> str:
        """The alternative text: what the figure shows, and the reading, if it answers."""
        return self.alternative if self.reading.endswith("?") else f"{self.alternative} {self.reading}".strip()

    @property
    def unjudged(self) -> "Analysis":
        """Removes sentences, tests, ranks and verdicts, for runs too short to judge methods."""
        kept = tuple(column for column in self.printed_columns if not column.is_verdict)
        figure = None if any(column.judges for column in self.printed_columns) else self.figure
        return replace(self, reading="", notes=(), columns=kept, figure=figure)

    @property
    def printed_columns(self) -> tuple[Column, ...]:
        """The columns that are shown: those given, or every column of the table as it is."""
        return self.columns or plain_columns(self.table)

    @cached_property
    def printed(self) -> list[list[Printed]]:
        """The rows of the table as shown, one cell per column."""
        columns = self.printed_columns
        return [[column.printed(row) for column in columns] for row in self.table.to_dict("records")]

    @property
    def baselines(self) -> list[bool]:
        """Per row of the table, whether it is a baseline."""
        rows = self.table.to_dict("records")
        return [row.get("role") == CONTROL or getattr(row.get("method"), "is_control", False) for row in rows]

    @property
    def numbers(self) -> DataFrame:
        """The table as plain numbers and texts, as it is saved."""
        return saved(self.table)

    def shown(self, *, extra: bool = True) -> DataFrame:
        """The table as text, one column per `Column`; on request without the extra ones."""
        shown = [place for place, column in enumerate(self.printed_columns) if extra or not column.extra]
        return DataFrame(
            {self.printed_columns[place].title: [row[place].text for row in self.printed] for place in shown}
        )


def plain_columns(table: DataFrame) -> tuple[Column, ...]:
    """Every column of a table under its own name, with numbers as they are."""

    def text_of(key: str) -> Callable[[Row], str]:
        return lambda row: str(row[key])

    return tuple(
        Column(str(key).replace("_", " "), str(key), text_of(str(key)), numeric=table[key].dtype.kind in "iuf")
        for key in table
    )


def analysis_of(
    protocol: str, name: str, place: int = LAST, *, across: bool = False, folder: bool = False, role: Role | None = None
) -> Callable[[Analyse], Analyse]:
    """Decorator that registers an analysis with the results that it reads and its place in a report.

    Args:
        protocol: whose results it reads; empty for every protocol.
        name: the name of the analysis.
        place: smaller comes first.
        across: it reads `tuple[Runs, ...]`, one per data set.
        folder: it reads `tuple[Runs, ...]`, every part of a results folder; its protocol is then empty.
        role: what the summary of a folder takes from it; None for nothing.

    Raises:
        UserError: the name is taken.
    """

    def register(analysis: Analyse) -> Analyse:
        marks = {"protocol": protocol, "name": name, "place": place, "across": across, "folder": folder, "role": role}
        vars(analysis).update(marks)
        return analyses.register(name)(analysis)

    return register


def name_with(role: Role) -> str:
    """The name of the analysis that has a role; empty if none has."""
    return next((name for name in analyses if getattr(analyses[name], "role", None) is role), "")


def name_of(analysis: Callable[..., Any]) -> str:
    """The name of an analysis in file names."""
    return str(getattr(analysis, "name", analysis.__name__.replace("_", "-")))


def place_of(analysis: Callable[..., Any]) -> int:
    """An analysis's place in a report."""
    return int(getattr(analysis, "place", LAST))


def takes_several(analysis: Callable[..., Any]) -> bool:
    """Tells whether an analysis reads the results on several data sets together."""
    return bool(getattr(analysis, "across", False))


def reads_folder(analysis: Callable[..., Any]) -> bool:
    """Tells whether an analysis reads all parts of a results folder together."""
    return bool(getattr(analysis, "folder", False))


def reads(analysis: Callable[..., Any], protocol: str) -> bool:
    """Tells whether an analysis reads results of a protocol on one data set."""
    together = takes_several(analysis) or reads_folder(analysis)
    return getattr(analysis, "protocol", "") in ("", protocol) and not together


def reads_across(analysis: Callable[..., Any], protocol: str) -> bool:
    """Tells whether an analysis reads results of a protocol on several data sets together."""
    return getattr(analysis, "protocol", "") in ("", protocol) and takes_several(analysis)
