"""An analysis as a plain-text table: its rows, and which numbers are bold."""

from collections.abc import Sequence

from routebench.analysis._result import Analysis
from routebench.tables import TextCell


def cells_of(analysis: Analysis, places: Sequence[int]) -> tuple[tuple[TextCell, ...], ...]:
    """The texts of all rows, in the columns at some places; of those that may be the best, one is bold.

    It is the number that orders the rows, or else the first column.

    Args:
        analysis: the analysis, with its table.
        places: places of columns, from 0.
    """
    keys = [analysis.printed_columns[place].key for place in places]
    bold = places[keys.index("mean") if "mean" in keys else 0]
    return tuple(
        tuple(TextCell(row[place].text, bold=best and place == bold) for place in places)
        for row, best in zip(analysis.printed, best_of(analysis), strict=True)
    )


def best_of(analysis: Analysis) -> list[bool]:
    """The rows that may have rank 1; none without ranks."""
    ranks = analysis.table.get("rank_low")
    if ranks is None:
        return [False] * len(analysis.table)
    return [bool(one) for one in (ranks == 1).fillna(False)]
