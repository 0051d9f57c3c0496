"""Pictures of where coupling goes: images, and below them maps for the right class and for the strongest other."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from routebench.analysis import palette
from routebench.analysis.pictures import Arrays, figure_of_sheets, hang, on_paper, tiled

MOST = 12
"""Images beside each other; more of them stand below."""
LEAST = 6
"""Fewer leave room at the right, or they would be large."""

Piece = tuple[str, Arrays]


def figure_of_coupling(shown: Mapping[str, Arrays]) -> Figure | None:
    """A figure with a sheet for each title, or several where it has many images; None without any.

    Args:
        shown: by title, arrays as `protocols.coupling_maps.mapped_examples` makes them.
    """
    pieces = [piece for title, arrays in shown.items() for piece in _pieces(title, arrays)]
    width = max((len(piece["coupling_images"]) for _, piece in pieces), default=0)
    sheets = [_sheet(piece, max(width, LEAST)) for _, piece in pieces]
    return figure_of_sheets(sheets, _draw, sheets, pieces, above=0.55)


def _pieces(title: str, arrays: Arrays) -> list[Piece]:
    """The images in rows, with maps on one scale, on which white is no coupling and 1 the most of this title."""
    maps = np.asarray(arrays["coupling_maps"], dtype=float)
    scaled = {**arrays, "coupling_maps": maps / max(float(maps.max()), 1e-12)}
    keys = ("coupling_images", "coupling_classes", "coupling_answers", "coupling_maps")
    starts = range(0, len(maps), MOST)
    return [(title if start == 0 else "", {key: scaled[key][start : start + MOST] for key in keys}) for start in starts]


def _sheet(piece: Arrays, columns: int) -> NDArray[np.uint8]:
    """Images, maps for the right class, and maps for the other one, under each other: (row, column, colour).

    The colour has a fourth channel, which is 0 where fewer images than columns leave room.
    """
    images, maps = on_paper(piece["coupling_images"]), piece["coupling_maps"]
    rows = [images, *(_tinted(_stretched(maps[:, number], images.shape[1:3])) for number in range(maps.shape[1]))]
    sheet = tiled(np.concatenate(rows), len(images))
    seen = np.dstack((sheet, np.full(sheet.shape[:2], 255, dtype=np.uint8)))
    return np.pad(seen, ((0, 0), (0, (columns - len(images)) * (images.shape[2] + 1)), (0, 0)))


def _stretched(maps: NDArray[np.float64], size: tuple[int, ...]) -> NDArray[np.float64]:
    """Maps as large as the images: (image, row, column), each place a block."""
    rows = np.arange(size[0]) * maps.shape[1] // size[0]
    columns = np.arange(size[1]) * maps.shape[2] // size[1]
    return maps[:, rows][:, :, columns]


def _tinted(strength: NDArray[np.float64]) -> NDArray[np.uint8]:
    """White where there is nothing, and a hue where it is most."""
    hue = np.array(to_rgb(palette.HUES[0]))
    return np.asarray(255 * (1 - strength[..., None] * (1 - hue)), dtype=np.uint8)


def _draw(axes: list[Axes], sheets: Sequence[NDArray[np.uint8]], pieces: Sequence[Piece]) -> None:
    """Sheets with the class above each image, and the answer where that is wrong; and what the rows show."""
    for own, sheet, (title, piece) in zip(axes, sheets, pieces, strict=True):
        hang(own, sheet)
        own.set_title(title, pad=16)
        height, width = (size + 1 for size in piece["coupling_images"].shape[2:])
        for number, ((right, other), answer) in enumerate(
            zip(piece["coupling_classes"], piece["coupling_answers"], strict=True)
        ):
            told = f"{right}" if answer == right else f"{right}→{other}"
            own.text((number + 0.5) * width, -1, told, ha="center", va="bottom", fontsize=8)
        own.set_yticks([1.5 * height, 2.5 * height], ["right", "other"], fontsize=8)
