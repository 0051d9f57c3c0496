"""Time of training against the number of iterations: one panel per part, one line per method and back end."""

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import LINE_COLUMNS, lines, points


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
        reading="How much time does another iteration take?",
        table=table,
        figure=lines(table, runs, "iterations", "Training, ms"),
        columns=(*LINE_COLUMNS, Column("ms", "value", "~")),
        notes=(f"Forward and backward at batch {batch:,}, mean over seeds and both measurements; logarithmic axis.",),
        alternative="Lines of milliseconds over T, one panel per part.",
    )


if __name__ == "__main__":
    run(cost_by_iterations)
