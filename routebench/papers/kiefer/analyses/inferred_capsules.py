"""Class capsules after inference by predictive coding, compared with routing and with no routing."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import (
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Main,
    Mean,
    Method,
    Row,
    Runs,
    analysis_of,
    difference,
    figures,
    palette,
    run,
    table_of,
    wording,
)

KEYS = ["inference", "targets", "free"]
FORWARD, UNROUTED = "forward", "none"
PENALTIES = {"plain": "inference", "l1": "inference, L1", "l2": "inference, L2"}
TARGETS = {"label": "right label", "predicted": "own answer", "none": "none"}


def _inferred(row: Row, text: str) -> str:
    return wording.NOTHING if row["inference"] == FORWARD else text


MEASURES = (
    Mean.of("hoyer", explained="Hoyer's sparsity of the lengths: 0 is spread evenly, 1 is one capsule alone"),
    Mean.of("top_share", explained="share of the longest class capsule in the sum of lengths", extra=True),
    Mean.of("active_above_0.1", explained="class capsules that are longer than 0.1", extra=True),
    Mean.of("silent", title="Zero"),
    Mean.of("right_length", title="Right"),
    Mean.of("other_length", title="Others"),
    Mean.of("right_longest"),
    Mean.of("energy_after", extra=True),
    Mean.of("residual", title="Still moving", extra=True),
)  # fmt: skip
COLUMNS = (
    Column("Class capsules of", "condition", lambda row: wording.marked(row, "condition"), numeric=False),
    Column("Target", "targets", lambda row: _inferred(row, TARGETS[str(row["targets"])]),
           "that lengths of class capsules are drawn to", numeric=False),
    Column("Free", "free", lambda row: _inferred(row, str(row["free"])), "children: of the class capsules", False),
    *MEASURES,
    Column("Hoyer less none", "gain", "+.3", "paired by seed with the forward pass of none, 95 % interval"),
    SEEDS,
)  # fmt: skip
PAPER = ("label", "classes")  # targets and what is free, in figure 1 of the paper
IMAGES = 2


@analysis_of("predictive-coding", "inferred-capsules", place=10)
def inferred_capsules(runs: Runs) -> Analysis | None:
    """Sparsity of class capsules per condition with its paired difference to no routing; figure 1 B-E of the paper."""
    table = _table(runs)
    if table.empty:
        return None
    shown, labels = _shown(runs)
    height, rows = 0.4 + 1.22 * len(shown), len(shown)
    return Analysis(
        title="Sparsity by inference in place of routing",
        reading="How sparse are class capsules after routing, and after inference in its place?",
        table=table,
        figure=figures.figure_of(_draw, shown, labels, height=height, columns=IMAGES, rows=rows) if shown else None,
        columns=COLUMNS,
        notes=_notes(),
        alternative=f"Heat maps of class capsules of {IMAGES} test images, one row per condition.",
        main=Main.of("hoyer", title="Sparsity of class capsules", table=table[table["inference"] == FORWARD]),
    )


def _table(runs: Runs) -> DataFrame:
    """One row per method's forward pass, then one per condition of inference."""
    table = table_of(runs, MEASURES, by=KEYS)
    rows = [row for row in table.to_dict("records") if row["hoyer"].known]
    seeds = {_key(row): _by_seed(runs, row) for row in rows}
    base = next((found for key, found in seeds.items() if key == (UNROUTED, FORWARD, "none", "none")), {})
    for row in rows:
        row["n"] = row["hoyer"].n
        is_base = row["method"].exact == UNROUTED and row["inference"] == FORWARD
        row["gain"] = Estimate() if is_base else difference(seeds[_key(row)], base)
        row["condition"] = _name(row)
        row["role"] = row["method"].role if row["inference"] == FORWARD else "method"  # inferred: what is tried
    rows.sort(key=_place)
    return DataFrame(rows)


def _key(row: Row) -> tuple[str, ...]:
    return row["method"].exact, *(str(row[key]) for key in KEYS)


def _by_seed(runs: Runs, row: Row) -> dict[int, float]:
    return runs.by_seed("hoyer", **{key: row[key] for key in KEYS}).get(row["method"], {})


def _place(row: Row) -> tuple[int, ...]:
    """Sort key of a row: forward passes first, then by free layers, target and penalty."""
    if row["inference"] == FORWARD:
        return (0,)
    free = ("classes", "children").index(row["free"])
    return (1, free, list(TARGETS).index(row["targets"]), list(PENALTIES).index(row["inference"]))


