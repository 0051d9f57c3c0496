import base64
import io
import itertools
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from routebench.analysis import Estimate, forest
from routebench.analysis.figures import (
    PICTURE,
    _shorter,
    accuracy_axis,
    inline_svg,
    label_ends,
    literal,
    look,
    new_figure,
    save_svg,
    spread,
    to_svg,
)
from routebench.analysis.palette import HUES, INK, MUTED, ON_DARK, PAPER, colours_of, usual_colour


def contrast(one: str, other: str) -> float:
    """Of two colours, after WCAG 2.1."""

    def luminance(colour: str) -> float:
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [INK, *HUES])
def test_text_in_every_colour_can_be_read_on_paper_and_on_a_dark_page(colour: str) -> None:
    assert contrast(colour, PAPER) >= 4.5
    assert contrast(ON_DARK[colour], ON_DARK[PAPER]) >= 4.5


def test_a_method_keeps_its_colour_whatever_it_is_compared_with() -> None:
    few, many = colours_of(["dynamic", "mine"]), colours_of(["em", "dynamic", "other", "mine", "uniform"])
    assert few["dynamic"] == many["dynamic"] == usual_colour("dynamic")
    assert len(set(many.values())) == 5


def test_a_variant_has_its_methods_colour_until_two_compete_for_it() -> None:
    assert colours_of(["em[bias=false]"])["em[bias=false]"] == usual_colour("em")
    both = colours_of(["em", "em[bias=false]"])
    assert both["em"] == usual_colour("em") != both["em[bias=false]"]


def test_ten_rules_have_ten_colours_and_controls_without_one_are_grey() -> None:
    controls = ["uniform", "random", "static", "none"]
    rules = ["dynamic", "em", "inverted-attention", "cnn", *(f"method-{number}" for number in range(6))]
    found = colours_of([*rules, *controls, "em[competition=types]", "cnn-p4", "method-0 (a variant)"])
    assert {found[rule] for rule in rules} == {*HUES}
    assert {found[control] for control in controls} == {MUTED}


def test_more_labels_than_colours_still_have_one_each() -> None:
    labels = [f"method-{number}" for number in range(40)]
    assert set(colours_of(labels)) == set(labels)


def test_labels_are_pushed_apart_but_keep_their_order() -> None:
    found = spread({"a": 0.50, "b": 0.51, "c": 0.52, "d": 0.99, "e": 1.0}, dict.fromkeys("abcde", 0.06))
    places = [found[name] for name in "abcde"]
    assert places == sorted(places)
    assert min(after - before for before, after in itertools.pairwise(places)) >= 0.06 - 1e-9
    assert max(places) <= 1


def test_more_labels_than_fit_share_the_height_evenly() -> None:
    wanted = {str(name): 0.5 for name in range(50)}
    found = sorted(spread(wanted, dict.fromkeys(wanted, 0.06)).values())
    assert (found[0], found[-1]) == (pytest.approx(0, abs=1e-9), pytest.approx(1))


def test_a_label_of_two_lines_has_twice_the_room_and_the_figure_grows_by_many() -> None:
    found = spread({"a": 0.5, "b": 0.5, "c": 0.5}, {"a": 0.1, "b": 0.2, "c": 0.2})
    assert found["b"] - found["a"] == pytest.approx(0.15) and found["c"] - found["b"] == pytest.approx(0.2)
    with look():
        heights = []
        for count in (2, 30):
            figure, (axes,) = new_figure(3)
            axes.set_ylim(0, 3)
            label_ends(
                axes,
                2,
                {f"method {one}": 1.0 for one in range(count)},
                {},
            )
            heights.append(figure.get_figheight())
    assert heights[0] == 3 and heights[1] > 5


@pytest.mark.parametrize(
    "values", [[96.0, 97.5], [10.0, 97.0, 99.9], [100.0, 100.0], [100.0, 40.0], [float("nan")], []]
)
def test_the_accuracy_axis_shows_every_value(values: list[float]) -> None:
    with look():
        figure, (axes,) = new_figure(3)
        accuracy_axis(axes, values)
        bottom, top = axes.get_ylim()
        assert all(bottom <= value <= top for value in values if value == value and value < 99.9)
        to_svg(figure)


@pytest.fixture
def svg() -> str:
    with look():
        figure, (axes,) = new_figure(3)
        axes.plot([1, 2], [1, 2], color=HUES[0])
        axes.set_ylim(0, 3)
        label_ends(axes, 2, {"dynamic": 2.0, "<b>": 1.9}, {"dynamic": HUES[0]})
        return to_svg(figure)


def test_the_same_figure_gives_the_same_bytes(svg: str, tmp_path) -> None:
    assert save_svg(svg, tmp_path / "deep" / "one.svg").read_bytes() == save_svg(svg, tmp_path / "two.svg").read_bytes()
    ET.parse(tmp_path / "two.svg")  # ours
    assert "20" not in re.findall(r"<dc:date>", svg)


def test_a_layout_that_differs_in_its_last_bit_gives_the_same_bytes() -> None:
    """Constrained layouts do so from process to process, and matplotlib names clipped boxes after all their bits."""
    drawn = []
    for nudge in (0.0, 1e-12):
        with look():
            figure, (first, second) = new_figure(3, 2)
            figure.set_layout_engine(None)
            for place, axes in enumerate((first, second)):
                axes.set_position((0.1 + 0.5 * place + nudge, 0.1, 0.4, 0.8))
                axes.plot([1, 2], [1, 2], marker="o")
                axes.imshow(np.eye(3))
                axes.text(1, 1, "#mcbbb710ed8 a0123456789")
            drawn.append(to_svg(figure))
    assert drawn[0] == drawn[1]
    ET.fromstring(drawn[0])  # ours
    defined = {*re.findall(r'\bid="(d\d+)"', drawn[0])}
    used = {*re.findall(r"url\(#([^)]*)\)", drawn[0]), *re.findall(r'xlink:href="#([^"]*)"', drawn[0])}
    assert len(used) >= 3
    assert used <= defined
    assert ">#mcbbb710ed8 a0123456789<" in drawn[0]


