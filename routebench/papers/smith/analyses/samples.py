"""Samples of models, from the prior or from objects inferred in images, and their diversity."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import MODEL, Analysis, Column, Method, Runs, analysis_of, run
from routebench.analysis.pictures import Arrays, figure_of_sheets, first_arrays, first_of, hang_each, on_paper, tiled

MOST_MODELS = 4
IN_A_ROW = 8
BESIDE = 6
"""Pixels between the two grids of a model."""
KINDS = {"samples": "nothing", "samples_again": "objects of training images"}
"""The origin of images, by the array that holds them."""
EMPTY = 0.01
"""Mean brightness below which an image counts as empty; a handwritten digit has about 0.13."""


@analysis_of("generation", "samples", place=50)
def samples(runs: Runs) -> Analysis | None:
    """A grid of samples per model; their brightness, the share of empty ones and their differences."""
    found = first_arrays(runs, "samples")
    if not found:
        return None
    table = _table(found)
    sheets = {method: _sheet(arrays) for method, arrays in first_of(found, MOST_MODELS).items()}
    return Analysis(
        title="Samples",
        reading="What do models draw, and how much do samples differ?",
        table=table,
        figure=figure_of_sheets(sheets.values(), hang_each, sheets, above=0.36),
        columns=(
            MODEL,
            Column("Made from", "made_from", explained="see the notes", numeric=False),
            Column("Brightness, %", "brightness", ".1f", "mean over pixels and samples"),
            Column("Empty", "empty", lambda row: f"{row['empty']} of {row['samples']}", f"darker than {EMPTY:.0%}"),
            Column("Spread", "spread", ".3f", "standard deviation of a pixel, root mean square"),
        ),
        notes=(
            (
                "Of the first finished seed of each model, from one generator; ink on paper. A spread of 0 is one "
                "image over and over. Pictures are no measure of a likelihood: what they miss is not seen."
            ),
            (
                "Made from nothing: objects are drawn from their prior. Made from objects of training images, on the "
                "right of the figure: they are drawn from what is inferred in such images, and parts are drawn anew. "
                "With certain poses a bound does not hold objects to the spread of their prior, so that the two differ."
            ),
        ),
        alternative="Grids of samples as ink on paper, one block per model.",
    )


def _sheet(arrays: Arrays) -> NDArray[np.uint8]:
    """The grids of a model beside each other."""
    grids = [tiled(on_paper(arrays[key]), IN_A_ROW) for key in KINDS if key in arrays]
    height = max(len(grid) for grid in grids)
    paper = [np.pad(grid, ((0, height - len(grid)), (0, BESIDE), (0, 0)), constant_values=255) for grid in grids]
    return np.concatenate(paper, axis=1)[:, :-BESIDE]


def _table(found: Mapping[Method, Arrays]) -> DataFrame:
    rows = []
    for method, arrays in found.items():
        for key in [key for key in KINDS if key in arrays]:
            grey = arrays[key].astype(float) / 255
            each = grey.reshape(len(grey), -1).mean(axis=1)
            rows.append({
                "method": method,
                "made_from": KINDS[key],
                "samples": len(grey),
                "brightness": 100 * float(each.mean()),
                "empty": int((each < EMPTY).sum()),
                "spread": float(np.sqrt(np.square(grey - grey.mean(axis=0)).mean())),
            })  # fmt: skip
    return DataFrame(rows)


if __name__ == "__main__":
    run(samples)
