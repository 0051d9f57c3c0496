"""What the units of metrics say: whether a number belongs to the machine, to the code, or to what was learned."""

TIMES = ("s", "ms", "us", "ns")
YARDSTICKS = "yardsticks"
"""Unit of CPU time, of a small piece of work that is timed in turn with what is measured."""
TIMED = (*TIMES, YARDSTICKS)
COUNTED = ("flop", "count", "bytes")
"""Units of what is counted: the same code gives the same number."""


def is_of_machine(unit: str) -> bool:
    """Whether it is of a time, of memory, of a speed, or of the largest batch that fits."""
    return unit in (*TIMED, "bytes", "images") or unit.endswith("/s")
