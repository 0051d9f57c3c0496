"""Finds the page of performance over commits, if any."""

import os
import re
from pathlib import Path
from urllib.parse import quote

from routebench.received import from_json, read_plain

USUAL = ".asv/html"
DOCUMENTED = "build/site/history.html"
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def asv_pages(results: Path, page: Path) -> str | None:
    """Relative address of asv's pages, or of the documentation's, beside the results folder or in the current folder.

    Returns:
        None where there are none.
    """
    folder = results.absolute().parent
    for index in (folder / USUAL / "index.html", folder / _configured(folder) / "index.html", folder / DOCUMENTED):
        if index.is_file():
            return quote(os.fsencode(Path(os.path.relpath(index, page.absolute().parent)).as_posix()))
    return None


def _configured(folder: Path) -> str:
    """The output folder in `asv.conf.json` (JSON with comments), else asv's default."""
    try:
        known = from_json(COMMENT.sub("", read_plain(folder / "asv.conf.json")[0].decode()))
        return str(known.get("html_dir", USUAL))
    except (OSError, ValueError, AttributeError):  # it is asv's file to complain about
        return USUAL
