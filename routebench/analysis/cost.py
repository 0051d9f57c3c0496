"""Cost of iterations: straight lines over T, the noise floor, and the distance to the machine's limit.

The table, the figures and the headline of the suite `cost` use these numbers, so that they cannot disagree.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame, Series
from scipy import stats

from routebench.analysis import Column, Estimate, Method, Runs, best_first, figures, wording
from routebench.analysis.palette import GRID, INK
from routebench.statistics import CONFIDENCE

Points = tuple[NDArray[np.int_], NDArray[np.float64]]  # T, and what was measured with it
XLABELS = {"batch": "images in a batch", "iterations": "iterations T"}
MEGABYTE = 1 << 20
WHOLE = "network"
"""The part that is a whole network, with its loss."""
COVERED = 0.95  # of pairs of measurements of one thing lie closer together than the noise floor
COLUMNS = ("cell", "iterations", "seed", "metric", "value")
WHERE: dict[str, type] = {"part": str, "backend": str, "batch": int, "repeat": int, "budget_mb": int, "why": str}
DASHES: dict[str, Sequence[float]] = {"reference": (4, 2), "triton": (1, 1.5)}  # other back ends: a full line


@dataclass(frozen=True)
class Costs:
    """Costs measured by a suite.

    Args:
        table: one row per method, part, back end and batch, the columns of `_row`.
        noise: 95 % of repeated measurements differ by less than this share; NaN if unknown.
        pairs: number of such pairs.
        absent: sentences on failed measurements, and on those of another machine.
    """

    table: DataFrame
    noise: float
    pairs: int
    absent: tuple[str, ...]


def costs_of(runs: Runs) -> Costs:
    """The numbers of the table; its `method` has no T, because a row covers all T."""
    every = _with_coordinates(runs)
    noise, pairs = noise_floor(every)
    results = every[~_by_size(every)]
    times = results[results["metric"] == "training_time"]
    floors = results[results["metric"] == "training_floor"]
    places = {part: place for place, part in enumerate(parts_of(times))}
    rows = []
    for _, of_one in results.groupby(["method", "part", "backend"]):
        for _, own in of_one[of_one["metric"] == "training_time"].groupby("batch"):
            rows.append(_row(of_one, floors, own, noise))
    rows.sort(key=lambda row: (places[row["part"]], row["batch"], row["method"].is_control))
    return Costs(DataFrame(rows), noise, pairs, (*_absent(every), *measured_elsewhere(runs)))


def measured_elsewhere(runs: Runs) -> tuple[str, ...]:
    """A sentence on runs whose costs are left out, as they are of another machine than most; none without any."""
    if not (runs.results["metric"] == "training_time").any():
        return ()
    most = _machine_of_most(runs)
    others = {cell: machine for cell, machine in runs.machines.items() if machine != most}
    if not others:
        return ()
    methods = wording.listed(sorted({runs.methods[cell].family for cell in others}), 8)
    where = wording.listed(sorted({*others.values()}), 4)
    told = f"Left out are {wording.plural(len(others), 'run')} of {methods} on {where}"
    why = "times of several machines compare machines, and not methods"
    return (f"Costs are those of runs on {most}. {told}: {why}.",)


def machines_told(runs: Runs) -> tuple[str, ...]:
    """A sentence on the machines of runs whose seconds of training are compared; none for one machine."""
    machines = sorted({*runs.machines.values()})
    if len(machines) < 2:
        return ()
    where = f"Fits ran on {len(machines)} machines ({wording.listed(machines, 4)})"
    return (f"{where}: where two methods ran on different ones, their seconds compare machines, too.",)


def _machine_of_most(runs: Runs) -> str:
    """The machine that most runs were on; empty where none is known."""
    counts = Counter(runs.machines.values())
    return max(sorted(counts), key=lambda machine: counts[machine], default="")


def slope_over_iterations(iterations: ArrayLike, values: ArrayLike) -> Estimate:
    """Cost of one more iteration: the least-squares slope over T, with its 95 % t interval.

    Args:
        iterations: T of each run; with fewer than two different ones there is no slope.
        values: measured, one for each run; with fewer than three there is no interval.
    """
    x, y = np.asarray(iterations, dtype=float), np.asarray(values, dtype=float)
    if x.size == 0 or np.ptp(x) == 0:
        return Estimate(n=x.size)
    line = stats.linregress(x, y)
    slope, margin = float(line.slope), math.nan
    if x.size > 2:
        margin = float(line.stderr) * float(stats.t.ppf((1 + CONFIDENCE) / 2, x.size - 2))
    return Estimate(slope, slope - margin, slope + margin, x.size)


def noise_floor(results: DataFrame) -> tuple[float, int]:
    """The share below which 95 % of repeated measurements differ, and the number of pairs."""
    times = results[results["metric"].isin(["training_time", "inference_time"])]
    pairs = times.pivot_table(index=["cell", "metric", "part", "backend", "batch"], columns="repeat", values="value")
    if pairs.shape[1] < 2:
        return math.nan, 0
    ratios = np.log(pairs.iloc[:, 0].to_numpy(dtype=float) / pairs.iloc[:, 1].to_numpy(dtype=float))
    ratios = np.abs(ratios[np.isfinite(ratios)])
    return (float(np.expm1(np.quantile(ratios, COVERED))), ratios.size) if ratios.size else (math.nan, 0)


def points(runs: Runs, metric: str) -> DataFrame:
    """Means over seeds and repeats, of all parts but layers by tokens and parents.

    Args:
        runs: runs of the suite `cost`.
        metric: a value of the column `metric`, such as `training_time`.

    Returns:
        columns `method`, without T, `part, backend, batch, iterations`, 0 for a method without, and `value`.
    """
    results = _with_coordinates(runs)
    return _means(results[~_by_size(results)], metric)


def layers_by_size(runs: Runs) -> DataFrame:
    """Layers that were measured by tokens and parents: at the largest batch and T of each method, its fastest back end.

    Returns:
        columns `method`, without T, `iterations`, 0 for a method without, `tokens, parents, batch`, milliseconds of
        training in `ms`, the least that they can be in `floor`, their ratio in `distance`, and megabytes in `mb`.
    """
    every = _with_coordinates(runs)
    results = every[_by_size(every)]
    times = _means(results, "training_time")
    if times.empty:
        return times
    most = times.groupby("method")["iterations"].transform("max")
    times = times[(times["iterations"] == most) & (times["batch"] == times["batch"].max())]
    times = times.sort_values("value", kind="stable").drop_duplicates(["method", "part"])
    keys = ["method", "part", "backend", "batch", "iterations"]
    memory = _means(results, "training_memory").set_index(keys)["value"].rename("mb") / MEGABYTE
    of_one = ["method", "part", "batch", "iterations"]
    least = results[results["metric"] == "training_floor"]
    least = least.assign(iterations=least["iterations"].fillna(0).astype(int))
    floors = least.groupby(of_one)["value"].min().rename("floor")
    table = times.rename(columns={"value": "ms"}).join(memory, on=keys).join(floors, on=of_one)
    sizes = DataFrame([size_of_layer(part) for part in table["part"]], index=table.index, columns=["tokens", "parents"])
    table = table.join(sizes).assign(distance=table["ms"] / table["floor"])
    slowest = table.groupby("method")["ms"].transform("max")
    order = table.assign(slowest=slowest).sort_values(["slowest", "parents", "tokens"]).index
    return DataFrame(table.loc[order]).reset_index(drop=True)


def largest_layers(runs: Runs) -> DataFrame:
    """The rows of `layers_by_size` with the most parents, and of these with the most tokens; one `part` in all."""
    table = layers_by_size(runs)
    for size in ("parents", "tokens") if len(table) else ():
        table = table[table[size] == table[size].max()]
    return table


def _by_size(results: DataFrame) -> "Series[bool]":
    return results["part"].map(lambda part: size_of_layer(part) is not None).astype(bool)


def _means(results: DataFrame, metric: str) -> DataFrame:
    own = results[results["metric"] == metric]
    own = own.assign(iterations=own["iterations"].fillna(0).astype(int))
    return DataFrame(own.groupby(["method", "part", "backend", "batch", "iterations"])["value"].mean()).reset_index()


def step_costs(runs: Runs, part: str, metric: str = "training_time") -> tuple[DataFrame, float]:
    """The cost of one step at the largest batch, per method and T on the back end that costs least.

    Args:
        runs: runs of the suite `cost`.
        part: a part, as `part_in_words` names them.
        metric: `training_time` or `inference_time`, ms, or `training_memory`, MB.

    Returns:
        columns `method` and `mean`, the least of all measurements of all seeds, as other work makes a step longer and
        never shorter; the least first. Empty where the part was not measured. Then the noise of such a number: the
        share by which the least of a half of them, one of each pair, differs from that of the other in 95 of 100 cases;
        NaN if unknown.
    """
    times = _with_coordinates(runs)
    times = times[(times["metric"] == metric) & (times["part"] == part)]
    times = times[times["batch"] == times["batch"].max()]
    groups = times.groupby([times["cell"].map(runs.methods), "backend"])
    rows = [
        {"method": method, "mean": Estimate(float(own["value"].min()), n=own["seed"].nunique())}
        for (method, _), own in groups
    ]
    halves = [own.groupby("repeat")["value"].min().to_numpy(dtype=float) for _, own in groups]
    ratios = [abs(math.log(half[0] / half[1])) for half in halves if len(half) == 2 and (half > 0).all()]
    noise = float(np.expm1(np.quantile(ratios, COVERED))) if ratios else math.nan
    found = best_first(DataFrame(rows), "mean", ascending=True).drop_duplicates("method") if rows else DataFrame()
    return found, noise


def parts_of(table: DataFrame) -> list[str]:
    """The routed layers of the network first, then single layers by size, then the whole network."""
    return sorted(set(table["part"]), key=lambda part: (part == "network", part != "layers", _size(part)))


def part_in_words(part: str) -> str:
    """`routed layers`, `one layer, 1,152 children`, `one layer, 196 tokens, 1,000 parents`, `network`."""
    if (size := size_of_layer(part)) is not None:
        return f"one layer, {size[0]:,} tokens, {size[1]:,} parents"
    known = {"layers": "routed layers", "network": "whole network"}
    return known[part] if part in known else f"one layer, {_size(part)[0]:,} children"


def size_of_layer(part: str) -> tuple[int, int] | None:
    """Tokens and parents of a layer that was measured by them; None for another part."""
    size = _size(part)
    return (size[0], size[1]) if len(size) == 2 else None


def noise_in_words(costs: Costs) -> str:
    """`single times closer than 3 % are noise`, or that nothing is known of that."""
    return of_noise("single", costs.noise) or "how far single times differ is unknown"


def of_noise(which: str, noise: float) -> str:
    """`shortest times closer than 6.5 % are noise`: each noise says of which times it is; empty where none is known.

    Args:
        which: times of one thing are meant, `single` ones or the `shortest` of all.
        noise: a share.
    """
    return "" if math.isnan(noise) else f"{which} times closer than {100 * noise:.2g} % are noise"


LINE_COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("What", "part", lambda row: part_in_words(row["part"]), numeric=False),
    Column("Back end", "backend", numeric=False),
    Column("T", "iterations", lambda row: str(row["iterations"] or wording.NOTHING)),
)
"""Columns that name a line of a figure of `points`."""


def lines(table: DataFrame, runs: Runs, x: str, title: str) -> Figure:
    """A panel per part and routing method: its line over `x` with each back end, and in grey those of all others.

    Args:
        table: as `points` gives it, with one value per method, part, back end and `x`.
        runs: for the colours.
        x: a column of `XLABELS`; 0 is for a method without iterations, which becomes a line across.
        title: the title of the values, which are on a logarithmic axis.
    """
    methods = sorted(set(table["method"]))
    subjects = [method for method in methods if not method.is_control] or methods
    across = min(figures.ACROSS, len(subjects))
    rows = len(parts_of(table)) * -(-len(subjects) // across)
    size: dict[str, Any] = {"height": 1.0 + 1.5 * rows, "rows": rows, "columns": across, "sharex": True}
    draw = partial(_panels, x=x, title=title, subjects=subjects)
    return figures.figure_of(draw, table, runs, **size)


def _panels(
    grid: Sequence[Axes], table: DataFrame, runs: Runs, *, x: str, title: str, subjects: Sequence[Method]
) -> None:
    parts, backends = parts_of(table), sorted(set(table["backend"]))
    of_part = len(grid) // len(parts)
    for number, part in enumerate(parts):
        panels, own = grid[number * of_part : (number + 1) * of_part], table[table["part"] == part]
        for axes, method in zip(panels, subjects, strict=False):
            axes.sharey(panels[0])
            _panel(axes, own, runs, x, method)
            axes.label_outer()
        for empty in panels[len(subjects) :]:
            empty.set_axis_off()
        panels[0].set_ylabel("\n".join(wrap(f"{title}: {part_in_words(part)}", 20)), fontsize=9)
    for axes in grid[-min(figures.ACROSS, len(subjects)) :]:
        axes.set_xlabel(XLABELS[x], fontsize=9)
    marks = [
        Line2D([], [], color=INK, linestyle=_style(name), marker=figures.MARKERS[place], label=name)
        for place, name in enumerate(backends)
    ]
    marks.append(Line2D([], [], color=GRID, label="other methods"))
    grid[0].figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, handlelength=3)


def _panel(axes: Axes, table: DataFrame, runs: Runs, x: str, method: Method) -> None:
    axes.set_yscale("log")
    own, backends = table["method"] == method, sorted(set(table["backend"]))
    for rows in (table[~own], table[own]):
        for (one, backend), line in rows.sort_values(x, kind="stable").groupby(["method", "backend"]):
            style: dict[str, Any] = {"color": GRID, "linewidth": 1}
            if one == method:
                style = {"color": runs.colour(method), "linestyle": _style(str(backend))}
            if set(line[x]) == {0}:
                axes.axhline(line["value"].iloc[0], **style)
            else:
                marker = figures.MARKERS[backends.index(str(backend))] if one == method else ""
                axes.plot(line[x], line["value"], marker=marker, markersize=4, **style)
    _limits(axes, sorted(set(table[x]) - {0}) or [1], logarithmic=x == "batch")
    axes.set_ylim(float(table["value"].min()) / 1.4, float(table["value"].max()) * 1.4)
    figures.plain_log(axes.yaxis)
    axes.grid(visible=False, axis="x")
    figures.title_panel(axes, method, runs.colour)


def _limits(axes: Axes, places: Sequence[int], *, logarithmic: bool) -> None:
    """Sets the x axis."""
    if not logarithmic:
        axes.set_xlim(places[0] - 0.3, places[-1] + 0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(places[0] / 1.2, places[-1] * 1.2)


def _style(backend: str) -> tuple[float, Sequence[float]]:
    return 0.0, DASHES.get(backend, ())


def _size(part: str) -> tuple[int, ...]:
    return tuple(int(count) for count in part.split()[1:])


def _with_coordinates(runs: Runs) -> DataFrame:
    """The rows that have a value, with what this protocol adds to `COLUMNS`, "" or 0 where a metric has none.

    `method` is without T. Rows of another machine than that of most runs are left out, see `measured_elsewhere`.
    """
    results = runs.results.reindex(columns=[*COLUMNS, *WHERE])
    most = _machine_of_most(runs)
    elsewhere = {cell for cell, machine in runs.machines.items() if machine != most}
    results = results[results["value"].notna() & ~results["cell"].isin(elsewhere)]
    filled = {name: results[name].astype(object).where(results[name].notna(), kind()) for name, kind in WHERE.items()}
    methods = {cell: method.family for cell, method in runs.methods.items()}
    coordinates = {name: column.astype(WHERE[name]) for name, column in filled.items()}
    return results.assign(**coordinates, method=results["cell"].map(methods).astype(object))


def _row(results: DataFrame, floors: DataFrame, times: DataFrame, noise: float) -> dict[str, Any]:
    """One row of the table.

    Args:
        results: the rows of its method, part and back end.
        floors: least times of all of them.
        times: the rows of its method, part, back end and batch.
        noise: the noise floor.
    """
    same_batch = results["batch"] == times["batch"].iloc[0]

    def measured(metric: str) -> Points:
        own = results[same_batch & (results["metric"] == metric)].fillna({"iterations": 1})
        by_run = own.groupby("cell", sort=False)  # whose repeats share a process: they are no two measurements
        return by_run["iterations"].first().to_numpy(dtype=int), by_run["value"].mean().to_numpy(dtype=float)

    training, inference = measured("training_time"), measured("inference_time")
    steps, memory = measured("training_memory")
    routing = _where_routing(training)
    time = slope_over_iterations(*routing)
    most = int(times["iterations"].fillna(0).max())
    rise = abs(time.mean) * (most - (2 if most > 2 else 1))
    largest = results[(results["metric"] == "largest_batch") & (results["iterations"].fillna(0) == most)]
    return {
        **times.iloc[0][["method", "part", "backend", "batch"]],
        "most": most,
        "ms": _at_fewest(training),
        "ms_extra": time,
        "beyond_noise": rise > noise * _at_fewest(routing) and not time.low <= 0 <= time.high,
        "inference_ms": _at_fewest(inference),
        "inference_ms_extra": slope_over_iterations(*_where_routing(inference)),
        "mb": _at_fewest((steps, memory / MEGABYTE)),
        "mb_extra": slope_over_iterations(*_where_routing((steps, memory / MEGABYTE))),
        "distance": _distance(floors, times[times["iterations"].fillna(0) == most]),
        "largest_batch": float(largest["value"].min()),
        "searched_to": float(results.loc[results["metric"] == "largest_batch_tried", "value"].max()),
        "budget_mb": float(largest["budget_mb"].max()),
    }


def _where_routing(measured: Points) -> Points:
    """Those from T = 2 on, where there are two such T: the uniform coupling of the first iteration needs no votes."""
    iterations, values = measured
    later = iterations >= 2
    return (iterations[later], values[later]) if len({*iterations[later].tolist()}) >= 2 else measured


def _at_fewest(measured: Points) -> float:
    iterations, values = measured
    return float(values[iterations == iterations.min()].mean()) if values.size else math.nan


def _distance(floors: DataFrame, times: DataFrame) -> float:
    """Time of training over the machine's lower bound, at the most iterations."""
    floors = floors[
        floors["cell"].isin(set(times["cell"]))
        & (floors["part"] == times["part"].iloc[0])
        & (floors["batch"] == times["batch"].iloc[0])
    ]
    # The fastest machine seen: what else ran while one run measured it must not make routing look good.
    return float(times["value"].mean() / floors["value"].min()) if len(floors) else math.nan


def _absent(results: DataFrame) -> list[str]:
    return [
        f"Not measured, {backend} for {wording.listed(sorted({*own['method']}), 8)}: {str(why).rstrip('.')}."
        for (backend, why), own in results[results["metric"] == "absent"].groupby(["backend", "why"])
    ]
