"""The first screen: methods against questions, each cell the difference to uniform routing with its interval.

A question is the main measure of a suite, as `Main` of its first analysis names it. The best methods of the first
question stand first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from operator import attrgetter
from statistics import median

from pandas import DataFrame

from routebench.analysis import Analysis, Estimate, Method, Runs, Verdict, figures, highest_tiers, wording
from routebench.report._questions import Key, Question, key_of, questions_of, told_apart, twins_of, values_of

WIDTH, MIDDLE = 150.0, 75.0  # of the drawing of a cell, px
EDGE = 3.0
NAMED = 3  # methods in a title; more are counted
OPPOSITE = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
MOST = 7  # questions; with the method and its rank they fit 1400 pixels


@dataclass(frozen=True)
class Mark:
    """A cell of the scorecard, in px; the interval is clipped at the edge.

    Args:
        kind: `better`, `worse`, `other` (significant, and neither is better) or `ns`, not significant.
        text: the difference.
        interval: its limits; empty for none.
        value: the measured value.
        said: the text for screen readers.
        dot, low, high: places on a line; None where nothing is drawn.
        explored: whether the difference is exploratory.
        small: what stands small beside a value without a difference.
    """

    kind: str
    text: str
    interval: str
    value: str
    said: str
    dot: float | None = None
    low: float | None = None
    high: float | None = None
    explored: bool = False
    small: str = ""

    @property
    def beyond(self) -> int:
        """Side on which the difference lies outside of the drawing: -1 for the left, 1 for the right, 0 for none."""
        return 0 if self.dot is None else (self.dot == WIDTH - EDGE) - (self.dot == EDGE)


@dataclass(frozen=True)
class ScoreRow:
    """A method with one T; `main` marks what is shown by default: one T, and those with a significant difference."""

    method: Method
    main: bool
    marks: tuple[Mark | None, ...]

    @property
    def is_base(self) -> bool:
        """Tells whether all others are compared with it."""
        return self.method.is_base


@dataclass(frozen=True)
class Scorecard:
    """Methods against questions.

    Args:
        questions: the columns.
        rows: the methods, the user's first, then the best of the first question.
        left: questions that do not fit, which stand on their own pages.
        methods: those of all questions.
    """

    questions: tuple[Question, ...]
    rows: tuple[ScoreRow, ...]
    left: tuple[Question, ...] = ()
    methods: tuple[Method, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of all marks, and `explored` where some are significant and exploratory."""
        marks = [mark for row in self.rows for mark in row.marks if mark]
        return frozenset(mark.kind for mark in marks) | {"explored" for mark in marks if mark.explored}

    @property
    def compares(self) -> bool:
        """Tells whether there is any difference to show."""
        return any(question.gains for question in self.questions)

    @property
    def has_other_iterations(self) -> bool:
        """Tells whether some rows are hidden by default."""
        return any(not row.main for row in self.rows)

    @property
    def downloaded(self) -> DataFrame:
        """Every number of every question, with exact specifications of methods."""
        rows = [
            {"question": question.title, "suite": question.runs.suite, "unit": question.main.unit,
             "method": method.exact, "mean": value.mean, "low": value.low, "high": value.high,
             "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high, "p": gain.p, "p_holm": gain.p_holm,
             "exploratory": gain.known and question.explores(key_of(method))}
            for question in (*self.questions, *self.left) for method in self.methods
            if (value := question.means.get(key_of(method))) is not None
            for gain in (question.gains.get(key_of(method), Estimate()),)
        ]  # fmt: skip
        return DataFrame(rows)

    @property
    def ranks(self) -> Mapping[Key, str]:
        """The ranks of the first question; empty where no test of all pairs gave any."""
        return self.questions[0].ranks

    def rank_of(self, method: Method) -> str:
        """The rank of a method in the first question.

        Args:
            method: the method of a row.
        """
        return self.ranks.get(key_of(method), wording.NOTHING)

    def tally(self, question: Question) -> str:
        """`8 better, 1 worse of 10; 1 not testable; other images: 7, 1`: methods with each verdict, of those shown.

        Args:
            question: a column.
        """
        if question not in self._tested:
            return ""
        counted = [one for one in self._asked if question.counts(key_of(one))]
        counts = [_having(question.verdict, counted, verdict) for verdict in (Verdict.BETTER, Verdict.WORSE)]
        of, untested = len({one.apart for one in counted}), _untested(question, counted)
        told = f"{counts[0]} better, {counts[1]} worse of {of}" if any(counts) else f"no difference shown, of {of}"
        told += f"; {untested} not testable" if untested else ""
        if not any(counts) or not question.both:
            return told
        again = [_having(question.anew, counted, verdict) for verdict in (Verdict.BETTER, Verdict.WORSE)]
        return f"{told}; other images: {again[0]}, {again[1]}"

    @property
    def title(self) -> str:
        """Answers whether routing helps, over all tested questions and the methods shown by default."""
        mine = [method for method in self._asked if method.yours]
        asked = _asked_of(mine) if mine else "Does routing help?"
        better = _named(self._tested, self._asked, Verdict.BETTER)
        absent = [] if mine else [one for question in (*self.questions, *self.left) for one in question.absent]
        if absent:
            return f"{_asked_of(absent)} No result."
        if not self._tested:
            return f"{asked} Not tested{' in any column' if len(self.questions) > 1 else ''}."
        if not better:
            where = f" in any of {len(self._tested)} tested columns" if len(self._tested) > 1 else ""
            return f"{asked} Not shown{where}."
        rest = len(self._tested) - len(better)
        left = f"; in {rest} other tested column{'' if rest == 1 else 's'} it is not shown" if rest else ""
        return f"{asked} Significantly better{_where(better, len(self._tested))}{left}."

    @property
    def said(self) -> tuple[str, ...]:
        """Further answers to the title's question: where methods are worse, and which are better with one iteration."""
        worse = _named(self._tested, self._asked, Verdict.WORSE)
        lost = f"Significantly worse{_where(worse, len(self._tested))}." if worse else ""
        won = [each for each in self._tested if self._is_won(each, self._asked)]
        once = [
            one.title
            for one in self._asked
            if one.iterations == 1 and won and all(self._is_won(each, [one]) for each in won)
        ]
        where = " in each of these columns" if len(won) > 1 else ""
        told = f"Better{where} with one iteration already: {wording.listed(once)}." if once else ""
        return tuple(filter(None, (lost, *self._otherwise, told)))

    @property
    def _otherwise(self) -> Iterator[str]:
        """Sentences on methods that another suite found to be the opposite, on the same images."""
        found: dict[str, dict[str, list[str]]] = {}
        for one, other in combinations((*self.questions, *self.left), 2):
            if one not in self._tested or other.runs.suite == one.runs.suite or _measured(other) != _measured(one):
                continue
            for method in self._asked:
                if OPPOSITE.get(one.verdict(key_of(method))) is (verdict := other.verdict(key_of(method))):
                    own = found.setdefault(other.runs.suite, {}).setdefault(f"{method} is significantly {verdict}", [])
                    own.append(other.runs.data)
        for suite, told in found.items():
            each = [f"{what} ({', '.join(dict.fromkeys(data))})" for what, data in sorted(told.items())]
            yield f"Otherwise in the suite {suite}, on the same images: {'; '.join(each)}."

    @staticmethod
    def _is_won(question: Question, methods: Iterable[Method]) -> bool:
        """Tells whether one of the methods is better in a column."""
        return any(question.verdict(key_of(method)) is Verdict.BETTER for method in methods)

    @property
    def _tested(self) -> list[Question]:
        """Questions in which a difference to uniform routing is tested and one direction is better.

        The user's own methods are asked about in those alone that they are in.
        """
        mine = {key_of(method) for method in self._asked if method.yours}
        return [
            one
            for one in self.questions
            if one.main.higher_is_better is not None
            and any(one.verdict(key) is not Verdict.UNTESTABLE for key in (mine or one.gains))
        ]

    @property
    def _asked(self) -> list[Method]:
        """The methods shown by default; the user's own alone, if there are any."""
        shown = [row.method for row in self.rows if row.main and not row.method.is_control]
        return [method for method in shown if method.yours] or shown


