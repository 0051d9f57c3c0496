"""What a results folder says of a published number, matched by identifiers, and whether it reproduces it.

The rules:

- reproduced: measured under the same conditions (data set, network, method with its settings, T, and the suite and
  preset that train as the paper did), and the published value lies within our 95 % interval over seeds, widened by half
  a unit of its last printed digit and by the published uncertainty, where that is a standard deviation or an interval.
- not: measured under the same conditions, and outside.
- partly: measured with the same data set, method, settings and T, but by another suite or preset, or on another network
  where the row is the plain form of its method; and the comparison with the row's rival, measured beside it, comes out
  the same way (paired over seeds, p below 0.05).
- undecided: measured, but with one seed, or elsewhere with a comparison that is not shown.
- not run: anything else.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas import DataFrame

from routebench import published, statistics
from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis._table import Row
from routebench.catalogue import Catalogue, catalogue
from routebench.units import whole_of

REPRODUCED, PARTLY, NOT, UNDECIDED, NOT_RUN = "reproduced", "partly", "not", "undecided", "not run"
VERDICTS = (REPRODUCED, PARTLY, NOT, UNDECIDED, NOT_RUN)
ALPHA = 0.05
BEST_OF = "best of "
"""Begins the T of a published number that is the best of several."""
NO_MEASURE = "nothing here measures this"


@dataclass(frozen=True)
class Answer:
    """What one part of a folder measured of a published number, in the number's own unit.

    Args:
        runs: the part.
        model: network.
        values: by seed.
        same: whether network, suite and preset are the paper's conditions too.
        cells: by seed.
        whole: all of it, where the number is a share.
    """

    runs: Runs
    model: str
    values: Mapping[int, float]
    same: bool
    cells: Mapping[int, str]
    whole: float | None = None

    @property
    def interval(self) -> statistics.Interval:
        """Over seeds."""
        return statistics.mean_interval([self.values[seed] for seed in sorted(self.values)], whole=self.whole)

    @property
    def where(self) -> str:
        """Suite, preset, data set and network."""
        return f"{self.runs.suite} {self.runs.preset}, {self.runs.data}, {self.model}"


def beside(parts: Sequence[Runs]) -> DataFrame:
    """One row per row of `published.csv`, in its order: the published number, ours, the gap, verdict and reason."""
    table = published.load_published()
    known = {str(row["id"]): row for row in table.to_dict("records")}
    listed = catalogue(kinds=("models", "data"))
    return DataFrame([_row(row, known, parts, listed) for row in known.values()]).astype({"iterations": "Int64"})


def answers(row: Row, parts: Sequence[Runs]) -> Iterator[Answer]:
    """What the parts measured of a published number; the number's own conditions first, then the newest plan."""
    found = [answer for runs in parts for answer in _in_part(row, runs, row["cell_data"] or row["data"])]
    yield from sorted(found, key=lambda answer: not answer.same)


def _row(row: Row, known: Mapping[str, Row], parts: Sequence[Runs], listed: Catalogue) -> dict[str, object]:
    answer = next(iter(answers(row, parts)), None)
    verdict, reason = _verdict(row, known, parts, answer)
    found = answer.interval if answer else statistics.mean_interval([])
    counted = _registered(row, listed) if answer is None or not answer.same else _parameters(answer)
    printed = published.agrees(int(counted), row["params"]) if not math.isnan(counted) else None
    kept = ("id", "source", "where", "dataset", "method", "printed_method", "iterations", "metric", "unit", "value")
    return {
        **{key: row[key] for key in kept},
        "uncertainty": row["uncertainty"],
        "relation": row["relation"],
        "measured": found.mean,
        "low": found.low,
        "high": found.high,
        "seeds": found.n,
        "gap": found.mean - row["value"],
        "verdict": verdict,
        "reason": reason,
        "on": answer.where if answer else "",
        "printed_parameters": row["params"],
        "counted_parameters": counted,
        "parameters_agree": "" if printed is None else "yes" if printed else "no",
    }


