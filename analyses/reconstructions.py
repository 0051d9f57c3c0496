"""Reconstructions by models without labels of rotated digits, on which they were not trained."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, figures, run, wording
from routebench.analysis.pictures import Arrays, first_arrays, first_of

MOST_MODELS = 3
KEYS = ("images", "reconstructions", "angles")


@analysis_of("linear-probe", "reconstructions", place=30)
def reconstructions(runs: Runs) -> Analysis | None:
    """One digit per class, turned by each angle, above its reconstruction; the squared error of each."""
    examples = first_arrays(runs, "example_reconstructions")
    if not examples:
        return None
    table, shown = _table(examples), first_of(examples, MOST_MODELS)
    rows = len(next(iter(examples.values()))["example_angles"]) * len(shown)
    return Analysis(
        title="Digits and their reconstructions",
        reading="Do reconstructions show the digit?",
        table=table,
        figure=figures.figure_of(_draw, shown, height=0.4 + 1.0 * rows, rows=rows),
        columns=(
            Column("Model", "model", numeric=False),
            Column("Turned by, °", "angle"),
            Column("Error per pixel", "error", ".4f", "squared, mean over pixels in [0, 1]"),
        ),
        notes=(
            "The first test digit of each class, of the first seed that was measured; trained on upright digits.",
            "Figure: digits, and below them their reconstructions.",
        ),
        alternative="Rows of digits above their reconstructions, for each angle.",
    )


def _table(examples: Mapping[Method, Arrays]) -> DataFrame:
    rows = []
    for method, arrays in examples.items():
        gaps = arrays["example_images"].astype(float) - arrays["example_reconstructions"].astype(float)
        errors = np.square(gaps / 255).reshape(len(gaps), -1).mean(axis=1)
        angles = map(int, arrays["example_angles"])
        rows += [{"model": method, "angle": angle, "error": error} for angle, error in zip(angles, errors, strict=True)]
    return DataFrame(rows)


def _draw(axes: list[Axes], shown: Mapping[Method, Arrays]) -> None:
    free = iter(axes)
    for method, arrays in shown.items():
        own = [
            _draw_pair(next(free), np.stack(pair), "upright" if angle == 0 else f"{angle}°")
            for *pair, angle in zip(*(arrays[f"example_{key}"] for key in KEYS), strict=True)
        ]
        own[0].set_title(wording.in_lines(str(method), 40))
        own[0].get_figure(root=True).align_ylabels(own)  # type: ignore[union-attr]  # axes are of a figure


def _draw_pair(axes: Axes, pair: NDArray[np.uint8], told: str) -> Axes:
    """Digits, and below them their reconstructions: (2, image, channel, row, column)."""
    rows = [np.concatenate(list(part.transpose(0, 2, 3, 1)), axis=1) for part in pair]
    picture = 255 - np.concatenate(rows, axis=0)  # ink on paper
    grey = picture.shape[-1] == 1
    axes.imshow(picture[..., 0] if grey else picture, cmap="gray" if grey else None, vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])
    axes.set_ylabel(told, rotation=0, ha="right", va="center")
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


if __name__ == "__main__":
    run(reconstructions)
