"""The page of performance over commits, if there is one."""

import json
import os
import re
from pathlib import Path
from urllib.parse import quote

USUAL = ".asv/html"
DOCUMENTED = "build/site/history.html"
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def asv_pages(results: Path, page: Path) -> str | None:
    """The address, seen from the page, of asv's pages or the documentation's, where they lie beside the results folder.

    Returns:
        None where there are none.
    """
    folder = results.absolute().parent
    for index in (folder / USUAL / "index.html", folder / _configured(folder) / "index.html", folder / DOCUMENTED):
        if index.is_file():
            return quote(Path(os.path.relpath(index, page.absolute().parent)).as_posix())
    return None


def _configured(folder: Path) -> str:
    """Where `asv.conf.json`, which is JSON with comments, says that pages go; the usual place where it does not."""
    try:
        known = json.loads(COMMENT.sub("", (folder / "asv.conf.json").read_text(encoding="utf-8")))
        return str(known.get("html_dir", USUAL))
    except (OSError, ValueError, AttributeError):  # it is asv's file to complain about
        return USUAL
