"""Pictures that runs keep as arrays: which run is shown, ink on paper, many pictures as one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from routebench.analysis import figures, wording
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs

Arrays = Mapping[str, NDArray[Any]]

Pictures = NDArray[np.uint8]
"""(picture, row, column, colour), the colour red, green and blue."""
FRAME = 221
"""The grey between pictures, near that of the palette's `GRID`."""
SHEET_WIDTH = 4.6
"""Inches that a wide picture has in a figure."""


def first_arrays(runs: Runs, name: str) -> dict[Method, Arrays]:
    """The arrays of each method's finished run with its first seed; methods come before baselines.

    Args:
        runs: the runs of a suite.
        name: the name of an array; methods whose run has none are left out. To the rest `seed` is added.
    """
    found: dict[Method, Arrays] = {}
    done = runs.planned[runs.planned["status"] == "ok"].sort_values("seed", kind="stable")
    for cell, seed in zip(done["cell"], done["seed"], strict=True):
        method = runs.methods[str(cell)]
        arrays = {} if method in found else runs.arrays(str(cell))
        if name in arrays:
            found[method] = {**arrays, "seed": np.array(seed)}
    return dict(sorted(found.items(), key=lambda item: (item[0].is_control, item[0])))


def first_of(found: Mapping[Method, Arrays], most: int) -> dict[Method, Arrays]:
    """So many of the methods, as a figure has room for.

    Args:
        found: arrays by method, as `first_arrays` gives them.
        most: the largest number of methods.
    """
    return dict(list(found.items())[:most])


def figure_of_sheets(
    sheets: Iterable[NDArray[np.uint8]], draw: Callable[..., None], *given: Any, above: float,
    below: Iterable[float] = (),
) -> Figure | None:  # fmt: skip
    """A figure of wide pictures under each other, drawn by `draw(list of axes, *given)`; None without any.

    Args:
        sheets: the pictures.
        draw, given: as for `figures.figure_of`.
        above: inches for the title of each.
        below: inches of further axes under them.
    """
    heights = [above + SHEET_WIDTH * sheet.shape[0] / sheet.shape[1] for sheet in sheets] + [*below]
    if not heights:
        return None
    return figures.figure_of(draw, *given, height=sum(heights), rows=len(heights), height_ratios=heights)


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


def hang(axes: Axes, picture: NDArray[np.uint8], title: object = "") -> None:
    """Draws a picture on axes without ticks, spines and grid; a long title in lines.

    Args:
        axes: to draw on.
        picture: (row, column, colour).
        title: above it; empty for none.
    """
    axes.imshow(picture, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        axes.set_title(wording.in_lines(str(title), 52))


def hang_each(axes: Iterable[Axes], pictures: Mapping[Any, NDArray[np.uint8]]) -> None:
    """Draws a picture on each of the axes, under its title.

    Args:
        axes: as many as there are pictures.
        pictures: by title.
    """
    for own, (title, picture) in zip(axes, pictures.items(), strict=True):
        hang(own, picture, title)
