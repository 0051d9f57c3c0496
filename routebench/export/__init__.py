"""Results for other programs and for papers: tidy rows as CSV or parquet, comparison tables as Markdown or LaTeX."""

from routebench.export.choice import FORMATS as FORMATS
from routebench.export.choice import Choice as Choice
from routebench.export.choice import format_named as format_named
from routebench.export.citation import citations_of as citations_of
from routebench.export.export import export as export
from routebench.export.origin import provenance_of_parquet as provenance_of_parquet
