"""Runs without a result, and why: a failed run is a row, never a gap."""

from routebench.analysis import Analysis, Column, Runs, analysis_of, run

MEANING = {
    "failed": "raised an error",
    "diverged": "the loss was not finite",
    "oom": "ran out of memory",
    "timeout": "took longer than its limit",
    "skipped": "was left out for the reason given",
    "not run": "was planned and has no record yet",
}
REST = (
    "Means are over the runs that gave a result, and say how many. Failed runs are tried again by the next run of the "
    "suite."
)


@analysis_of("", "failures", place=900)
def failures(runs: Runs) -> Analysis | None:
    """Every planned run without a result: method, T, seed, status and reason."""
    planned = runs.planned
    if planned.empty:
        return None
    table = planned.loc[planned["status"] != "ok", ["label", "iterations", "seed", "status", "reason", "cell"]]
    table = table.sort_values(["status", "label", "iterations", "seed"]).reset_index(drop=True)
    return Analysis(
        title="Nothing is missing" if table.empty else "What has no result",
        reading="All planned runs finished." if table.empty else "Which planned runs gave no result, and why?",
        table=table,
        columns=(
            Column("Method", "label", lambda row: str(runs.methods[row["cell"]].family), numeric=False),
            Column("T", "iterations"),
            Column("Seed", "seed"),
            Column("Status", "status", numeric=False),
            Column("Reason", "reason", lambda row: str(row["reason"] or MEANING.get(row["status"], "")), numeric=False),
            Column("Run", "cell", "", "its record is records/RUN.json", numeric=False),
        ),
        notes=(
            *(f"{status}: {MEANING[status]}." for status in sorted(set(table["status"]) & set(MEANING))),
            *([] if table.empty else [REST]),
        ),
    )


if __name__ == "__main__":
    run(failures)
