"""Cost of iterations: milliseconds and megabytes with one iteration, and for each further one."""

import math
from operator import itemgetter

from pandas import DataFrame

from routebench.analysis import Analysis, Column, Main, Mean, Method, Row, Runs, analysis_of, numbers, run, wording
from routebench.analysis.cost import (
    MEGABYTE,
    WHOLE,
    Costs,
    costs_of,
    largest_layers,
    noise_in_words,
    of_noise,
    part_in_words,
    parts_of,
    step_costs,
)

EXTRA = "slope of the straight line over T, with its 95 % interval"
DISTANCE = (
    "time at the largest T, as a multiple of what the machine needs at least: the arithmetic at the speed of a large "
    "matrix product, or the traffic at the speed of a large copy, whichever takes longer"
)
LARGEST = "images in a batch for which a training step fits the memory budget; it was tried. At the largest T"
PER_ITERATION = (
    "Per iteration: least squares over T from 2 on, through every seed and both measurements of each time; 95 % "
    "intervals by Student's t. T=1 is left out where there are two others: its uniform coupling needs no votes, so "
    "that the step from 1 to 2 costs something else than later steps."
)


@analysis_of("cost", "cost-table", place=10)
def cost_table(runs: Runs) -> Analysis | None:
    """Time and memory of training per method, part, back end and batch, and the cost of one more iteration."""
    found = costs_of(runs)
    if found.table.empty:
        return None
    return Analysis(
        title="What one more iteration costs",
        reading=" ".join([*_by_size(runs), _reading(found)]),
        table=found.table,
        columns=_columns(found.table),
        notes=(*_notes(found), *found.absent),
        main=_main(runs),
    )


def _main(runs: Runs) -> Main | None:
    """The time of a training step as a multiple of that of uniform routing where it was timed.

    Of the whole network, or of the largest layer where layers were timed by tokens and parents.
    """
    largest = largest_layers(runs)
    part = WHOLE if largest.empty else str(largest["part"].iloc[0])
    steps, noise = step_costs(runs, part)
    if steps.empty:
        return None
    title = "" if part == WHOLE else f"{part_in_words(part)[:1].upper()}{part_in_words(part)[1:]}"
    told = "; ".join(filter(None, ("× uniform routing, less is better", of_noise("shortest", noise))))
    shown, small = _multiples(steps, noise), _small(runs, part)
    return Main.of(
        "training_time", "mean", title, table=steps, shown=shown, small=small, explained=told if shown else ""
    )


def _multiples(table: DataFrame, noise: float) -> dict[Method, str]:
    """`1.2 ×` by method: its cost by that of uniform routing, to the last digit above noise; else empty."""
    costs = {row["method"]: float(row["mean"]) for row in table.to_dict("records")}
    base = costs.get(min((one for one in costs if one.is_base), key=lambda one: one.settings, default=None), math.nan)
    ratios = {method: cost / base for method, cost in costs.items()} if base > 0 else {}
    return {method: f"{wording.within(ratio, noise * ratio)} ×" for method, ratio in ratios.items()}


def _small(runs: Runs, part: str) -> dict[Method, str]:
    """`inference 1.1 ×, 17 MB` by method: inference by that of uniform routing, and memory of a training step."""
    times = _multiples(*step_costs(runs, part, "inference_time"))
    memory, _ = step_costs(runs, part, "training_memory")
    told = {method: [f"inference {text}"] for method, text in times.items()}
    for row in memory.to_dict("records"):
        told.setdefault(row["method"], []).append(f"{_megabytes(row['mean'].mean / MEGABYTE)} MB")
    return {method: ", ".join(texts) for method, texts in told.items()}


def _columns(table: DataFrame) -> tuple[Column, ...]:
    columns = (
        Column("Method", "method", lambda row: row["method"].marked, "routing method; baselines have no iterations",
               numeric=False),
        Column("What", "part", lambda row: part_in_words(row["part"]), "what was measured", numeric=False),
        Column("Back end", "backend", "", "which code does the sweeps", numeric=False),
        Column("Batch", "batch", ",", "images"),
        Column("ms at T=1", "ms", "~", "forward and backward; for the network, a whole step"),
        Column("ms per iteration", "ms_extra", _time, EXTRA),
        Column("MB at T=1", "mb", "~", "peak memory above what was held before"),
        Column("MB per iteration", "mb_extra", "~", EXTRA),
        Column("Times the floor", "distance", "~", DISTANCE),
        Mean.of("inference_time", "inference_ms", explained="at T=1", text="~", extra=True),
        Column("Inference, ms per iteration", "inference_ms_extra", "~", EXTRA, extra=True),
    )  # fmt: skip
    largest = Column("Largest batch", "largest_batch", _largest, LARGEST)
    return (*columns, largest) if table["largest_batch"].notna().any() else columns