def test_an_inline_figure_takes_the_pages_colours_and_has_ids_of_its_own(svg: str) -> None:
    found = str(inline_svg(svg, "quick-a", 'two lines, "one" & <two>'))
    ET.fromstring(found)  # ours
    assert not [colour for colour in ON_DARK if colour in found]
    assert "var(--ink)" in found
    assert all(name.startswith("quick-a-") for name in re.findall(r'\bid="([^"]*)"', found))
    assert all(name.startswith("quick-a-") for name in re.findall(r"url\(#([^)]*)\)", found))
    assert all(name.startswith("#quick-a-") for name in re.findall(r'xlink:href="([^"]*)"', found))
    assert 'aria-label="two lines, &#34;one&#34; &amp; &lt;two&gt;"' in found
    assert "<b>" not in found


def test_text_stays_text(svg: str) -> None:
    assert ">dynamic</text>" in svg


def test_drawing_changes_no_global_setting() -> None:
    before = dict(mpl.rcParams)
    with look():
        assert mpl.rcParams["text.color"] == INK
    assert dict(mpl.rcParams) == before


def test_pictures_keep_their_colours_in_fewer_letters() -> None:
    random = np.random.default_rng(0)
    for pixels, mode in ((random.random((20, 30)), "L"), (random.random((20, 30, 3)), "RGB")):
        figure, axes = plt.subplots()
        axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="none")
        (found,) = PICTURE.findall(to_svg(figure))
        picture = Image.open(io.BytesIO(base64.b64decode(found)))
        assert picture.mode == mode
        with mpl.rc_context({"svg.fonttype": "none"}):
            whole = io.StringIO()
            figure.savefig(whole, format="svg")
        plt.close(figure)
        (before,) = PICTURE.findall(whole.getvalue())
        drawn = Image.open(io.BytesIO(base64.b64decode(before))).convert("RGB")
        assert np.array_equal(np.asarray(picture.convert("RGB")), np.asarray(drawn))


def points_of(path: str) -> list[tuple[float, float]]:
    """The corners of a path of straight lines."""
    x = y = 0.0
    found = []
    for letter, numbers in re.findall(r"([MLHV])([^MLHV]*)", path):
        values = [float(number) for number in numbers.split()]
        x, y = (x, values[0]) if letter == "V" else (values[0], y) if letter == "H" else (values[0], values[1])
        found.append((x, y))
    return found


def corners_of(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points that a level or upright line passes through, or stays at."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if kept and point == kept[-1]:
            continue
        if len(kept) > 1:
            before, last = np.subtract(kept[-1], kept[-2]), np.subtract(point, kept[-1])
            if any(before[axis] == last[axis] == 0 < before[1 - axis] * last[1 - axis] for axis in range(2)):
                kept.pop()
        kept.append(point)
    return kept


def test_steps_are_drawn_in_fewer_letters_and_stay_where_they_are() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        moves = random.integers(-2, 3, (40, 2)) * random.integers(0, 2, (40, 2))
        points = [(float(x), float(y)) for x, y in np.cumsum(moves, axis=0)]
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        short = _shorter(f"M{path} ")
        assert len(short) < len(path) and corners_of(points_of(short)) == corners_of(points)
    assert _shorter("M1 2L1 2L3 2L5 2L4 2L4 7L4 9L5 10") == "M1 2H5H4V9L5 10"
    assert _shorter("M1 2L3 4M5 5L5 6") == "M1 2L3 4M5 5V6"


@pytest.mark.parametrize("name", ["$x^2$", r"$\frac$", "a$b$c", "$$", r"\$1"])
def test_a_dollar_in_a_name_begins_no_formula(name: str) -> None:
    with literal():
        figure, (axes,) = new_figure(2.0)
        axes.plot([1, 2], [1e-3, 1e3], label=name)
        axes.set_title(name)
        axes.text(1, 1, name)
        axes.legend()
        axes.set_yscale("log")
    axes.set_xticks([1, 2], [name, name])  # as a plug-in may, after the context
    svg = to_svg(figure)
    assert svg.count(f">{name}<") == 5
    assert "mathdefault" not in re.sub("<!--.*?-->", "", svg)  # powers of ten at the ticks are drawn as such


def forest_of(*given: tuple[float, float]) -> Axes:
    """A forest plot of differences, each given with half of its interval."""
    lines = [forest.Line(str(mean), Estimate(mean, mean - half, mean + half), INK) for mean, half in given]
    with look():
        _, (axes,) = new_figure(3.0)
        forest.draw(axes, lines, "points")
    return axes


@pytest.mark.parametrize("far", [(14.0, 21.0), (-14.0, 21.0), (-14.0, 0.3)])
def test_one_difference_that_says_little_does_not_hide_the_others(far: tuple[float, float]) -> None:
    axes = forest_of((0.5, 0.2), far, (-0.4, 0.2), (0.1, 0.3))
    low, high = axes.get_xlim()
    (text,) = axes.texts
    assert -2 < low < -0.6
    assert 0.7 < high < 2
    assert text.get_text() == f"{far[0]:+.1f}".replace("-", "−")
    assert low < text.get_position()[0] < high


def test_a_large_gain_with_a_narrow_interval_is_drawn() -> None:
    axes = forest_of((5.0, 0.3), (0.1, 0.2), (0.2, 0.1))
    assert axes.get_xlim()[1] > 5.3
    assert not axes.texts
