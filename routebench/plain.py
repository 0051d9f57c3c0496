"""Plain values, which people write into files and commands and every results folder can hold."""

import math
import re
import tomllib
from typing import Any

from routebench.errors import UserError

LARGEST = 2**63 - 1
"""Largest integer that a table can hold."""
DEPTH = 16
"""Largest depth of nested tables and lists."""
TOO_LONG = "expected integers of at most 64 bits, got a longer one"


class NoPlainValue(ValueError):
    """A value that no results folder can hold."""


def from_toml(text: bytes) -> dict[str, Any]:
    """A table from the text of a TOML file, which may begin with a byte-order mark.

    Raises:
        NoPlainValue: it holds what `fault_of` refuses.
        ValueError: it is no TOML, or no UTF-8.
    """
    try:
        content = tomllib.loads(text.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError as error:  # Python converts no longer ones
        raise NoPlainValue(TOO_LONG) from error
    except RecursionError as error:
        raise NoPlainValue(f"expected tables and lists at most {DEPTH} deep") from error
    if told := fault_of(content):
        raise NoPlainValue(told)
    return content


def fault_of(value: Any, key: str = "", depth: int = DEPTH) -> str:
    """Says why a value is not plain; empty if it is.

    Plain are text, true and false, none, integers of at most 64 bits, all floating-point numbers but NaN, which does
    not equal itself, and tables and lists of these.

    Args:
        value: read from a file, or given by a caller.
        key: its place in a table, for the message; empty at the top.
        depth: how deep tables and lists may be.
    """
    at = f"key {key!r}: " if key else ""
    if isinstance(value, list | dict):
        if not depth:
            return f"{at}expected tables and lists at most {DEPTH} deep"
        parts = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        inner = ((key if name is None else f"{key}.{name}" if key else name, one) for name, one in parts)
        return next(filter(None, (fault_of(one, name, depth - 1) for name, one in inner)), "")
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"{at}{TOO_LONG}, of {value.bit_length():,} bits"
    if isinstance(value, float) and math.isnan(value):
        return f"{at}expected a number, got nan"
    if value is None or isinstance(value, str | bool | int | float):
        return ""
    return f"{at}expected text, a number, true or false, got a {type(value).__name__} ({value})"


def device(typed: str) -> str:
    """The name of a device, as `--device` and a record have it.

    Raises:
        UserError: it is another name.
    """
    if re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,4})?", typed):
        return typed
    raise UserError(f"expected auto, cpu, cuda, one GPU such as cuda:1, or mps, got {typed!r}")
