"""Durations, sizes, seeds and counts, as people write them."""

import math
import re
from collections.abc import Sequence
from numbers import Integral

from routebench.errors import UserError

SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SEEDS = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?", re.ASCII)
LARGEST_SEED = 10**9
"""Training makes of a seed numbers that are 7 million times as large, and torch takes those of 64 bits."""
PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def plural(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`; of a part, `0 of 1 seed` by the number of all.

    Args:
        number: the count.
        noun: what is counted, in the singular.
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def few(names: Sequence[str], most: int = 5) -> str:
    """Names in one phrase, with the number of those that are not written out: `a, b and 7 more`.

    Args:
        names: all of them.
        most: number of names that are written out.
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


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


def seeds(given: int | str | range) -> range:
    """The seeds that are meant by `5`, which are 0 to 4, by `10..19`, or by a range of Python.

    Raises:
        UserError: it is none of these, has no seed, or one that is negative or above `LARGEST_SEED`.
    """
    found = given if isinstance(given, range) else _range_of(str(given) if _is_whole(given) else given)
    why = ""
    if found is not None and (not found or found.step != 1):
        why = ", which is no seed" if not found else ", which leaves seeds out"
    elif found is not None and not 0 <= found[0] <= found[-1] <= LARGEST_SEED:
        why = f", which are not from 0 to {LARGEST_SEED:,}"
    if found is None or why:
        shown = repr(given) if len(repr(given)) <= 80 else f"{repr(given)[:80]}..."
        raise UserError(
            f"expected a number of seeds, such as 5, or the first and the last, as in 10..19, got {shown}{why}"
        )
    return found


def _is_whole(given: object) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool)


def _range_of(text: object) -> range | None:
    """The range that a text writes; None if it writes none."""
    written = SEEDS.fullmatch(text) if isinstance(text, str) else None
    if written is None:
        return None
    first, last = written.groups()
    return range(int(first)) if last is None else range(int(first), int(last) + 1)


def written(seeds: range) -> int | str:
    """Seeds as `seeds` reads them: their number if they begin at 0, else `10..19`."""
    return len(seeds) if seeds.start == 0 else f"{seeds.start}..{seeds.stop - 1}"


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
