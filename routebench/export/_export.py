"""Turns a results folder into the content of a file."""

import csv
import io
import json

from pandas import DataFrame

from routebench.analysis.folder import Folder
from routebench.analysis.wording import plural
from routebench.atomic import encoded
from routebench.engine.results import Store
from routebench.errors import UserError
from routebench.export._choice import Choice
from routebench.export._provenance import METADATA, Provenance, provenance_of
from routebench.export._tables import tables_of
from routebench.tables import as_csv, as_latex, as_markdown
from routebench.terminal import as_json

READ = 'pandas.read_csv(FILE, comment="#")'


def export(folder: Folder, choice: Choice, format_: str, command: str) -> bytes:
    """The content of the file to write; empty where nothing was measured.

    Args:
        folder: opened; its warnings say afterwards what was found damaged.
        choice: which part of it.
        format_: `csv`, `parquet` or `json`: one row per metric value, see `routebench.load_results` for the columns.
            `markdown` or `latex`: one table per suite, preset, data set and network.
        command: recorded as what wrote the export.

    Raises:
        UserError: nothing in the folder fits the choice, or an analysis of the user's raised.
    """
    parts = choice.parts(folder)
    if format_ in WRITERS:
        rows, origin = _rows_of(folder.store, choice, command)
        return b"" if rows.empty else WRITERS[format_](rows, origin)
    if choice.metric is not None:
        raise UserError(
            "--metric chooses rows, so it goes with --format csv, parquet or json; a table shows what a suite measures"
        )
    render = as_markdown if format_ == "markdown" else as_latex
    return encoded(render(tables_of(folder, parts, command)))


def _rows_of(store: Store, choice: Choice, command: str) -> tuple[DataFrame, Provenance]:
    """The rows that fit, with the provenance of their runs.

    Raises:
        UserError: no row has the metric.
    """
    rows = choice.rows(store)
    cells = set(rows["cell"])
    return rows, provenance_of((record for record in store.records() if record.cell in cells), command)


def _csv_of(rows: DataFrame, origin: Provenance) -> bytes:
    """Rows as CSV below lines that start with `#`. All text is quoted, so that a `#` inside it starts no comment."""
    counts = f"{plural(len(rows), 'row')} of {plural(len(origin.cells), 'run')}"
    lines = [
        f"# {counts}; written by: {' '.join(origin.command.split())}",
        f"# read with {READ}; an empty field is a missing value or an empty text",
        "# text that a spreadsheet would take for a formula has ' before it",
        "# provenance is JSON: of all runs, then for each run what is its own",
        f"# all: {json.dumps(origin.shared)}",
        *(f"# run {cell}: {json.dumps(own)}" for cell, own in origin.cells.items()),
    ]
    return encoded("\n".join(lines) + "\n" + as_csv(rows, quoting=csv.QUOTE_NONNUMERIC))


def _parquet_of(rows: DataFrame, origin: Provenance) -> bytes:
    """Rows as parquet, which keeps their types; the provenance stands in the metadata of its schema."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(rows, preserve_index=False)
    known = table.schema.metadata or {}
    file = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({**known, METADATA: origin.as_json().encode()}), file)
    return file.getvalue()


def _json_of(rows: DataFrame, origin: Provenance) -> bytes:
    """Rows as JSON, with the provenance beside them; what is missing is null."""
    content = {"command": origin.command, "shared": origin.shared, "runs": origin.cells}
    return encoded(as_json({**content, "rows": rows.to_dict("records")}) + "\n")


WRITERS = {"csv": _csv_of, "parquet": _parquet_of, "json": _json_of}
"""What writes rows, by format."""
