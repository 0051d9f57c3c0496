"""Colours that readers with any kind of colour vision can tell apart, on white paper and on a dark screen.

Ten hues and a grey, each pair at least 10 apart in CIEDE2000 as seen with full colour vision and with
protanopia, deuteranopia and tritanopia, simulated after Machado, Oliveira and Fernandes, A physiologically-based model
for simulation of color vision deficiency, IEEE TVCG 15 (2009). Text in each has a contrast of at least 4.5 (WCAG 2.1
AA). Figures are drawn in the colours for white; a page replaces each by a variable.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from routebench import registry
from routebench.catalogue import named_colours, shown_as

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
NAMES: Mapping[str, str] = MappingProxyType({
    INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper",
    **dict(zip(HUES, registry.HUES, strict=True)),
})  # fmt: skip
"""Names of the variables of a page, by colour."""

COLOURS = {name: colour for colour, name in NAMES.items()}
SHARED = (COLOURS["sand"], MUTED)
"""Colours of baselines, which those of a kind share, so that hues are left for rules."""


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """One colour per label: methods that name a colour always have theirs, others take what is left, plain ones first.

    `em[bias=false]` has the colour of `em`, unless another label of the same method comes before it. No two have the
    same of ten hues as long as there are enough.
    """
    chosen: dict[str, str] = {}
    for label in sorted(set(labels)):
        own = usual_colour(label.partition("[")[0])
        if own is not None and (own in SHARED or own not in chosen.values()):
            chosen[label] = own
    others = sorted(set(labels) - set(chosen), key=lambda label: ("[" in label or "(" in label, label))
    rest, usual = [hue for hue in HUES if hue not in chosen.values()], named_colours()
    free = sorted(rest or HUES, key=lambda hue: NAMES[hue] in usual)  # stable: what belongs to others comes last
    return chosen | {label: free[place % len(free)] for place, label in enumerate(others)}


def usual_colour(name: str) -> str | None:
    """The colour that a method or network always has; None where it names none of these."""
    return COLOURS.get(shown_as(name).get("colour", ""))
