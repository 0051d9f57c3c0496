"""Colours that colour-blind readers can tell apart, on white paper and on a dark screen.

Hues after Okabe and Ito, Color Universal Design (2008), each darkened for white and lightened for dark pages until text
in it has a contrast of at least 4.5 (WCAG 2.1 AA). Figures are drawn in the colours for white; a page replaces each by
a variable.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

INK, MUTED, GRID, PAPER = "#1c2026", "#5b6470", "#dde1e6", "#fefefe"

# on white -> on dark
ON_DARK: Mapping[str, str] = MappingProxyType({
    INK: "#e8eaed",
    MUTED: "#a3abb5",
    GRID: "#353b43",
    PAPER: "#1a1d22",
    "#0a6bb0": "#63b3ed",  # blue
    "#bf4400": "#ff9257",  # vermilion
    "#04785b": "#35c79b",  # green
    "#a23a79": "#e895c8",  # purple
    "#866100": "#e3b341",  # amber
    "#0d7283": "#4fc9dc",  # teal
    "#7d4e2d": "#cfa17f",  # brown
    "#5a4fcf": "#a9a2ff",  # indigo
    "#b3264a": "#ff8ba3",  # crimson
    "#4f7300": "#a9d14b",  # olive
})  # fmt: skip
NEUTRAL = {INK, MUTED, GRID, PAPER}
HUES = tuple(colour for colour in ON_DARK if colour not in NEUTRAL)

FIXED = MappingProxyType({
    "dynamic": HUES[0],
    "em": HUES[1],
    "inverted-attention": HUES[2],
    "none": HUES[3],
    "uniform": MUTED,
    "random": HUES[6],
    "cnn": HUES[4],
})  # fmt: skip


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """One colour per label: the usual methods always have theirs, others take what is left, in alphabetical order.

    `em[bias=false]` has the colour of `em`, unless another label of the same method comes before it.
    """
    chosen: dict[str, str] = {}
    for label in sorted(set(labels)):
        usual = FIXED.get(label.partition("[")[0])
        if usual is not None and usual not in chosen.values():
            chosen[label] = usual
    others = sorted(set(labels) - set(chosen))
    free = [hue for hue in HUES if hue not in FIXED.values()] + [hue for hue in HUES if hue not in chosen.values()]
    return chosen | {label: free[place % len(free)] for place, label in enumerate(others)}
