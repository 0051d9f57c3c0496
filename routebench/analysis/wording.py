"""Numbers as text: the same rounding in tables, figures and sentences."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from routebench import quantities
from routebench.analysis._method import CONTROL
from routebench.statistics import OVER_SAMPLES, OVER_SEEDS, OVER_SEEDS_LOGIT

NOTHING, UNBROKEN = "–", "\N{NO-BREAK SPACE}"

plural = quantities.plural

FORMER = {
    "equal and random shares": "uniform and random coupling",
    "equal shares": "uniform routing",
    "random shares": "random coupling",
    "optimiser": "optimizer",
    "entries": "configurations",
    "entry": "configuration",
    "controls": "baselines",
    "control": "baseline",
}
"""Words of sentences in older plans of routebench's own suites, and those of today."""
_FORMER = re.compile(rf"\b({'|'.join(FORMER)})\b", re.IGNORECASE)


def of_today(text: str) -> str:
    """The text with words of today in place of `FORMER` ones; a capital stays one."""

    def today(found: re.Match[str]) -> str:
        word = FORMER[found[0].lower()]
        return word.capitalize() if found[0][0].isupper() else word

    return _FORMER.sub(today, text)


def fixed(value: float, digits: int) -> str:
    """`97.1`, `−0.4` with so many decimals and a real minus sign, or a dash.

    Args:
        value: to be written; NaN for a dash.
        digits: number of decimals.
    """
    if math.isnan(value):
        return NOTHING
    rounded = round(value, digits)
    return f"{'−' if rounded < 0 else ''}{abs(rounded):.{digits}f}"


def decimals(half_width: float, most: int) -> int:
    """The number of decimals of a mean that tell something: two digits of half its interval, at most `most`.

    Args:
        half_width: that of the interval; NaN or 0 without one.
        most: the largest number, and that of a mean without an interval.
    """
    if not half_width > 0:
        return most
    return max(0, min(most, 1 - math.floor(math.log10(half_width))))


def significant(value: float, beside: float = math.nan) -> str:
    """Two significant digits, and three decimals at most; or as many decimals as the number beside it has.

    A dash for what is missing.

    Args:
        value: to be written.
        beside: the number beside it; NaN for none.
    """
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else f"{'−' if value < 0 else ''}∞"
    size = abs(value) if math.isnan(beside) else max(abs(value), abs(beside))
    decimals = min(3, max(0, 1 - math.floor(math.log10(size)))) if size > 0 else 0
    rounded = round(value, decimals)
    return f"{'−' if rounded < 0 else ''}{abs(rounded):,.{decimals}f}"


def signed(value: float, digits: int = 2) -> str:
    """`+0.42`, `−0.10` with a real minus sign, `0.00` for what rounds to zero, or a dash.

    Args:
        value: to be written; NaN for a dash.
        digits: number of decimals.
    """
    if math.isnan(value):
        return NOTHING
    rounded = round(value, digits)
    return f"{'−' if rounded < 0 else '+' if rounded else ''}{abs(rounded):.{digits}f}"


def rounded(value: float, half_width: float, *, sign: bool = False) -> str:
    """The value with as many decimals as its interval bears: half of it has one or two significant digits.

    Args:
        value: to be written.
        half_width: that of its interval; NaN or 0 without one. Then the value has one decimal; one below 0.1 keeps its
            first digit, up to three decimals.
        sign: whether a plus is written.
    """
    if half_width > 0 and math.isfinite(half_width):
        digits = min(3, max(0, math.ceil(-math.log10(half_width / 3))))
    else:
        digits = min(3, math.ceil(-math.log10(abs(value)))) if 0 < abs(value) < 0.1 else 1
    return signed(value, digits) if sign else fixed(value, digits)


def within(value: float, error: float) -> str:
    """`0.8`, `130`: the value to the last digit that its error leaves, so that no digit of it is noise.

    Args:
        value: to be written.
        error: how far it may be off; two significant digits are written where it is NaN.
    """
    if not error > 0 or not math.isfinite(value):
        return significant(value)
    place = math.ceil(math.log10(error / 5))  # 24 % of 0.76 is 0.18: tenths
    return f"{fixed(round(value, -place), max(0, -place)):s}"


def between(low: float, high: float, *, sign: bool = True) -> str:
    """`[−0.5, +2.0]`, rounded by its own width.

    Args:
        low, high: the limits of an interval.
        sign: whether a plus is written.
    """
    half = (high - low) / 2
    return f"[{rounded(low, half, sign=sign)}, {rounded(high, half, sign=sign)}]"


def probability(value: float) -> str:
    """`0.031`, `< 0.001`, or a dash where no test could be made."""
    if math.isnan(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def count(value: float) -> str:
    """`6,804,224`, or a dash."""
    return NOTHING if math.isnan(value) else f"{value:,.0f}"


def seconds(value: float) -> str:
    """`8.3`, `132`, or a dash; in seconds."""
    if math.isnan(value):
        return NOTHING
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def listed(things: Sequence[object], most: int = 4) -> str:
    """`a, b and c`; beyond `most` things, `a, b, c and 5 more`; `a, T = 1; b and c` where one has a comma itself.

    Args:
        things: one or more.
        most: most parts of the list, `5 more` among them.
    """
    names = [str(thing) for thing in things]
    between = "; " if any(", " in name for name in names) else ", "
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{between.join(names[:-1])} and {names[-1]}"


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [*filter(None, re.split(r"(?<=[.!?]) (?=[A-Z★])", text))]


def name_of(label: str, iterations: Any) -> str:
    """`dynamic T=3`, or the label alone for a method without iterations: None, 0, or what pandas has for missing.

    Args:
        label: the method's label.
        iterations: its T.
    """
    return label if pd.isna(iterations) or not iterations else f"{label} T={int(iterations)}"


def in_lines(name: str, width: int = 30) -> str:
    """A name for a figure: one longer than `width` in lines, broken before hyperparameters.

    Args:
        name: to be written.
        width: the most characters of a name that stays in one line.
    """
    if len(name) <= width:
        return name
    whole = name.replace(" ", UNBROKEN).replace(f"{UNBROKEN}(", " (").replace(f";{UNBROKEN}", "; ")
    lines = textwrap.wrap(whole, width + 10, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(UNBROKEN, " ")


def marked(row: Mapping[Any, Any], key: str = "name") -> str:
    """A row's name, with `(baseline)` behind that of a baseline.

    Args:
        row: a row of a table, with its `role`.
        key: the column of the name.
    """
    return f"{row[key]} (baseline)" if row["role"] == CONTROL else str(row[key])


def interval_in_words(kind: str) -> str:
    """The meaning of the ± or the brackets beside a mean."""
    words = {
        OVER_SEEDS: "95 % t interval over seeds",
        OVER_SEEDS_LOGIT: "95 % t interval over seeds, on the logit scale where it would reach beyond 0 or 100 %",
        OVER_SAMPLES: "95 % Wilson interval over test images, one seed",
    }
    return words.get(kind, kind)
