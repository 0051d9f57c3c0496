"""Time of training against the batch size: where a line is flat, the machine is not busy yet."""

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, run
from routebench.analysis.cost import LINE_COLUMNS, lines, number, part_in_words, parts_of, points


@analysis_of("cost", "cost-by-batch", place=40)
def cost_by_batch(runs: Runs) -> Analysis | None:
    """Milliseconds of forward and backward at each method's largest T, per method, back end and batch."""
    table = points(runs, "training_time")
    if table["batch"].nunique() < 2:
        return None
    most = table.groupby("label")["iterations"].transform("max")
    table = table[table["iterations"] == most].reset_index(drop=True)
    reading = _reading(table)
    return Analysis(
        title="Time against batch size",
        reading=reading,
        table=table,
        figure=lines(table, runs, "batch", "Training, ms", "images in a batch"),
        columns=(
            *LINE_COLUMNS,
            Column("Batch", "batch", lambda row: f"{row['batch']:,}"),
            Column("ms", "value", lambda row: number(row["value"])),
        ),
        notes=("Forward and backward, mean over seeds and both measurements; both axes logarithmic.",),
        alternative="Lines of milliseconds over batch size, one panel per part.",
    )


def _reading(table: DataFrame) -> str:
    own = table[table["part"] == parts_of(table)[0]]
    small, large = int(own["batch"].min()), int(own["batch"].max())
    ends = own.pivot_table(index=["label", "backend"], columns="batch", values="value")[[small, large]].dropna()
    ratios = (ends[large] / ends[small]).sort_values()
    where = f"In the {part_in_words(str(own['part'].iloc[0]))}, a batch of {large:,} takes"
    return f"{where} {number(ratios.iloc[0])} to {number(ratios.iloc[-1])} times as long as one of {small:,}."


if __name__ == "__main__":
    run(cost_by_batch)
