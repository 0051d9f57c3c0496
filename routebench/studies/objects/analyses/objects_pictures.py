"""Pictures that each slot draws, and which slot has the coupling."""

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import METHOD, Analysis, Column, Method, Runs, analysis_of, palette, run
from routebench.analysis.pictures import Arrays, figure_of_sheets, first_arrays, first_of, hang_each, tiled

GROUND = 255
"""Number in place of a shape, in the arrays."""
TINT = 0.15
"""Part of a slot's colour, where the ground is seen."""
MOST_METHODS = 8
IN_USE = 0.05
"""Share of the pixels of shapes from which a slot counts."""


@analysis_of("objects", "objects-pictures", place=20)
def objects_pictures(runs: Runs) -> Analysis | None:
    """Pictures, and below them for each method the slot that draws each pixel, and the slot that has the coupling."""
    found = first_arrays(runs, "example_masks")
    if not found:
        return None
    shown = first_of(_longest(found), MOST_METHODS)
    images = next(iter(shown.values()))["example_images"].transpose(0, 2, 3, 1)
    sheets = {"Pictures": tiled(images, len(images))}
    sheets |= {str(name): sheet_of(arrays) for name, arrays in shown.items()}
    table = DataFrame([{"method": name, **_counts(arrays)} for name, arrays in found.items()])
    return Analysis(
        title="What each slot draws",
        reading="What does each slot draw?",
        table=table,
        figure=figure_of_sheets(sheets.values(), hang_each, sheets, above=0.35),
        columns=(
            METHOD,
            Column("Slots in use", "slots", ".1f", f"with {100 * IN_USE:g} % of the pixels of shapes or more, mean"),
            Column("Shapes seen", "shapes", ".1f", "likewise", extra=True),
        ),
        notes=(
            "Below the pictures, by method: slots that draw each pixel, and slots with most of the coupling.",
            "A colour is a slot; pale is the ground, which does not count. Without coupling there is one row.",
            "The first finished seed of each method, with its most iterations.",
        ),
        alternative="Rows of pictures, of masks by slot and of coupling by slot, for each method.",
    )  # fmt: skip


def _longest(found: dict[Method, Arrays]) -> dict[Method, Arrays]:
    """Each method with its most iterations alone."""
    most: dict[tuple[str, ...], int] = {}
    for method in found:
        own = (method.name, method.params, method.variant)
        most[own] = max(most.get(own, 0), method.iterations or 0)
    return {
        method: arrays
        for method, arrays in found.items()
        if (method.iterations or 0) == most[method.name, method.params, method.variant]
    }


def sheet_of(arrays: Arrays) -> NDArray[np.uint8]:
    """Masks, and coupling under them: (row, column, colour)."""
    owners = arrays["example_owners"]
    rows = [_by_slot(arrays[key], owners) for key in ("example_masks", "example_coupling") if key in arrays]
    return tiled(np.concatenate(rows), len(owners))


def _by_slot(slots: NDArray[np.uint8], owners: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The colour of the slot at each pixel, pale on the ground."""
    colours = np.array([to_rgb(hue) for hue in palette.HUES])[slots % len(palette.HUES)]
    strength = np.where(owners == GROUND, TINT, 1.0)[..., None]
    return np.asarray(255 * (1 - strength * (1 - colours)), dtype=np.uint8)


def _counts(arrays: Arrays) -> dict[str, float]:
    """Counts of a mean picture: the slots that draw its shapes, and the shapes that are seen."""
    pairs = list(zip(arrays["example_masks"], arrays["example_owners"], strict=True))
    drawing = [np.bincount(masks[owners != GROUND]) >= IN_USE * (owners != GROUND).sum() for masks, owners in pairs]
    seen = [len(np.unique(owners[owners != GROUND])) for _, owners in pairs]
    return {"slots": float(np.mean([each.sum() for each in drawing])), "shapes": float(np.mean(seen))}


if __name__ == "__main__":
    run(objects_pictures)
