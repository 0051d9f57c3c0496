"""Records by column: turns the files of a results folder into the table of all results."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results._checks import exact_bytes, is_list
from routebench.engine.results._columns import Column, join
from routebench.engine.results._index import Saved
from routebench.engine.results._record import MARKS, Many

if TYPE_CHECKING:
    import pandas as pd

KNOWN = ("suite", "suite_version", "protocol", "method", "role", "iterations", "model", "data")
"""Keys of an identity that `load_results` shows and many records share."""
SHARED = (*KNOWN, "status", "reason", "label", "method_params", "device", "commit", "dirty", "has_arrays")
OWN = ("cell", "seed", "seconds")
FACTS = (*SHARED, *OWN)
NUMBERS = frozenset({int, float, bool, type(None)})

COLUMNS = (
    "suite", "suite_version", "protocol", "cell", "status", "reason", "label", "method", "method_params", "role",
    "iterations", "test_iterations", "epoch", "model", "data", "seed", "metric", "split", "value", "unit",
    "higher_is_better", "device", "commit", "dirty", "seconds",
)  # fmt: skip
WHOLE = ("iterations", "test_iterations", "epoch")
"""Columns of whole numbers that may be missing."""
NOTHING = {"metric": None, "split": ""}
"""Replaces the metrics of a run without a result."""

Stamp = tuple[int, int, int, int]


class Growing:
    """Collects records by column, one at a time."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.stamps: list[Stamp] = []
        self.counts: list[int] = []
        self.values: list[float | None] = []
        self.own: dict[str, list[Any]] = {name: [] for name in OWN}
        self.shared, self.metrics = _Kinds(), _Kinds()
        self._is_record = Many(metrics=is_list).check  # each kind of them is looked at once

    def take(self, record: Mapping[str, Any]) -> bool:
        """Adds a record, and removes the values from its metrics. Returns False and adds nothing if it is damaged."""
        try:
            if not self._is_record(record):
                return False
            shared, own = _facts(record)
            metrics = record["metrics"] or [{**NOTHING, "value": None}]
            values = [metric.pop("value") for metric in metrics]
            if not NUMBERS.issuperset(map(type, values)):
                return False
            values = list(map(_number, values))
            kinds = self.metrics.codes_of(metrics, _check_metric)
            self.shared.codes += self.shared.codes_of([shared], hash)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            return False
        self.metrics.codes += kinds
        self.values += values
        self.counts.append(len(values))
        for name, value in zip(OWN, own, strict=True):
            self.own[name].append(value)
        return True

    def name(self, file: str, stamp: Stamp) -> None:
        """Names the file of the last record."""
        self.files.append(file)
        self.stamps.append(stamp)

    def records(self) -> "Records":
        """All records that were added."""
        facts = {"file": Column.of(self.files), **{name: Column.of(values) for name, values in self.own.items()}}
        shared = self.shared.column()
        for number, name in enumerate(SHARED):
            kinds = Column.of(kind[number] for kind in shared.kinds)
            facts[name] = Column(kinds.kinds, kinds.codes[shared.codes])
        return Records(
            facts,
            np.array(self.stamps, dtype=np.int64).reshape(-1, 4),
            np.array(self.counts, dtype=np.int64),
            self.metrics.column(),
            np.array(self.values, dtype=np.float64),
        )


class _Kinds:
    """A growing column of repeating values; checks each distinct one once."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}
        self.values: list[Any] = []
        self.codes: list[int] = []

    def codes_of(self, items: Sequence[Any], check: Callable[[Any], object]) -> list[int]:
        known, codes = self.known, []
        for item in items:
            key = exact_bytes(item)
            code = known.get(key)
            if code is None:
                check(item)
                code = known[key] = len(self.values)
                self.values.append(item)
            codes.append(code)
        return codes

    def column(self) -> Column:
        return Column(self.values, np.array(self.codes, dtype=np.int32))


def _facts(record: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The facts in the order of `SHARED` and of `OWN`; an error if the record is damaged."""
    known, origin = record["identity"], record["provenance"]
    shared = (
        *(known[key] for key in KNOWN),
        *(record[key] for key in ("status", "reason", "label", "params")),
        origin.get("device", ""),
        origin.get("commit", ""),
        origin.get("dirty", False),
        bool(record["arrays"]),
    )
    own = (record["cell"], known["seed"], origin.get("seconds"))
    return shared, own


