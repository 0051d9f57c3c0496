"""The look of figures, and their form as SVG: for a page that may be dark, and for a file of their own."""

import base64
import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator, NullFormatter
from pandas import DataFrame

from routebench.analysis._method import Method
from routebench.analysis._table import by_method
from routebench.analysis.markup import drawing
from routebench.analysis.palette import GRID, INK, MUTED, NAMES
from routebench.analysis.wording import in_lines
from routebench.atomic import encoded, write_text

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH = 4.8  # inches: with 10 pt text, legible when a phone shows it 340 pixels wide
TWO_COLUMNS = 22  # characters of the longest name that leaves room for two columns of names
LINE = 0.17
"""Inches that a line of a name takes."""
AXES = 0.75
"""The share of a figure's height that its axes have, about."""
ACROSS = 3
"""Panels in a row of `multiples`."""
PICTURE = re.compile(r'"data:image/png;base64,\s*([A-Za-z0-9+/=\s]+)"')
HASHED = re.compile(r'( id="|="#|url\(#)(\w*[0-9a-f]{10})\b')
"""An id that matplotlib made of what it stands for, where it is defined and where it is used."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "h")

BARS: Mapping[str, Any] = {"linewidth": 1.4, "alpha": 0.7}
FAR, POINTS = 2.0, 2.0  # of `usual_reach` and `lowest_shown`
TICKS = (0, 20, 40, 60, 70, 80, 85, 90, 95, 97, 98, 99, 99.5, 99.9)  # %
LEADER = {"arrowstyle": "-", "lw": 0.7, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}

STYLE: Mapping[str, Any] = {
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titleweight": "bold",
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud, and takes the page's font
    "svg.hashsalt": "routebench",  # the same figure gives the same bytes
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def look() -> AbstractContextManager[None]:
    """A context in which figures are drawn in routebench's style. It changes no global setting afterwards."""
    grid = {**sns.axes_style("whitegrid"), **STYLE}
    return cast(AbstractContextManager[None], mpl.rc_context({key: grid[key] for key in grid if key in mpl.rcParams}))


class ShownFigure(Figure):
    """A figure that a notebook shows, although pyplot does not know it."""

    def _repr_svg_(self) -> str:
        return to_svg(self)


