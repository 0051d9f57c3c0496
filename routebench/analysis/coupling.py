"""Pictures of where coupling goes: images, and below them maps for the right class and for the strongest other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from routebench.analysis import palette
from routebench.analysis.pictures import Arrays, figure_of_sheets, hang, on_paper, tiled

COLUMNS = 12


def figure_of_coupling(shown: dict[str, Arrays]) -> Figure | None:
    """A figure with a sheet for each title; None without any.

    Args:
        shown: by title, arrays as `protocols.coupling_maps.mapped_examples` makes them.
    """
    sheets = {title: sheet_of(arrays) for title, arrays in shown.items()}
    return figure_of_sheets(sheets.values(), _draw, sheets, shown, above=0.55)


def sheet_of(arrays: Arrays) -> NDArray[np.uint8]:
    """Images, maps for the right class, and maps for the other one, under each other: (row, column, colour)."""
    images, maps = on_paper(arrays["coupling_images"]), np.asarray(arrays["coupling_maps"], dtype=float)
    strength = maps / max(float(maps.max()), 1e-12)  # one scale for a method: white is none
    columns = min(COLUMNS, len(images))
    strips = []
    for start in range(0, len(images), columns):
        some = slice(start, start + columns)
        size = images.shape[1:3]
        own = [_tinted(_stretched(strength[some, number], size)) for number in range(maps.shape[1])]
        strips.append(
            tiled(np.concatenate((_filled(images[some], columns), *(_filled(one, columns) for one in own))), columns)
        )
    return np.concatenate(strips)


def _filled(pictures: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """A whole row, with white where pictures are missing."""
    missing = np.full((columns - len(pictures), *pictures.shape[1:]), 255, dtype=np.uint8)
    return np.concatenate((pictures, missing))


def _stretched(maps: NDArray[np.float64], size: tuple[int, ...]) -> NDArray[np.float64]:
    """Maps as large as the images: (image, row, column), each place a block."""
    rows = np.arange(size[0]) * maps.shape[1] // size[0]
    columns = np.arange(size[1]) * maps.shape[2] // size[1]
    return maps[:, rows][:, :, columns]


def _tinted(strength: NDArray[np.float64]) -> NDArray[np.uint8]:
    """White where there is nothing, and a hue where it is most."""
    hue = np.array(to_rgb(palette.HUES[0]))
    return np.asarray(255 * (1 - strength[..., None] * (1 - hue)), dtype=np.uint8)


def _draw(axes: list[Axes], sheets: dict[str, NDArray[np.uint8]], shown: dict[str, Arrays]) -> None:
    for own, (title, sheet) in zip(axes, sheets.items(), strict=True):
        hang(own, sheet)
        own.set_title(title, pad=16)
        _mark(own, sheet, shown[title])


def _mark(axes: Axes, sheet: NDArray[np.uint8], arrays: Arrays) -> None:
    """Writes above each image of the first row its class, and the answer where that is wrong; and what rows show."""
    classes, answers = arrays["coupling_classes"][:COLUMNS], arrays["coupling_answers"][:COLUMNS]
    width, height = sheet.shape[1] / len(classes), arrays["coupling_images"].shape[2] + 1
    for number, ((right, other), answer) in enumerate(zip(classes, answers, strict=True)):
        told = f"{right}" if answer == right else f"{right}→{other}"
        axes.text((number + 0.5) * width, -1, told, ha="center", va="bottom", fontsize=8)
    axes.set_yticks([1.5 * height, 2.5 * height], ["right", "other"], fontsize=8)
