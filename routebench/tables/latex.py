"""Tables as LaTeX with booktabs, for papers."""

import re
from collections.abc import Iterable

from routebench.tables.latex_text import escape, escape_piece
from routebench.tables.table import Table, aligned

NEEDS = "needs \\usepackage{booktabs} in the preamble"
WIDTH = 60
"""Letters in a row that fit a page of one column at the usual size."""
SMALLER = r"\footnotesize\setlength{\tabcolsep}{3pt}"
NO_LABEL = re.compile(r"[^A-Za-z0-9-]+")


def render(tables: Iterable[Table]) -> str:
    """Every table as a float of its own, below a comment with its provenance."""
    return "\n".join(_render(table) for table in tables)


def comment(lines: Iterable[str]) -> str:
    """Lines as a comment; a line break inside one would end it."""
    return "\n".join(f"% {' '.join(line.split())}" for line in lines)


def _render(table: Table) -> str:
    caveats = [f"Caveat: {caveat}" for caveat in table.caveats]
    caption = escape(" ".join((table.question, *table.caption, *caveats)))
    below = [
        r"\par\smallskip",
        rf"\begin{{minipage}}{{\linewidth}}\footnotesize {escape(' '.join(table.notes))}\end{{minipage}}",
    ]
    return "\n".join(
        [
            comment([*table.origin, NEEDS]),
            r"\begin{table}",
            r"\centering",
            rf"\caption[{{{escape(table.question)}}}]{{{caption}}}",
            rf"\label{{tab:{NO_LABEL.sub('-', table.name)}}}",
            *([SMALLER] if _width(table) > WIDTH else []),
            *_tabular(table),
            *(below if table.notes else []),
            r"\end{table}",
            "",
        ]
    )


def _width(table: Table) -> int:
    """Letters in the widest row, were every column as wide as its widest text."""
    rows = (table.header, *([cell.text for cell in row] for row in table.rows))
    return sum(max(map(len, column)) for column in zip(*rows, strict=True))


def _tabular(table: Table) -> list[str]:
    columns = [_column(table, place) for place in range(len(table.header))]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        " & ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() + r" \\"
        for row in zip(*columns, strict=True)
    ]
    return [
        rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        lines[0],
        r"\midrule",
        *lines[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _column(table: Table, place: int) -> list[str]:
    """The heading, then the texts. Padding is a phantom of what it stands for, so that digits align in any font."""
    cells = [row[place] for row in table.rows]
    texts = [escape(cell.text) for cell in cells]
    if table.numeric[place]:
        texts = aligned([cell.text for cell in cells], _phantom, escape_piece)
    texts = [rf"\textbf{{{text}}}" if cell.bold else text for cell, text in zip(cells, texts, strict=True)]
    return [escape(table.header[place]), *map(_row_start, texts)]


def _phantom(text: str) -> str:
    return rf"\phantom{{{escape_piece(text)}}}" if text else ""


def _row_start(text: str) -> str:
    """A bracket or a star at the start of a row would be read as an argument of the line break before it."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text
