"""Columns that hold each different value once, so that 100,000 records fit into memory."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def exact(value: Any) -> Hashable:
    """A key that distinguishes 1, 1.0 and True."""
    return type(value), value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        kinds: every distinct value, once.
        codes: [rows], the index of each row's value.
    """

    kinds: list[Any]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, items: Iterable[Any], key: Callable[[Any], Hashable] = exact) -> "Column":
        """A column with these items; those with the same key are the same."""
        known: dict[Hashable, int] = {}
        kinds: list[Any] = []
        codes = []
        for item in items:
            code = known.setdefault(key(item), len(kinds))
            if code == len(kinds):
                kinds.append(item)
            codes.append(code)
        return cls(kinds, np.array(codes, dtype=np.int32))

    def each(self, fact: Callable[[Any], Any]) -> "Column":
        """The column of a fact about each value."""
        facts = Column.of(map(fact, self.kinds))
        return Column(facts.kinds, facts.codes[self.codes])

    def at(self, rows: NDArray[Any]) -> "Column":
        """The column for some rows, by index or mask."""
        return Column(self.kinds, self.codes[rows])

    def items(self) -> list[Any]:
        """The value of each row."""
        return [self.kinds[code] for code in self.codes.tolist()]

    def compact(self) -> "Column":
        """The same column with values in the order of rows, without unused ones."""
        rows = len(self.codes)
        first = np.full(len(self.kinds), rows)
        first[self.codes[::-1]] = np.arange(rows)[::-1]  # of equal indices, the last assignment stays
        order = np.argsort(first, kind="stable")[: int((first < rows).sum())]
        place = np.zeros(len(self.kinds), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return Column([self.kinds[number] for number in order.tolist()], place[self.codes])

    def array(self, dtype: str | None = None) -> "pd.api.extensions.ExtensionArray":
        """The values of all rows as pandas holds them; `dtype` overrides the inferred one."""
        import pandas as pd

        column = self.compact()
        series: Any = pd.Series(column.kinds, dtype=None if column.kinds else object)
        kinds = series if dtype is None else series.astype(dtype)
        found: pd.api.extensions.ExtensionArray = kinds.array.take(column.codes)
        return found


def join(columns: Sequence[Column], key: Callable[[Any], Hashable] = exact) -> Column:
    """Concatenates columns."""
    if len(columns) == 1:
        return columns[0]
    united = Column.of(itertools.chain.from_iterable(column.kinds for column in columns), key)
    starts = np.cumsum([0, *(len(column.kinds) for column in columns)])
    codes = [united.codes[start + column.codes] for start, column in zip(starts[:-1], columns, strict=True)]
    return Column(united.kinds, np.concatenate([np.zeros(0, dtype=np.int32), *codes]))
