"""Every value of a results folder, small enough to lie in a page: what its explorer draws from.

The block in the page is gzip in base64. Unpacked it is four bytes with the length of a heading, little-endian; the
heading, JSON, filled up with blanks to a multiple of eight bytes; the values, float64; then, for each column of the
heading, the place of every row's entry among its `kinds`, in `bytes` bytes each.
"""

import base64
import gzip
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import DataFrame
from scipy import special

from routebench.analysis.folder import Folder
from routebench.analysis.palette import HUES, NAMES
from routebench.statistics import CONFIDENCE

LEFT_OUT = {
    *("suite_version", "protocol", "status", "reason", "method", "method_params"),
    *("commit", "dirty", "seconds", "value", "why"),
}
"""Columns of `load_results` that tell no two values apart, or that the label says already."""
LEVEL = 6  # of gzip; higher takes much longer and saves little
MOST_SEEDS = 1000
WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))


@dataclass(frozen=True)
class Values:
    """The values of a page.

    Args:
        rows: one per value; `value`, the columns of `load_results` that tell rows apart, and `preset`.
        block: the same for the page.
    """

    rows: DataFrame
    block: str


def values_of(folder: Folder) -> Values:
    """The values of every part; what two presets share is there for each."""
    rows = _rows(folder)
    colours = {label: colour for runs in folder.parts for label, colour in runs.colours.items()}
    facts = {
        "colours": {label: NAMES[colour] for label, colour in colours.items()},
        "hues": [NAMES[colour] for colour in HUES],
        "paper": {name: colour for colour, name in NAMES.items()},
        "t": _quantiles(rows),
    }
    return Values(rows, encode(rows, facts))


def _rows(folder: Folder) -> DataFrame:
    parts = [runs.results[runs.results["value"].notna()].assign(preset=runs.preset) for runs in folder.parts]
    rows = pd.concat(parts)
    rows = rows[~(rows.index.duplicated() & rows.assign(row=rows.index).duplicated(["row", "preset"]))]
    kept = ["suite", "preset", *(name for name in rows if name not in LEFT_OUT | {"suite", "preset"})]
    kept = [name for name in kept if rows[name].notna().any()]
    return DataFrame(rows[[*kept, "value"]]).reset_index(drop=True)


def _quantiles(rows: DataFrame) -> list[float]:
    """Student's t for a two-sided interval over 2, 3, ... seeds, so that the page needs no function for it."""
    most = min(MOST_SEEDS, max(2, rows["seed"].nunique())) if len(rows) else 2
    return [float(special.stdtrit(seeds - 1, (1 + CONFIDENCE) / 2)) for seeds in range(2, most + 1)]


def encode(rows: DataFrame, facts: Mapping[str, Any]) -> str:
    """Rows with a column `value` as a block, with other facts in the heading."""
    columns, codes = [], []
    for name in rows:
        if name != "value":
            kinds, own = _column(rows[name])
            columns.append({"name": str(name), "kinds": kinds, "bytes": own.itemsize})
            codes.append(own)
    order = sorted(range(len(columns)), key=lambda place: -codes[place].itemsize)  # so that each starts at its multiple
    heading = {**facts, "rows": len(rows), "columns": [columns[place] for place in order]}
    text = json.dumps(heading, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % 8)
    values = rows["value"].to_numpy(dtype="<f8").tobytes()
    body = b"".join([struct.pack("<I", len(text)), text, values, *(codes[place].tobytes() for place in order)])
    return base64.b64encode(gzip.compress(body, LEVEL, mtime=0)).decode()


def decode(block: str) -> tuple[DataFrame, dict[str, Any]]:
    """What `encode` was given, but for the order of columns; None for what is missing."""
    body = gzip.decompress(base64.b64decode(block))
    (length,) = struct.unpack_from("<I", body)
    heading = json.loads(body[4 : 4 + length])
    place, rows = 4 + length, heading["rows"]
    columns: dict[str, Any] = {"value": np.frombuffer(body, "<f8", rows, place)}
    place += 8 * rows
    for column in heading["columns"]:
        codes = np.frombuffer(body, f"<u{column['bytes']}", rows, place)
        columns[column["name"]] = np.array([*column["kinds"], None], dtype=object)[codes]
        place += column["bytes"] * rows
    return DataFrame(columns), {key: value for key, value in heading.items() if key not in ("rows", "columns")}


def _column(values: "pd.Series[Any]") -> tuple[list[Any], NDArray[Any]]:
    """The kinds of a column, sorted, with None for what is missing last, and each row's place among them."""
    codes, found = pd.factorize(values, sort=True)
    kinds = [entry.item() if hasattr(entry, "item") else entry for entry in found]
    if (codes < 0).any():
        codes = np.where(codes < 0, len(kinds), codes)
        kinds.append(None)
    width = next(width for most, width in WIDTHS if len(kinds) <= most)
    return kinds, codes.astype(np.dtype(width).newbyteorder("<"))
