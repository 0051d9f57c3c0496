"""Draws the pictures of published results: `docs/gain.svg` of the README, and one for folders of `reports`."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from routebench.analysis import figures, palette
from routebench.analysis.folder import open_folder
from routebench.registry import analyses

ROOT = Path(__file__).parents[2]
PICTURES = {
    "docs/gain.svg": ("standard", "standard", "full", "gain-over-uniform"),
    "reports/features/features.svg": ("features", "", "", "training-images"),
    "reports/generative-quick/generative-quick.svg": ("generative-quick", "smith-probes", "quick", "probe-curves"),
    "reports/grouping-quick/grouping-quick.svg": ("grouping-quick", "objects", "quick", "objects-table"),
    "reports/papers-full/papers-full.svg": ("papers-full", "", "", "published-beside-measured"),
    "reports/papers-quick/papers-quick.svg": ("papers-quick", "tsai-iterations", "long", "accuracy-by-iterations"),
    "reports/quick/quick.svg": ("quick", "accuracy", "quick", "gain-over-uniform"),
    "reports/routers/routers.svg": ("routers", "standard", "full", "gain-over-uniform"),
    "reports/scale/scale.svg": ("scale", "cost", "scale", "cost-by-size"),
}
"""The folder, suite and preset, both empty for the whole folder, and the analysis of each picture."""

LAYERS = {"dense-dynamic": "dynamic", "conv-attention": "inverted attention", "conv-em": "EM"}
CODES = {"yardstick": "as plain torch", "yardstick, compiled": "as plain torch, compiled"}
PARTS = {"apgd-ce": "APGD", "apgd-t": "APGD to classes", "fab-t": "FAB", "square": "Square"}


def _layers(axes: Axes, table: pd.DataFrame) -> None:
    """How many times as fast three layers are on a GPU as other code."""
    times = table[table["batch"] == 128].set_index(["case", "implementation"])["ms"]
    shades = (palette.COLOURS["blue"], palette.MUTED)
    for step, ((code, name), shade) in enumerate(zip(CODES.items(), shades, strict=True)):
        at = [place + 0.35 * (step - 0.5) for place in range(len(LAYERS))]
        axes.barh(at, [times[case, code] / times[case, "ours"] for case in LAYERS], 0.33, color=shade, label=name)
    axes.axvline(1, color=palette.INK, linewidth=1)
    axes.set(xlabel="times as fast, forward and backward, 128 images", ylim=(len(LAYERS) - 0.5, -0.5))
    axes.set_yticks(range(len(LAYERS)), list(LAYERS.values()))
    axes.grid(visible=False, axis="y")
    figures.legend_below(axes)


def _pairs(axes: Axes, table: pd.DataFrame) -> None:
    """Pairs of an image and a budget that each outside attack was given, and how many of them it broke."""
    once = table.drop_duplicates(["network", "eps"])
    broken = [int(once[[part, f"{part} 8 bit"]].max(axis=1).sum()) for part in PARTS]
    given = [int(once["pairs"].sum()) - sum(broken[:place]) for place in range(len(PARTS))]
    axes.barh(range(len(PARTS)), given, 0.6, color=palette.GRID)
    axes.barh(range(len(PARTS)), broken, 0.6, color=palette.COLOURS["blue"])
    for place, (one, most) in enumerate(zip(broken, given, strict=True)):
        axes.text(0.02 * max(given), place, f"{one} of {most:,} broken", va="center")
    axes.set(xlabel="images that the suite's attacks left", ylim=(len(PARTS) - 0.5, -0.5))
    axes.set_yticks(range(len(PARTS)), list(PARTS.values()))
    axes.grid(visible=False, axis="y")


OF_TABLES = {
    "reports/gpu/gpu.svg": ("layers.csv", _layers),
    "reports/attacks-outside/attacks-outside.svg": ("pairs.csv", _pairs),
}
"""The table beside each other picture, and how it is drawn."""


def drawn(picture: str) -> str:
    """A picture as SVG.

    Args:
        picture: its path in the repository.
    """
    if picture in OF_TABLES:
        name, draw = OF_TABLES[picture]
        table = pd.read_csv((ROOT / picture).with_name(name))
        return figures.to_svg(figures.figure_of(draw, table, height=2.6))
    folder, suite, preset, name = PICTURES[picture]
    parts = open_folder(ROOT / "reports" / folder).parts
    of = [part for part in parts if (part.suite, part.preset) == (suite, preset)]
    return figures.to_svg(analyses[name](*of if suite else (parts,)).figure)


if __name__ == "__main__":
    for one in (*PICTURES, *OF_TABLES):
        figures.save_svg(drawn(one), ROOT / one)
