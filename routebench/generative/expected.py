"""Numbers and switches that are given, checked: one line says what was expected and what came."""

import math
from typing import Any

from routebench.routing.base import at_least, true_or_false


def expect_counts(**given: Any) -> None:
    """Raises ValueError unless each is an integer of at least 1."""
    expect_at_least(1, **given)


def expect_at_least(least: float, **given: Any) -> None:
    """Raises ValueError unless each is a finite number of at least this; an integer, where this is one."""
    for name, value in given.items():
        at_least(least, **{name: value})


def expect_above(limit: float, **given: Any) -> None:
    """Raises ValueError unless each is a finite number above this."""
    for name, value in given.items():
        if not _is_number(value) or not limit < value < math.inf:
            raise ValueError(f"{name} must be a number above {limit}, got {value!r}")


def expect_share(**given: Any) -> None:
    """Raises ValueError unless each is a number from 0 to 1."""
    for name, value in given.items():
        if not _is_number(value) or not 0 <= value <= 1:
            raise ValueError(f"{name} must be a share from 0 to 1, got {value!r}")


def expect_switches(**given: Any) -> None:
    """Raises TypeError unless each is true or false."""
    for name, value in given.items():
        true_or_false(**{name: value})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
