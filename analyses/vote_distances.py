"""Whether votes gather: how far they lie from their class capsule after each iteration."""

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
    by_method,
    figures,
    palette,
    run,
    wording,
)

IMAGE = 0  # of the three that were measured
NEAR, FULL = "vote_distances_zoomed", "vote_distances"


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
        reading=_reading(table, steps),
        table=table,
        figure=figures.figure_of(_draw, shown, runs, steps, height=0.5 + 1.15 * rows, columns=steps, rows=rows),
        columns=(
            Column("Method", "method.label", numeric=False),
            Column("Iteration", "iteration"),
            Column("Mean distance", "own", ".3f", "to the right class, weighted by coupling"),
            Column("To other classes", "others", ".3f", "the same over all wrong classes"),
            Column("Near, %", "near", lambda row: f"{100 * row['near']:.0f}",
                   "of the right class's coupling, in the range of the zoomed panel"),
        ),
        notes=(
            (
                "Euclidean distance in the space of votes to the pose of the class capsule, weighted by coupling times "
                "the child's activation; columns are iterations, the same weights, one seed, one test image."
            ),
            (
                "Coloured: the right class. Grey: the wrong classes. Upper panels are near, with plain counts; lower "
                "ones the full range, with logarithmic counts."
            ),
        ),
        alternative="Histograms by method and iteration.",
        saved="label=method.label iteration own others near near_edge",
    )  # fmt: skip


def _rows(method: Method, arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, object]]:
    """One row per iteration, over all images."""
    edges, right = arrays[f"{FULL}_edges"], arrays["vote_labels"].astype(int)
    middle = (edges[1:] + edges[:-1]) / 2
    near = float(arrays[f"{NEAR}_edges"][-1])
    rows = []
    for step, counts in enumerate(arrays[FULL]):
        own = np.stack([counts[image, cls] for image, cls in enumerate(right)]).sum(axis=0)
        others = counts.sum(axis=(0, 1)) - own
        zoomed = sum(float(arrays[NEAR][step, image, cls].sum()) for image, cls in enumerate(right))
        rows.append(
            {
                "method": method,
                "iteration": step + 1,
                "own": float((own * middle).sum() / max(own.sum(), 1e-12)),
                "others": float((others * middle).sum() / max(others.sum(), 1e-12)),
                "near": zoomed / max(float(own.sum()), 1e-12),
                "near_edge": near,
            }
        )
    return rows


def _draw(axes: list[Axes], shown: Mapping[Method, Mapping[str, NDArray[Any]]], runs: Runs, steps: int) -> None:
    for block, (method, arrays) in enumerate(shown.items()):
        colour, right = runs.colour(method), int(arrays["vote_labels"][IMAGE])
        for part, name in enumerate((NEAR, FULL)):
            edges = arrays[f"{name}_edges"]
            top = float(arrays[name][:, IMAGE].max())
            for step in range(steps):
                one = axes[(2 * block + part) * steps + step]
                for cls, counts in enumerate(arrays[name][step, IMAGE]):
                    own = cls == right
                    one.stairs(
                        counts, edges, color=colour if own else palette.MUTED, linewidth=1.4 if own else 0.6,
                        alpha=1 if own else 0.5, zorder=3 if own else 2,
                    )  # fmt: skip
                if part:
                    one.set_yscale("symlog", linthresh=1e-3)
                one.set_ylim(0, 1.05 * top)
                one.set_yticks([])
                one.xaxis.set_major_locator(MaxNLocator(3))
                one.tick_params(labelsize=8.5)
                one.text(0.03, 0.97, f"{step + 1}", transform=one.transAxes, va="top", weight="bold", fontsize=9)
                if not part and step == 0:
                    one.set_title(method.label, fontsize=9.5)


def _reading(table: DataFrame, steps: int) -> str:
    told = []
    for method, rows in by_method(table):
        first, last = rows.iloc[0], rows.iloc[-1]
        change = 100 * (last["own"] / first["own"] - 1)
        verb = "come nearer" if change < -5 else "go farther" if change > 5 else "stay where they are"
        told.append(f"with {method.label} the votes for the right class {verb} ({change:+.0f} %)".replace("-", "−"))
    return f"From iteration 1 to {steps}, {wording.listed(told, 8)}."


if __name__ == "__main__":
    run(vote_distances)
