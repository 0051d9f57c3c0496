"""Distances of votes from their class capsule after each iteration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Method,
    Runs,
    analysis_of,
    figures,
    palette,
    run,
)

IMAGE = 0  # of the three that were measured
NEAR, FULL = "vote_distances_zoomed", "vote_distances"
WRONG: Mapping[str, Any] = {"color": palette.MUTED, "linewidth": 0.6, "alpha": 0.5, "zorder": 2}
Arrays = Mapping[str, NDArray[Any]]  # raw outputs of a run, by name


@analysis_of("sparsity", "vote-distances", place=40)
def vote_distances(runs: Runs) -> Analysis | None:
    """Histograms of the distance of votes to class capsules, weighted by coupling (Hinton et al. 2018, figure 2)."""
    shown = runs.examples(FULL, iterative=True)
    if not shown:
        return None
    table = DataFrame([row for method, arrays in shown.items() for row in _rows(method, arrays)])
    steps = int(table["iteration"].max())
    rows = 2 * len(shown)
    return Analysis(
        title="Distance of votes to their class capsule",
        reading="Do iterations bring votes nearer to their capsule?",
        table=table,
        figure=figures.figure_of(_draw, shown, runs, steps, height=0.5 + 1.15 * rows, columns=steps, rows=rows),
        columns=(
            Column("Method", "method.title", numeric=False),
            Column("Iteration", "iteration"),
            Column("Mean distance", "own", ".3f", "to the right class, weighted by coupling"),
            Column("To other classes", "others", ".3f", "the same over all wrong classes"),
            Column("Near, %", "near", lambda row: f"{100 * row['near']:.0f}",
                   "of the right class's coupling, in the range of the zoomed panel"),
        ),
        notes=(
            (
                "Euclidean distance in the space of votes to the pose of the class capsule. Each vote has the weight "
                "coupling times the child's activation. Columns are iterations; the same network, one seed, one test "
                "image."
            ),
            (
                "Coloured: the right class. Grey: the wrong classes. Upper panels are near, with plain counts; lower "
                "ones the full range, with logarithmic counts."
            ),
        ),
        alternative="Histograms by method and iteration.",
    )  # fmt: skip


def _rows(method: Method, arrays: Arrays) -> list[dict[str, object]]:
    """One row per iteration, over all images."""
    edges, right = arrays[f"{FULL}_edges"], arrays["vote_labels"].astype(int)
    middle = (edges[1:] + edges[:-1]) / 2
    rows = []
    for step, counts in enumerate(arrays[FULL]):
        own = np.stack([counts[image, cls] for image, cls in enumerate(right)]).sum(axis=0)
        others = counts.sum(axis=(0, 1)) - own
        zoomed = sum(float(arrays[NEAR][step, image, cls].sum()) for image, cls in enumerate(right))
        row = {"method": method, "iteration": step + 1}
        row |= {"own": float((own * middle).sum() / max(own.sum(), 1e-12))}
        row |= {"others": float((others * middle).sum() / max(others.sum(), 1e-12))}
        rows.append(
            row | {"near": zoomed / max(float(own.sum()), 1e-12), "near_edge": float(arrays[f"{NEAR}_edges"][-1])}
        )
    return rows


def _draw(axes: list[Axes], shown: Mapping[Method, Arrays], runs: Runs, steps: int) -> None:
    grid = np.reshape(np.array(axes), (len(shown), 2, steps))
    for block, (method, arrays) in zip(grid, shown.items(), strict=True):
        block[0, 0].set_title(method.title, fontsize=9.5, color=runs.colour(method))
        for row, name, height in zip(block, (NEAR, FULL), ("weight", "weight, log"), strict=True):
            row[0].set_ylabel(height, fontsize=8.5)
            top = float(arrays[name][:, IMAGE].max())
            for step, panel in enumerate(row):
                if name == FULL:
                    panel.set_yscale("symlog", linthresh=1e-3)
                _histograms(panel, arrays, name, step, runs.colour(method))
                panel.set_ylim(0, 1.05 * top or 1.0)
                if top == 0:
                    panel.text(0.5, 0.5, "none so near", transform=panel.transAxes, ha="center", fontsize=8.5)
    for panel in grid[-1, -1]:
        panel.set_xlabel("distance", fontsize=8.5)


def _histograms(axes: Axes, arrays: Arrays, name: str, step: int, colour: str) -> None:
    for cls, counts in enumerate(arrays[name][step, IMAGE]):
        own = cls == int(arrays["vote_labels"][IMAGE])
        style: Mapping[str, Any] = {"color": colour, "linewidth": 1.4, "alpha": 1, "zorder": 3} if own else WRONG
        axes.stairs(counts, arrays[f"{name}_edges"], **style)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelsize=8.5)
    axes.text(0.03, 0.97, f"{step + 1}", transform=axes.transAxes, va="top", weight="bold", fontsize=9)


if __name__ == "__main__":
    run(vote_distances)
