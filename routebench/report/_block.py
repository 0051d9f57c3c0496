"""What an analysis found, as a page shows it, and the files with its figure and its table beside the page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.text import Text

from routebench.analysis._estimate import Estimate
from routebench.analysis._method import Method
from routebench.analysis._result import Analysis, plain_columns
from routebench.analysis._table import Column
from routebench.analysis.figures import inline_svg, save_svg, to_svg
from routebench.registry import analyses
from routebench.report._asking import Broken, checked, guarded
from routebench.report._downloads import Download, downloads_of

SMALL = 8.5  # pt: beside another figure, smaller text is below 12 pixels on a wide screen


@dataclass(frozen=True)
class Block:
    """An analysis as the page shows it.

    Args:
        name: that it is registered under.
        stem: of its files.
        found: what it found.
        columns: of its table.
        rows: (text, sort key) per column.
        marks: a class per row.
        drawn: its figure as a document; None without one.
        large: whether the figure needs the full width for its text to be read.
        downloads: its table and its figure as files.
    """

    name: str
    stem: str
    found: Analysis
    columns: tuple[Column, ...]
    rows: list[list[tuple[str, str]]]
    marks: list[str]
    drawn: str | None
    large: bool
    downloads: tuple[Download, ...]

    @property
    def svg(self) -> Markup | None:
        """The figure as an element of the page."""
        if self.drawn is None:
            return None
        return inline_svg(self.drawn, self.stem, self.found.described)


def blocks_of(
    names: Iterable[str], given: Any, part: str, beside: Path, origin: tuple[str, ...] = ()
) -> tuple[Block | Broken, ...]:
    """A block for each analysis that finds something. One that raises has its error in that place.

    Args:
        names: of the analyses.
        given: to each of them.
        part: of the page, in the names of files.
        beside: the folder of these files.
        origin: lines on where the numbers come from.

    Raises:
        OSError: a file cannot be written.
    """
    blocks: list[Block | Broken] = []
    for name in names:
        analysis = analyses[name]
        block = guarded(name, partial(_asked, name, f"{part}-{name}", analysis, given, origin), analysis)
        if isinstance(block, Block):
            write(block, beside)
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def write(block: Block, beside: Path) -> None:
    """Writes the table of a block as CSV and its figure as SVG into a folder."""
    beside.mkdir(parents=True, exist_ok=True)
    table = block.downloads[0]
    (beside / table.name).write_bytes(table.content)
    if block.drawn is not None:
        save_svg(block.drawn, beside / f"{block.stem}.svg")


def _asked(name: str, stem: str, analysis: Callable[[Any], Any], given: Any, origin: tuple[str, ...]) -> Block | None:
    """All that runs a user's code is done here: the analysis, its figure, the texts of its columns."""
    found = checked(analysis(given))
    if found is not None and any(
        not runs.strength.judges for runs in (given if isinstance(given, tuple) else (given,))
    ):
        found = found.unjudged
    return None if found is None else block_of(name, stem, found, origin)


def block_of(name: str, stem: str, found: Analysis, origin: tuple[str, ...]) -> Block:
    """What was found, as the page shows it."""
    columns = found.columns or plain_columns(found.table)
    rows = [
        [(column.of(row), _sort_key(column.value(row))) for column in columns]
        for row in found.table.to_dict("records")
    ]  # fmt: skip
    marks = ["control" if role == "control" else "" for role in found.numbers.get("role", [""] * len(rows))]
    drawn = None if found.figure is None else to_svg(found.figure)
    large = found.figure is not None and _smallest_text(found.figure) < SMALL
    return Block(name, stem, found, columns, rows, marks, drawn, large, downloads_of(stem, found, origin))


def _smallest_text(figure: Figure) -> float:
    """In points."""
    texts = figure.findobj(Text)
    return min((float(text.get_fontsize()) for text in texts if text.get_text() and text.get_visible()), default=SMALL)


def _sort_key(value: Any) -> str:
    """What a browser sorts by: the unrounded number, the text, or nothing for what is missing."""
    plain = float(value) if isinstance(value, Estimate) else value.exact if isinstance(value, Method) else value
    return "" if pd.isna(plain) else str(plain)
