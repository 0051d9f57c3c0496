"""From a results folder to the content of a file."""

from pathlib import Path

from routebench.analysis.folder import open_folder
from routebench.errors import UserError
from routebench.export.choice import Choice
from routebench.export.latex import render as latex
from routebench.export.markdown import render as markdown
from routebench.export.tables import tables_of
from routebench.export.tidy import csv_of, parquet_of, rows_of


def export(path: Path, choice: Choice, format_: str, command: str) -> bytes:
    """The content of the file to write; empty where nothing was measured.

    Args:
        path: of a results folder.
        choice: which part of it.
        format_: `csv` or `parquet`: one row per metric value, see `routebench.load_results` for the columns. `markdown`
            or `latex`: one table per suite, preset, data set and network.
        command: recorded as what wrote the export.

    Raises:
        UserError: the folder cannot be read, or nothing in it fits the choice.
    """
    folder = open_folder(path)
    parts = choice.parts(folder)
    if format_ in ("csv", "parquet"):
        rows, origin = rows_of(path, choice, command)
        write = csv_of if format_ == "csv" else parquet_of
        return b"" if rows.empty else write(rows, origin)
    if choice.metric is not None:
        raise UserError(
            "--metric chooses rows, so it goes with --format csv or parquet; a table shows what its suite measures"
        )
    render = markdown if format_ == "markdown" else latex
    return render(tables_of(folder, parts, command)).encode()
