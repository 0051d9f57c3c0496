"""Colours that readers with any kind of colour vision can tell apart, on white paper and on a dark screen.

Ten hues and a grey, each pair at least 10 apart in CIEDE2000 as seen with full colour vision and with
protanopia, deuteranopia and tritanopia, simulated after Machado, Oliveira and Fernandes, A physiologically-based model
for simulation of color vision deficiency, IEEE TVCG 15 (2009). Text in each has a contrast of at least 4.5 (WCAG 2.1
AA). Figures are drawn in the colours for white; a page replaces each by a variable.
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
    "#1a5cb0": "#78b5e8",  # blue
    "#e90012": "#f78030",  # red
    "#015946": "#00a56b",  # green
    "#850070": "#b878b1",  # purple
    "#8b7152": "#d8cb91",  # sand
    "#017fa9": "#6ae3ef",  # teal
    "#633b1d": "#c3a396",  # brown
    "#2c19bc": "#8889ff",  # indigo
    "#a41b4e": "#ffc0c6",  # crimson
    "#377c04": "#b7e34b",  # olive
})  # fmt: skip
NEUTRAL = {INK, MUTED, GRID, PAPER}
HUES = tuple(colour for colour in ON_DARK if colour not in NEUTRAL)
HUE_NAMES = ("blue", "red", "green", "purple", "sand", "teal", "brown", "indigo", "crimson", "olive")
NAMES: Mapping[str, str] = MappingProxyType({
    INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper",
    **dict(zip(HUES, HUE_NAMES, strict=True)),
})  # fmt: skip
"""Of the variables of a page."""

FIXED = MappingProxyType({
    "dynamic": HUES[0],
    "em": HUES[1],
    "inverted-attention": HUES[2],
    **dict.fromkeys(("cnn", "cnn-p4", "cnn-p4-invariant"), HUES[4]),
    **dict.fromkeys(("uniform", "random", "static", "none"), MUTED),
})  # fmt: skip
"""Methods that always have the same colour. Controls of a kind share one, so that hues are left for rules."""
SHARED = (HUES[4], MUTED)


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """One colour per label: the usual methods always have theirs, others take what is left, plain ones first.

    `em[bias=false]` has the colour of `em`, unless another label of the same method comes before it. No two have the
    same of ten hues as long as there are enough.
    """
    chosen: dict[str, str] = {}
    for label in sorted(set(labels)):
        usual = FIXED.get(label.partition("[")[0])
        if usual is not None and (usual in SHARED or usual not in chosen.values()):
            chosen[label] = usual
    others = sorted(set(labels) - set(chosen), key=lambda label: ("[" in label or "(" in label, label))
    rest = [hue for hue in HUES if hue not in chosen.values()]
    free = sorted(rest or HUES, key=lambda hue: hue in FIXED.values())  # stable: what belongs to others comes last
    return chosen | {label: free[place % len(free)] for place, label in enumerate(others)}
