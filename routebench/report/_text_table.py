"""An analysis as a plain-text table: its rows, and which numbers are bold."""

from collections.abc import Sequence

from routebench.analysis._result import Analysis
from routebench.analysis._table import Column, Row
from routebench.tables import TextCell


def cells_of(analysis: Analysis, columns: Sequence[Column]) -> tuple[tuple[TextCell, ...], ...]:
    """The texts of all rows; of those that may be the best, the number that orders them is bold."""
    rows = analysis.table.to_dict("records")
    return tuple(_cells(row, columns, bold) for row, bold in zip(rows, best_of(analysis), strict=True))


def best_of(analysis: Analysis) -> list[bool]:
    """The rows that may have rank 1; none without ranks."""
    ranks = analysis.table.get("rank_low")
    if ranks is None:
        return [False] * len(analysis.table)
    return [bool(one) for one in (ranks == 1).fillna(False)]


def _cells(row: Row, columns: Sequence[Column], best: bool) -> tuple[TextCell, ...]:
    """The bold cell is the number that orders the rows, or else the first column."""
    keys = [column.key for column in columns]
    bold = "mean" if "mean" in keys else keys[0]
    return tuple(TextCell(column.of(row), bold=best and column.key == bold) for column in columns)
