"""What models that learn without labels make of digits that they were not trained on: turned ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, run, wording
from routebench.analysis.pictures import first_arrays

MOST_MODELS = 3
Arrays = Mapping[str, NDArray[Any]]


@analysis_of("linear-probe", "reconstructions", place=30)
def reconstructions(runs: Runs) -> Analysis | None:
    """One digit per class, turned by each angle, above its reconstruction; the squared error of each."""
    examples = first_arrays(runs, "example_reconstructions")
    if not examples:
        return None
    table = _table(examples)
    reading = _reading(table)
    with figures.look():
        angles = next(iter(examples.values()))["example_angles"]
        shown = dict(list(examples.items())[:MOST_MODELS])
        figure, axes = figures.new_figure(0.4 + 1.0 * len(angles) * len(shown), rows=len(shown) * len(angles))
        for place, (name, arrays) in enumerate(shown.items()):
            _draw(figure, axes[place * len(angles) : (place + 1) * len(angles)], name, arrays)
    return Analysis(
        title="Digits and their reconstructions",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Model", "name", lambda row: str(row["name"]), numeric=False),
            Column("Turned by, °", "angle", lambda row: str(row["angle"])),
            Column(
                "Error per pixel", "error", lambda row: f"{row['error']:.4f}", "squared, mean over pixels in [0, 1]"
            ),
        ),
        notes=(
            "The first test digit of each class, of the first seed that was measured; trained on upright digits.",
            "Figure: digits, and below them their reconstructions.",
        ),
        alternative="Rows of digits above their reconstructions, for each angle.",
    )


def _table(examples: Mapping[str, Arrays]) -> DataFrame:
    rows = []
    for name, arrays in examples.items():
        gaps = arrays["example_images"].astype(float) - arrays["example_reconstructions"].astype(float)
        errors = np.square(gaps / 255).reshape(len(gaps), -1).mean(axis=1)
        rows += [
            {"name": name, "angle": int(angle), "error": float(error)}
            for angle, error in zip(arrays["example_angles"], errors, strict=True)
        ]
    return DataFrame(rows)


def _draw(figure: Figure, axes: list[Axes], name: str, arrays: Arrays) -> None:
    for one, images, decoded, angle in zip(
        axes, arrays["example_images"], arrays["example_reconstructions"], arrays["example_angles"], strict=True
    ):
        rows = [np.concatenate(list(part.transpose(0, 2, 3, 1)), axis=1) for part in (images, decoded)]
        picture = 255 - np.concatenate(rows, axis=0)  # ink on paper
        grey = picture.shape[-1] == 1
        one.imshow(picture[..., 0] if grey else picture, cmap="gray" if grey else None, vmin=0, vmax=255)
        one.set_xticks([])
        one.set_yticks([])
        one.set_ylabel("upright" if angle == 0 else f"{angle}°", rotation=0, ha="right", va="center")
        for side in one.spines.values():
            side.set_visible(False)
    axes[0].set_title(wording.in_lines(name, 40))
    figure.align_ylabels(axes)


def _reading(table: DataFrame) -> str:
    told = []
    for name, rows in table.groupby("name", sort=False):
        first, worst = rows.iloc[0], rows.sort_values("error").iloc[-1]
        upright = "upright" if first["angle"] == 0 else f"turned by {first['angle']}°"
        if len(rows) == 1 or worst["angle"] == first["angle"]:
            told.append(f"{name} reconstructs digits {upright} with a squared error of {first['error']:.3f} per pixel")
        else:
            told.append(
                f"{name} reconstructs digits turned by {worst['angle']}° with {worst['error'] / first['error']:.1f} "
                f"times the squared error of those {upright}"
            )
    return f"{'; '.join(told)}."


if __name__ == "__main__":
    run(reconstructions)
