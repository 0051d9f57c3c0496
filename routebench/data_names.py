"""Names of data sets that have items of another, such as `take:5000:mnist`: what they ask for, and of which set."""

import re
from typing import NamedTuple

TAKE, FEW, FOLD = "take:", "few:", "fold:"
"""Beginnings: of some images of a set, of few training images of it, of a fold of its training images."""
_DERIVED = re.compile(
    r"(?:(?P<part>take|few|fold):(?P<asked>[^:]*)|features:[^@/]+(?:/[^@/]+)?@\d{1,4}):(?P<data>.+)", re.DOTALL
)


class Derived(NamedTuple):
    """A name that ends with that of another data set.

    Args:
        part: `take`, `few` or `fold`; None where a network's features of the items are meant.
        asked: what of it: a number of images, a fold as `1/3`; None for features.
        data: the name of the other set.
    """

    part: str | None
    asked: str | None
    data: str


def derived(name: str) -> Derived | None:
    """The parts of a name that ends with that of another data set; None of a set of its own."""
    found = _DERIVED.fullmatch(name)
    return None if found is None else Derived(*found.groups())


def items_of(name: str) -> tuple[str, bool]:
    """The data set whose items another has, in the same order: `mnist` for `features:NETWORK@96:take:5000:mnist`.

    Args:
        name: name of a data set, as plans have it.

    Returns:
        its name, and whether test items are among its test items: those of a fold are not.
    """
    is_test = True
    while found := derived(name):
        is_test &= found.part != "fold"
        name = found.data
    return name, is_test


def whole_name(name: str) -> str:
    """The data set that a name takes some images of; the name itself where it takes all."""
    return _behind(name, TAKE)


def set_of(name: str) -> str:
    """The data set whose test images a name has: without how many images it takes, of all or of those to train on."""
    return _behind(_behind(name, TAKE), FEW)


def unfolded(name: str) -> str:
    """The data set that a name takes a fold of, or some images; the name itself where it takes all."""
    return _behind(_behind(name, TAKE), FOLD)


def few_of(name: str) -> tuple[int | None, str]:
    """The number of training images that a name takes, and of which set: 500 of `mnist` for `few:500:mnist`."""
    found = derived(name)
    if found is None or found.part != "few" or not str(found.asked).isdecimal():
        return None, name
    return int(str(found.asked)), found.data


def _behind(name: str, beginning: str) -> str:
    found = derived(name)
    return found.data if found and name.startswith(beginning) else name
