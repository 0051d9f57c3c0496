"""Class capsules of single images: every element of every pose, and the scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, figures, palette, run

Shown = Mapping[Method, Mapping[str, NDArray[Any]]]  # raw outputs of a run of each method
IMAGES = 2
MOST = 8  # methods in the figure


@analysis_of("sparsity", "capsule-activity", place=30)
def capsule_activity(runs: Runs) -> Analysis | None:
    """Poses and scores of class capsules for one test image each of two classes; figure 1 of Kiefer et al. 2022."""
    examples = runs.examples("example_poses")
    shown = {method: examples[method] for method in sorted(examples, key=lambda method: method.role)[:MOST]}
    if not shown:
        return None
    table = DataFrame([row for method, arrays in shown.items() for row in _rows(method, arrays)])
    rows = len(shown)
    return Analysis(
        title="Class capsules of single images",
        reading="Which class capsules are active for single images?",
        table=table,
        figure=figures.figure_of(_draw, shown, height=0.55 + 0.95 * rows, columns=IMAGES, rows=rows),
        columns=(
            Column("Method", "method", numeric=False),
            Column(
                "Image", "image", lambda row: f"{row['image'] + 1}", "the first test image of the class under Label"
            ),
            Column("Class", "class"),
            Column("Label", "label", "", "the right class"),
            Column("Score", "score", ".3f", "length, activation or sigmoid"),
            Column("Pose length", "length", ".3f"),
        ),
        notes=(
            "Rows are classes, columns elements of the pose; blue is below zero, red above, on each panel's scale.",
            "Bars are scores, dark for the right class. One seed, the first test image of each of two classes.",
        ),
        alternative=f"Heat maps of class capsules, one row per method, {IMAGES} images.",
    )


def _rows(method: Method, arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, object]]:
    poses, scores, labels = (arrays[f"example_{part}"] for part in ("poses", "scores", "labels"))
    lengths = np.linalg.norm(poses, axis=-1)
    return [
        {
            "method": method,
            "image": image,
            "class": number,
            "label": int(labels[image]),
            "score": float(scores[image, number]),
            "length": float(lengths[image, number]),
        }
        for image in range(min(IMAGES, len(labels)))
        for number in range(scores.shape[1])
    ]


def _draw(axes: list[Axes], shown: Shown) -> None:
    for row, (method, arrays) in enumerate(shown.items()):
        for image in range(IMAGES):
            one = axes[row * IMAGES + image]
            poses, scores = arrays["example_poses"][image], arrays["example_scores"][image]
            label = int(arrays["example_labels"][image])
            reach = float(np.abs(poses).max()) or 1.0
            one.imshow(poses, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
            _bars(one, scores, label, poses.shape[1])
            one.set_xticks([])
            one.set_yticks([label], [f"{label}"])
            one.tick_params(length=0)
            one.grid(visible=False)
            for spine in one.spines.values():
                spine.set_visible(False)
            if image == 0:
                one.set_title(str(method), fontsize=9.5)


def _bars(axes: Axes, scores: NDArray[Any], label: int, start: int) -> None:
    """Scores beside the heat map, on the scale 0 to 1."""
    room = 0.45 * start
    colours = [palette.INK if number == label else palette.MUTED for number in range(len(scores))]
    axes.barh(range(len(scores)), room * scores, left=start, height=0.8, color=colours)
    axes.set_xlim(-0.5, start + room)


if __name__ == "__main__":
    run(capsule_activity)