def _in_part(row: Row, runs: Runs, data: str) -> Iterator[Answer]:
    if not row["measured"] or not row["method"] or runs.data != data:
        return
    cells = runs.planned[(runs.planned["label"] == _label(row)) & (runs.planned["status"] == "ok")]
    if cells.empty:
        return
    of_cells = runs.results[runs.results["cell"].isin(cells["cell"])]
    known = [metric for metric in str(row["measured"]).split("|") if (of_cells["metric"] == metric).any()]
    if not known:
        return
    results = _at(of_cells[of_cells["metric"] == known[0]], row)
    for model, of_model in cells.groupby("model", sort=False):
        here = results[results["cell"].isin(of_model["cell"]) & results["value"].notna()].drop_duplicates("cell")
        own = _with_iterations(of_model, row, here)
        by_cell = dict(zip(here["cell"], here["value"], strict=True))
        done = own[own["cell"].isin(here["cell"])]
        named = row["model"] == model
        if done.empty or not (named or row["any_network"]):
            continue
        as_published = known[0] == str(row["measured"]).partition("|")[0]
        here_too = row["suite"] and (row["suite"], row["preset"]) == (runs.suite, runs.preset)
        same = bool(named and as_published and here_too)
        unit = str(here["unit"].iloc[0])
        yield Answer(
            runs=runs,
            model=str(model),
            values={
                int(seed): _in_unit(float(by_cell[cell]), unit, row)
                for seed, cell in zip(done["seed"], done["cell"], strict=True)
            },
            same=same,
            cells={int(seed): str(cell) for seed, cell in zip(done["seed"], done["cell"], strict=True)},
            whole=_whole(known[0], unit, row),
        )


def _label(row: Row) -> str:
    """`em[final_lambda=0.1] (margin loss)` for the settings `final_lambda=0.1; margin loss`."""
    parts = [part for part in str(row["settings"]).split("; ") if part]
    words = [part for part in parts if "=" not in part]
    settings = [part for part in parts if "=" in part]
    label = f"{row['method']}[{settings[0]}]" if settings else str(row["method"])
    return f"{label} ({words[0]})" if words else label


def _with_iterations(cells: DataFrame, row: Row, results: DataFrame) -> DataFrame:
    """The cells with the T of a published number, which is in `at` where the paper leaves it to be read.

    `best of 1,2,3` there is the T of those with the highest value, seed by seed, for a paper that reports the best of
    several; without a result for each of them there is none.
    """
    stated = dict(coordinate.split("=", 1) for coordinate in str(row["at"]).split(";") if "=" in coordinate)
    wanted = stated.get("iterations", "")
    if not wanted:
        return cells[_equal(cells["iterations"], row["iterations"])]
    if not wanted.startswith(BEST_OF):
        return cells[_equal(cells["iterations"], int(wanted))]
    grid = {int(steps) for steps in wanted.removeprefix(BEST_OF).split(",")}
    values = cells.assign(value=cells["cell"].map(dict(zip(results["cell"], results["value"], strict=True))))
    values = values[values["iterations"].isin(grid) & values["value"].notna()]
    whole = values.groupby("seed")["iterations"].transform("nunique") == len(grid)
    return values[whole].sort_values("value", ascending=False).drop_duplicates("seed").sort_values("seed")


def _equal(column: "pd.Series[int]", wanted: object) -> "pd.Series[bool]":
    if pd.isna(wanted):  # type: ignore[call-overload]
        return column.isna()
    return (column == wanted).fillna(False).astype(bool)


def _at(results: DataFrame, row: Row) -> DataFrame:
    """The rows at the coordinates of a published number, and at the T trained with."""
    for coordinate in filter(None, str(row["at"]).split(";")):
        column, _, wanted = coordinate.partition("=")
        if column == "iterations":
            continue  # of the cell
        if column not in results:
            return results.head(0)
        results = results[results[column].map(_plain) == wanted]
    own = _equal_or_missing(results["test_iterations"], results["iterations"])
    return results[own]


def _equal_or_missing(tested: "pd.Series[int]", trained: "pd.Series[int]") -> "pd.Series[bool]":
    return (tested == trained).fillna(False).astype(bool) | tested.isna()


