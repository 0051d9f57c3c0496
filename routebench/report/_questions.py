"""The questions of a scorecard: the main measure of each suite, with differences to uniform routing by method and T."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from routebench.analysis import Analysis, Estimate, Main, Method, Runs, Verdict, images_in_words
from routebench.analysis.comparison import RANK

Key = tuple[str, int | None]
"""Label and T: networks differ from suite to suite. Of a label in several networks of one part, with the network."""
NOTHING = Estimate(0.0, p=1.0, p_holm=1.0)
"""The gain of what is the same function as uniform routing."""


@dataclass(frozen=True, eq=False)
class Question:
    """A column.

    Args:
        part: id of the page with details.
        runs: the runs that measure it.
        main: what.
        where: data, suite, network and preset, as far as they distinguish it from others with the same measure.
        means: by label and T.
        gains: differences to uniform routing, corrected over all of them; empty without comparisons.
        named: those that the suite named beforehand; the others are exploratory. None: all count.
        both: the same differences as if test samples were drawn anew too.
        counted: how many of its seeds a method has, where some are missing.
        ranks: the places that a method may have among all, where tests of all pairs gave some.
    """

    part: str
    runs: Runs
    main: Main
    where: str
    means: Mapping[Key, Estimate]
    gains: Mapping[Key, Estimate]
    named: Set[Key] | None = None
    counted: Mapping[Key, str] = field(default_factory=dict)
    both: Mapping[Key, Estimate] = field(default_factory=dict)
    ranks: Mapping[Key, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Heading: the measure, and where."""
        return ", ".join(filter(None, (self.main.title, self.where)))

    @property
    def absent(self) -> list[Method]:
        """The user's methods that were planned, and have no value."""
        planned = {key_of(method): method for method in self.runs.methods.values() if method.yours}
        return [method for key, method in planned.items() if key not in self.means]

    @cached_property
    def texts(self) -> dict[Key, tuple[str, str]]:
        """The texts in place of numbers, with what stands small beside them."""
        return {key_of(method): (text, self.main.small.get(method, "")) for method, text in self.main.shown.items()}

    def standing(self, key: Key) -> tuple[bool, bool, float]:
        """Sort key: the best first, then methods without some of their seeds, then those without a value."""
        found = self.means.get(key)
        if found is None:
            return True, True, 0.0
        return False, key in self.counted, found.mean if self.main.higher_is_better is False else -found.mean

    @property
    def unit(self) -> str:
        """Unit of a difference."""
        return "points" if self.main.unit == "%" else self.main.unit

    @property
    def told(self) -> str:
        """The line under the heading: unit, direction, and whether anything is compared."""
        if self.main.shown:
            return self.main.explained
        way = {True: "more is better", False: "less is better", None: ""}[self.main.higher_is_better]
        parts = (self.unit, way) if self.gains else (self.main.unit, way, "not compared")
        return ", ".join(filter(None, (*parts, self.main.explained)))

    def verdict(self, key: Key) -> Verdict:
        """Better or worse, by the direction of the question's measure. An exploratory difference has no verdict."""
        return Verdict.UNTESTABLE if self.explores(key) else self.hint(key)

    def anew(self, key: Key) -> Verdict:
        """The verdict of `verdict`, if it stands with other test samples too; else that nothing is shown."""
        found = self.verdict(key)
        kept = key in self.both and self.both[key].verdict is self.gains[key].verdict
        return found if kept else Verdict.OPEN

    def explores(self, key: Key) -> bool:
        """Tells whether the suite pre-specified comparisons, and not this one."""
        return self.named is not None and key not in self.named

    def counts(self, key: Key) -> bool:
        """Tells whether a difference was to be judged here, tested or not."""
        return key in self.gains and not self.explores(key)

    def hint(self, key: Key) -> Verdict:
        """Verdict also on exploratory differences: better or worse among all differences of the column."""
        found = self.gains[key].verdict if key in self.gains else Verdict.UNTESTABLE
        if self.main.higher_is_better is False:
            return {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(found, found)
        return found


def key_of(method: Method) -> Key:
    """The key of a method in every question."""
    return method.apart, method.iterations


def questions_of(found: list[tuple[str, Runs, Analysis]]) -> list[Question]:
    """A question for each analysis with a main measure of which there are values; titles tell them apart."""
    questions = []
    for part, runs, analysis in found:
        main = analysis.main
        assert main is not None
        values = values_of(main, analysis)
        gains = {key_of(method): gain for method, gain in main.gains.items() if gain.known}
        for twin, shown in twins_of(analysis).items():
            values |= {twin: values[shown]} if shown in values else {}
            if gains:
                gains.setdefault(twin, gains.get(shown, NOTHING))  # of what is uniform routing itself
        named = None if main.named is None else {key_of(method) for method in main.named}
        counted = {key_of(method): method.counted for method in runs.methods.values() if method.missing}
        if values:
            both = {key_of(method): one for method, one in main.both.items() if one.known}
            ranks = _ranks(analysis)
            questions.append(Question(part, runs, main, "", values, gains, named, counted, both, ranks))
    return told_apart(questions)


def told_apart(questions: Sequence[Question]) -> list[Question]:
    """The questions with titles that tell them apart.

    Args:
        questions: the columns of a table.
    """
    return [replace(question, where=_where(question, questions)) for question in questions]


def _ranks(analysis: Analysis) -> dict[Key, str]:
    """The places of methods by key, as the table shows them; those of the same function share one."""
    if RANK not in analysis.columns or "rank_low" not in analysis.table:
        return {}
    rows = analysis.table.to_dict("records")
    return {key_of(one): RANK.printed(row).text for row in rows for one in (row["method"], *row["method"].same)}


def _where(question: Question, questions: Iterable[Question]) -> str:
    """The difference from questions with the same measure, in words."""
    same = [other.runs for other in questions if other.main.title == question.main.title]
    values = {key: [getattr(runs, key) for runs in same] for key in ("data", "suite", "model", "preset")}
    apart = [key for key, found in values.items() if len(set(found)) > 1]
    told = [
        tuple(images_in_words(runs.data, values["data"]) if key == "data" else str(getattr(runs, key)) for key in apart)
        for runs in (question.runs, *same)
    ]
    own = told.pop(0)
    enough = next(
        (count for count in range(len(own)) if [one[:count] for one in told].count(own[:count]) == 1), len(own)
    )
    return ", ".join(own[:enough])


def values_of(main: Main, analysis: Analysis) -> dict[Key, Estimate]:
    """The main measure of an analysis by label and T."""
    table = analysis.table if main.table is None else main.table
    cells = zip(table["method"], table[main.column], strict=True)
    found = {key_of(method): cell if isinstance(cell, Estimate) else Estimate(float(cell)) for method, cell in cells}
    return {key: value for key, value in found.items() if value.known}


def twins_of(analysis: Analysis) -> dict[Key, Key]:
    """Methods that are the same function as another in an analysis, with the one that stands for them."""
    told = [method for method in analysis.table.get("method", ()) if isinstance(method, Method)]
    return {key_of(other): key_of(method) for method in told for other in method.same}
