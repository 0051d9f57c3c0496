"""Time of training against the number of iterations: one panel per part, one line per method and back end."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import LINE_COLUMNS, lines, number, part_in_words, parts_of, points


@analysis_of("cost", "cost-by-iterations", place=20)
def cost_by_iterations(runs: Runs) -> Analysis | None:
    """Milliseconds of forward and backward at the largest batch, per method, back end and T."""
    table = points(runs, "training_time")
    table = table[table["batch"] == table["batch"].max()].reset_index(drop=True)
    if table[table["iterations"] > 0].empty:
        return None
    batch = int(table["batch"].iloc[0])
    reading = _reading(table)
    return Analysis(
        title="Time against iterations",
        reading=reading,
        table=table,
        figure=lines(table, runs, "iterations", "Training, ms", "routing iterations T"),
        columns=(
            *LINE_COLUMNS,
            Column("ms", "value", lambda row: number(row["value"])),
        ),
        notes=(f"Forward and backward at batch {batch:,}, mean over seeds and both measurements; logarithmic axis.",),
        alternative="Lines of milliseconds over T, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[(table["part"] == parts_of(table)[0]) & (table["iterations"] > 0)]
    most = own[own["iterations"] == own["iterations"].max()].sort_values("value")
    where = f"In the {part_in_words(str(own['part'].iloc[0]))} with T={int(own['iterations'].max())}"
    quickest, slowest = most.iloc[0], most.iloc[-1]
    said = f"{where}, {quickest['label']} on {quickest['backend']} takes {number(quickest['value'])} ms"
    if len(most) == 1:
        return f"{said}."
    return f"{said}, {slowest['label']} on {slowest['backend']} {number(slowest['value'])} ms."


if __name__ == "__main__":
    run(cost_by_iterations)
