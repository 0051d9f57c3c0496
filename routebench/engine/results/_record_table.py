"""Records by column: what the files of a results folder hold, and the table of all results."""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results._checks import exact_bytes, is_list, is_value
from routebench.engine.results._columns import Column, join
from routebench.engine.results._index import Saved
from routebench.engine.results._record import COLUMNS, METRIC, Identity, Many, Record

if TYPE_CHECKING:
    import pandas as pd

KNOWN = ("suite", "suite_version", "protocol", "method", "role", "iterations", "model", "data")
"""Keys of an identity that `load_results` shows and many records share."""
TIMES = ("seconds", "finished")
"""Facts of an origin that are each record's own."""
HELD = ("label", "params", "status", "reason", "arrays", "files", "shuffled")
"""Keys of a record that are held as they are. Others are left out, such as the end of a process's output."""
HEADS = ("file", "seed", *TIMES, *HELD, "identity", "provenance")
"""The columns of records: identities have seed 0, and origins are without `TIMES`."""

WHOLE = ("iterations", "test_iterations", "epoch")
"""Columns of whole numbers that may be missing."""
NOTHING = {"metric": None, "split": "", "value": None}
"""Replaces the metrics of a run without a result."""

Stamp = tuple[int, int, int, int]


class Growing:
    """Collects records by column, one at a time."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []
        self.counts: list[int] = []
        self.values: list[float] = []
        self.own: dict[str, list[Any]] = {name: [] for name in ("file", "seed", *TIMES, *HELD)}
        self.metrics, self.identities, self.origins = _Kinds(_check_metric), _Kinds(), _Kinds()
        self._is_record = Many(metrics=is_list).check  # each kind of them is looked at once

    def take(self, record: Mapping[str, Any]) -> bool:
        """Adds a record, and removes the values from its metrics. Returns False and adds nothing if it is damaged."""
        try:
            if not self._is_record(record):
                return False
            metrics = record["metrics"] or [NOTHING]
            values = [*map(_without_value, metrics)]
            kinds = self.metrics.codes_of(metrics)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            return False
        identity, origin = record["identity"], record["provenance"]
        self.metrics.codes += kinds
        self.values += values
        self.counts.append(len(values))
        self.identities.codes += self.identities.codes_of([{**identity, "seed": 0}])
        shared = {**origin, **{name: None for name in TIMES if name in origin}}
        self.origins.codes += self.origins.codes_of([shared])
        own = {"seed": identity["seed"], **{name: origin.get(name) for name in TIMES}}
        for name, value in (own | {name: record.get(name) for name in HELD}).items():
            self.own[name].append(value)
        return True

    def name(self, file: str, stamp: Stamp) -> None:
        """Names the file of the last record."""
        self.own["file"].append(file)
        self.stamps.append(stamp)

    def records(self) -> "Records":
        """All records that were added."""
        own = {name: Column.of(values, exact_bytes) for name, values in self.own.items()}
        return Records(
            {**own, "identity": self.identities.column(), "provenance": self.origins.column()},
            np.array(self.stamps, dtype=np.int64).reshape(-1, 4),
            np.array(self.counts, dtype=np.int64),
            self.metrics.column(),
            np.array(self.values, dtype=np.float64),
        )


class _Kinds:
    """A growing column of repeating values; checks each distinct one once."""

    def __init__(self, check: Callable[[Any], object] | None = None) -> None:
        self.check = check
        self.known: dict[bytes, int] = {}
        self.values: list[Any] = []
        self.codes: list[int] = []

    def codes_of(self, items: Sequence[Any]) -> list[int]:
        """The code of each item, to add to `codes`."""
        known, codes = self.known, []
        for item in items:
            key = exact_bytes(item)
            code = known.get(key)
            if code is None:
                if self.check is not None:
                    self.check(item)
                code = known[key] = len(self.values)
                self.values.append(item)
            codes.append(code)
        return codes

    def column(self) -> Column:
        """All items that were added."""
        return Column(self.values, np.array(self.codes, dtype=np.int32))


def _without_value(metric: dict[str, Any]) -> float:
    """The value of a metric, which loses it. What is no finite number stays there, and counts as NaN."""
    value = metric["value"]
    if not is_value(value):
        raise TypeError
    if value is None or not math.isfinite(value):
        return math.nan
    return float(metric.pop("value"))


def _check_metric(metric: Mapping[str, Any]) -> None:
    if metric != NOTHING and not METRIC({"value": None, **metric}):
        raise TypeError


class Metrics(Sequence[Mapping[str, Any]]):
    """The metrics of one record.

    Args:
        kinds: metrics of many records. Those that have a value of their own keep it.
        codes: [values], the index of each metric in `kinds`.
        values: [values], their numbers.
    """

    def __init__(self, kinds: Sequence[Mapping[str, Any]], codes: NDArray[np.int32], values: NDArray[np.float64]):
        self.kinds, self.codes, self.values = kinds, codes, values

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> "Metrics": ...
    def __getitem__(self, place: int | slice) -> "Mapping[str, Any] | Metrics":
        """A metric with its value, or some of them."""
        if isinstance(place, slice):
            return Metrics(self.kinds, self.codes[place], self.values[place])
        return {"value": float(self.values[place]), **self.kinds[self.codes[place]]}

    def numbers(self) -> list[Any]:
        """The value of each, as in the record."""
        kinds = map(self.kinds.__getitem__, self.codes.tolist())
        return [kind.get("value", value) for kind, value in zip(kinds, self.values.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class Records:
    """The records of a folder, by column. Iterating gives each as a `Record`, in the order of keys.

    Args:
        heads: what each record holds besides its metrics, by name, as `HEADS` says; `file` is its file's name.
        stamps: [records, 4], as `index.stamp` gives them.
        counts: [records], the number of metric values of each.
        metrics: [values], their metrics without values.
        measured: [values], their numbers.
    """

    heads: dict[str, Column]
    stamps: NDArray[np.int64]
    counts: NDArray[np.int64]
    metrics: Column
    measured: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Record]:
        return map(self._record, self._order()[0].tolist())

    def get(self, key: str) -> Record | None:
        """The record of a run, with the fields that `HELD` names; None if there is none."""
        row = self._rows.get(f"{key}.json")
        return None if row is None else self._record(row)

    def _record(self, row: int) -> Record:
        head = {name: column.kinds[column.codes[row]] for name, column in self.heads.items()}
        return Record(
            **{name: head[name] for name in HELD},
            cell=head["file"][:-5],
            identity=replace(self._identities[self.heads["identity"].codes[row]], seed=head["seed"]),
            metrics=self._metrics(row),
            provenance={**head["provenance"], **{name: head[name] for name in TIMES if name in head["provenance"]}},
        )

    def identity_of(self, key: str) -> Identity | None:
        """The identity of a run, with the seed of any run of its configuration; None if it has no record."""
        row = self._rows.get(f"{key}.json")
        return None if row is None else self._identities[self.heads["identity"].codes[row]]

    def head_of(self, key: str, name: str, otherwise: Any = None) -> Any:
        """A part of a run's record, one of `HEADS`, without making the whole of it.

        Args:
            key: the run's.
            name: that of the part; a provenance comes without times.
            otherwise: what is returned where the run has no record.
        """
        row = self._rows.get(f"{key}.json")
        return otherwise if row is None else self.heads[name].kinds[self.heads[name].codes[row]]

    def metrics_of(self, key: str) -> Metrics:
        """The metrics of a run that has a record."""
        return self._metrics(self._rows[f"{key}.json"])

    def _metrics(self, row: int) -> Metrics:
        start, count = self._starts[row], self.counts[row]
        metrics = Metrics(self.metrics.kinds, self.metrics.codes[start:][:count], self.measured[start:][:count])
        return metrics[:0] if metrics[0]["metric"] is None else metrics

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {file: row for row, file in enumerate(self.heads["file"].items())}

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = np.cumsum(self.counts) - self.counts
        return starts

    @cached_property
    def _identities(self) -> list[Identity]:
        return [Identity.read(kind) for kind in self.heads["identity"].kinds]

    @cached_property
    def facts(self) -> dict[str, Column]:
        """Facts of a whole record, by name: `file`, `has_arrays`, and those of `COLUMNS`."""
        known, origin = self.heads["identity"], self.heads["provenance"]
        facts = {name: self.heads[name] for name in ("file", "seed", "seconds", "label", "status", "reason")}
        facts |= {name: known.each(itemgetter(name)) for name in KNOWN}
        facts |= {name: origin.each(partial(_of_origin, name)) for name in ("device", "commit", "dirty")}
        facts |= {"cell": self.heads["file"].each(_key), "has_arrays": self.heads["arrays"].each(bool)}
        return facts | {"method_params": self.heads["params"]}

    def at(self, rows: NDArray[np.bool_]) -> "Records":
        """The records of some rows."""
        if rows.all():
            return self
        inner = np.repeat(rows, self.counts)
        heads = {name: column.at(rows) for name, column in self.heads.items()}
        return Records(heads, self.stamps[rows], self.counts[rows], self.metrics.at(inner), self.measured[inner])

    def followed_by(self, more: "Records") -> "Records":
        """Concatenates records."""
        if not (len(self) and len(more)):
            return self if len(self) else more
        return Records(
            {name: join([column, more.heads[name]], exact_bytes) for name, column in self.heads.items()},
            np.concatenate([self.stamps, more.stamps]),
            np.concatenate([self.counts, more.counts]),
            join([self.metrics, more.metrics], exact_bytes),
            np.concatenate([self.measured, more.measured]),
        )

    def lacking(self, whole: Container[str]) -> NDArray[np.bool_]:
        """The mask [records] of results that do not count, because the run's raw outputs are not in `whole`."""
        known = zip(*(self.facts[name].items() for name in ("cell", "status", "has_arrays")), strict=True)
        return np.array([status == "ok" and has and key not in whole for key, status, has in known], dtype=bool)

    def saved(self) -> Saved:
        """The form of the records in an index."""
        columns = {name: column.compact() for name, column in self.heads.items()}
        arrays = {"stamps": self.stamps, "counts": self.counts, "values": self.measured}
        return Saved({**columns, "metrics": self.metrics.compact()}, arrays)

    @classmethod
    def read(cls, saved: Saved) -> "Records":
        """Makes the records from an index."""
        heads, arrays = {name: saved.columns[name] for name in HEADS}, saved.arrays
        return cls(heads, arrays["stamps"], arrays["counts"], saved.columns["metrics"], arrays["values"])

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
        counts = self.counts[records]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return records, np.repeat(self._starts[records], counts) + within


def _fixed(metric: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that every metric has."""
    return {key: value for key, value in metric.items() if key != "where"}


def _of_origin(name: str, origin: Mapping[str, Any]) -> Any:
    """A fact of an origin; if it is missing, what is not known is empty, and what is not told did not happen."""
    return origin.get(name, False if name == "dirty" else "")


def _key(file: str) -> str:
    """The key of a run, from the name of its record's file."""
    return file.removesuffix(".json")
