"""Which template draws which stroke of a turned digit, and how far the same templates are used again."""

import colorsys
import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import means_of, value_with_interval
from routebench.analysis.pictures import Pictures, coloured, first_arrays, hang, tiled

MOST_MODELS = 4
IN_A_ROW = 6
DIGIT = "the digit"
BAND = 6
"""Pixels above each picture, for its angle."""
GREY = 60
"""Between pictures."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Of the circle of hues, from one template to the next: any number of them are far apart."""


@analysis_of("generation", "template-arrangement", place=30)
def template_arrangement(runs: Runs) -> Analysis | None:
    """A turned digit with each template in its own colour, and the reuse of templates by angle."""
    table = means_of(runs, "template_reuse", ["angle"])
    if table.empty:
        return None
    table = table.assign(angle=table["angle"].astype(int), control=table["role"] == "control")
    table = table.sort_values(["control", "name", "angle"], kind="stable", ignore_index=True).drop(columns="control")
    shown = dict(list(first_arrays(runs, "turned_parts").items())[:MOST_MODELS])
    sheets = {name: _sheet(arrays["turned_parts"]) for name, arrays in shown.items()}
    for arrays in list(shown.values())[:1]:  # one digit for all
        sheets = {DIGIT: _tiled(coloured(arrays["turned"])), **sheets}
        shown = {DIGIT: arrays, **shown}
    several = len(set(table["angle"])) > 1
    reading = _reading(table)
    with figures.look():
        heights = [0.3 + 4.6 * sheet.shape[0] / sheet.shape[1] for sheet in sheets.values()] + [2.6] * several
        figure = None
        if heights:
            figure, axes = figures.new_figure(sum(heights), rows=len(heights), height_ratios=heights)
            for one, name in zip(axes, sheets, strict=False):
                hang(one, sheets[name], name if name == DIGIT else wording.in_lines(name, 52))
                _name_turns(one, shown[name])
            if several:
                _curves(axes[-1], table, runs)
    return Analysis(
        title="Which template draws what, as digits turn",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Model", "name", wording.marked, numeric=False),
            Column("Up to, °", "angle", lambda row: str(row["angle"]), "largest angle of test digits"),
            Column(
                "Reuse",
                "mean",
                lambda row: value_with_interval(row["mean"], row["low"], row["high"]),
                "cosine of the shares of templates in a digit turned and as it is; 1: the same templates draw as much",
            ),
            Column("Seeds", "n", lambda row: str(row["n"]), "that the mean is over", extra=True),
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
    """With room for the angle above each picture."""
    return tiled(np.pad(pictures, ((0, 0), (BAND, 0), (0, 0), (0, 0))), IN_A_ROW, between=GREY)


def _hue(place: int) -> tuple[float, float, float]:
    return colorsys.hls_to_rgb((0.58 + place * GOLDEN) % 1, 0.62 if place % 2 == 0 else 0.72, 1.0)


def _name_turns(axes: Axes, arrays: Mapping[str, NDArray[np.uint8]]) -> None:
    size = arrays["turned_parts"].shape[-1] + 1
    for place, turn in enumerate(arrays["turns"]):
        x, y = place % IN_A_ROW * size, place // IN_A_ROW * (size + BAND)
        axes.text(x, y, f"{int(turn)}°", color="#ffffff", fontsize=7.5, ha="left", va="top")


def _curves(axes: Axes, table: DataFrame, runs: Runs) -> None:
    angles = sorted(set(table["angle"]))
    names = list(dict.fromkeys(table["name"]))
    step = (angles[-1] - angles[0]) / 180
    for place, name in enumerate(names):
        line = table[table["name"] == name]
        colour = runs.colours.get(str(line["label"].iloc[0]), palette.MUTED)
        x = line["angle"] + 1.5 * step * (place - (len(names) - 1) / 2)  # so that intervals stand side by side
        marker, shown = figures.MARKERS[place % len(figures.MARKERS)], wording.in_lines(name)
        axes.plot(x, line["mean"], color=colour, linewidth=1.6, marker=marker, markersize=4, label=shown)
        axes.vlines(x, line["low"], line["high"], color=colour, linewidth=1.4, alpha=0.7)
    axes.set_xticks(angles)
    axes.set_ylim(min(0.0, float(table["mean"].min())), 1.02)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("largest angle of test digits, degrees")
    axes.set_title("Reuse of templates, turned and upright")
    axes.set_ylabel("cosine of shares")
    figures.legend_below(axes)


def _reading(table: DataFrame) -> str:
    told = []
    for name, rows in table[table["angle"] > 0].groupby("name", sort=False):
        last = rows.iloc[-1]
        value = value_with_interval(last["mean"], last["low"], last["high"], 2)
        told.append(f"{value} for {name}, turned by up to {last['angle']}°")
    if not told:
        return "Templates were looked at in upright digits only."
    return f"The shares that templates have in a digit, turned and upright, have a cosine of {wording.listed(told)}."


if __name__ == "__main__":
    run(template_arrangement)
