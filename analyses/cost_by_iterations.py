"""Time of training against the number of iterations: one panel per part, one line per method and back end."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run, wording
from routebench.analysis.cost import IN_WORDS, LINE_COLUMNS, lines, part_in_words, parts_of, points


@analysis_of("cost", "cost-by-iterations", place=20)
def cost_by_iterations(runs: Runs) -> Analysis | None:
    """Milliseconds of forward and backward at the largest batch, per method, back end and T."""
    table = points(runs, "training_time")
    table = table[table["batch"] == table["batch"].max()].reset_index(drop=True)
    if table[table["iterations"] > 0].empty:
        return None
    batch = int(table["batch"].iloc[0])
    return Analysis(
        title="Time against iterations",
        reading=_reading(table),
        table=table,
        figure=lines(table, runs, "iterations", "Training, ms"),
        columns=(*LINE_COLUMNS, Column("ms", "value", "~")),
        notes=(f"Forward and backward at batch {batch:,}, mean over seeds and both measurements; logarithmic axis.",),
        alternative="Lines of milliseconds over T, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[(table["part"] == parts_of(table)[0]) & (table["iterations"] > 0)]
    most = own["iterations"].max()
    rows = own[own["iterations"] == most].sort_values("value").to_dict("records")
    who = [f"{row['method']} {IN_WORDS.get(row['backend'], row['backend'])}" for row in rows]
    times = [f"{wording.significant(row['value'])} ms" for row in rows]
    said = f"In the {part_in_words(own['part'].iloc[0])} with T={most}, {who[0]} takes {times[0]}"
    return f"{said}, {who[-1]} {times[-1]}." if len(rows) > 1 else f"{said}."


if __name__ == "__main__":
    run(cost_by_iterations)