def new_figure(height: float, columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure `WIDTH` inches wide outside pyplot's global list, and its axes, row by row.

    Args:
        height: in inches.
        columns, rows: the numbers of axes.
        options: for `Figure.subplots`.
    """
    figure = ShownFigure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [cast(Axes, axes) for axes in np.ravel(grid)]


def figure_of(
    draw: Callable[..., None], *given: Any, height: float, columns: int = 0, rows: int = 0, **options: Any
) -> Figure:
    """A figure in routebench's style, drawn by `draw(axes, *given)`.

    Args:
        draw: called once, with one pair of axes, or, where columns or rows are named, a list of all, row by row.
        given: to it, after the axes.
        height, columns, rows, options: as for `new_figure`.
    """
    with look():
        figure, axes = new_figure(height, columns or 1, rows or 1, **options)
        draw(axes if columns or rows else axes[0], *given)
    return figure


def lines(
    axes: Axes, table: DataFrame, x: str, key: str, colour: Callable[[Method], str], *,
    bars: Mapping[str, Any] | bool = True,
    step: float = 0.0, dashes: Callable[[Method], Any] | None = None, label: Callable[[Method], str] = str,
    **style: Any,
) -> tuple[dict[str, float], dict[str, str]]:  # fmt: skip
    """One line of means per method over a column, in the order of the table, with bars for the 95 % intervals.

    Args:
        axes: to draw on.
        table: with a column `method`.
        x: a column of numbers.
        key: a column of estimates.
        colour: the colour of a method, as `Runs.colour`.
        bars: whether intervals are drawn, or how, as for `Axes.vlines`.
        step: how far one line is beside the next, in units of x, so that bars can be told apart.
        dashes: those of a method's line; by default one iteration is dashed, to be told from more of the same method.
        label: the name of a method's line, for a legend.
        style: the style of the lines, as for `Axes.plot`.

    Returns:
        by the text of a method, what `label_ends` needs: where its line ends, and its colour.
    """
    ends, colours = {}, {}
    groups = by_method(table)
    for place, (method, line) in enumerate(groups):
        cells = [*line[key]]
        at = line[x] + step * (place - (len(groups) - 1) / 2)
        usual: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "markersize": 4, "label": label(method)}
        usual |= {"color": colour(method), "linestyle": (dashes or dashes_of)(method)}
        axes.plot(at, [cell.mean for cell in cells], **usual | style)
        if bars is not False:
            low, high = [cell.low for cell in cells], [cell.high for cell in cells]
            axes.vlines(at, low, high, color=colour(method), **(BARS if bars is True else bars))
        ends[str(method)], colours[str(method)] = cells[-1].mean, colour(method)
    return ends, colours


def multiples(
    grid: Sequence[Axes], table: DataFrame, x: str, key: str, colour: Callable[[Method], str], **style: Any
) -> None:
    """A panel per method and network: its lines in colour, all others in grey behind them, with T at the end of each.

    Args:
        grid: as many axes as `panels_of` says, or more, with their final y limits; the rest stay empty.
        table, x, key, colour, style: as for `lines`.
    """
    families = list(dict.fromkeys(method.family for method in table["method"]))
    for axes, family in zip(grid, families, strict=False):
        own = table["method"].map(lambda method, family=family: method.family == family)
        lines(axes, table[~own], x, key, lambda _: GRID, **{"linewidth": 1, "marker": "", **style, "bars": False})
        lines(axes, table[own], x, key, colour, **style)
        ends = {f"T={method.iterations}": line[key].iloc[-1].mean for method, line in by_method(table[own])}
        if len(ends) > 1:
            label_ends(axes, float(table[x].max()), ends, {}, gap=0.13)
            for text in axes.texts:
                text.set_in_layout(False)  # between the panels, where room is kept
        title_panel(axes, table.loc[own, "method"].iloc[0], colour)
    for empty in grid[len(families) :]:
        empty.set_axis_off()
    engine = grid[0].figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(w_pad=0.18, rect=(0, 0, 0.96, 1))


def panels_of(table: DataFrame) -> dict[str, Any]:
    """Rows, columns and height of the figure for `multiples`, which share their axes."""
    families = {method.family: method for method in table["method"]}
    rows, lines = -(-len(families) // ACROSS), max(_narrow(method).count("\n") for method in families.values())
    height = 0.5 + rows * (1.75 + 0.16 * lines)
    return {"rows": rows, "columns": min(ACROSS, len(families)), "height": height, "sharex": True, "sharey": True}


def title_panel(axes: Axes, method: Method, colour: Callable[[Method], str]) -> None:
    """The method above its panel, in its colour, and small numbers at the axes.

    Args:
        axes: the panel.
        method: the method that it shows.
        colour: gives each method its colour.
    """
    axes.set_title(_narrow(method), fontsize=9, color=colour(method))
    axes.tick_params(labelsize=8.5)


def _narrow(method: Method) -> str:
    """Its title for the head of a panel, in lines."""
    return "\n".join(wrap(method.title, 16))


def plain_log(axis: Axis, subs: Sequence[float] = ()) -> None:
    """A logarithmic axis with plain numbers: these times powers of ten, or 1, 2 and 5 where there is room.

    Args:
        axis: the axis, with its limits set.
        subs: factors of powers of ten; empty for 1, 2 and 5 where the upper limit is below 200 times the lower, else 1.
    """
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=subs or ((1, 2, 5) if high < 200 * low else (1,))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def dashes_of(method: Method) -> str | tuple[int, tuple[int, ...]]:
    """A full line, or a dashed one for one iteration."""
    return (0, (3, 2)) if method.iterations == 1 else "-"


def legend_below(axes: Axes) -> None:
    """Names under the figure, which grows by them: lines that cross this often cannot be named at their ends."""
    handles, names = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, names)) <= TWO_COLUMNS else 1
    shown = [in_lines(name, 44) for name in names]
    figure = axes.get_figure(root=True)
    if figure is not None:
        lines = sum(name.count("\n") + 1 for name in shown)
        figure.set_figheight(figure.get_figheight() + 0.2 * -(-lines // columns))
        style: dict[str, Any] = {"ncols": columns, "fontsize": 9, "frameon": False}
        figure.legend(handles, shown, loc="outside lower center", **style)


def height_of_rows(names: Iterable[str]) -> float:
    """Inches that rows of a figure take, all as high as the one whose name has the most lines, with its axis."""
    lines = [in_lines(name).count("\n") + 1 for name in names]
    return 0.9 + len(lines) * (0.11 + 0.17 * max(lines, default=1))


def label_ends(axes: Axes, x: float, ends: Mapping[str, float], colours: Mapping[str, str], gap: float = 0.065) -> None:
    """Writes names at the right of their lines, pushed apart vertically so that none covers another.

    The figure grows where they take more than its height.

    Args:
        axes: with its final y limits and scale.
        x: where the lines end, in data units.
        ends: name to the y that its line ends at, in data units.
        colours: the colours of the names.
        gap: the distance of names of one line where there is room, as a share of the height of the axes.
    """
    to_share = axes.transData + axes.transAxes.inverted()
    wanted = {name: float(to_share.transform((x, y))[1]) for name, y in ends.items() if math.isfinite(y)}
    right = float(to_share.transform((x, axes.get_ylim()[0]))[0])
    lines = {name: in_lines(name).count("\n") + 1 for name in wanted}
    if (figure := axes.get_figure(root=True)) is not None:
        height = figure.get_figheight()
        figure.set_figheight(height + max(0.0, LINE * sum(lines.values()) - AXES * height))
    for name, share in spread(wanted, {name: gap * (0.3 + 0.7 * count) for name, count in lines.items()}).items():
        axes.annotate(
            in_lines(name),
            xy=(right, wanted[name]),
            xytext=(1.03, share),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color=colours.get(name, INK),
            fontsize=9.5,
            arrowprops={**LEADER, "color": colours.get(name, INK)},
            annotation_clip=False,
        )


def spread(wanted: Mapping[str, float], heights: Mapping[str, float]) -> dict[str, float]:
    """Positions close to those wanted, in their order from low to high, within [0, 1], that leave each its height.

    Args:
        wanted: position by name.
        heights: the room that each name needs; where they take more than 1 together, all are smaller by one factor.
    """
    names = sorted(wanted, key=lambda name: wanted[name])
    needed = [(heights[low] + heights[high]) / 2 for low, high in pairwise(names)]
    gaps = [gap * min(1.0, 1 / sum(needed)) for gap in needed]
    placed = [max(wanted[name], 0.0) for name in names]
    for place, gap in enumerate(gaps):
        placed[place + 1] = max(placed[place + 1], placed[place] + gap)
    ceiling = 1.0
    for place in range(len(placed) - 1, -1, -1):
        placed[place] = min(placed[place], ceiling)
        ceiling = placed[place] - (gaps[place - 1] if place else 0.0)
    return dict(zip(names, placed, strict=True))


def usual_reach(distances: Sequence[float]) -> float:
    """The distance that a figure has room for: `FAR` times the upper quartile, so that most can be told apart.

    Args:
        distances: those of all methods of a figure from one of them, at least one.
    """
    return FAR * float(np.quantile(distances, 0.75))


def lowest_shown(means: Sequence[float]) -> float:
    """The mean below which a method is too far off to be drawn in its place: further below the best than `usual_reach`.

    Within `POINTS` none is.

    Args:
        means: those of all methods of a figure, in %. NaN does not count.
    """
    known = [mean for mean in means if math.isfinite(mean)] or [0.0]
    return max(known) - max(usual_reach([max(known) - mean for mean in known]), POINTS)


def accuracy_axis(axes: Axes, values: Sequence[float]) -> None:
    """Limits and scale of a y axis in %; far-apart accuracies are spaced by the logarithm of the error.

    Args:
        axes: to set.
        values: everything that must be visible, limits of intervals included.
    """
    seen = [value for value in values if math.isfinite(value)]
    low, high = min(seen, default=0.0), min(max(seen, default=100.0), 100.0)
    if high - low <= 20:
        margin = max(0.08 * (high - low), 0.2)
        axes.set_ylim(low - margin, min(high + margin, 100.3))
        return
    floor = max(0.05, (100 - high) * 0.7)  # log of a zero error does not exist

    def squeezed(accuracy: np.ndarray) -> np.ndarray:
        return np.asarray(-np.log10(np.maximum(100 - np.asarray(accuracy, dtype=float), floor)))

    def stretched(height: np.ndarray) -> np.ndarray:
        return np.asarray(100 - np.power(10.0, -np.asarray(height, dtype=float)))

    axes.set_yscale("function", functions=(squeezed, stretched))
    bottom = max(0.0, low - 0.15 * (100 - low))
    axes.set_ylim(bottom, 100 - floor)
    ticks = _apart([tick for tick in TICKS if bottom <= tick <= 100 - floor], squeezed)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(mpl.ticker.NullLocator())


def _apart(ticks: list[float], scale: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    """The ticks, from the highest down, that are not too close to the one above for their numbers to be read."""
    if not ticks:
        return []
    height = scale(np.array(ticks))
    kept = [len(ticks) - 1]
    for place in range(len(ticks) - 2, -1, -1):
        if height[kept[-1]] - height[place] >= 0.08 * np.ptp(height):
            kept.append(place)
    return [ticks[place] for place in reversed(kept)]


def literal() -> AbstractContextManager[None]:
    """A context in which `$` in a label begins no formula, so that no name of a record can break a figure."""
    return cast(AbstractContextManager[None], mpl.rc_context({"text.parse_math": False}))


def _as_written(figure: Figure) -> None:
    """Lets labels stand as they are, except those that matplotlib writes at ticks of a logarithmic axis."""
    powers: set[int] = set()
    for axis in figure.findobj(Axis):
        labels = axis.get_ticklabels(which="both")
        if isinstance(axis.get_major_formatter(), LogFormatter):
            powers.update(map(id, labels))
    for text in figure.findobj(Text):
        text.set_parse_math(id(text) in powers)


def settle(figure: Figure) -> None:
    """Lays a figure out for good, so that saving it, in whatever formats, draws it once each and not twice.

    Labels are shown as they are: `$` in what a record holds begins no formula.
    """
    _as_written(figure)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)


def to_svg(figure: Figure) -> str:
    """The figure as an SVG document that stands alone. Its layout is made first, and stays as it is."""
    page = io.StringIO()
    settle(figure)
    with mpl.rc_context({key: STYLE[key] for key in ("svg.fonttype", "svg.hashsalt")}):
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": "routebench"})
    return PICTURE.sub(_smaller, _numbered(page.getvalue()))


def _numbered(svg: str) -> str:
    """The same drawing with ids by order: matplotlib's hold the last bit of a layout, which no two processes share."""
    order: dict[str, str] = {}
    return HASHED.sub(lambda found: found[1] + order.setdefault(found[2], f"d{len(order)}"), svg)


def _smaller(found: re.Match[str]) -> str:
    """The same PNG with one channel where all are equal, and without an opaque alpha."""
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGBA")
    channels = np.asarray(picture)
    if channels[..., 3].min() == 255:
        is_grey = not np.ptp(channels[..., :3], axis=2).any()
        picture = picture.convert("L" if is_grey else "RGB")
    written = io.BytesIO()
    picture.save(written, "PNG", optimize=True)
    return f'"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"'


def save_svg(svg: str, path: Path) -> Path:
    """Writes a figure to a file, on white, because nobody knows what it will be put on.

    Args:
        svg: the figure, as `to_svg` gives it.
        path: the file; its folder is made.

    Returns:
        the path.
    """
    document = re.sub(r"(<svg [^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, document, lasting=False)
    return path


def inline_svg(svg: str, name: str, alternative: str) -> "Markup":
    """A figure as an element for a page: colours are the page's variables, ids carry `name`, text is the page's.

    Args:
        svg: from `to_svg`.
        name: unique on the page.
        alternative: says what is to be seen, for readers who cannot.

    Raises:
        ValueError: it holds more than a drawing.
    """
    name = as_id(name)
    svg = svg[svg.index("<svg ") :].rstrip()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    for colour in NAMES:
        svg = svg.replace(colour, f"var(--{NAMES[colour]})")
    svg = _compact(svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'xlink:href="#{name}-')
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return drawing(svg, {"font-family": "sans-serif", "role": "img", "aria-label": alternative})


def as_id(name: str) -> str:
    """The name, if an id, a reference to it and a file's name can hold it; else one like it that no other name has.

    Args:
        name: any text.
    """
    plain = re.sub(r"[^\w.-]+", "-", name)
    return plain if plain == name else f"{plain}-{hashlib.sha256(encoded(name)).hexdigest()[:8]}"


def _compact(svg: str) -> str:
    """The same picture in a third of the letters: a hundredth of a point, ids that are referred to, one line a path."""
    used = {*re.findall(r"url\(#([^)]+)\)", svg), *re.findall(r'xlink:href="#([^"]+)"', svg)}
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = svg.replace("font-family: 'DejaVu Sans'; ", "")
    svg = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), svg)
    svg = re.sub(r"(\d) *\n([A-Zz])", r"\1\2", svg)
    svg = re.sub(r"([A-Z]) (-?\d)", r"\1\2", svg)
    svg = re.sub(r' d="([ML\d\s.-]+)"', lambda found: f' d="{_shorter(found[1])}"', svg)
    return re.sub(r">\s+<", "><", svg)


def _shorter(path: str) -> str:
    """The same straight lines: one letter and one number for a level or upright one, and one for several in a row."""
    parts: list[tuple[str, float]] = []  # of the last point's line: its letter, and the way that it goes
    said: list[str] = []
    here = ("", "")
    for letter, x, y in re.findall(r"([ML])(\S+?) ([^\sML]+)", path):
        if letter == "M":
            step, way, told = "M", 0.0, f"M{x} {y}"
        elif y == here[1]:
            step, way, told = "H", float(x) - float(here[0]), f"H{x}"
        elif x == here[0]:
            step, way, told = "V", float(y) - float(here[1]), f"V{y}"
        else:
            step, way, told = "L", 0.0, f"L{x} {y}"
        here = (x, y)
        if parts and step in "HV" and step == parts[-1][0] and way * parts[-1][1] >= 0:
            said[-1] = told
            parts[-1] = (step, parts[-1][1] or way)
        else:
            said.append(told)
            parts.append((step, way))
    return "".join(said)
