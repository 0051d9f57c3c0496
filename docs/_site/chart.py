"""Draws the pictures of published results: `docs/gain.svg` of the README, and one for folders of `reports`."""

from pathlib import Path

from routebench.analysis import figures
from routebench.analysis.folder import open_folder
from routebench.registry import analyses

ROOT = Path(__file__).parents[2]
PICTURES = {
    "docs/gain.svg": ("standard", "standard", "full", "gain-over-uniform"),
    "reports/features/features.svg": ("features", "", "", "training-images"),
    "reports/generative-quick/generative-quick.svg": ("generative-quick", "smith-probes", "quick", "probe-curves"),
    "reports/papers-full/papers-full.svg": ("papers-full", "", "", "published-beside-measured"),
    "reports/papers-quick/papers-quick.svg": ("papers-quick", "tsai-iterations", "long", "accuracy-by-iterations"),
    "reports/quick/quick.svg": ("quick", "accuracy", "quick", "gain-over-uniform"),
    "reports/routers-quick/routers-quick.svg": ("routers-quick", "", "", "pareto"),
    "reports/scale/scale.svg": ("scale", "cost", "scale", "cost-by-size"),
}
"""The folder, suite and preset, both empty for the whole folder, and the analysis of each picture."""


def drawn(picture: str) -> str:
    """A picture as SVG.

    Args:
        picture: its path in the repository.
    """
    folder, suite, preset, name = PICTURES[picture]
    parts = open_folder(ROOT / "reports" / folder).parts
    of = [part for part in parts if (part.suite, part.preset) == (suite, preset)]
    return figures.to_svg(analyses[name](*of if suite else (parts,)).figure)


if __name__ == "__main__":
    for one in PICTURES:
        figures.save_svg(drawn(one), ROOT / one)
