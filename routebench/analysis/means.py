"""The mean of one metric over seeds, for every method and whatever else tells rows apart."""

import math
from collections.abc import Iterable, Mapping

from pandas import DataFrame

from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.statistics import mean_interval
from routebench.units import whole_of

KEYS = ["label", "iterations", "role"]


def means_of(
    runs: Runs, metric: str, by: Iterable[str] = (), where: Mapping[str, object] | None = None, scale: float = 1.0
) -> DataFrame:
    """One row per method, T and value of the columns in `by`.

    Args:
        runs: of a suite.
        metric: a value of the column `metric`.
        by: further columns that tell rows apart, such as `test_iterations`.
        where: columns and the value that they must have.
        scale: the numbers are multiplied by it.

    Returns:
        columns `name, label, iterations, role`, those of `by`, and `mean, low, high, interval, n`: the mean over
        seeds with its 95 % interval. Empty where nothing was measured.
    """
    results, keys = runs.results, [*KEYS, *by]
    chosen = (results["metric"] == metric) & results["value"].notna()
    for column, value in (where or {}).items():
        if column not in results:
            return _empty(by)
        chosen &= (results[column] == value).fillna(False).astype(bool)
    if not chosen.any():
        return _empty(by)
    # Only the columns that are used: a folder has dozens, and taking rows of all of them is most of the time.
    found = results.loc[chosen, list(dict.fromkeys(["cell", "label", "iterations", *by, "seed", "value"]))]
    found = found.assign(role=found["cell"].map(runs.planned.set_index("cell")["role"])).sort_values("seed")
    all_of_it = whole_of(metric, str(results.loc[chosen, "unit"].iloc[0]))
    whole = None if all_of_it is None else scale * all_of_it
    rows = []
    for values, group in found.groupby(keys, dropna=False, sort=True):
        interval = mean_interval(scale * group["value"].to_numpy(dtype=float), whole=whole)
        row = dict(zip(keys, values, strict=True))
        row |= {
            "name": wording.name_of(str(row["label"]), row["iterations"]),
            "mean": interval.mean,
            "low": interval.low,
            "high": interval.high,
        }
        rows.append(row | {"interval": interval.kind, "n": interval.n})
    return DataFrame(rows)[["name", *keys, "mean", "low", "high", "interval", "n"]]


def value_with_interval(mean: float, low: float, high: float, digits: int = 3) -> str:
    """`0.412 ± 0.020`, `0.912 [0.402, 0.993]` where it is not symmetric, the mean alone, or a dash without a mean."""
    if math.isnan(mean):
        return wording.NOTHING
    if math.isnan(low) or low == high:
        return f"{mean:.{digits}f}"
    if not math.isclose(high - mean, mean - low, rel_tol=1e-6):
        return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{mean:.{digits}f} ± {(high - low) / 2:.{digits}f}"


def _empty(by: Iterable[str]) -> DataFrame:
    return DataFrame(columns=["name", *KEYS, *by, "mean", "low", "high", "interval", "n"])
