"""Colours that share a figure can be told apart with any kind of colour vision."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from routebench.analysis.palette import HUES, MUTED, ON_DARK

# Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), table 1, severity 1.0: linear RGB as seen.
SEEN: dict[str, list[list[float]]] = {
    "all three cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip  # noqa: E501
WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(colour: str, vision: str = "all three cones") -> NDArray[np.float64]:
    """CIELAB under D65 of an sRGB colour as seen."""
    share = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    x = TO_XYZ @ np.clip(np.array(SEEN[vision]) @ linear, 0, 1) / WHITE
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Sharma, Wu and Dalal, The CIEDE2000 color-difference formula, Color Research and Application 30 (2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    middle = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    a1, a2 = (a * (1.5 - 0.5 * np.sqrt(middle**7 / (middle**7 + 25.0**7))) for a in (a1, a2))
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = sum(factor * np.cos(np.radians(times * hue + plus)) for factor, times, plus in
            ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))) + 1  # fmt: skip
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = (
        2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * np.sin(2 * np.radians(30 * np.exp(-(((hue - 275) / 25) ** 2))))
    )
    return float(np.sqrt(dl**2 + dc**2 + dh**2 - rotation * dc * dh))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_of_colours_is_that_of_the_published_table(one, other, expected: float) -> None:
    assert ciede2000(np.array(one, dtype=float), np.array(other, dtype=float)) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("vision", SEEN)
@pytest.mark.parametrize("dark", [False, True])
def test_every_two_colours_of_methods_are_told_apart(vision: str, *, dark: bool) -> None:
    colours = [ON_DARK[colour] if dark else colour for colour in (*HUES, MUTED)]
    found = {(one, other): ciede2000(lab(one, vision), lab(other, vision)) for one, other in combinations(colours, 2)}
    assert {pair: apart for pair, apart in found.items() if apart < 10} == {}
