"""The board as one static page: published rows and all submissions of a folder, each with a page of its own."""

import contextlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from routebench import atomic
from routebench.analysis import MISSING, figures, wording
from routebench.engine.results import ended
from routebench.errors import UserError
from routebench.ranking._boards import Board, PublishedBoard, published
from routebench.ranking._files import entry_of
from routebench.ranking._page import name_of, write_page
from routebench.ranking._standing import Row, Standing, published_rows
from routebench.ranking._submission import ABOUT
from routebench.received import permitted
from routebench.report import own_page, rendered

COLUMNS = ("Method", "Gain, points", "Rank", "Accuracy, %", "Training time", "T", "Parameters", "Date", "Who", "Code")
STEPS = COLUMNS.index("T")

Settings = Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class BoardEntry:
    """A row of the board.

    Args:
        row: its numbers.
        cells: its texts, but for the link to its code.
        page: the file of its own page; empty for published rows, and beside a pipe or a device.
        code: the address of its code; empty where none is told.
    """

    row: Row
    cells: tuple[str, ...]
    page: str = ""
    code: str = ""


def write_board(
    board: Board, submissions: Path | None, page: Path, beside: Path | None = None
) -> tuple[int, list[str]]:
    """Writes a board's page, and beside it a page for each submission. No code of a submission is run.

    Args:
        board: the board.
        submissions: a folder of submissions, one folder each; None for none.
        page: the file.
        beside: results that stand in place of the published ones in the package.

    Returns:
        the number of submissions on it, and why others are left out, a line each.

    Raises:
        UserError: the page cannot be written, the folder is not there, or the published results are damaged.
    """
    atomic.expect_page(page, "the board")
    if submissions is not None and not os.path.isdir(permitted(submissions)):  # noqa: PTH112  # of any name
        raise UserError(f"expected a folder of submissions, and {str(submissions)!r} is none")
    known = published(board, beside)
    folders = sorted(filter(_may_be_one, submissions.iterdir())) if submissions else []
    entries, left_out = [_of_published(row, known) for row in published_rows(known)], []
    for folder in folders:
        try:
            found = _read(folder, board, beside)
        except UserError as error:
            left_out.append(str(error))
        else:
            entries += [_with_page(page, folder, *found)] if found else []
    count = sum(entry.row.is_mine for entry in entries)
    entries.sort(key=_order)
    title = f"Board {board.part[0]}, {board.part[1]}: methods by their gain over uniform routing"
    text = rendered(
        "routebench.ranking", "board.html", own=("board.css",), scripts=("board.js",), title=title, board=board,
        columns=COLUMNS, entries=entries, left_out=left_out, count=count, of=len(folders),
        all_steps=sorted({entry.cells[STEPS] for entry in entries}), steps_at=STEPS,
    )  # fmt: skip
    left = [page.with_name(name) for name in _pages_of(page) - {entry.page for entry in entries}]
    gone = [*filter(own_page, left)]  # of submissions that were taken away
    with atomic.told_unwritten(page, "the board"), contextlib.ExitStack() as stack:
        if gone:
            stack.enter_context(atomic.taken_away(gone, stack.enter_context(atomic.unfinished(page))))
        atomic.write_output(page, text, "the board")
    return count, left_out


def _may_be_one(folder: Path) -> bool:
    """Tells whether a folder is a submission, or may not be looked at, so that it is not left out in silence."""
    try:
        return os.path.lexists(permitted(folder / ABOUT))
    except UserError:
        return True


def _pages_of(page: Path) -> set[str]:
    """The pages of submissions that an earlier board at this place names."""
    return {*re.findall(rf'href="({re.escape(page.stem)}\.[^"/]+\.html)"', own_page(page))}


def _order(entry: BoardEntry) -> tuple[bool, float]:
    """Sort key: the highest gain first, but those that cannot be tested, as seeds were lost, behind all others."""
    gain = entry.row.gain
    return gain.kind == MISSING, -gain.mean if gain.known else _place_of_base(entry.row)


def _place_of_base(row: Row) -> float:
    """Sort key of a row without a gain: uniform routing gains nothing; what was not measured comes last."""
    return 0.0 if row.method.is_base else math.inf


def _of_published(row: Row, known: PublishedBoard) -> BoardEntry:
    return BoardEntry(row, _cells(row, _date_of(row, known), "routebench"))


def _date_of(row: Row, known: PublishedBoard) -> str:
    cells = [cell for cell, method in known.runs.methods.items() if method == row.method]
    finished = [ended(known.record(cell).provenance) for cell in cells[:1]]
    return f"{finished[0]:%Y-%m-%d}" if finished and finished[0] else wording.NOTHING


def _read(folder: Path, board: Board, beside: Path | None) -> tuple[Mapping[str, Any], Standing, Settings] | None:
    """A submission as `entry_of` reads it; None for one of another board."""
    about, standing, settings = entry_of(folder, beside)
    if about["board"] != board.name:
        return None
    if standing.ranks is None:
        raise UserError(f"{folder.name}: nothing is ranked: uniform routing differs there, or no run has a result")
    return about, standing, settings


def _with_page(
    page: Path, folder: Path, about: Mapping[str, Any], standing: Standing, settings: Settings
) -> BoardEntry:
    """The row of a submission, whose own page is written beside the board's, unless that is a pipe or a device."""
    row = next(row for row in standing.rows if row.is_mine and row.method == standing.mine)
    own = "" if atomic.is_stream(page) else f"{page.stem}.{figures.as_id(folder.name)}.html"
    if own:
        write_page(standing, page.with_name(own), _facts(about), settings)
    return BoardEntry(row, _cells(row, about.get("date", ""), about["who"]), own, _address(about))


def _facts(about: Mapping[str, Any]) -> dict[str, str]:
    told = {"who": "who", "date": "date", "licence": "licence", "cite": "cite", "code": "code", "method": "method"}
    return {name: about[key] for key, name in told.items() if about.get(key)}


def _address(about: Mapping[str, Any]) -> str:
    """The address of the code, if it is one of the web: a link may lead nowhere else."""
    told: str = about.get("code", "")
    return told if urlsplit(told).scheme in ("http", "https") else ""


def _cells(row: Row, date: str, who: str) -> tuple[str, ...]:
    return (
        name_of(row),
        wording.NOTHING if row.method.is_base and not row.is_mine else format(row.gain, "+.2"),
        row.rank,
        format(row.mean, "±.2"),
        wording.NOTHING if math.isnan(row.cost) else f"{row.cost:.1f} ×",
        str(row.method.iterations or wording.NOTHING),
        wording.count(row.parameters),
        date or wording.NOTHING,
        who or wording.NOTHING,
    )
