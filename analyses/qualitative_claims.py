"""Claims of the source papers without a number, and whether they hold here."""

from collections.abc import Collection

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Estimate, Role, Row, Runs, Verdict, analysis_of, run, wording
from routebench.analysis.judging import RISING, JudgedClaim, PaperClaim, every_claim
from routebench.errors import one_line

MARKS = {Verdict.FAILS: "✗", Verdict.HOLDS: "✓", Verdict.UNDECIDED: "?", Verdict.NOT_TESTED: "…", Verdict.NOT_RUN: "–"}
"""Order of verdicts: contradictions first."""
STILL_LEARNING = (
    "Not tested, with a number of epochs: training accuracy of a compared network rose by more than "
    f"{RISING:g} points in the last one. Its accuracy then tells how fast it learns, not what it reaches."
)
OTHER_FORM = "Not tested, tuned to a value: tuning chose another form of the method than the paper's claim is about."


@analysis_of("", "qualitative-claims", place=40, folder=True, role=Role.CLAIMS)
def qualitative_claims(parts: tuple[Runs, ...]) -> Analysis | None:
    """Claims of the source papers: the test, its statistic with 95 % interval, and the verdict."""
    faults: list[str] = []
    claims = every_claim(faults)
    table = DataFrame([row for claim in claims for row in _rows(claim, parts, faults)])
    if table.empty or (table["verdict"] == Verdict.NOT_RUN).all():
        return None
    table = table.sort_values("verdict", key=lambda told: told.map([*MARKS].index), kind="stable", ignore_index=True)
    return Analysis(
        title="What the papers say in words",
        reading="Which of the claims hold here, and which do not?",
        table=table,
        columns=COLUMNS,
        notes=(
            (
                "Each claim has a test of its own, at 5 %; p is not corrected for the number of claims. Other tables "
                "correct p, so that the same difference may not be significant there. "
                "Networks, data and budgets are those of these runs, not of the paper. "
                "Undecided: the interval reaches both sides, or there is one seed."
            ),
            *(f"Left out: {fault}." for fault in faults),
            *_without_verdict(table),
            *_not_run(table, {claim.needs for claim in claims if claim.suite}),
        ),
        hidden=tuple(table["verdict"] == Verdict.NOT_RUN),
    )


def _rows(claim: PaperClaim, parts: tuple[Runs, ...], faults: list[str]) -> list[dict[str, object]]:
    """One row for each part that can test the claim; without any, one row with what is missing.

    Parts that measured the same networks, and so find the same, share a row. A test that raises is a line in `faults`.
    """
    said = {"claim": claim.claim, "source": claim.source, "tested": claim.tested}
    known: dict[JudgedClaim, list[str]] = {}
    for runs in parts:
        try:
            found = claim.test(runs, parts)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other claims have to be judged
            faults.append(f"the test of {claim.claim!r} ({claim.source}) raised {one_line(error)}")
            break
        if found is not None:
            known.setdefault(found, []).append(f"{runs.suite} {runs.preset}, {runs.data}, {runs.model}")
    rows: list[dict[str, object]] = [
        {**said, "on": "; ".join(on), "of": found.of, "mean": found.statistic, "verdict": found.verdict,
         "why": found.why, "needs": ""}
        for found, on in known.items()
    ]  # fmt: skip
    lacking = {**said, "on": "", "of": "", "mean": Estimate(), "verdict": Verdict.NOT_RUN, "why": ""}
    return rows or [lacking | {"needs": claim.needs}]


def _verdict(row: Row) -> str:
    return f"{MARKS[row['verdict']]} {row['verdict']}{row['why'] and ': '}{row['why']}"


def _on(row: Row) -> str:
    return f"{row['on']}; {row['of']}" if row["on"] else wording.NOTHING


COLUMNS = (
    Column("Verdict", "verdict", _verdict, "by the 95 % interval over seeds: on the side that the claim says, on the "
           "other, or neither", numeric=False, judges=True),
    Column("Claim", "claim", lambda row: f"{row['claim']} ({row['source']})", numeric=False),
    Column("Effect", "mean", "~", "mean over seeds with its 95 % interval"),
    Column("Effect is", "tested", numeric=False),
    Column("On", "on", _on, "suite, preset, data, network; methods", numeric=False),
    Column("Seeds", "mean.n"),
)  # fmt: skip


def _without_verdict(table: DataFrame) -> list[str]:
    """Explanations of the reasons that the table gives."""
    whys = table.loc[table["verdict"] == Verdict.NOT_TESTED, "why"]
    told = {STILL_LEARNING: whys.str.contains("epoch"), OTHER_FORM: whys.str.startswith("tuned to")}
    return [note for note, found in told.items() if found.any()]


def _not_run(table: DataFrame, commands: Collection[str]) -> list[str]:
    lacking = table[table["verdict"] == Verdict.NOT_RUN]
    if lacking.empty:
        return []
    told = "; ".join(f"`{needs}`" if needs in commands else needs for needs in dict.fromkeys(lacking["needs"]))
    return [f"{wording.plural(len(lacking), 'claim')} not tested in this folder. What tests them: {told}."]


if __name__ == "__main__":
    run(qualitative_claims)
