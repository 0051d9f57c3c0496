"""Packs every value of a results folder into the page, for its explorer.

The block in the page is gzip in base64. Unpacked it is four bytes with the length of a heading, little-endian; the
heading, JSON, filled up with blanks to a multiple of eight bytes; the values, float64; each of the heading's `arrays`,
float32; then, for each column of the heading, the place of every row's entry among its `kinds`, in `bytes` bytes each.
"""

import base64
import gzip
import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Estimate, Method, Runs, Verdict, mean_of
from routebench.analysis._estimate import MISSING, unflattered
from routebench.analysis.families import key_of, settled
from routebench.analysis.folder import Folder
from routebench.analysis.palette import HUES, NAMES
from routebench.declared import as_recorded, declared
from routebench.engine.results import COLUMNS
from routebench.report._tabs import place_of_preset, place_of_tab, whole_title_of

LEFT_OUT = {
    *("suite_version", "protocol", "status", "reason", "method", "method_params"),
    *("device", "commit", "dirty", "seconds", "value", "why"),
}
"""Columns of `load_results` that distinguish no values, or that the label contains.

What tells how a run was made is among them: it may differ between the seeds of one configuration.
"""
LEVEL = 6  # of gzip; higher takes much longer and saves little
REPLICATES = ("seed", "repeat", "cell", "value", "higher_is_better", "first")
CODES = {Verdict.BETTER: 1, Verdict.WORSE: 2, Verdict.OPEN: 3, Verdict.UNTESTABLE: 4}
"""Codes of verdicts in the page; 0 where no table has one."""
CONFIGURATION = ("suite", "preset", "data", "label", "model", "iterations")
"""Columns that name the configuration that a run is a seed of."""
OF_RUN = ("data", "model", "label", "iterations", "role", "test_iterations", "epoch")
"""Columns that distinguish runs, or follow from them."""
WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


@dataclass(frozen=True)
class Values:
    """The values of a page.

    Args:
        rows: one per value; `value`, the columns of `load_results` that distinguish rows, and `preset`.
        block: the rows as the page holds them.
    """

    rows: DataFrame
    block: str


def values_of(folder: Folder) -> Values:
    """The values of every part; values that two presets share appear for each."""
    rows = _rows(folder)
    colours = {label: colour for runs in folder.parts for label, colour in runs.colours.items()}
    rows["group"], means = estimates_of(rows)
    pairs = pairs_of(rows)
    pairs, verdicts = _judged(rows, pairs, folder)
    rows = rows.drop(columns="first", errors="ignore")
    facts = {
        "colours": {label: NAMES[colour] for label, colour in colours.items()},
        "hues": [NAMES[colour] for colour in HUES],
        "paper": {name: colour for colour, name in NAMES.items()},
        "n": [one.n for one in means],
        "pairs": pairs.groups,
        "spans": _spans(rows, pairs.groups),
        "main": [name for name, measure in declared().items() if measure.main],
        "titles": {name: as_recorded(name, unit).title for name, unit in _measures(rows.drop_duplicates("group"))},
        "names": {
            "label": {method.label: method.title for runs in folder.parts for method in runs.methods.values()},
            "suite": {runs.suite: whole_title_of(runs.suite) for runs in folder.parts},
        },
        "suite": min(folder.parts, key=place_of_tab).suite if folder.parts else "",
        "presets": list(dict.fromkeys(runs.preset for runs in sorted(folder.parts, key=place_of_preset))),
    }
    limits = {key: np.array([getattr(one, key) for one in means], "<f4") for key in ("mean", "low", "high")}
    arrays = {**limits, "margins": pairs.margins.astype("<f4"), "verdicts": verdicts, **_uneven(pairs, means)}
    return Values(rows, encode(rows, facts, arrays))