def _asked_of(methods: Iterable[Method]) -> str:
    titles = [*dict.fromkeys(method.title for method in methods)]
    return f"{'Does' if len(titles) == 1 else 'Do'} {wording.listed(titles, 2)} help?"


def scorecard_of(found: Iterable[tuple[str, Runs, Analysis]]) -> Scorecard | None:
    """Builds the scorecard from the main measures of first analyses; None without any.

    Args:
        found: id of the page, runs and analysis. Of each suite, the presets of the highest tier count.
    """
    known = [
        (part, runs, analysis) for part, runs, analysis in found if analysis.main is not None and runs.strength.judges
    ]
    best = highest_tiers((runs for _, runs, _ in known), attrgetter("suite"))
    strongest = [(part, runs, analysis) for part, runs, analysis in known if runs.strength.tier == best[runs.suite]]
    known_methods = _methods(strongest)
    every = _wide_first(questions_of(strongest), known_methods)
    if not every or not known_methods:
        return None
    questions, left = told_apart(every[:MOST]), tuple(every[MOST:])
    methods = [method for method in known_methods if any(key_of(method) in one.means for one in questions)]
    main = _main_iterations(questions, methods) | _decided(questions, methods) | _prespecified(questions)
    reaches = [_reach(question, methods, main) for question in questions]
    rows = [
        ScoreRow(
            method,
            key_of(method) in main,
            tuple(_mark(question, method, reach) for question, reach in zip(questions, reaches, strict=True)),
        )
        for method in sorted(methods, key=partial(_place, questions))
    ]
    return Scorecard(tuple(questions), tuple(rows), left, tuple(sorted(known_methods, key=partial(_place, every))))


