"""Compares published numbers with a results folder: matches them by identifiers, and says which are reproduced.

The rules:

- reproduced: measured under the same conditions (data set, network, method with its settings, T, and the suite and
  preset that train as the paper did), and the published value lies where 95 of 100 such values would, if the paper's
  runs were like ours. `statistic` in `published.csv` says what the value is: one run, a mean or the best of some. The
  interval is a prediction from our seeds, and from the paper's standard deviation where it prints one, widened by half
  a unit of the last printed digit. It may reach 3 points to either side, or a tenth of the number where it is no share.
- not: measured under the same conditions, and outside. One in twenty is so by chance.
- partly: measured with the same data set, method, settings and T, but by another suite or preset, with training other
  than in the suite's file, or on another network where the row is the plain form of its method; and the comparison with
  the row's rival, measured beside it on the same network or on the paper's, comes out the same way (paired over seeds,
  p below 0.05).
- undecided: measured, but with a wider interval, or with one seed, which says nothing of how far runs lie apart, where
  the paper prints no standard deviation; or the best of a number of runs that nobody states, and not below what one run
  reaches; or elsewhere, with a comparison that is not shown; or not behind, but with lost seeds, which may be the bad
  ones.
- not run: anything else.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from pandas import DataFrame

from routebench import published
from routebench.analysis import wording
from routebench.analysis._estimate import MISSING, Estimate, SeedValues, difference, mean_of
from routebench.analysis._runs import Runs
from routebench.analysis._table import Row
from routebench.analysis._verdicts import Verdict
from routebench.analysis.viewpoints import FAMILIAR, matched_to_reference
from routebench.catalogue import Catalogue, catalogue, page_of
from routebench.declared import as_recorded
from routebench.errors import nearest
from routebench.statistics import ALPHA, predicted_best, predicted_mean

VERDICTS = (Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED, Verdict.NOT_RUN)
BEST_OF = "best of "
"""Begins the T of a published number that is the best of several."""
MATCHED = "_matched"
"""Ends the name of an accuracy at an epoch that is matched, as table 2 of Hinton et al. has it."""
NO_MEASURE = "nothing here measures this"
PRECISE, PRECISE_OF_VALUE = 0.03, 0.1
"""Half an interval that agrees with a published number, at most: of the whole where it is a share, or of the number."""
PRINTED = (
    *("id", "source", "where", "dataset", "method", "printed_method", "iterations"),
    *("metric", "unit", "value", "uncertainty", "statistic", "relation"),
)
"""Columns of `published.csv` that are shown."""


@dataclass(frozen=True)
class Answer:
    """The measurement of a published number by one part of a folder, in the number's own unit.

    Args:
        runs: the part.
        model: network.
        values: by seed; they know the seeds that were lost.
        same: whether network, suite and preset are the paper's conditions too.
        cells: the keys of their runs.
        whole: all of it, where the number is a share.
    """

    runs: Runs
    model: str
    values: SeedValues
    same: bool
    cells: Sequence[str]
    whole: float | None = None

    @property
    def lost(self) -> int:
        """The number of seeds that ended without a value."""
        return len(self.values.lost)

    @property
    def higher_is_better(self) -> bool | None:
        """The direction of the number; None where neither is better."""
        return self.values.higher_is_better

    @property
    def mean(self) -> Estimate:
        """The mean over seeds."""
        return mean_of((self.values[seed] for seed in sorted(self.values)), self.whole)

    def expected(self, row: Row) -> Estimate:
        """The range of the paper's own number in 95 of 100 cases, if its runs were like ours; `mean` is ours."""
        values, asked = [self.values[seed] for seed in sorted(self.values)], published.Statistic.read(row["statistic"])
        if asked.best:
            lowest = row["metric"] == published.ERROR
            return Estimate.of(predicted_best(values, asked.runs or 1, lowest=lowest, whole=self.whole))
        return Estimate.of(predicted_mean(values, asked.runs or 1, float(row["spread"]), whole=self.whole))

    @property
    def where(self) -> str:
        """Suite, preset, data set and network, and whether runs were made otherwise than the suite's file says."""
        altered = "" if self.runs.altered.isdisjoint(self.cells) else ", other than in the suite's file"
        return f"{self.runs.suite} {self.runs.preset}, {self.runs.data}, {self.model}{altered}"


def published_and_measured(parts: Sequence[Runs]) -> DataFrame:
    """One row per row of `published.csv`, in its order: the published number, ours, the gap, verdict and reason."""
    table = published.load_published()
    known = {str(row["id"]): row for row in table.to_dict("records")}
    listed = catalogue(kinds=("models", "data", "suites"))
    presets = {suite["name"]: [*suite["presets"]] for suite in listed["suites"]}
    for part in parts:  # of a suite's file, perhaps, which no plug-in brings
        presets.setdefault(part.suite, []).append(part.preset)
    rows = [_row(row, known, parts, listed, presets) for row in known.values()]
    return DataFrame(rows).astype({"iterations": "Int64"})


