"""Draws the chart of the README from the published results: `docs/gain.svg`."""

from pathlib import Path

from routebench.analysis import figures
from routebench.analysis.folder import open_folder
from routebench.registry import analyses

ROOT = Path(__file__).parents[2]
CHART = ROOT / "docs" / "gain.svg"
RESULTS = ROOT / "reports" / "standard"


def chart() -> str:
    """The gains of routing in the suite `standard` on Fashion-MNIST, as SVG."""
    parts = open_folder(RESULTS).parts
    (runs,) = (part for part in parts if (part.suite, part.preset, part.protocol) == ("standard", "full", "accuracy"))
    return figures.to_svg(analyses["gain-over-uniform"](runs).figure)


if __name__ == "__main__":
    figures.save_svg(chart(), CHART)
