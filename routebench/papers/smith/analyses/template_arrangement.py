"""Templates and the strokes of a rotated digit that they draw, and how much templates are reused across angles."""

import colorsys
import math
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import (
    MODEL,
    SEEDS,
    Analysis,
    Column,
    Method,
    Runs,
    analysis_of,
    figures,
    numbers,
    run,
    wording,
)
from routebench.analysis.pictures import (
    Arrays,
    Pictures,
    coloured,
    figure_of_sheets,
    first_arrays,
    first_of,
    hang,
    tiled,
)

MOST_MODELS = 4
IN_A_ROW = 6
DIGIT = "the digit"
BAND = 6
"""Pixels above each picture, for the angle."""
GREY = 60
"""Pixels between pictures."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Step on the circle of hues, from one template to the next: any number of them are far apart."""
Sheet = tuple[Method | str, Arrays, NDArray[np.uint8]]  # title, what it is of, picture


@analysis_of("generation", "template-arrangement", place=30)
def template_arrangement(runs: Runs) -> Analysis | None:
    """A turned digit with each template in its own colour, and the reuse of templates by angle."""
    table = runs.means("template_reuse", by=["angle"])
    if table.empty:
        return None
    table = table.sort_values("method", key=lambda of: of.map(lambda one: one.is_control), kind="stable")
    table = table.assign(angle=table["angle"].astype(int)).reset_index(drop=True)
    shown = first_of(first_arrays(runs, "turned_parts"), MOST_MODELS)
    sheets: list[Sheet] = [(method, arrays, _sheet(arrays["turned_parts"])) for method, arrays in shown.items()]
    sheets = [(DIGIT, arrays, _tiled(coloured(arrays["turned"]))) for _, arrays, _ in sheets[:1]] + sheets
    below = [2.6] if len(set(table["angle"])) > 1 else []
    pictures = [picture for *_, picture in sheets]
    return Analysis(
        title="Which template draws what, as digits turn",
        reading="Does a template draw the same strokes when the digit turns?",
        table=table,
        figure=figure_of_sheets(pictures, _draw, sheets, table, runs, above=0.3, below=below),
        columns=(
            MODEL,
            Column("Up to, °", "angle", explained="largest angle of test digits"),
            Column(
                "Reuse",
                "mean",
                "±.3",
                "cosine of the shares of templates in a digit turned and as it is; 1: the same templates draw as much",
            ),
            replace(SEEDS, key="mean.n"),
        ),
        notes=(
            (
                "Pictures: one test digit, turned in steps of 30°, of the first finished seed; what is seen of each "
                "template has a colour of its own, which says nothing else. Smith et al., figures 5 and 7: templates "
                "that stay with their stroke turn with the digit, colours included."
            ),
            (
                "Reuse does not ask where a template draws, and a collapsed model reuses its one template for "
                "everything: read it beside the table of templates."
            ),
            "Mean over test images, then over seeds with its 95 % t interval.",
        ),
        alternative="A digit in twelve turns, its strokes coloured by template, and lines of reuse.",
    )


def _sheet(parts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Parts (turn, template, row, column) as light in colours on black, turns side by side."""
    share = parts.astype(float).sum(axis=(0, 2, 3))
    rank = np.empty(len(share), dtype=int)
    rank[np.argsort(-share, kind="stable")] = np.arange(len(share))  # those that draw most have hues furthest apart
    hues = np.array([_hue(int(place)) for place in rank])
    light = np.einsum("tkyx,kc->tyxc", parts.astype(float), hues)
    return _tiled(light.round().clip(0, 255).astype(np.uint8))


def _tiled(pictures: Pictures) -> NDArray[np.uint8]:
    """Tiles pictures with room for the angle above each."""
    return tiled(np.pad(pictures, ((0, 0), (BAND, 0), (0, 0), (0, 0))), IN_A_ROW, between=GREY)


def _hue(place: int) -> tuple[float, float, float]:
    return colorsys.hls_to_rgb((0.58 + place * GOLDEN) % 1, 0.62 if place % 2 == 0 else 0.72, 1.0)


def _draw(axes: list[Axes], sheets: list[Sheet], table: DataFrame, runs: Runs) -> None:
    for one, (name, arrays, picture) in zip(axes, sheets, strict=False):
        hang(one, picture, name)
        _name_turns(one, arrays)
    if len(axes) > len(sheets):
        _curves(axes[-1], table, runs)


def _name_turns(axes: Axes, arrays: Arrays) -> None:
    size = arrays["turned_parts"].shape[-1] + 1
    for place, turn in enumerate(arrays["turns"]):
        x, y = place % IN_A_ROW * size, place // IN_A_ROW * (size + BAND)
        axes.text(x, y, f"{int(turn)}°", color="#ffffff", fontsize=7.5, ha="left", va="top")


def _curves(axes: Axes, table: DataFrame, runs: Runs) -> None:
    angles = sorted(set(table["angle"]))
    step = 1.5 * ((angles[-1] - angles[0]) / 180)  # so that intervals stand side by side
    figures.lines(
        axes, table, "angle", "mean", runs.colour, step=step, dashes=lambda _: "-", linewidth=1.6,
        label=lambda method: wording.in_lines(str(method)),
    )  # fmt: skip
    axes.set_xticks(angles)
    axes.set_ylim(min(0.0, float(numbers(table["mean"]).min())), 1.02)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("largest angle of test digits, degrees")
    axes.set_title("Reuse of templates, turned and upright")
    axes.set_ylabel("cosine of shares")
    figures.legend_below(axes)


if __name__ == "__main__":
    run(template_arrangement)