def _named(questions: Sequence[Question], methods: Iterable[Method], verdict: Verdict) -> dict[Question, str]:
    """The methods that are better, or worse, by question: their names, without T where verdicts agree.

    Where they are many, `8 of 9 methods`.
    """
    shown = [*methods]
    told = {}
    for question in questions:
        asked = {one.apart for one in shown if question.counts(key_of(one))}
        decided = [one for one in shown if question.verdict(key_of(one)) in (Verdict.BETTER, Verdict.WORSE)]
        verdicts = {(one.apart, question.verdict(key_of(one))) for one in decided}
        mixed = {one.apart for one in decided if len(verdicts & {(one.apart, each) for each in Verdict}) > 1}
        own = [one for one in decided if question.verdict(key_of(one)) is verdict]
        names = ((str(one) if one.apart in mixed else one.title) + question.counted.get(key_of(one), "") for one in own)
        found = [*dict.fromkeys(names)]
        if len(found) > NAMED:
            told[question] = f"{len({one.apart for one in own})} of {len(asked)} methods"
        elif found:
            told[question] = "; ".join(found)
    return told


def _where(told: Mapping[Question, str], tested: int) -> str:
    """` in test accuracy (mnist: EM, T = 2) and x (Dynamic)`; of a single question, the methods alone."""
    if tested == 1:
        return f": {next(iter(told.values()))}"
    measures: dict[str, list[str]] = {}
    for question, who in told.items():
        name = question.main.title
        told_where = f"{question.where}: {who}" if question.where else who
        measures.setdefault(f"{name[0].lower()}{name[1:]}", []).append(told_where)
    named = [f"{measure} ({'; '.join(own)})" for measure, own in measures.items()]
    return f" in {wording.listed(named, len(named))}"


def _having(verdict_of: Callable[[Key], Verdict], methods: Iterable[Method], verdict: Verdict) -> int:
    """The number of methods that have a verdict with some T."""
    return len({one.apart for one in methods if verdict_of(key_of(one)) is verdict})


def _measured(question: Question) -> tuple[str, str, str]:
    """The measure of a question, with its data and network."""
    return question.main.title, question.runs.data, question.runs.model


def _untested(question: Question, methods: Iterable[Method]) -> int:
    """The number of methods of which no T could be tested."""
    verdicts: dict[str, set[Verdict]] = {}
    for one in methods:
        verdicts.setdefault(one.apart, set()).add(question.verdict(key_of(one)))
    return sum(own == {Verdict.UNTESTABLE} for own in verdicts.values())


def _wide_first(questions: list[Question], methods: Iterable[Method]) -> list[Question]:
    """The questions in order, that of cost second; last those of fewer than half as many methods as the widest.

    Where a user's methods take part, questions without any of them come behind all that have one.
    """
    labels = {method.apart for method in methods if not method.is_control}
    mine = {method.apart for method in methods if method.yours}
    asked = {question.part: len(labels & {label for label, _ in question.means}) for question in questions}
    widest = max(asked.values(), default=0)

    def place(numbered: tuple[int, Question]) -> tuple[bool, bool, float]:
        number, question = numbered
        lacks = bool(mine) and not mine & {label for label, _ in question.means}
        return lacks, 2 * asked[question.part] < widest, 0.5 if question.main.shown else number

    return [question for _, question in sorted(enumerate(questions), key=place)]


def _methods(found: list[tuple[str, Runs, Analysis]]) -> list[Method]:
    """Every method with a value; methods that are the same function in every suite that has both share a row."""
    known: dict[Key, Method] = {}
    shown: dict[Key, set[Key]] = {}
    for _, runs, analysis in found:
        values = {} if analysis.main is None else values_of(analysis.main, analysis)
        twins = twins_of(analysis)
        told = [method for method in analysis.table.get("method", ()) if isinstance(method, Method)]
        every = [*told, *(other for method in told for other in method.same), *runs.methods.values()]
        for method in every:
            key = key_of(method)
            if twins.get(key, key) in values:
                shown.setdefault(key, set()).add(twins.get(key, key))
                if key not in known or (method.same and not known[key].same):
                    known[key] = replace(method.anywhere, same=tuple(one.anywhere for one in method.same))
    hidden = {key for key, own in shown.items() if key not in own and len(own) == 1 and not known[key].yours}
    return [
        replace(method, same=tuple(other for other in method.same if key_of(other) in hidden))
        for key, method in known.items()
        if key not in hidden
    ]


