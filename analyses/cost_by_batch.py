"""Time of training against the batch size; while a line is flat, the machine is not fully used."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run, wording
from routebench.analysis.cost import LINE_COLUMNS, lines, part_in_words, parts_of, points


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
        reading=_reading(table),
        table=table,
        figure=lines(table, runs, "batch", "Training, ms"),
        columns=(*LINE_COLUMNS, Column("Batch", "batch", ","), Column("ms", "value", "~")),
        notes=("Forward and backward, mean over seeds and both measurements; both axes logarithmic.",),
        alternative="Lines of milliseconds over batch size, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[table["part"] == parts_of(table)[0]]
    small, large = int(own["batch"].min()), int(own["batch"].max())
    part = part_in_words(own["part"].iloc[0])
    by_batch = own.pivot_table(index=["method", "backend"], columns="batch", values="value")
    ratios = (by_batch[large] / by_batch[small]).dropna()
    if small == large or ratios.empty:
        return f"In the {part}, no method was measured with both the smallest and the largest batch."
    least, most = wording.significant(ratios.min()), wording.significant(ratios.max())
    times = least if least == most else f"{least} to {most}"
    return f"In the {part}, a batch of {large:,} takes {times} times as long as one of {small:,}."


if __name__ == "__main__":
    run(cost_by_batch)
