"""The first screen of a folder that tests papers: every claim with its verdict, contradictions first."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from routebench.analysis import Estimate, Verdict, wording
from routebench.analysis._table import Row
from routebench.report._scorecard import Mark

ORDER = (Verdict.FAILS, Verdict.HOLDS, Verdict.UNDECIDED, Verdict.NOT_TESTED)
SHOWN = {
    Verdict.FAILS: ("✗", "does not hold", "worse"),
    Verdict.HOLDS: ("✓", "holds", "better"),
    Verdict.UNDECIDED: ("?", "undecided", "ns"),
    Verdict.NOT_TESTED: ("…", "", "ns"),
}
MIDDLE, ROOM = 75.0, 70.0  # px


@dataclass(frozen=True)
class ClaimRow:
    """A test of a claim; `on` is the part of the folder, as the analysis names it."""

    claim: str
    source: str
    tested: str
    on: str
    icon: str
    word: str
    mark: Mark


@dataclass(frozen=True)
class ClaimCard:
    """All tests of claims.

    Args:
        rows: tested claims, contradictions first.
        counts: numbers of tests that fail, hold, stay open, and have no verdict.
        others: claims that nothing in the folder tests, their sources, and the command that does, or why there is none.
        at_own_size: whether all runs train as the papers did.
        numbers: how many published numbers are reproduced, where that is known and runs are at the papers' size.
    """

    rows: tuple[ClaimRow, ...]
    counts: tuple[int, int, int, int]
    others: tuple[tuple[str, str, str], ...]
    at_own_size: bool = False
    numbers: str = ""

    @property
    def papers(self) -> tuple[str, ...]:
        """The papers of the tested claims."""
        return tuple(dict.fromkeys(row.source.partition(",")[0] for row in self.rows))

    @property
    def title(self) -> str:
        """Says how many tests hold."""
        fail, hold, still, short = self.counts
        tests = wording.plural(len(self.rows) - short, "test")
        alone = len(self.papers) == 1
        of = "one paper" if alone else f"{len(self.papers)} papers"
        size = f"at {'its' if alone else 'their'} own size" if self.at_own_size else "in small-scale replications"
        held = f"{hold or 'none'} {'holds' if hold < 2 else 'hold'}"
        failed = f"{fail or 'none'} {'fails' if fail < 2 else 'fail'}"
        return f"{tests} of claims from {of}, {size}: {failed}, {held}, {still} undecided."

    @property
    def said(self) -> tuple[str, ...]:
        """Says how many tests have no verdict."""
        short = self.counts[-1]
        one = short == 1
        rest = f"{wording.plural(short, 'test')} more {'rests' if one else 'rest'} on networks that still learned fast"
        told = f"{rest} at the end, or on another form of the method. {'It has' if one else 'They have'} no verdict."
        return (told,) if short else ()


def claims_of(rows: Iterable[Row]) -> ClaimCard | None:
    """Reads claims from the analysis `qualitative-claims`; None if none was tested."""
    rows = [*rows]
    tested = sorted((row for row in rows if row["verdict"] in ORDER), key=lambda row: ORDER.index(row["verdict"]))
    if not tested:
        return None
    counts = Counter(row["verdict"] for row in tested)
    others = {row["claim"]: (row["source"], row["needs"]) for row in rows if row["verdict"] == Verdict.NOT_RUN}
    return ClaimCard(
        tuple(_row(row) for row in tested),
        (counts[Verdict.FAILS], counts[Verdict.HOLDS], counts[Verdict.UNDECIDED], counts[Verdict.NOT_TESTED]),
        tuple((claim, source, needs) for claim, (source, needs) in others.items()),
    )


def _row(row: Row) -> ClaimRow:
    icon, word, kind = SHOWN[row["verdict"]]
    word = word or f"{row['verdict']}: {row['why']}"
    return ClaimRow(row["claim"], row["source"], row["tested"], row["on"], icon, word, _mark(row["mean"], kind))


def _mark(found: Estimate, kind: str) -> Mark:
    """The mark of a claim, on its own scale: from zero to the further limit of its interval."""
    text = wording.rounded(found.mean, found.half_width, sign=True)
    if not found.half_width > 0:
        return Mark(kind, text, "", "", text, MIDDLE + (ROOM / 2) * ((found.mean > 0) - (found.mean < 0)))
    reach = max(abs(found.low), abs(found.high))
    interval = wording.between(found.low, found.high)
    dot, low, high = (round(MIDDLE + ROOM * value / reach, 1) for value in (found.mean, found.low, found.high))
    return Mark(kind, text, interval, "", f"{text}, 95 % interval {interval}", dot, low, high)