def _place(questions: Sequence[Question], method: Method) -> tuple[object, ...]:
    """Sort key of a row: the user's methods first, then the best of the first question that has it.

    Costs count only where nothing else was measured.
    """
    judged = [question for question in questions if not question.main.shown] or questions
    return not method.yours, *(question.standing(key_of(method)) for question in judged), method


def _main_iterations(questions: Iterable[Question], methods: Iterable[Method]) -> set[Key]:
    """The T of each method that most questions test, then that most have; in a tie the largest."""
    chosen: dict[str, tuple[int, int, int]] = {}
    asked = [*questions]
    for method in methods:
        key = key_of(method)
        tested = sum(question.verdict(key) is not Verdict.UNTESTABLE for question in asked)
        answered = sum(key in (question.gains or question.means) for question in asked)
        chosen[method.apart] = max(chosen.get(method.apart, (-1, -1, 0)), (tested, answered, method.iterations or 0))
    return {(label, steps or None) for label, (_, _, steps) in chosen.items()}


def _decided(questions: Iterable[Question], methods: Sequence[Method]) -> set[Key]:
    """Methods, each with its T, that are significantly better or worse than uniform routing in some question."""
    keys = {key_of(method) for method in methods if not method.is_control}
    asked = [question for question in questions if question.main.higher_is_better is not None]
    return {
        key
        for question in asked
        for key in keys & question.gains.keys()
        if question.hint(key) in (Verdict.BETTER, Verdict.WORSE)
    }


def _prespecified(questions: Iterable[Question]) -> set[Key]:
    """Methods, each with the T of its pre-specified comparison with uniform routing, which may be another elsewhere."""
    return {key for question in questions for key in question.named or () if question.counts(key)}


def _reach(question: Question, methods: Iterable[Method], main: set[Key]) -> float:
    """Half of the width of a column, in its unit: covers a typical interval, and all means but those far off."""
    shown = [question.gains[key_of(one)] for one in methods if key_of(one) in main and key_of(one) in question.gains]
    halves = [gain.half_width for gain in shown if gain.half_width > 0]
    usual = median(halves) if halves else 0.0
    sizes = [abs(gain.mean) for gain in shown] or [0.0]
    most = figures.usual_reach(sizes) or max(sizes)
    return max(1.12 * min(max(sizes), most), 1.6 * usual, 1e-9)


def _mark(question: Question, method: Method, reach: float) -> Mark | None:
    key = key_of(method)
    if key not in question.means:
        return None
    counted = question.counted.get(key, "")
    decimals = 1 if question.main.unit == "%" else question.main.digits  # where no interval says how many
    value = f"{question.means[key]:±.{decimals}}{counted}"
    if key not in question.gains:
        text, small = question.texts.get(key, (value, ""))
        return Mark("ns", "", "", text, "", small=small)
    gain, verdict = question.gains[key], question.hint(key)
    kind = "ns"
    if verdict in (Verdict.BETTER, Verdict.WORSE):
        kind = "other" if question.main.higher_is_better is None else str(verdict)
    explored = kind != "ns" and question.explores(key)
    text = wording.rounded(gain.mean, gain.half_width if gain.half_width > 0 else 10.0 ** (1 - decimals), sign=True)
    is_range = gain.has_limits and gain.half_width > 0
    interval = wording.between(gain.low, gain.high) if is_range else ""
    limits = f", 95 % interval {interval}" if interval else ""
    said = f"{text} {question.unit}{limits}, {_said(kind, verdict, explored)}{counted}"
    low, high = (_x(end, reach) for end in (gain.low, gain.high)) if is_range else (None, None)
    return Mark(kind, text, interval, value, said, _x(gain.mean, reach), low, high, explored)


def _said(kind: str, verdict: Verdict, explored: bool) -> str:
    if kind == "ns":
        return "not tested" if verdict is Verdict.UNTESTABLE else "not significant"
    found = "exploratory, significant" if explored else "significant"
    return f"{found}, {kind}" if kind != "other" else found


def _x(value: float, reach: float) -> float:
    x = MIDDLE + value / reach * (MIDDLE - 2 * EDGE)
    return float(round(min(max(x, EDGE), WIDTH - EDGE), 1))  # means may be numpy's
