"""Results for other programs and for papers: tidy rows as CSV or parquet, comparison tables as Markdown or LaTeX."""

from routebench.export._choice import Choice, format_named
from routebench.export._citation import citations_of
from routebench.export._export import export
from routebench.export._provenance import provenance_of_parquet
from routebench.export._trackers import SHOWN_BY, TRACKERS, Tracker, write_runs

__all__ = [
    "SHOWN_BY", "TRACKERS", "Choice", "Tracker", "citations_of", "export", "format_named",
    "provenance_of_parquet", "write_runs",
]  # fmt: skip
