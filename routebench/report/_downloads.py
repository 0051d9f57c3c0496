"""The files that a block of the page offers, each inside its own link: no network, no script."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib as mpl
from fontTools import subset
from matplotlib.figure import Figure

from routebench.analysis._result import Analysis
from routebench.analysis.figures import settle
from routebench.report._text_table import text_table
from routebench.tables import as_latex, as_markdown

MOST_ROWS = 200
"""Of a table as Markdown or LaTeX; longer ones are for programs, as CSV."""


@dataclass(frozen=True)
class Download:
    """A file in a link.

    Args:
        title: what the link says.
        name: of the file.
        kind: its media type.
        content: of the file.
    """

    title: str
    name: str
    kind: str
    content: bytes

    @property
    def address(self) -> str:
        """For the link."""
        return f"data:{self.kind};base64,{base64.b64encode(self.content).decode()}"


def downloads_of(stem: str, found: Analysis, origin: tuple[str, ...]) -> tuple[Download, ...]:
    """A table as CSV, and, if it is short, as Markdown and LaTeX; a figure as PDF.

    Args:
        stem: of the names.
        found: what an analysis found.
        origin: lines on where the numbers come from.
    """
    files = [Download("CSV", f"{stem}.csv", "text/csv;charset=utf-8", found.numbers.to_csv(index=False).encode())]
    if 0 < len(found.table) <= MOST_ROWS:
        table = text_table(stem, found, origin)
        files += [
            Download("Markdown", f"{stem}.md", "text/markdown;charset=utf-8", as_markdown([table]).encode()),
            Download("LaTeX", f"{stem}.tex", "application/x-tex;charset=utf-8", as_latex([table]).encode()),
        ]
    if found.figure is not None:
        files.append(Download("PDF", f"{stem}.pdf", "application/pdf", pdf_of(found.figure)))
    return tuple(files)


def pdf_of(figure: Figure) -> bytes:
    """A figure for a paper: vectors, and letters as TrueType, which publishers ask for."""
    page = io.BytesIO()
    settle(figure)
    with mpl.rc_context({"pdf.fonttype": 42}), _without_ligatures():
        figure.savefig(page, format="pdf", metadata={"CreationDate": None, "Creator": "routebench", "Producer": None})
    return page.getvalue()


@contextmanager
def _without_ligatures() -> Iterator[None]:
    """While this lasts, fonts are embedded without the tables that programs for setting text look into.

    Every letter of a figure has its place, so that no reader of a PDF asks them; to cut them down to the letters used
    is most of the time that a PDF takes. matplotlib has no setting for it, so that fontTools' own default is changed.
    """
    before = subset.Options._drop_tables_default
    subset.Options._drop_tables_default = [*before, "GDEF", "GPOS", "GSUB", "MATH", "kern"]
    try:
        yield
    finally:
        subset.Options._drop_tables_default = before
