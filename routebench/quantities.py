"""Durations and sizes, as people write them."""

import math
import re

from routebench.errors import UserError

SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def seconds(text: str) -> float:
    """The seconds of `90`, `90s`, `20m`, `2h` or `1h30m`.

    Raises:
        UserError: it is none of these, zero, or too large for a number.
    """
    total, place = 0.0, 0
    while (found := PART.match(text, place)) is not None:
        number, unit = found.groups()
        is_alone = place == 0 and found.end() == len(text)
        if unit not in SECONDS and not (unit == "" and is_alone):
            break
        total += float(number) * SECONDS[unit or "s"]
        place = found.end()
    if place < len(text) or not 0 < total < math.inf:
        raise UserError(f"expected a duration such as 90s, 20m or 1h30m, got {text!r}")
    return total


def size(text: str) -> int:
    """The bytes of `500MB`, `4GB` or `4GiB`.

    Raises:
        UserError: it is none of these, zero, or too large for a number.
    """
    found = PART.fullmatch(text)
    units = {unit.upper(): number for unit, number in BYTES.items()}
    total = float(found[1]) * units.get(found[2].upper(), 0) if found is not None else 0.0
    if not 0 < total < math.inf:
        raise UserError(f"expected a size such as 500MB, 4GB or 4GiB, got {text!r}")
    return int(total)


def spoken(duration: float) -> str:
    """Seconds as `about 40 s`, `about 3 min`, `about 2 h 10 min`, `about 17 days`."""
    minutes = round(duration / 60)
    if 90 <= minutes < 600:
        return f"about {minutes // 60} h {minutes % 60} min"
    return f"about {short(duration)}"


def short(duration: float) -> str:
    """Seconds as `40 s`, `3 min`, `2 h`, `17 days`, in the largest unit of which there are a few."""
    for size, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if duration < 90 * size:
            return f"{max(duration / size, 1):.0f} {unit}"
    return f"{duration / 86400:.0f} days"