def estimates_of(rows: DataFrame) -> tuple["pd.Series[int]", list[Estimate]]:
    """Groups rows that differ only in seed and repeat; returns each row's group, and each group's mean over seeds.

    Repeats of one seed count once, as their mean.
    """
    if rows.empty:
        return pd.Series(dtype=int), []
    keys = [name for name in rows if name not in REPLICATES]
    groups = rows.groupby(keys, dropna=False, sort=False).ngroup()
    seeds = rows["value"].groupby([groups, rows["seed"]], sort=False).mean()
    first = rows.groupby(groups)[["metric", "unit"]].first()
    known = [as_recorded(*one) for one in _measures(first)]
    bounds = [(one.whole, one.range) for one in known]
    return groups, [mean_of(own, *bounds[int(str(group))]) for group, own in seeds.groupby(level=0)]


def _measures(rows: DataFrame) -> list[tuple[str, str]]:
    """Metric and unit of each row."""
    found = () if rows.empty else zip(rows["metric"], rows["unit"], strict=True)
    return [(str(metric), str(unit or "")) for metric, unit in found]


@dataclass(frozen=True)
class PairedRuns:
    """The paired differences of every two runs of each measure, the first minus the second.

    Args:
        groups: for each measure, the groups that can be compared.
        means: the mean of each difference over the seeds that both have, each measure's upper triangle row by row; NaN
            without such seeds.
        margins: half of its 95 % interval; NaN where none can be given.
        n: the number of those seeds.
    """

    groups: list[list[int]]
    means: NDArray[np.float64]
    margins: NDArray[np.float64]
    n: NDArray[np.int64]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The two groups of each pair, in the order of the arrays."""
        return [pair for groups in self.groups for pair in combinations(groups, 2)]


def pairs_of(rows: DataFrame) -> PairedRuns:
    """Compares every two runs, tested with the T of training, after training.

    Intervals are paired t intervals, in two stages where the column `first` says so.
    """
    lists, found = [], [(np.empty(0), np.empty(0), np.empty(0, np.int64))]
    asked = rows if rows.empty else _as_trained(rows)
    keys = [name for name in asked if name not in {*REPLICATES, *OF_RUN, "group"}]
    for _, own in () if rows.empty else asked.groupby(keys, dropna=False, sort=False):
        seeds = own.groupby(["group", "seed"], sort=False)["value"].mean().unstack(sort=False)  # noqa: PD010  # 5 times as fast
        if len(seeds) > 1:
            lists.append([int(group) for group in seeds.index])
            seeds = seeds.sort_index(axis=1)
            first = (
                own.groupby("group", sort=False)["first"].max().fillna(0) if "first" in own else seeds.iloc[:, 0] * 0
            )
            stages = np.array([sum(seed < stage for seed in seeds) for stage in first.reindex(seeds.index)])
            upper = np.triu_indices(len(seeds), 1)
            mean, margin, n = statistics.paired_differences(seeds.to_numpy(dtype=float), first=stages)
            found.append((mean[upper], margin[upper], n[upper]))
    means, margins, counts = (np.concatenate(part) for part in zip(*found, strict=True))
    return PairedRuns(lists, means, margins, counts)


def _as_trained(rows: DataFrame) -> DataFrame:
    """The rows that were tested with the T of training, or without any, after training."""
    asked = rows[rows["epoch"].isna()] if "epoch" in rows else rows
    if "test_iterations" not in asked:
        return asked
    tested = asked["test_iterations"]
    nowhere = pd.Series(pd.NA, asked.index, tested.dtype)
    trained = asked.get("iterations", nowhere)  # where no method iterates
    return asked[tested.isna() | (tested == trained).fillna(False)]


def _uneven(pairs: PairedRuns, means: list[Estimate]) -> dict[str, NDArray[np.float32]]:
    """The pairs whose difference is not that of their two means: one lacks seeds that the other has.

    Returns:
        `uneven`, the places of these pairs; `apart`, their mean differences; `shared`, the number of their seeds.
    """
    ours, theirs = ([pair[side] for pair in pairs.places] for side in (0, 1))
    n, mean = np.array([one.n for one in means], np.int64), np.array([one.mean for one in means], float)
    near = 1e-5 * np.maximum(np.abs(mean[ours]), np.abs(mean[theirs]))
    same = np.isclose(pairs.means, mean[ours] - mean[theirs], rtol=0, atol=near, equal_nan=True)
    places = np.flatnonzero(~same | (pairs.n != n[ours]) | (pairs.n != n[theirs]))
    found = {"uneven": places, "apart": pairs.means[places], "shared": pairs.n[places]}
    return {name: one.astype("<f4") for name, one in found.items()}


def _spans(rows: DataFrame, pairs: list[list[int]]) -> list[float | None]:
    """The largest possible difference of each measure; None for no limit."""
    first = rows.groupby("group")[["metric", "unit"]].first() if pairs else rows
    spans = []
    for groups in pairs:
        metric, unit = first.loc[groups[0], ["metric", "unit"]]
        low, high = as_recorded(str(metric), str(unit or "")).range
        spans.append(high - low if math.isfinite(high - low) else None)
    return spans


def _judged(rows: DataFrame, pairs: PairedRuns, folder: Folder) -> tuple[PairedRuns, NDArray[np.float32]]:
    """The pairs as the tables have them, and the tables' verdicts as `CODES`, in the same order.

    On accuracies, differences and limits are the tables' own. On all else, as there, nothing speaks for the side that
    lost seeds which the other finished.
    """
    means, margins, counts = pairs.means.copy(), pairs.margins.copy(), pairs.n.copy()
    verdicts = np.zeros(len(means), "<f4")
    flattered = _flattered(rows, pairs, folder)
    margins[flattered], verdicts[flattered] = math.nan, CODES[Verdict.UNTESTABLE]
    for place, gap in _gaps(rows, pairs, folder):
        means[place], counts[place], verdicts[place] = gap.mean, gap.n, CODES[gap.verdict]
        margins[place] = max(gap.high - gap.mean, gap.mean - gap.low)
    return PairedRuns(pairs.groups, means, margins, counts), verdicts


def _gaps(rows: DataFrame, pairs: PairedRuns, folder: Folder) -> Iterator[tuple[int, Estimate]]:
    """The differences of accuracies over seeds that the tables have, with their places among the pairs.

    They are of all test images: accuracies of some, at coordinates of a protocol, have differences of their own.
    """
    start, coordinates = 0, [name for name in rows if name not in {*COLUMNS, "preset", "first", "group"}]
    first = rows.drop_duplicates("group").set_index("group") if pairs.groups else rows
    known = [
        (settled(runs), {_key(runs, one): one for one in runs.methods.values()})
        for runs in folder.parts
        if runs.strength.judges
    ]
    for groups in pairs.groups:
        members = first.loc[groups]
        of_all = members[coordinates].isna().all(axis=None)
        if of_all and (members["metric"] == "accuracy").all() and (members["split"] == "test").all():
            entries = [_entry(row) for row in members.to_dict("records")]
            for place, (one, other) in enumerate(combinations(entries, 2), start):
                gaps = (own.difference(of[one], of[other]) for own, of in known if one in of and other in of)
                over_seeds = (gap for gap in gaps if gap.n > 1 and gap.kind not in statistics.BY_SAMPLE)
                if (gap := next(over_seeds, None)) is not None:
                    yield place, gap
        start += len(groups) * (len(groups) - 1) // 2


def _flattered(rows: DataFrame, pairs: PairedRuns, folder: Folder) -> list[int]:
    """The places of pairs whose difference speaks for the side that lost seeds which the other finished."""
    methods = {_key(runs, one): one for runs in folder.parts for one in runs.methods.values()}
    have = rows.groupby("group")["seed"].agg(frozenset).to_dict() if pairs.groups else {}
    first = rows.drop_duplicates("group").set_index("group") if pairs.groups else rows

    @cache
    def side(group: int) -> Method:
        method, own = methods[_entry(first.loc[group].to_dict())], frozenset(map(int, have[group]))
        return replace(method, finished=own, lost=(method.finished | method.lost) - own)

    found = []
    for place, (one, other) in enumerate(pairs.places):
        better: Any = first.loc[one, "higher_is_better"] if have[one] != have[other] else None
        if better is None or pd.isna(better):
            continue
        gap = Estimate(mean=float(pairs.means[place]))
        if unflattered(gap, side(one), side(other), higher_is_better=bool(better)).kind == MISSING:
            found.append(place)
    return found


def _key(runs: Runs, method: Method) -> tuple[Any, ...]:
    """The configuration of a method of a part, as `_entry` has it."""
    return runs.suite, runs.preset, runs.data, *key_of(method)


def _entry(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    """The configuration of a row."""
    *where, steps = (row.get(key) for key in CONFIGURATION)
    return *where, None if pd.isna(steps) or not steps else int(steps)


def _rows(folder: Folder) -> DataFrame:
    parts = [
        runs.results[runs.results["value"].notna()].assign(preset=runs.preset, first=runs.first or 0)
        for runs in folder.parts
    ]
    rows = pd.concat(parts)
    rows = rows[~(rows.index.duplicated() & rows.assign(row=rows.index).duplicated(["row", "preset"]))]
    kept = ["suite", "preset", *(name for name in rows if name not in LEFT_OUT | {"suite", "preset"})]
    kept = [name for name in kept if rows[name].notna().any()]
    found = DataFrame(rows[[*kept, "value"]]).reset_index(drop=True)
    if found.empty:
        return found
    own = found.groupby([name for name in CONFIGURATION if name in found], dropna=False)
    return found.assign(role=own["role"].transform("first"))  # the newest plan's, where an older one has another


def encode(
    rows: DataFrame, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float32]] = MappingProxyType({})
) -> str:
    """Encodes rows with a column `value` as a block, with further facts in the heading and further arrays."""
    columns, codes = [], []
    for name in rows:
        if name != "value":
            kinds, own = _column(rows[name])
            columns.append({"name": str(name), "kinds": kinds, "bytes": own.itemsize})
            codes.append(own)
    order = sorted(range(len(columns)), key=lambda place: -codes[place].itemsize)  # so that each starts at its multiple
    sizes = {name: len(one) for name, one in arrays.items()}
    heading = {**facts, "rows": len(rows), "arrays": sizes, "columns": [columns[place] for place in order]}
    text = json.dumps(heading, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % 8)
    values = rows["value"].to_numpy(dtype="<f8").tobytes()
    more = [one.astype("<f4").tobytes() for one in arrays.values()]
    body = b"".join([struct.pack("<I", len(text)), text, values, *more, *(codes[place].tobytes() for place in order)])
    return base64.b64encode(gzip.compress(body, LEVEL, mtime=0)).decode()


def decode(block: str) -> tuple[DataFrame, dict[str, Any]]:
    """Decodes what `encode` was given, except for the order of columns; None if missing."""
    body = gzip.decompress(base64.b64decode(block))
    (length,) = struct.unpack_from("<I", body)
    heading = json.loads(body[4 : 4 + length])
    place, rows = 4 + length, heading["rows"]
    columns: dict[str, Any] = {"value": np.frombuffer(body, "<f8", rows, place)}
    place += 8 * rows
    for name, size in heading["arrays"].items():
        heading[name] = np.frombuffer(body, "<f4", size, place)
        place += 4 * size
    for column in heading["columns"]:
        codes = np.frombuffer(body, f"<u{column['bytes']}", rows, place)
        columns[column["name"]] = np.array([*column["kinds"], None], dtype=object)[codes]
        place += column["bytes"] * rows
    return DataFrame(columns), {
        key: value for key, value in heading.items() if key not in ("rows", "columns", "arrays")
    }


def _column(values: "pd.Series[Any]") -> tuple[list[Any], NDArray[Any]]:
    """The kinds of a column, sorted, with None for what is missing last, and each row's place among them."""
    codes, found = pd.factorize(values, sort=True)
    kinds = [entry.item() if hasattr(entry, "item") else entry for entry in found]
    if (codes < 0).any():
        codes = np.where(codes < 0, len(kinds), codes)
        kinds.append(None)
    width = next(width for most, width in WIDTHS if len(kinds) <= most)
    return kinds, codes.astype(np.dtype(width).newbyteorder("<"))
