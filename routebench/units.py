"""Classifies units of metrics: the number depends on the machine, on the code, or on what was learned."""

TIMES = ("s", "ms", "us", "ns")
YARDSTICKS = "yardsticks"
"""Unit of CPU time, of a small piece of work that is timed in turn with what is measured."""
TIMED = (*TIMES, YARDSTICKS)
DETERMINED = ("flop", "bytes")
"""Units of what the code determines, whatever the seed."""
COUNTED = (*DETERMINED, "count")
"""Units of what is counted: the same code and seed give the same number. Templates that died are counted, too."""


def is_of_machine(unit: str) -> bool:
    """Tells whether the unit is of a time, of memory, of a speed, or of the largest batch that fits."""
    return unit in (*TIMED, "bytes", "images") or unit.endswith("/s")