def counted(verdicts: Iterable[str]) -> str:
    """`2 reproduced, 8 not and 5 undecided`: the verdicts on numbers that were run; empty if none was."""
    counts = Counter(verdicts)
    told = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict] and verdict != Verdict.NOT_RUN]
    return wording.listed(told) if told else ""


def repeat_papers(parts: Iterable[Runs]) -> bool:
    """Tells whether any suite of a folder says that it repeats a paper.

    Args:
        parts: the runs of the folder.
    """
    return any(page_of(runs.suite).get("paper") for runs in parts)


def are_at_own_size(parts: Sequence[Runs]) -> bool:
    """Tells whether all networks are the papers': of parts whose suite, preset and data a published number names."""
    numbers = published.load_published().to_dict("records")
    named = {
        part.name
        for part in parts
        for row in numbers
        if (part.suite, part.data) == (row["suite"], _data(row)) and part.preset in _presets(row)
    }
    networks = {part.model for part in parts if part.name in named}
    return bool(parts) and all(part.model in networks for part in parts)


def answers(row: Row, parts: Sequence[Runs]) -> Iterator[Answer]:
    """Measurements of a published number by the parts; its own conditions first, then the newest plan.

    Args:
        row: a row of the published numbers.
        parts: the runs of a folder.
    """
    found = [answer for runs in parts for answer in _in_part(row, runs, _data(row))]
    yield from sorted(found, key=lambda answer: not answer.same)


