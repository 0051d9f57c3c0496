"""The result of an analysis as a page shows it, and its figure and table as files beside the page."""

import contextlib
import errno
import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.text import Text

from routebench.analysis._method import CONTROL
from routebench.analysis._result import Analysis
from routebench.analysis._table import Column, Printed
from routebench.analysis.figures import inline_svg, literal, save_svg, to_svg
from routebench.atomic import made_folder, taken_away, unfinished, write_text
from routebench.received import read_plain
from routebench.registry import analyses
from routebench.report._asking import Broken, checked, guarded
from routebench.tables import as_csv

MOST_OPEN = 40
"""Most rows of a table in the page itself; the browser builds a longer one when it is opened."""
STEM, GENERATOR = re.compile(r'data-stem="([^"]*)"'), '<meta name="generator" content="routebench'
"""What names the files of a block in a page, and what tells that the page is ours."""
SMALL = 8.5  # pt: beside another figure, smaller text is below 12 pixels on a wide screen


@dataclass(frozen=True)
class Block:
    """An analysis as the page shows it.

    Args:
        name: that it is registered under.
        stem: the stem of its files.
        found: what it found.
        rows: the rows that the page shows.
        marks: a CSS class per row.
        drawn: its figure as an SVG document; None without one.
        svg: its figure as an element of the page; None without one.
        large: whether the figure needs the full width for its text to be read.
        origin: lines on where the numbers come from.
    """

    name: str
    stem: str
    found: Analysis
    rows: list[list[Printed]]
    marks: list[str]
    drawn: str | None
    svg: Markup | None
    large: bool
    origin: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its table."""
        return self.found.printed_columns

    @property
    def long(self) -> bool:
        """Tells whether the table is folded until a reader opens it."""
        return len(self.rows) > MOST_OPEN

    @property
    def packed(self) -> dict[str, Any]:
        """The table as data, for a browser to build."""
        columns = [[column.title, column.explained, column.numeric, column.extra] for column in self.columns]
        return {"columns": columns, "rows": [[cell.packed for cell in row] for row in self.rows], "marks": self.marks}


def blocks_of(names: Iterable[str], given: Any, part: str, origin: tuple[str, ...] = ()) -> tuple[Block | Broken, ...]:
    """A block for each analysis with a result. One that raises gets its error instead.

    Args:
        names: the names of the analyses.
        given: the argument of each.
        part: the part of the page, in the names of files.
        origin: lines on where the numbers come from.
    """
    blocks: list[Block | Broken] = []
    for name in names:
        analysis = analyses[name]
        block = guarded(name, partial(_asked, name, f"{part}-{name}", analysis, given, origin), analysis)
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def replace_files(blocks: Iterable[Block], beside: Path, earlier: Set[str], between: Callable[[], None]) -> None:
    """Writes the files of blocks into a new folder, then puts them into the place of an earlier report's.

    Args:
        blocks: those of the page.
        beside: the folder that figures and tables lie in. Whatever else is in it stays.
        earlier: the names of the files that the earlier report wrote there.
        between: is called when all files are whole, before one is in its place, and writes the page.

    Raises:
        OSError: a file cannot be written, or something else has its name.
        StoreFull: the disk is full. The earlier files are as they were.
    """
    with made_folder(beside.parent), unfinished(beside) as made:
        for block in blocks:
            _write(block, made)
        names = {file.name for file in made.iterdir()}
        if taken := [name for name in names if (beside / name).is_dir() and not (beside / name).is_symlink()]:
            raise IsADirectoryError(errno.EISDIR, f"{taken[0]!r} in {beside.name!r} is a folder")
        with made_folder(beside) if names else contextlib.nullcontext():
            with taken_away([beside / name for name in earlier - names], made):
                between()
            for name in names:
                (made / name).replace(beside / name)


def _write(block: Block, folder: Path) -> None:
    """Writes the table of a block as CSV and its figure as SVG into a folder."""
    write_text(folder / f"{block.stem}.csv", as_csv(block.found.numbers), lasting=False)
    if block.drawn is not None:
        save_svg(block.drawn, folder / f"{block.stem}.svg")


def own_page(page: Path) -> str:
    """The text of a page that routebench wrote; empty where there is none, or another's.

    Args:
        page: the path of the page.
    """
    try:
        text = read_plain(page, named=True)[0].decode(errors="replace")
    except OSError:
        return ""
    return text if GENERATOR in text else ""


def files_of(page: Path) -> set[str]:
    """The names of the files that a report wrote beside its page, by that page; empty where it is none of ours."""
    stems = map(unescape, STEM.findall(own_page(page)))
    return {f"{stem}.{ending}" for stem in stems if Path(stem).name == stem for ending in ("csv", "svg")}


def _asked(name: str, stem: str, analysis: Callable[[Any], Any], given: Any, origin: tuple[str, ...]) -> Block | None:
    """Runs all code of the user: the analysis, its figure, the texts of its columns."""
    with literal():
        found = checked(analysis(given))
    if found is not None and any(
        not runs.strength.judges for runs in (given if isinstance(given, tuple) else (given,))
    ):
        found = found.unjudged
    return None if found is None else block_of(name, stem, found, origin)


def block_of(name: str, stem: str, found: Analysis, origin: tuple[str, ...]) -> Block:
    """The result as the page shows it.

    Raises:
        ValueError: its figure holds more than a drawing.
    """
    classes = [CONTROL if baseline else "" for baseline in found.baselines]
    hidden = found.hidden or (False,) * len(classes)
    rows = [row for row, left in zip(found.printed, hidden, strict=True) if not left]
    marks = [mark for mark, left in zip(classes, hidden, strict=True) if not left]
    drawn = None if found.figure is None else to_svg(found.figure)
    large = found.figure is not None and _smallest_text(found.figure) < SMALL
    svg = None if drawn is None else inline_svg(drawn, stem, found.described)
    return Block(name, stem, found, rows, marks, drawn, svg, large, origin)


def _smallest_text(figure: Figure) -> float:
    """Size of the smallest text, in points."""
    texts = figure.findobj(Text)
    return min((float(text.get_fontsize()) for text in texts if text.get_text() and text.get_visible()), default=SMALL)
