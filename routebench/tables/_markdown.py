"""Tables as GitHub-flavoured Markdown, which also reads well as plain text."""

import re
from collections.abc import Iterable

from routebench.tables._table import TextTable, aligned

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&$])")


def as_markdown(tables: Iterable[TextTable]) -> str:
    """Every table under a heading with its question, its notes below it, and its provenance in a comment."""
    return "\n".join(_render(table) for table in tables)


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def comment(lines: Iterable[str]) -> str:
    """Lines as an HTML comment, which nothing inside can end."""
    inside = "\n".join(line.replace("-->", "-- >").replace("--!>", "-- !>") for line in lines)
    return f"<!--\n{inside}\n-->"


def _render(table: TextTable) -> str:
    notes = [*table.notes, *(f"Caveat: {caveat}" for caveat in table.caveats)]
    pieces = [
        comment(table.origin),
        f"**{escape(table.question or table.name)}** {escape(' '.join(table.caption))}",
        "\n".join(_grid(table)),
        *(["\n".join(f"- {escape(note)}" for note in notes)] if notes else []),
    ]
    return "\n\n".join(pieces) + "\n"


def _grid(table: TextTable) -> list[str]:
    columns = [_column(table, place) for place in range(len(table.header))]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = (
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(row, widths, table.numeric, strict=True)
        )
        lines.append(f"| {' | '.join(cells)} |")
    rules = (
        f"{'-' * (width - 1)}:" if numeric else "-" * width
        for width, numeric in zip(widths, table.numeric, strict=True)
    )  # fmt: skip
    lines.insert(1, f"| {' | '.join(rules)} |")
    return lines


def _column(table: TextTable, place: int) -> list[str]:
    """The heading, then the texts; bold ones between asterisks, the others between blanks, so that digits align."""
    cells = [row[place] for row in table.rows]
    texts = [escape(cell.text) for cell in cells]
    if table.numeric[place]:
        texts = aligned([cell.text for cell in cells], lambda text: " " * len(text), _escape_piece)
    if any(cell.bold for cell in cells):
        texts = [_bold(text) if cell.bold else f"{text}  " for cell, text in zip(cells, texts, strict=True)]
    return [escape(table.header[place]), *texts]


def _bold(text: str) -> str:
    """Asterisks touch what they make bold, or Markdown takes them for text."""
    inside = text.strip()
    start = text.index(inside) if inside else 0
    return f"{text[:start]}**{inside}**{text[start + len(inside) :]}"


def _escape_piece(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