def _plain(value: object) -> str:
    """`45` for 45.0, as it stands in the table."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _whole(metric: str, unit: str, row: Row) -> float | None:
    """All of a share as the paper prints it; None for what is no share."""
    found = whole_of(metric, unit)
    return None if found is None else abs(_in_unit(found, unit, row) - _in_unit(0.0, unit, row))


def _in_unit(value: float, unit: str, row: Row) -> float:
    """A measured value as the paper prints it: an error for an accuracy, a fraction for a percentage."""
    if unit == "%" and row["unit"] == "fraction":
        value /= 100
    return 100 - value if row["metric"] == "test error" else value


def _verdict(row: Row, known: Mapping[str, Row], parts: Sequence[Runs], answer: Answer | None) -> tuple[str, str]:
    if answer is None:
        return NOT_RUN, _why_not_run(row, parts)
    if answer.same:
        return _reproduced(row, answer)
    return _elsewhere(row, known.get(row["rival"]), answer)


def _elsewhere(row: Row, rival: Row | None, answer: Answer) -> tuple[str, str]:
    """Only the direction of the comparison with the paper's rival can be looked at."""
    if rival is None:
        return UNDECIDED, f"measured elsewhere ({answer.where}), and the paper compares it with no other row"
    other = next((found for found in answers(rival, [answer.runs]) if found.model == answer.model), None)
    if other is None:
        return UNDECIDED, f"measured elsewhere ({answer.where}), without its rival {rival['id']}"
    found = statistics.paired_difference(answer.values, other.values)
    if not found.p_value < ALPHA:
        return UNDECIDED, f"measured elsewhere ({answer.where}); a difference from {rival['id']} is not shown there"
    if (found.mean > 0) == (row["value"] > rival["value"]):
        return PARTLY, f"elsewhere ({answer.where}), the comparison with {rival['id']} comes out the same way"
    return UNDECIDED, f"elsewhere ({answer.where}), the comparison with {rival['id']} comes out the other way"


def _reproduced(row: Row, answer: Answer) -> tuple[str, str]:
    found = answer.interval
    if math.isnan(found.low) or found.kind not in (statistics.OVER_SEEDS, statistics.OVER_SEEDS_LOGIT):
        return UNDECIDED, f"{wording.plural(found.n, 'seed')}: no interval over seeds"
    margin = float(row["rounding"]) + (0.0 if math.isnan(row["uncertainty"]) else float(row["uncertainty"]))
    low, high, value = found.low - margin, found.high + margin, float(row["value"])
    inside = {"at least": high >= value, "at most": low <= value}.get(row["relation"], low <= value <= high)
    if row["relation"] in ("at least", "at most") and inside and low < value < high:
        return UNDECIDED, "the interval reaches over the published bound"
    if inside:
        return REPRODUCED, f"within the interval of {wording.plural(found.n, 'seed')}, same conditions"
    return NOT, f"outside the interval of {wording.plural(found.n, 'seed')}, same conditions"


def _why_not_run(row: Row, parts: Sequence[Runs]) -> str:
    if not row["measured"]:
        return NO_MEASURE
    data = row["cell_data"] or row["data"]
    subsets = [answer for runs in parts for answer in _in_part({**row, "any_network": "yes"}, runs, f"{data}5k")]
    if data and subsets:
        return f"measured on {data}5k by the {subsets[0].runs.preset} preset: another task"
    if row["suite"]:
        return f"run the suite {row['suite']} with the {row['preset']} preset"
    if not row["model"] and not row["any_network"]:
        return "routebench has no name for this network"
    return "not in this folder"


def _registered(row: Row, listed: Catalogue) -> float:
    """Of the network of that name, for images and classes of that data set; NaN where nothing of the kind is known."""
    if not (row["model"] and row["params"]):
        return math.nan
    models, sets = ({entry["name"]: entry for entry in listed[kind]} for kind in ("models", "data"))
    facts, task = models.get(row["model"], {}), sets.get(row["data"], {})
    counted_for = facts.get("counted_for", {})
    same = all(task.get(key) is not None and task.get(key) == counted_for.get(key) for key in ("shape", "classes"))
    return float(facts["parameters"]) if same and facts["parameters"] else math.nan


def _parameters(answer: Answer) -> float:
    """As counted in the networks themselves; NaN where the suite does not say."""
    own = answer.runs.results
    own = own[own["cell"].isin(list(answer.cells.values())) & (own["metric"] == "parameters") & own["value"].notna()]
    counts = np.unique(own["value"].to_numpy(dtype=float))
    return float(counts[0]) if counts.size == 1 else math.nan
