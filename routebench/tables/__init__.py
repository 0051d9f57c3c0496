"""Tables as text, in the languages of papers and of pages. Nothing here knows where a table comes from."""

from routebench.tables._csv import as_csv
from routebench.tables._latex import as_latex
from routebench.tables._markdown import as_markdown
from routebench.tables._table import TextCell, TextTable

__all__ = ["TextCell", "TextTable", "as_csv", "as_latex", "as_markdown"]
