"""Memory of training against the number of iterations; flat where votes are recomputed instead of stored."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run, wording
from routebench.analysis.cost import (
    IN_WORDS,
    LINE_COLUMNS,
    MEGABYTE,
    lines,
    part_in_words,
    parts_of,
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
        reading=_reading(table),
        table=table,
        figure=lines(table, runs, "iterations", "Peak memory, MB"),
        columns=(*LINE_COLUMNS, Column("MB", "value", "~")),
        notes=(
            f"Batch {batch:,}; what the process held before, weights and capsules below among it, does not count.",
            "Tensors are counted. Records of version 1 of the suite have resident memory, which varies by a few MB.",
        ),
        alternative="Lines of megabytes over T, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[(table["part"] == parts_of(table)[0]) & (table["iterations"] > 0)]
    own = own.sort_values("iterations")
    by_line = own.groupby(["method", "backend"])["value"]
    if own["iterations"].nunique() < 2:
        return f"Memory was measured with T={own['iterations'].iloc[0]} only: how it grows is not known."
    growth, (method, backend) = max((values.iloc[-1] / values.iloc[0], of) for of, values in by_line)
    where = (
        f"In the {part_in_words(own['part'].iloc[0])}, from T={own['iterations'].min()} to T={own['iterations'].max()}"
    )
    more = wording.significant(growth)
    how = IN_WORDS.get(str(backend), str(backend))
    return f"{where}, memory grows most for {method} {how}, to {more} times what it was."


if __name__ == "__main__":
    run(cost_memory)