def _time(row: Row) -> str:
    """The time of an iteration, or a note that it is within noise."""
    text = f"{row['ms_extra']:~}"
    return text if row["beyond_noise"] or not row["ms_extra"].known else f"{text} (noise)"


def _largest(row: Row) -> str:
    if math.isnan(row["largest_batch"]):
        return wording.NOTHING
    return f"{'≥ ' if row['largest_batch'] >= row['searched_to'] else ''}{row['largest_batch']:,.0f}"


def _reading(found: Costs) -> str:
    """States the cost of one more iteration of each method: first part, largest batch, fastest back end."""
    table = found.table
    own = table[(table["part"] == parts_of(table)[0]) & numbers(table["ms_extra"]).notna()]
    own = own[own["batch"] == own["batch"].max()]
    if own.empty:
        return f"No method was measured with more than one number of iterations; {noise_in_words(found)}."
    own = own.assign(at_most=own["ms"] + numbers(own["ms_extra"]) * (own["most"] - 1))
    fastest = own.sort_values("at_most", kind="stable").drop_duplicates("method").sort_values("method", kind="stable")
    where = f"{part_in_words(own['part'].iloc[0])}, batch {own['batch'].iloc[0]:,}"
    told = [_clause(row, found.noise) for row in fastest[fastest["beyond_noise"]].to_dict("records")]
    lost = [*fastest.loc[~fastest["beyond_noise"], "method"]]
    sentences = [f"One more iteration costs {wording.listed(told, 12)} ({where})"] if told else []
    if lost:
        sentences.append(f"What one of {wording.listed(lost, 12)} costs does not stand out from noise ({where})")
    return f"{'. '.join([*sentences, noise_in_words(found).capitalize()])}."


def _by_size(runs: Runs) -> list[str]:
    """The least and the most that the largest layer takes, where layers were timed by tokens and parents."""
    largest = largest_layers(runs).to_dict("records")
    if not largest:
        return []
    ends = [function(largest, key=itemgetter("ms")) for function in (min, max)]
    low, high = (f"{wording.significant(row['ms'])} ms ({row['method']})" for row in ends)
    tokens, parents = largest[0]["tokens"], largest[0]["parents"]
    where = f"With {tokens:,} tokens and {parents:,} parents"
    return [f"{where}, a training step of one layer takes {low} to {high}."]


def _clause(row: Row, noise: float) -> str:
    """`2 ms and 0.5 MB with EM`: of the time only the digits that stand out from noise."""
    memory = f" and {_megabytes(row['mb_extra'].mean)} MB" if row["mb_extra"].known else ""
    where = "" if row["backend"] in ("fused", "auto") else f" ({row['backend']})"
    time = row["ms_extra"].mean
    return f"{wording.within(time, noise * abs(time))} ms{memory} with {row['method']}{where}"


def _megabytes(value: float) -> str:
    return "less than 0.1" if abs(value) < 0.1 else wording.fixed(value, 1 if abs(value) < 10 else 0)


def _notes(found: Costs) -> list[str]:
    notes = [PER_ITERATION]
    if found.pairs:
        notes.append(
            f"Noise floor: of {found.pairs:,} pairs of measurements of the same thing, 95 in 100 differ by less than "
            f"{100 * found.noise:.2g} %. Where the whole rise from the smallest T to the largest is smaller, or the "
            "interval holds zero, the table says noise. Let nothing else run on the machine."
        )
    budgets = found.table["budget_mb"].dropna()
    if len(budgets):
        notes.append(f"Largest batch: for a budget of {budgets.iloc[0]:,.0f} MB above what the process holds anyway.")
    return notes


if __name__ == "__main__":
    run(cost_table)
