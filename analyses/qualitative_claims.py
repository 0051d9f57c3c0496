"""What the source papers claim without a number: whether it holds in these results."""

import math
from collections import Counter

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Estimate, Row, Runs, analysis_of, run, wording
from routebench.analysis.component_claims import COMPONENT_CLAIMS
from routebench.analysis.paper_claims import CLAIMS, FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, PaperClaim


@analysis_of("", "qualitative-claims", place=40, folder=True)
def qualitative_claims(parts: tuple[Runs, ...]) -> Analysis | None:
    """Claims of the source papers, how each is tested, the statistic with its 95 % interval, and a verdict."""
    table = DataFrame([row for claim in (*CLAIMS, *COMPONENT_CLAIMS) for row in _rows(claim, parts)])
    if (table["verdict"] == NOT_RUN).all():
        return None
    return Analysis(
        title="What the papers say in words",
        reading=_reading(table),
        table=table,
        columns=(
            Column("Claim", "claim", lambda row: str(row["claim"]), numeric=False),
            Column("Source", "source", lambda row: str(row["source"]), numeric=False),
            Column("Tested here by", "tested", lambda row: str(row["tested"]), numeric=False),
            Column("On", "on", _on, "suite, preset, data, network; methods", False),
            Column("Statistic", "mean", _statistic, "mean over seeds with its 95 % interval"),
            Column("Seeds", "seeds", lambda row: str(row["seeds"])),
            Column("Verdict", "verdict", _verdict, numeric=False),
        ),
        notes=(
            (
                "Holds here: the 95 % interval over seeds lies wholly where the claim says; does not hold here: wholly "
                "on the other side; undecided: neither, or one seed. Each claim is tested by itself: nothing is "
                "corrected for how many there are."
            ),
            "A verdict is about these networks, data and budgets, not about those of the paper.",
        ),
    )


def _rows(claim: PaperClaim, parts: tuple[Runs, ...]) -> list[dict[str, object]]:
    """One row for each part that can test the claim; one that says what is missing where none can."""
    rows = []
    for runs in parts:
        found = claim.test(runs) if claim.test and runs.protocol == claim.protocol else None
        if found is not None:
            rows.append(_row(claim, runs, found))
    nothing = {"on": "", "of": "", "mean": math.nan, "low": math.nan, "high": math.nan, "seeds": 0}
    said = {"claim": claim.claim, "source": claim.source, "tested": claim.tested}
    return rows or [{**said, **nothing, "verdict": NOT_RUN, "needs": claim.needs}]


def _row(claim: PaperClaim, runs: Runs, found: Finding) -> dict[str, object]:
    return {
        "claim": claim.claim,
        "source": claim.source,
        "tested": claim.tested,
        "on": f"{runs.suite} {runs.preset}, {runs.data}, {runs.model}",
        "of": found.of,
        "mean": found.interval.mean,
        "low": found.interval.low,
        "high": found.interval.high,
        "seeds": found.interval.n,
        "verdict": found.verdict,
        "needs": "",
    }


def _on(row: Row) -> str:
    return f"{row['on']}; {row['of']}" if row["on"] else wording.NOTHING


def _statistic(row: Row) -> str:
    return f"{Estimate(row['mean'], row['low'], row['high']):~}"


def _verdict(row: Row) -> str:
    return f"{row['verdict']}: needs {row['needs']}" if row["verdict"] == NOT_RUN else str(row["verdict"])


def _reading(table: DataFrame) -> str:
    counts = Counter(table["verdict"])
    tested = len(table) - counts[NOT_RUN]
    told = [f"{counts[HOLDS]} hold here", f"{counts[FAILS]} do not", f"{counts[UNDECIDED]} cannot be decided"]
    failing = [str(claim) for claim in dict.fromkeys(table.loc[table["verdict"] == FAILS, "claim"])]
    against = f" Against the papers: {'; '.join(_lower(claim) for claim in failing)}." if failing else ""
    return f"Of {wording.plural(tested, 'test')} of what the papers say in words, {wording.listed(told)}.{against}"


def _lower(claim: str) -> str:
    return claim if claim.startswith("EM") else claim[0].lower() + claim[1:]


if __name__ == "__main__":
    run(qualitative_claims)
