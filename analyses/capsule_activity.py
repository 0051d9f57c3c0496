"""What the class capsules of single images look like: every element of every pose, and the capsules' scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run, wording

IMAGES = 2
MOST = 8  # methods in the figure


@analysis_of("sparsity", "capsule-activity", place=30)
def capsule_activity(runs: Runs) -> Analysis | None:
    """Poses and scores of class capsules for one test image each of two classes; figure 1 of Kiefer et al. 2022."""
    shown = _shown(runs)
    if not shown:
        return None
    table = DataFrame([row for name, arrays in shown.items() for row in _rows(name, arrays)])
    with figures.look():
        figure, axes = figures.new_figure(0.55 + 0.95 * len(shown), columns=IMAGES, rows=len(shown))
        _draw(axes, shown)
    reading = _reading(table)
    return Analysis(
        title="Class capsules of single images",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column(
                "Image", "image", lambda row: f"{row['image'] + 1}", "the first test image of the class under Label"
            ),
            Column("Class", "class", lambda row: str(row["class"])),
            Column("Label", "label", lambda row: str(row["label"]), "the right class"),
            Column("Score", "score", lambda row: f"{row['score']:.3f}", "length, activation or sigmoid"),
            Column("Pose length", "length", lambda row: f"{row['length']:.3f}"),
        ),
        notes=(
            "Rows are classes, columns elements of the pose; blue is below zero, red above, on each panel's scale.",
            "Bars are scores, dark for the right class. One seed, the first test image of each of two classes.",
        ),
        alternative=f"Heat maps of class capsules, one row per method, {IMAGES} images.",
    )


def _shown(runs: Runs) -> dict[str, Mapping[str, NDArray[Any]]]:
    """Arrays of the methods' cells with the first seed and the largest T, by name; those with poses only."""
    first = runs.planned[runs.planned["status"] == "ok"].sort_values(["role", "label", "iterations"])
    first = first[first["seed"] == first["seed"].min()].assign(steps=first["iterations"].fillna(0))
    kept: dict[str, Mapping[str, NDArray[Any]]] = {}
    for _, cells in first.groupby("label", sort=False):
        cell = cells.loc[cells["steps"].idxmax()]
        arrays = runs.arrays(str(cell["cell"]))
        if "example_poses" in arrays:
            kept[wording.name_of(str(cell["label"]), cell["steps"])] = arrays
    return dict(list(kept.items())[:MOST])


def _rows(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, object]]:
    poses, scores, labels = (arrays[f"example_{part}"] for part in ("poses", "scores", "labels"))
    lengths = np.linalg.norm(poses, axis=-1)
    return [
        {
            "name": name,
            "image": image,
            "class": number,
            "label": int(labels[image]),
            "score": float(scores[image, number]),
            "length": float(lengths[image, number]),
        }
        for image in range(min(IMAGES, len(labels)))
        for number in range(scores.shape[1])
    ]


def _draw(axes: list[Axes], shown: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    for row, (name, arrays) in enumerate(shown.items()):
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
                one.set_title(name, fontsize=9.5)


def _bars(axes: Axes, scores: NDArray[Any], label: int, start: int) -> None:
    """Scores beside the heat map, on the scale 0 to 1."""
    room = 0.45 * start
    colours = [palette.INK if number == label else palette.MUTED for number in range(len(scores))]
    axes.barh(range(len(scores)), room * scores, left=start, height=0.8, color=colours)
    axes.set_xlim(-0.5, start + room)


def _reading(table: DataFrame) -> str:
    best = table.loc[table.groupby(["name", "image"])["score"].idxmax()]
    right = best[best["class"] == best["label"]]
    wrong = sorted(set(best["name"]) - set(right["name"]))
    told = f"Of {wording.plural(len(best), 'panel')}, the right class has the highest score in {len(right)}"
    return f"{told}; {wording.listed(wrong, 4)} has it in none." if wrong else f"{told}."


if __name__ == "__main__":
    run(capsule_activity)