def _row(
    row: Row, known: Mapping[str, Row], parts: Sequence[Runs], listed: Catalogue, presets: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    answer = next(iter(answers(row, parts)), None)
    unknown = _unknown(row, presets)
    verdict, reason = (Verdict.NOT_RUN, unknown) if unknown else _verdict(row, known, parts, answer)
    found = answer.mean if answer else Estimate()
    counted = _registered(row, listed) if answer is None or not answer.same else _parameters(answer)
    printed = published.agrees(int(counted), row["params"]) if not math.isnan(counted) else None
    return {
        **{key: row[key] for key in PRINTED},
        "measured": found,
        "expected": answer.expected(row) if answer and answer.same else Estimate(),
        "gap": found.mean - row["value"],
        "verdict": verdict,
        "reason": reason,
        "on": answer.where if answer else "",
        "printed_parameters": row["params"],
        "counted_parameters": counted,
        "parameters_agree": "" if printed is None else "yes" if printed else "no",
    }


def _unknown(row: Row, presets: Mapping[str, Sequence[str]]) -> str:
    """Tells of a suite or a preset that a number names and nobody knows: it would never count as reproduced."""
    if not row["suite"]:
        return ""
    if row["suite"] not in presets:
        return f"no suite {row['suite']!r} is known here{nearest(row['suite'], presets)}"
    wrong = [name for name in _presets(row) if name not in presets[row["suite"]]]
    return f"suite {row['suite']} has no preset {wrong[0]!r}{nearest(wrong[0], presets[row['suite']])}" if wrong else ""


def _presets(row: Row) -> list[str]:
    """The presets that train as the paper did, the quickest first."""
    return str(row["preset"]).split("|")


def _data(row: Row) -> str:
    return str(row["cell_data"] or row["data"])


def _in_part(row: Row, runs: Runs, data: str) -> Iterator[Answer]:
    """One answer per network that the row names, or per network where the row can be looked at on any."""
    if not row["measured"] or not row["method"] or runs.data != data:
        return
    asked = (row["method"], row["settings"])
    methods = {one for one in dict.fromkeys(runs.methods.values()) if (one.name, one.settings) == asked}
    if not methods:
        return
    cells = {cell: one.model for cell, one in runs.methods.items() if one in methods}
    rows = _measured(row, runs, cells)
    if rows.empty:
        return
    metric, unit = str(rows["metric"].iloc[0]), str(rows["unit"].iloc[0])
    as_published = metric == str(row["measured"]).partition("|")[0]
    here = as_published and row["suite"] == runs.suite and runs.preset in _presets(row)
    rows = _at(rows, row)
    for model in dict.fromkeys(cells.values()):
        named = bool(row["model"] == model)
        own = _with_iterations(rows[rows["cell"].map(cells) == model].drop_duplicates("cell"), row)
        if not own.empty and (named or row["any_network"]):
            values = [_in_unit(float(value), unit, row) for value in own["value"]]
            by_seed = SeedValues(
                dict(zip(own["seed"].astype(int), values, strict=True)), higher_is_better=_is_higher_better(row, unit)
            )
            tried = [one for one in methods if one.model == model and one.iterations in _steps(row)]
            by_seed.lost = frozenset[int]().union(*(one.without_value(by_seed) for one in tried))
            same = named and here and runs.altered.isdisjoint(own["cell"])
            yield Answer(runs, model, by_seed, same, [*own["cell"]], _whole(metric, unit, row))


def _measured(row: Row, runs: Runs, cells: Iterable[str]) -> DataFrame:
    """The values in these runs of the first metric that they have, with `steps`, the T trained with."""
    every = (_values(runs, metric) for metric in str(row["measured"]).split("|"))
    own = (rows[rows["cell"].isin([*cells])] for rows in every)
    found = next((rows for rows in own if not rows.empty), DataFrame(columns=["method"]))
    return found.assign(steps=[method.iterations for method in found["method"]])


def _values(runs: Runs, metric: str) -> DataFrame:
    """The same as `Runs.values`; with `MATCHED` at the end, at the epoch as good as the CNN on familiar viewpoints."""
    if not metric.endswith(MATCHED):
        return runs.values(metric, as_trained=True)
    kind = metric.removesuffix(MATCHED).removesuffix("_accuracy")
    found = matched_to_reference(runs)
    found = found[found["matching"] == FAMILIAR] if len(found) else found.reindex(columns=["method", "seed", kind])
    seeds = zip(runs.planned["cell"], runs.planned["seed"], strict=True)
    cells = {(runs.methods[str(cell)], int(seed)): str(cell) for cell, seed in seeds}
    rows = found.assign(metric=metric, unit="%", value=100 - found[kind].astype(float)).dropna(subset="value")
    return rows.assign(cell=[cells[key] for key in zip(rows["method"], rows["seed"].astype(int), strict=True)])


def _coordinates(row: Row) -> dict[str, str]:
    """Columns of results, and the value that they have to have."""
    return dict(coordinate.split("=", 1) for coordinate in filter(None, str(row["at"]).split(";")))


def _with_iterations(rows: DataFrame, row: Row) -> DataFrame:
    """Those with the T of a published number, which is in `at` where the paper leaves it to be read.

    `best of 1,2,3` there is the T of those with the highest value, seed by seed, for a paper that reports the best of
    several; without a result for each of them there is none.
    """
    grid = _steps(row)
    rows = rows[rows["steps"].isna() if None in grid else rows["steps"].isin(grid)]
    if not _coordinates(row).get("iterations", "").startswith(BEST_OF):
        return rows
    whole = rows.groupby("seed")["steps"].transform("nunique") == len(grid)
    return (
        rows[whole]
        .sort_values("value", ascending=False, kind="stable")
        .drop_duplicates("seed")
        .sort_values("seed", kind="stable")
    )


def _steps(row: Row) -> set[int | None]:
    """The T of a published number; those that it is the best of, where it is the best of several."""
    wanted = _coordinates(row).get("iterations", "").removeprefix(BEST_OF)
    if wanted:
        return {int(steps) for steps in wanted.split(",")}
    steps = row["iterations"]
    return {int(steps) if bool(pd.notna(steps)) else None}


def _at(rows: DataFrame, row: Row) -> DataFrame:
    """The rows at the coordinates of a published number."""
    for column, wanted in _coordinates(row).items():
        if column == "iterations":
            continue  # of the method
        if column not in rows:
            return rows.head(0)
        rows = rows[rows[column].map(_plain) == wanted]
    return rows


def _plain(value: object) -> str:
    """`45` for 45.0, as it stands in the table."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _whole(metric: str, unit: str, row: Row) -> float | None:
    """All of a share as the paper prints it; None for what is no share."""
    found = as_recorded(metric, unit).whole
    return None if found is None else abs(_in_unit(found, unit, row) - _in_unit(0.0, unit, row))


def _in_unit(value: float, unit: str, row: Row) -> float:
    """A measured value as the paper prints it: an error for an accuracy, a fraction for a percentage."""
    value = 100 - value if row["metric"] == published.ERROR else value
    return value / 100 if unit == "%" and row["unit"] == "fraction" else value


def _is_higher_better(row: Row, unit: str) -> bool | None:
    """The direction of a published number: that of the plainest metric that measures it, turned for an error."""
    if row["metric"] == published.ERROR:
        return False
    return as_recorded(str(row["measured"]).split("|")[-1], unit).higher_is_better


def _verdict(row: Row, known: Mapping[str, Row], parts: Sequence[Runs], answer: Answer | None) -> tuple[Verdict, str]:
    if answer is None:
        return Verdict.NOT_RUN, _why_not_run(row, parts)
    if answer.same:
        return _reproduced(row, answer)
    return _elsewhere(row, known.get(row["rival"]), answer)


def _elsewhere(row: Row, rival: Row | None, answer: Answer) -> tuple[Verdict, str]:
    """Only the direction of the comparison with the paper's rival can be looked at."""
    elsewhere = f"measured elsewhere ({answer.where})"
    if rival is None:
        return Verdict.UNDECIDED, f"{elsewhere}, and the paper compares it with no other row"
    others = answers(rival, [answer.runs])
    other = next((found for found in others if found.model == answer.model or found.same), None)
    if other is None:
        return Verdict.UNDECIDED, f"{elsewhere}, without its rival {rival['id']}"
    found = difference(answer.values, other.values)
    if row["value"] == rival["value"]:
        return Verdict.UNDECIDED, f"{elsewhere}, and the paper prints the same number for {rival['id']}"
    if found.kind == MISSING:
        return Verdict.UNDECIDED, f"{elsewhere}; the side that is ahead beside {rival['id']} lost seeds, maybe bad ones"
    if not found.p < ALPHA:
        return Verdict.UNDECIDED, f"{elsewhere}; a difference from {rival['id']} is not shown there"
    is_same = (found.mean > 0) == (row["value"] > rival["value"])
    told = f"elsewhere ({answer.where}), the comparison with {rival['id']} comes out"
    return (Verdict.PARTLY, f"{told} the same way") if is_same else (Verdict.UNDECIDED, f"{told} the other way")


def _reproduced(row: Row, answer: Answer) -> tuple[Verdict, str]:
    found, seeds = answer.expected(row), wording.plural(len(answer.values), "seed")
    printed = published.Statistic.read(row["statistic"])
    if not found.has_limits:
        same = "" if len(answer.values) < 2 else " with the same value"
        return Verdict.UNDECIDED, f"{seeds}{same}: nothing tells how far runs lie apart"
    margin, value = float(row["rounding"]), float(row["value"])
    low, high = found.low - margin, found.high + margin
    inside = {"at least": high >= value, "at most": low <= value}.get(row["relation"], low <= value <= high)
    if row["relation"] in ("at least", "at most") and inside and low < value < high:
        return Verdict.UNDECIDED, "the interval reaches over the published bound"
    worse = value > high if row["metric"] == published.ERROR else value < low
    if answer.lost and not (value > high if answer.higher_is_better else value < low):
        return Verdict.UNDECIDED, f"{wording.plural(answer.lost, 'seed')} without a result, which may be the bad ones"
    if printed.runs is None and not worse:
        return Verdict.UNDECIDED, f"{printed}, and not worse than one run may be by {seeds}"
    if inside and row["relation"] not in ("at least", "at most") and not _is_precise(answer, found, value):
        return Verdict.UNDECIDED, f"{found:~} for {printed}: what {seeds} predict is too wide to tell"
    verdict, where = (Verdict.REPRODUCED, "within") if inside else (Verdict.NOT_REPRODUCED, "outside")
    return verdict, f"{where} what {seeds} predict for {printed}, same conditions"


def _is_precise(answer: Answer, found: Estimate, published_value: float) -> bool:
    """Tells whether the interval is narrow enough that agreement says something."""
    allowed = PRECISE_OF_VALUE * abs(published_value) if answer.whole is None else PRECISE * answer.whole
    return found.half_width <= allowed


def _why_not_run(row: Row, parts: Sequence[Runs]) -> str:
    if not row["measured"]:
        return NO_MEASURE
    data = _data(row)
    subsets = [answer for runs in parts for answer in _in_part({**row, "any_network": "yes"}, runs, f"{data}5k")]
    if data and subsets:
        return f"measured on {data}5k by the {subsets[0].runs.preset} preset: another task"
    here = [runs for runs in parts if runs.suite == row["suite"] and runs.preset in _presets(row) and runs.data == data]
    if here:
        return f"{row['suite']} ran here, and not with this method, its settings, network and T, or without this value"
    if row["suite"]:
        return f"run the suite {row['suite']} with the {_presets(row)[0]} preset"
    if not row["model"] and not row["any_network"]:
        return "routebench has no name for this network"
    return "not in this folder"


def _registered(row: Row, listed: Catalogue) -> float:
    """Parameters of the network of that name, for images and classes of that data set; NaN where none are known."""
    if not (row["model"] and row["params"]):
        return math.nan
    models, sets = ({entry["name"]: entry for entry in listed[kind]} for kind in ("models", "data"))
    facts, task = models.get(row["model"], {}), sets.get(row["data"], {})
    counted_for = facts.get("counted_for", {})
    same = all(task.get(key) is not None and task.get(key) == counted_for.get(key) for key in ("shape", "classes"))
    return float(facts["parameters"]) if same and facts["parameters"] else math.nan


def _parameters(answer: Answer) -> float:
    """Parameters as counted in the networks themselves; NaN where the suite does not say."""
    rows = answer.runs.values("parameters")
    counts = rows.loc[rows["cell"].isin(answer.cells), "value"].unique()
    return float(counts[0]) if len(counts) == 1 else math.nan
