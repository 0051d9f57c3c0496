"""Forest plots: differences with their intervals, one line each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import palette, wording
from routebench.analysis._estimate import Estimate
from routebench.statistics import ALPHA

FAR = 2.0
"""A loss this many times the largest gain is drawn at the edge, so that the others can be seen; so is a gain as far off
whose interval reaches zero."""
EDGES = "Arrows and lines at the edge go on beyond it."
"""What a plot says below itself."""


@dataclass(frozen=True)
class Line:
    """One difference.

    Args:
        name: beside the axis.
        found: with its p after correction; significant ones are filled.
        wider: the same with a wider interval, drawn as a thin line; unknown for none.
        colour: the colour of its marks.
        marker: as matplotlib names it.
    """

    name: str
    found: Estimate
    colour: str
    wider: Estimate = field(default_factory=Estimate)
    marker: str = "o"


def draw(axes: Axes, lines: Sequence[Line], unit: str) -> None:
    """Draws known differences; an arrow with the number stands for one that is too far off.

    Args:
        axes: to draw on.
        lines: from the top.
        unit: what the axis says.
    """
    low, high = _limits([line.found for line in lines])
    axes.set(xlim=(low, high), ylim=(len(lines) - 0.4, -0.6))
    axes.axvline(0, color=palette.INK, linewidth=1)
    for place, line in enumerate(lines):
        for one, width in ((line.wider, 0.8), (line.found, 2.5)):
            if one.has_limits and one.high > low:
                axes.hlines(place, max(one.low, low), min(one.high, high), color=line.colour, linewidth=width)
        if line.found.mean < low or line.found.mean > high:
            edge, inwards, marker, side = (low, 1, "<", "left") if line.found.mean < low else (high, -1, ">", "right")
            step, number = inwards * (high - low), wording.signed(line.found.mean, 1)
            axes.plot(edge + 0.02 * step, place, marker=marker, color=line.colour, markersize=7)
            axes.text(edge + 0.05 * step, place, number, ha=side, va="center", fontsize=9)
        elif line.found.known:
            face = line.colour if line.found.p_holm < ALPHA else palette.PAPER
            axes.plot(line.found.mean, place, line.marker, color=line.colour, markerfacecolor=face, markersize=5.5)
    axes.set_yticks(range(len(lines)), [wording.in_lines(line.name) for line in lines])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(unit)


def _limits(differences: Sequence[Estimate]) -> tuple[float, float]:
    """Limits of the axis: a collapsed method, or an interval from two seeds, does not set the scale."""
    known = DataFrame([(one.mean, one.half_width) for one in differences if one.known], columns=["mean", "half"])
    if known.empty:
        return -1.0, 1.0
    usual = max(1.0, float(known["mean"].abs().median()) * 1.5)
    reaches_zero = known["half"] > known["mean"]
    reach = max(usual, float(known["mean"][~reaches_zero | (known["mean"] <= FAR * usual)].max()))
    far = (known["mean"] <= -FAR * reach) | (reaches_zero & (known["mean"] > FAR * reach))
    means = known["mean"] if far.all() else known["mean"][~far]
    low, high = min(float(means.min()), 0.0), max(float(means.max()), 0.0)
    arm = float(known["half"].median())
    margin = max(0.35 * (high - low), 0.5, 1.2 * arm if arm < FAR * reach else 0.0)
    return low - margin, high + margin
