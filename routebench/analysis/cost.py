"""What iterations cost: straight lines over T, the noise floor, and the distance to what the machine could do.

The numbers behind the table, the figures and the headline of the suite `cost`, so that they cannot disagree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame
from scipy import stats

from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis._table import Column
from routebench.analysis.figures import MARKERS, label_ends, look, new_figure
from routebench.analysis.palette import INK, MUTED
from routebench.statistics import CONFIDENCE, mean_interval

IntArray = NDArray[np.int_]
FloatArray = NDArray[np.float64]
MEGABYTE = 1 << 20
COVERED = 0.95  # of pairs of measurements of one thing lie closer together than the noise floor
KEYS = ["label", "part", "backend", "batch"]
COLUMNS = ("cell", "label", "role", "iterations", "seed", "metric", "value")
WHERE: dict[str, type] = {"part": str, "backend": str, "batch": int, "repeat": int, "budget_mb": int, "why": str}
DASHES: dict[str, Sequence[float]] = {"reference": (4, 2), "triton": (1, 1.5)}  # other back ends: a full line


@dataclass(frozen=True)
class Slope:
    """What one more iteration adds.

    Args:
        per_iteration: slope of the straight line over T, by least squares; NaN with fewer than two T.
        low, high: its 95 % interval by Student's t; NaN with fewer than three measurements.
        start: mean at the smallest T.
        n: measurements.
    """

    per_iteration: float
    low: float
    high: float
    start: float
    n: int


@dataclass(frozen=True)
class Costs:
    """What a suite measured.

    Args:
        table: one row per method, part, back end and batch, the columns of `_row`.
        noise: two measurements of one thing differ by less than this share in 95 of 100 cases; NaN if unknown.
        pairs: how many such pairs there are.
        absent: sentences on what could not be measured.
    """

    table: DataFrame
    noise: float
    pairs: int
    absent: tuple[str, ...]


def costs_of(runs: Runs) -> Costs:
    """Everything the table shows, from the rows of `load_results`."""
    results = _with_coordinates(runs)
    noise, pairs = noise_floor(results)
    times = results[results["metric"] == "training_time"]
    of_method = dict(iter(results.groupby(["label", "part", "backend"], sort=False)))
    floors = results[results["metric"] == "training_floor"]
    rows = [
        _row(of_method[own["label"].iloc[0], own["part"].iloc[0], own["backend"].iloc[0]], floors, own, noise)
        for _, own in times.groupby(KEYS, sort=False)
    ]
    table = DataFrame(rows)
    if not table.empty:
        order = {part: place for place, part in enumerate(parts_of(table))}
        table = table.assign(place=table["part"].map(order), control=table["role"] == "control")
        table = table.sort_values(["place", "batch", "control", "label", "backend"], kind="stable")
        table = table.drop(columns=["place", "control"]).reset_index(drop=True)
    return Costs(table, noise, pairs, tuple(_absent(results)))


def slope_over_iterations(iterations: ArrayLike, values: ArrayLike) -> Slope:
    """The straight line through values measured at several T, by ordinary least squares.

    Args:
        iterations: T of each measurement.
        values: measured.
    """
    x, y = np.asarray(iterations, dtype=float), np.asarray(values, dtype=float)
    if x.size == 0:
        return Slope(math.nan, math.nan, math.nan, math.nan, 0)
    start = float(y[x == x.min()].mean())
    if np.ptp(x) == 0:
        return Slope(math.nan, math.nan, math.nan, start, x.size)
    line = stats.linregress(x, y)
    slope, margin = float(line.slope), math.nan
    if x.size > 2:
        margin = float(line.stderr) * float(stats.t.ppf((1 + CONFIDENCE) / 2, x.size - 2))
    return Slope(slope, slope - margin, slope + margin, start, x.size)


def noise_floor(results: DataFrame) -> tuple[float, int]:
    """The share by which two measurements of one thing differ at most in 95 of 100 cases, and how many there are."""
    times = results[results["metric"].isin(["training_time", "inference_time"])]
    pairs = times.pivot_table(index=["cell", "metric", "part", "backend", "batch"], columns="repeat", values="value")
    if pairs.shape[1] < 2:
        return math.nan, 0
    ratios = np.log(pairs.iloc[:, 0].to_numpy(dtype=float) / pairs.iloc[:, 1].to_numpy(dtype=float))
    ratios = np.abs(ratios[np.isfinite(ratios)])
    return (float(np.expm1(np.quantile(ratios, COVERED))), ratios.size) if ratios.size else (math.nan, 0)


def points(runs: Runs, metric: str) -> DataFrame:
    """Means over seeds and repeats: columns of `KEYS`, role, iterations (0 where a method has none) and value."""
    results = _with_coordinates(runs)
    own = results[results["metric"] == metric]
    own = own.assign(iterations=own["iterations"].fillna(0).astype(int))
    return DataFrame(own.groupby([*KEYS, "role", "iterations"])["value"].mean()).reset_index()


def step_times(runs: Runs, part: str) -> DataFrame:
    """Milliseconds of one training step at the largest batch, per method and T on its fastest back end.

    Returns:
        columns `label, iterations, role, mean, low, high, n`: the mean over seeds, each the mean of its repeats, with
        its 95 % interval; `iterations` is missing where a method has none. Empty where the part was not measured.
    """
    times = _with_coordinates(runs)
    times = times[(times["metric"] == "training_time") & (times["part"] == part) & times["value"].notna()]
    times = times[times["batch"] == times["batch"].max()]
    rows = []
    for (label, iterations, role, _), own in times.groupby(["label", "iterations", "role", "backend"], dropna=False):
        found = mean_interval(own.groupby("seed")["value"].mean().to_numpy(dtype=float))
        row = {"label": label, "iterations": iterations, "role": role, "mean": found.mean, "low": found.low}
        rows.append(row | {"high": found.high, "n": found.n})
    if not rows:
        return DataFrame()
    return DataFrame(rows).sort_values("mean", kind="stable").drop_duplicates(["label", "iterations"])


def parts_of(table: DataFrame) -> list[str]:
    """The routed layers of the network first, then dense layers by size, then the whole network."""
    return sorted(set(table["part"]), key=lambda part: (part == "network", part != "layers", _size(part)))


def part_in_words(part: str) -> str:
    """`routed layers`, `one layer, 1,152 children`, `network`."""
    return {"layers": "routed layers", "network": "whole network"}.get(part, f"one layer, {_size(part):,} children")


def number(value: float, scale: float = math.nan) -> str:
    """Two significant digits, or as many decimals as those of `scale`; a dash for what is missing."""
    if math.isnan(value):
        return wording.NOTHING
    size = abs(value) if math.isnan(scale) else max(abs(value), abs(scale))
    decimals = min(3, max(0, 1 - math.floor(math.log10(size)))) if size > 0 else 0
    rounded = round(value, decimals)
    return f"{'−' if rounded < 0 else ''}{abs(rounded):,.{decimals}f}"


def with_interval(value: float, low: float, high: float) -> str:
    """`4.1 [3.9, 4.3]`, or the value alone."""
    if math.isnan(value) or math.isnan(low):
        return number(value)
    scale = (high - low) / 2
    return f"{number(value, scale)} [{number(low, value)}, {number(high, value)}]"


def noise_in_words(costs: Costs) -> str:
    """`noise floor 3 %`, or that none is known."""
    return "noise floor unknown" if math.isnan(costs.noise) else f"noise floor {100 * costs.noise:.2g} %"


LINE_COLUMNS = (
    Column("Method", "label", lambda row: str(row["label"]), numeric=False),
    Column("What", "part", lambda row: part_in_words(str(row["part"])), numeric=False),
    Column("Back end", "backend", lambda row: str(row["backend"]), numeric=False),
    Column("T", "iterations", lambda row: str(row["iterations"] or wording.NOTHING)),
)
"""Columns that name a line of a figure of `points`."""


def lines(table: DataFrame, runs: Runs, x: str, title: str, xlabel: str) -> Figure:
    """One panel per part: a line per method and back end over `x`; values are on a logarithmic axis.

    Args:
        table: as `points` gives it, with one value per method, part, back end and `x`.
        runs: for the colours.
        x: a column; 0 is for a method without iterations, which becomes a line across.
        title: of the values.
        xlabel: of the lowest panel.
    """
    parts, backends = parts_of(table), sorted(set(table["backend"]))
    with look():
        figure, grid = new_figure(0.9 + 2.3 * len(parts), rows=len(parts), sharex=True)
        for axes, part in zip(grid, parts, strict=True):
            _panel(axes, table[table["part"] == part], runs, x, backends)
            axes.set_title(f"{title}: {part_in_words(part)}")
        grid[-1].set_xlabel(xlabel)
        if len(backends) > 1:
            marks = [
                Line2D([], [], color=INK, linestyle=_style(name), marker=MARKERS[place], label=name)
                for place, name in enumerate(backends)
            ]
            figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, handlelength=3.5)
    return figure


def _panel(axes: Axes, table: DataFrame, runs: Runs, x: str, backends: Sequence[str]) -> None:
    axes.set_yscale("log")
    ends: dict[str, float] = {}
    places = sorted(set(table[x]) - {0}) or [1]
    for (label, backend), line in table.sort_values(x).groupby(["label", "backend"]):
        colour = runs.colours.get(str(label), MUTED)
        if set(line[x]) == {0}:
            axes.axhline(line["value"].iloc[0], color=colour, linewidth=1.4, linestyle=(0, (5, 3)))
        else:
            marker = MARKERS[backends.index(str(backend))]
            axes.plot(line[x], line["value"], color=colour, linestyle=_style(str(backend)), marker=marker, markersize=5)
        end = float(line["value"].iloc[-1])
        ends[str(label)] = min(end, ends.get(str(label), math.inf))
    if x == "batch":
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{place:,}" for place in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(places[0] / 1.2, places[-1] * 1.2)
        right = places[-1] * 1.2
    else:
        axes.set_xlim(places[0] - 0.3, places[-1] + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        right = places[-1] + 0.3
    low, high = float(table["value"].min()), float(table["value"].max())
    axes.set_ylim(low / 1.4, high * 1.4)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=False, axis="x")
    label_ends(axes, right, ends, runs.colours, gap=0.12)


def _style(backend: str) -> tuple[float, Sequence[float]]:
    return 0.0, DASHES.get(backend, ())


def _size(part: str) -> int:
    count = part.rpartition(" ")[2]
    return int(count) if count.isdigit() else 0


def _with_coordinates(runs: Runs) -> DataFrame:
    """The rows that have a value, with what this protocol adds to `COLUMNS`; "" or 0 where a metric has none."""
    results = runs.results.reindex(columns=[*COLUMNS, *WHERE])
    results = results[results["value"].notna()]
    filled = {name: results[name].astype(object).where(results[name].notna(), kind()) for name, kind in WHERE.items()}
    return results.assign(**{name: column.astype(WHERE[name]) for name, column in filled.items()})


def _row(results: DataFrame, floors: DataFrame, times: DataFrame, noise: float) -> dict[str, object]:
    """One row of the table.

    Args:
        results: of its method, part and back end.
        floors: least times of all of them.
        times: of its method, part, back end and batch.
        noise: the floor of it.
    """
    first = times.iloc[0]
    same_batch = results["batch"] == first["batch"]

    def measured(metric: str) -> tuple[IntArray, FloatArray]:
        own = results[same_batch & (results["metric"] == metric)]
        return own["iterations"].fillna(1).to_numpy(dtype=int), own["value"].to_numpy(dtype=float)

    training, inference = measured("training_time"), measured("inference_time")
    steps, memory = measured("training_memory")
    memories = steps, memory / MEGABYTE
    time, thought, room = (_routing_slope(*found) for found in (training, inference, memories))
    most = int(times["iterations"].fillna(0).max())
    rise = abs(time.per_iteration) * (most - (2 if most > 2 else 1))
    largest = results[(results["metric"] == "largest_batch") & (results["iterations"].fillna(0) == most)]
    tried = results[results["metric"] == "largest_batch_tried"]
    return {
        **{key: first[key] for key in KEYS},
        "role": first["role"],
        "most": most,
        "ms": _at_fewest(*training),
        "ms_extra": time.per_iteration,
        "ms_low": time.low,
        "ms_high": time.high,
        "n": time.n,
        "beyond_noise": bool(rise > noise * time.start and (time.low > 0 or time.high < 0)),
        "inference_ms": _at_fewest(*inference),
        "inference_ms_extra": thought.per_iteration,
        "inference_ms_low": thought.low,
        "inference_ms_high": thought.high,
        "mb": _at_fewest(*memories),
        "mb_extra": room.per_iteration,
        "mb_low": room.low,
        "mb_high": room.high,
        "distance": _distance(floors, times[times["iterations"].fillna(0) == most]),
        "largest_batch": float(largest["value"].min()) if len(largest) else math.nan,
        "searched_to": float(tried["value"].max()) if len(tried) else math.nan,
        "budget_mb": float(largest["budget_mb"].iloc[0]) if len(largest) else math.nan,
    }


def _routing_slope(iterations: IntArray, values: FloatArray) -> Slope:
    """The slope from T = 2 on, where there are two such T: equal coupling, in the first iteration, needs no votes."""
    later = iterations >= 2
    if len(set(iterations[later].tolist())) >= 2:
        return slope_over_iterations(iterations[later], values[later])
    return slope_over_iterations(iterations, values)


def _at_fewest(iterations: IntArray, values: FloatArray) -> float:
    return float(values[iterations == iterations.min()].mean()) if values.size else math.nan


def _distance(floors: DataFrame, times: DataFrame) -> float:
    """How many times as long training took as the machine would need at least, at the most iterations."""
    floors = floors[
        floors["cell"].isin(set(times["cell"]))
        & (floors["part"] == times["part"].iloc[0])
        & (floors["batch"] == times["batch"].iloc[0])
    ]
    # The fastest machine seen: what else ran while one cell measured it must not make routing look good.
    return float(times["value"].mean() / floors["value"].min()) if len(floors) else math.nan


def _absent(results: DataFrame) -> list[str]:
    rows = results[results["metric"] == "absent"]
    sentences = []
    for (backend, why), own in rows.groupby(["backend", "why"], sort=True):
        who = wording.listed(sorted(set(own["label"].astype(str))), 8)
        sentences.append(f"Not measured, {backend} for {who}: {str(why).rstrip('.')}.")
    return sentences
