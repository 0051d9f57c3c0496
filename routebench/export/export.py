"""From a results folder to the content of a file."""

from routebench.analysis.folder import Folder
from routebench.errors import UserError
from routebench.export.choice import Choice
from routebench.export.tables import tables_of
from routebench.export.tidy import csv_of, parquet_of, rows_of
from routebench.tables.latex import render as latex
from routebench.tables.markdown import render as markdown


def export(folder: Folder, choice: Choice, format_: str, command: str) -> bytes:
    """The content of the file to write; empty where nothing was measured.

    Args:
        folder: opened; its warnings say afterwards what was found damaged.
        choice: which part of it.
        format_: `csv` or `parquet`: one row per metric value, see `routebench.load_results` for the columns. `markdown`
            or `latex`: one table per suite, preset, data set and network.
        command: recorded as what wrote the export.

    Raises:
        UserError: nothing in the folder fits the choice, or an analysis of the user's raised.
    """
    parts = choice.parts(folder)
    if format_ in ("csv", "parquet"):
        rows, origin = rows_of(folder.store, choice, command)
        write = csv_of if format_ == "csv" else parquet_of
        return b"" if rows.empty else write(rows, origin)
    if choice.metric is not None:
        raise UserError(
            "--metric chooses rows, so it goes with --format csv or parquet; a table shows what its suite measures"
        )
    render = markdown if format_ == "markdown" else latex
    return render(tables_of(folder, parts, command)).encode()
