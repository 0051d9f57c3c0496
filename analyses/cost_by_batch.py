"""Time of training against the batch size; while a line is flat, the machine is not fully used."""

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import LINE_COLUMNS, lines, points


@analysis_of("cost", "cost-by-batch", place=40)
def cost_by_batch(runs: Runs) -> Analysis | None:
    """Milliseconds of forward and backward at each method's largest T, per method, back end and batch."""
    table = points(runs, "training_time")
    if table["batch"].nunique() < 2:
        return None
    most = table.groupby("method")["iterations"].transform("max")
    table = table[table["iterations"] == most].reset_index(drop=True)
    return Analysis(
        title="Time against batch size",
        reading="From which batch on does time grow with the batch?",
        table=table,
        figure=lines(table, runs, "batch", "Training, ms"),
        columns=(*LINE_COLUMNS, Column("Batch", "batch", ","), Column("ms", "value", "~")),
        notes=("Forward and backward, mean over seeds and both measurements; both axes logarithmic.",),
        alternative="Lines of milliseconds over batch size, one panel per part.",
    )


if __name__ == "__main__":
    run(cost_by_batch)
