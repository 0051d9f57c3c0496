"""Memory of training against the number of iterations; flat where votes are recomputed instead of stored."""

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import (
    LINE_COLUMNS,
    MEGABYTE,
    lines,
    points,
)


@analysis_of("cost", "cost-memory", place=30)
def cost_memory(runs: Runs) -> Analysis | None:
    """Peak megabytes of forward and backward at the largest batch, per method, back end and T."""
    table = points(runs, "training_memory")
    table = table[(table["batch"] == table["batch"].max()) & (table["value"] > 0)].reset_index(drop=True)
    if table[table["iterations"] > 0].empty:
        return None
    table["value"] /= MEGABYTE
    batch = int(table["batch"].iloc[0])
    return Analysis(
        title="Memory against iterations",
        reading="How much memory does another iteration take?",
        table=table,
        figure=lines(table, runs, "iterations", "Peak memory, MB"),
        columns=(*LINE_COLUMNS, Column("MB", "value", "~")),
        notes=(
            f"Batch {batch:,}; what the process held before, weights and capsules below among it, does not count.",
            "Tensors are counted. Records of version 1 of the suite have resident memory, which varies by a few MB.",
        ),
        alternative="Lines of megabytes over T, one panel per part.",
    )


if __name__ == "__main__":
    run(cost_memory)