def _name(row: Row) -> str:
    return str(row["method"]) if row["inference"] == FORWARD else f"{row['method']} + {PENALTIES[row['inference']]}"


def _notes() -> tuple[str, ...]:
    return (
        (
            "The right label, clamped as in the paper, draws the lengths of all other class capsules to zero by "
            "itself: class capsules that are free alone end half way between forward pass and label. What L1 does is "
            "to be read against the row without a penalty and the same target."
        ),
        (
            "Without target and penalty the forward pass is at rest already, and inference changes nothing. With L2 "
            "and no target, class capsules that are free alone shrink by one factor, which Hoyer's sparsity cannot see."
        ),
        (
            "Figure: the first seed; of ten test images, the one on which the forward pass of none is least decided, "
            "and that on which it is most. Columns are classes with their lengths above, the right one framed; rows "
            "are elements of the pose, blue below zero, red above, on each panel's scale. Inference has the right "
            "label clamped, and class capsules are free alone."
        ),
        "Mean over test images, then over seeds with its 95 % t interval.",
    )


def _shown(runs: Runs) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Class capsules (image, class, element) by condition, of two images, and their labels; first seed."""
    done = runs.planned[runs.planned["status"] == "ok"]
    done = done[done["seed"] == done["seed"].min()]
    base = _arrays(runs, done[done["label"] == UNROUTED])
    if not base:
        return {}, np.zeros(0)
    lengths = np.sort(np.linalg.norm(base[f"poses_{FORWARD}"], axis=-1), axis=1)
    margin = lengths[:, -1] - lengths[:, -2]
    images = [int(margin.argmin()), int(margin.argmax())]
    found = {}
    methods = done[(done["role"] == "method") & (done["label"] != UNROUTED)].sort_values(["label", "iterations"])
    for _, cells in methods.groupby("label"):
        last = cells.tail(1)
        found[str(runs.methods[str(last["cell"].iloc[0])])] = _arrays(runs, last)[f"poses_{FORWARD}"][images]
    found = dict(list(found.items())[:IMAGES])  # of a user's many methods, the first
    plain = str(Method.of(UNROUTED))
    found[plain] = base[f"poses_{FORWARD}"][images]
    for penalty, told in PENALTIES.items():
        own = base.get(f"poses_{penalty}_{PAPER[0]}_{PAPER[1]}")
        if own is not None:
            found[f"{plain} + {told}"] = own[images]
    return found, base["labels"][images]


def _arrays(runs: Runs, cells: DataFrame) -> Mapping[str, NDArray[Any]]:
    return runs.arrays(str(cells["cell"].iloc[0])) if len(cells) else {}


def _draw(axes: list[Axes], shown: Mapping[str, NDArray[Any]], labels: NDArray[Any]) -> None:
    for row, (name, poses) in enumerate(shown.items()):
        for image in range(IMAGES):
            title = name if image == 0 else ""
            _draw_one(axes[row * IMAGES + image], poses[image], int(labels[image]), title, row == len(shown) - 1)
        axes[row * IMAGES].set_ylabel("element", fontsize=8.5)


def _draw_one(axes: Axes, poses: NDArray[Any], label: int, title: str, is_last: bool) -> None:
    classes, elements = poses.shape
    reach = float(np.abs(poses).max()) or 1.0
    axes.imshow(poses.T, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    for number, length in enumerate(np.linalg.norm(poses, axis=1)):
        weight = "bold" if number == label else "normal"
        said = f"{length:.2f}".removeprefix("0") if length > 0 else "0"
        axes.text(number, -0.9, said, ha="center", va="bottom", fontsize=7, color=palette.INK, fontweight=weight)
    frame = Rectangle(
        (label - 0.5, -0.5), 1, elements, fill=False, edgecolor=palette.HUES[1], linewidth=1.6, clip_on=False
    )
    axes.add_patch(frame)
    axes.set_title(title, fontsize=9.5, pad=13)
    axes.set_xticks(range(classes) if is_last else [])
    axes.set_yticks([])
    if is_last:
        axes.set_xlabel("class")
    axes.tick_params(length=0, labelsize=8)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


if __name__ == "__main__":
    run(inferred_capsules)
