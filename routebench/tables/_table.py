"""A table as text, before it is written in any language, and its numbers padded so that decimal points align."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

DIGIT = re.compile(r"\d")
SIGN = re.compile(r"[−+]")
NUMBER = re.compile(r"(?P<sign>[−+-]|≥ |< )?(?P<whole>\d[\d,]*)(?P<fraction>\.\d+)?")


@dataclass(frozen=True)
class TextCell:
    """One cell's text, and whether it is one of the best."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class TextTable:
    """A table in plain text.

    Args:
        name: the name of the part, usable as a label.
        question: the question that the suite asks.
        caption: sentences that belong with the question.
        header: titles of columns.
        numeric: per column, whether its right edge is aligned.
        rows: (row, column).
        notes: what the reader has to know before believing it.
        caveats: what the suite's author warns of.
        origin: lines on where the numbers come from.
    """

    name: str
    question: str
    caption: tuple[str, ...]
    header: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[TextCell, ...], ...]
    notes: tuple[str, ...]
    caveats: tuple[str, ...]
    origin: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A text that starts with a number: sign or bound, whole digits, fraction, and the rest of the text."""

    sign: str
    whole: str
    fraction: str
    rest: str


def aligned(texts: Sequence[str], pad: Callable[[str], str], escape: Callable[[str], str] = str) -> list[str]:
    """Texts of one column, padded to one width with the decimal points of their first numbers below each other.

    Args:
        texts: such as `97.12 ± 0.40`; what starts with no number, such as a dash, stays as it is.
        pad: text to blank space of its width.
        escape: applied to every piece of text.
    """
    found = [_number(text) for text in texts]
    numbers = [number for number in found if number is not None]
    signs, wholes, fractions = (
        [getattr(number, piece) for number in numbers] for piece in ("sign", "whole", "fraction")
    )
    sign, whole, fraction = (max(pieces, key=len, default="") for pieces in (signs, wholes, fractions))
    rest = _union(number.rest for number in numbers)

    def one(number: Number) -> str:
        missing = "".join((rest - Counter(_plain(number.rest))).elements())
        pieces = [
            "" if number.sign else pad(sign),
            pad(whole[: len(whole) - len(number.whole)]),
            escape(number.sign) + escape(number.whole),
            escape(number.fraction) + pad(fraction[len(number.fraction) :]),
            escape(number.rest) + pad(missing),
        ]
        return "".join(pieces)

    return [escape(text) if number is None else one(number) for text, number in zip(texts, found, strict=True)]


def _number(text: str) -> Number | None:
    found = NUMBER.match(text)
    return found and Number(found["sign"] or "", found["whole"], found["fraction"] or "", text[found.end() :])


def _union(texts: Iterable[str]) -> Counter[str]:
    """Each letter as often as in the text that has most of it."""
    most: Counter[str] = Counter()
    for text in texts:
        most |= Counter(_plain(text))
    return most


def _plain(text: str) -> str:
    """Every digit as a nought and every sign as a plus, because they have one width."""
    return SIGN.sub("+", DIGIT.sub("0", text))
