"""Images that models make from nothing, and whether they differ from each other."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import script, wording
from routebench.analysis.figures import look, new_figure
from routebench.analysis.pictures import first_arrays, hang, on_paper, tiled
from routebench.analysis.result import Analysis, Column, Runs, belongs_to
from routebench.registry import analyses

MOST_MODELS = 4
IN_A_ROW = 8
EMPTY = 0.01
"""An image whose mean brightness is below this is called empty; that of a handwritten digit is near 0.13."""


@analyses.register("samples")
@belongs_to("generation", place=50)
def samples(runs: Runs) -> Analysis | None:
    """A grid of samples per model; how bright they are, how many are empty and how far they differ."""
    found = first_arrays(runs, "samples")
    if not found:
        return None
    table = _table(found, runs)
    reading = _reading(table)
    shown = dict(list(found.items())[:MOST_MODELS])
    with look():
        sheets = {name: tiled(on_paper(arrays["samples"]), IN_A_ROW) for name, arrays in shown.items()}
        heights = [0.36 + 4.6 * sheet.shape[0] / sheet.shape[1] for sheet in sheets.values()]
        figure, axes = new_figure(sum(heights), rows=len(sheets), height_ratios=heights)
        for one, (name, sheet) in zip(axes, sheets.items(), strict=True):
            hang(one, sheet, wording.in_lines(name, 52))
    return Analysis(
        title="Samples",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Model", "name", wording.marked, numeric=False),
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
        ),
        alternative=f"Grids of samples as ink on paper, one block per model. {reading}",
    )


def _table(found: Mapping[str, Mapping[str, NDArray[np.uint8]]], runs: Runs) -> DataFrame:
    planned = runs.planned.assign(
        name=[wording.name_of(str(row["label"]), row["iterations"]) for row in runs.planned.to_dict("records")]
    )
    roles = planned.drop_duplicates("name").set_index("name")["role"]
    rows = []
    for name, arrays in found.items():
        grey = arrays["samples"].astype(float) / 255
        each = grey.reshape(len(grey), -1).mean(axis=1)
        rows.append({
            "name": name,
            "role": str(roles[name]),
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
        for row in table.to_dict("records")
    ]
    return f"Of samples drawn from the model alone, {wording.listed(told)}."


if __name__ == "__main__":
    script.run(samples, "samples")
