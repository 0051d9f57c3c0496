"""Images that models make from nothing or from objects seen in others, and whether they differ from each other."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, run, wording
from routebench.analysis.pictures import first_arrays, hang, on_paper, tiled

MOST_MODELS = 4
IN_A_ROW = 8
BESIDE = 6
"""Pixels between the two grids of a model."""
KINDS = {"samples": "nothing", "samples_again": "objects of training images"}
"""What images are made from, by the array that holds them."""
EMPTY = 0.01
"""An image whose mean brightness is below this is called empty; that of a handwritten digit is near 0.13."""


@analysis_of("generation", "samples", place=50)
def samples(runs: Runs) -> Analysis | None:
    """A grid of samples per model; how bright they are, how many are empty and how far they differ."""
    found = first_arrays(runs, "samples")
    if not found:
        return None
    table = _table(found, runs)
    reading = _reading(table)
    shown = dict(list(found.items())[:MOST_MODELS])
    with figures.look():
        sheets = {name: _sheet(arrays) for name, arrays in shown.items()}
        heights = [0.36 + 4.6 * sheet.shape[0] / sheet.shape[1] for sheet in sheets.values()]
        figure, axes = figures.new_figure(sum(heights), rows=len(sheets), height_ratios=heights)
        for one, (name, sheet) in zip(axes, sheets.items(), strict=True):
            hang(one, sheet, wording.in_lines(name, 52))
    return Analysis(
        title="Samples",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Model", "name", wording.marked, numeric=False),
            Column("Made from", "made_from", lambda row: str(row["made_from"]), "see the notes", numeric=False),
            Column(
                "Brightness, %", "brightness", lambda row: f"{row['brightness']:.1f}", "mean over pixels and samples"
            ),
            Column("Empty", "empty", lambda row: f"{row['empty']} of {row['samples']}", f"darker than {EMPTY:.0%}"),
            Column(
                "Spread",
                "spread",
                lambda row: f"{row['spread']:.3f}",
                "standard deviation of a pixel, root mean square",
            ),
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


def _sheet(arrays: Mapping[str, NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """The grids of a model beside each other."""
    grids = [tiled(on_paper(arrays[key]), IN_A_ROW) for key in KINDS if key in arrays]
    height = max(len(grid) for grid in grids)
    paper = [np.pad(grid, ((0, height - len(grid)), (0, BESIDE), (0, 0)), constant_values=255) for grid in grids]
    return np.concatenate(paper, axis=1)[:, :-BESIDE]


def _table(found: Mapping[str, Mapping[str, NDArray[np.uint8]]], runs: Runs) -> DataFrame:
    planned = runs.planned.assign(
        name=[wording.name_of(str(row["label"]), row["iterations"]) for row in runs.planned.to_dict("records")]
    )
    roles = planned.drop_duplicates("name").set_index("name")["role"]
    rows = []
    for name, arrays in found.items():
        for key in [key for key in KINDS if key in arrays]:
            grey = arrays[key].astype(float) / 255
            each = grey.reshape(len(grey), -1).mean(axis=1)
            rows.append({
                "name": name,
                "role": str(roles[name]),
                "made_from": KINDS[key],
                "samples": len(grey),
                "brightness": 100 * float(each.mean()),
                "empty": int((each < EMPTY).sum()),
                "spread": float(np.sqrt(np.square(grey - grey.mean(axis=0)).mean())),
            })  # fmt: skip
    return DataFrame(rows)


def _reading(table: DataFrame) -> str:
    told = [
        f"those of {row['name']} differ by {row['spread']:.2f} per pixel"
        + (f" and {row['empty']} of {row['samples']} are empty" if row["empty"] else "")
        for row in table[table["made_from"] == KINDS["samples"]].to_dict("records")
    ]
    return f"Of samples drawn from the model alone, {wording.listed(told)}."


if __name__ == "__main__":
    run(samples)
