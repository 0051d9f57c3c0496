"""Pictures that cells keep as arrays: which cell is shown, ink on paper, many pictures as one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from routebench.analysis import wording
from routebench.analysis._runs import Runs

Pictures = NDArray[np.uint8]
"""(picture, row, column, colour), the colour red, green and blue."""
FRAME = 221
"""The grey between pictures, near that of the palette's `GRID`."""


def first_arrays(runs: Runs, name: str) -> dict[str, Mapping[str, NDArray[Any]]]:
    """By name of a method, the arrays of the finished cell with its first seed; methods come before controls.

    Args:
        runs: of a suite.
        name: of an array; methods whose cell has none are left out. To the rest `seed` is added.
    """
    found: dict[str, Mapping[str, NDArray[Any]]] = {}
    done = runs.planned[runs.planned["status"] == "ok"]
    done = done.assign(control=done["role"] == "control").sort_values(["control", "label", "iterations", "seed"])
    for row in done.to_dict("records"):
        shown = wording.name_of(str(row["label"]), row["iterations"])
        if shown in found:
            continue
        arrays = runs.arrays(str(row["cell"]))
        if name in arrays:
            found[shown] = {**arrays, "seed": np.array(row["seed"])}
    return found


def coloured(pictures: NDArray[Any]) -> Pictures:
    """Pictures with one or three channels, (picture, channel, row, column), in red, green and blue."""
    last = np.asarray(pictures).transpose(0, 2, 3, 1)
    return np.broadcast_to(last, (*last.shape[:3], 3)).astype(np.uint8)


def on_paper(pictures: NDArray[Any]) -> Pictures:
    """The negative of `coloured`: bright strokes on black become ink on white paper."""
    return np.asarray(255 - coloured(pictures), dtype=np.uint8)


def tiled(pictures: Pictures, columns: int, gap: int = 1, between: int = FRAME, empty: int = 255) -> NDArray[np.uint8]:
    """Pictures in rows, read like text, as one: (row, column, colour).

    Args:
        pictures: all of one size.
        columns: pictures in a row.
        gap: pixels between two pictures.
        between: the grey of the gaps.
        empty: the grey of what is left of the last row.
    """
    count, height, width, _ = pictures.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    sheet = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), between, dtype=np.uint8)
    for place in range(rows * columns):
        top, left = place // columns * (height + gap), place % columns * (width + gap)
        if place < count:
            sheet[top : top + height, left : left + width] = pictures[place]
        else:
            sheet[top : top + height + gap, max(left - gap, 0) : left + width] = empty
    return sheet


def hang(axes: Axes, picture: NDArray[np.uint8], title: str = "") -> None:
    """Draws a picture on axes without ticks, spines and grid."""
    axes.imshow(picture, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        axes.set_title(title)
