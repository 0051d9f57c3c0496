"""Memory of training against the number of iterations: flat where votes are made anew instead of being stored."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import LINE_COLUMNS, MEGABYTE, lines, number, part_in_words, parts_of, points


@analysis_of("cost", "cost-memory", place=30)
def cost_memory(runs: Runs) -> Analysis | None:
    """Megabytes that forward and backward take at their peak, at the largest batch, per method, back end and T."""
    table = points(runs, "training_memory")
    table = table[(table["batch"] == table["batch"].max()) & (table["value"] > 0)].reset_index(drop=True)
    if table[table["iterations"] > 0].empty:
        return None
    table["value"] /= MEGABYTE
    batch = int(table["batch"].iloc[0])
    reading = _reading(table)
    return Analysis(
        title="Memory against iterations",
        reading=reading,
        table=table,
        figure=lines(table, runs, "iterations", "Peak memory, MB", "routing iterations T"),
        columns=(
            *LINE_COLUMNS,
            Column("MB", "value", lambda row: number(row["value"])),
        ),
        notes=(
            f"Batch {batch:,}; what the process held before, weights and capsules below among it, does not count.",
            "Tensors are counted. Records of version 1 of the suite have resident memory, which varies by a few MB.",
        ),
        alternative="Lines of megabytes over T, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[(table["part"] == parts_of(table)[0]) & (table["iterations"] > 0)]
    growth = []
    for (label, backend), line in own.sort_values("iterations").groupby(["label", "backend"]):
        growth.append((float(line["value"].iloc[-1] / line["value"].iloc[0]), str(label), str(backend)))
    most = max(growth)
    first, last = int(own["iterations"].min()), int(own["iterations"].max())
    where = f"In the {part_in_words(str(own['part'].iloc[0]))}, from T={first} to T={last}"
    return f"{where}, memory grows most for {most[1]} on {most[2]}, to {number(most[0])} times of what it was."


if __name__ == "__main__":
    run(cost_memory)
