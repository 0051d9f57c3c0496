"""The rows of `load_results` as CSV or parquet, each cell with where it comes from."""

import csv
import io
import json

from pandas import DataFrame

from routebench.engine.results import Store
from routebench.export.choice import Choice
from routebench.export.origin import METADATA, Provenance, provenance_of

READ = 'pandas.read_csv(FILE, comment="#")'


def rows_of(store: Store, choice: Choice, command: str) -> tuple[DataFrame, Provenance]:
    """The rows that fit, with the provenance of their cells.

    Raises:
        UserError: no row has the metric.
    """
    rows = choice.rows(store, store.results())
    cells = set(rows["cell"])
    return rows, provenance_of((record for record in store.records() if record.cell in cells), command)


def csv_of(rows: DataFrame, origin: Provenance) -> bytes:
    """Rows as CSV below lines that start with `#`. All text is quoted, so that a `#` inside it starts no comment."""
    lines = [
        f"# {len(rows)} rows of {len(origin.cells)} cells; written by: {' '.join(origin.command.split())}",
        f"# read with {READ}; an empty field is a missing value or an empty text",
        "# provenance is JSON: of all cells, then for each cell what is its own",
        f"# all: {json.dumps(origin.shared)}",
        *(f"# cell {cell}: {json.dumps(own)}" for cell, own in origin.cells.items()),
    ]
    table = rows.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return ("\n".join(lines) + "\n" + table).encode()


def parquet_of(rows: DataFrame, origin: Provenance) -> bytes:
    """Rows as parquet, which keeps their types; the provenance stands in the metadata of its schema."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(rows, preserve_index=False)
    known = table.schema.metadata or {}
    file = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({**known, METADATA: origin.as_json().encode()}), file)
    return file.getvalue()