def _number(value: float | None) -> float | None:
    """The number; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def _check_metric(metric: Mapping[str, Any]) -> None:
    if metric != NOTHING and not MARKS(metric):
        raise TypeError


@dataclass(frozen=True)
class Records:
    """The records of a folder, by column.

    Args:
        facts: facts of a whole record, by name; `file` is its file's name.
        stamps: [records, 4], as `index.stamp` gives them.
        counts: [records], the number of metric values of each.
        metrics: [values], their metrics without values.
        measured: [values], their numbers.
    """

    facts: dict[str, Column]
    stamps: NDArray[np.int64]
    counts: NDArray[np.int64]
    metrics: Column
    measured: NDArray[np.float64]

    def at(self, rows: NDArray[np.bool_]) -> "Records":
        """The records of some rows."""
        inner = np.repeat(rows, self.counts)
        facts = {name: column.at(rows) for name, column in self.facts.items()}
        return Records(facts, self.stamps[rows], self.counts[rows], self.metrics.at(inner), self.measured[inner])

    def followed_by(self, more: "Records") -> "Records":
        """Concatenates records."""
        return Records(
            {name: join([column, more.facts[name]]) for name, column in self.facts.items()},
            np.concatenate([self.stamps, more.stamps]),
            np.concatenate([self.counts, more.counts]),
            join([self.metrics, more.metrics], key=exact_bytes),
            np.concatenate([self.measured, more.measured]),
        )

    def lacking(self, whole: Container[str]) -> NDArray[np.bool_]:
        """The mask [records] of results that do not count, because the run's raw outputs are not in `whole`."""
        known = zip(*(self.facts[name].items() for name in ("file", "status", "has_arrays")), strict=True)
        return np.array([status == "ok" and has and name[:-5] not in whole for name, status, has in known], dtype=bool)

    def saved(self) -> Saved:
        """The form of the records in an index."""
        columns = {name: column.compact() for name, column in self.facts.items()}
        arrays = {"stamps": self.stamps, "counts": self.counts, "values": self.measured}
        return Saved({**columns, "metrics": self.metrics.compact()}, arrays)

    @classmethod
    def read(cls, saved: Saved) -> "Records":
        """Makes the records from an index."""
        facts = {name: saved.columns[name] for name in ("file", *FACTS)}
        arrays = saved.arrays
        return cls(facts, arrays["stamps"], arrays["counts"], saved.columns["metrics"], arrays["values"])

    def table(self) -> "pd.DataFrame":
        """One row per metric value, records in the order of their files' names."""
        import pandas as pd

        records, inner = self._order()
        repeated = np.repeat(records, self.counts[records])
        metrics = self.metrics.at(inner).compact()
        flat = [{**metric.get("where", {}), **_fixed(metric)} for metric in metrics.kinds]
        own = list(dict.fromkeys(key for metric in flat for key in metric if key not in COLUMNS))
        kinds = pd.DataFrame({key: [metric.get(key, np.nan) for metric in flat] for key in own})
        kinds = kinds.convert_dtypes()  # whole numbers stay whole where other rows have none
        table: dict[str, Any] = {}
        for name in COLUMNS:
            dtype = "Int64" if name in WHOLE else None
            if name == "value":
                table[name] = self.measured[inner]
            elif name in self.facts:
                table[name] = self.facts[name].at(repeated).array(dtype)
            else:
                column = Column([metric.get(name, np.nan) for metric in flat], metrics.codes)
                table[name] = column.array(dtype)
        table |= {key: kinds[key].array.take(metrics.codes) for key in own}
        return pd.DataFrame(table, copy=False)

    def _order(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The order of the records by file name, and of their values."""
        files = self.facts["file"].items()
        records = np.array(sorted(range(len(files)), key=files.__getitem__), dtype=np.int64)
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts[records]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return records, np.repeat(starts[records], counts) + within


def _fixed(metric: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that every metric has."""
    return {key: value for key, value in metric.items() if key != "where"}
