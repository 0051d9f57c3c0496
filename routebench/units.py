"""Classifies units of metrics: the number depends on the machine, on the code, or on what was learned."""

TIMES = ("s", "ms", "us", "ns")
YARDSTICKS = "yardsticks"
"""Unit of CPU time, of a small piece of work that is timed in turn with what is measured."""
TIMED = (*TIMES, YARDSTICKS)
DETERMINED = ("flop", "bytes")
"""Units of what the code determines, whatever the seed."""
COUNTED = (*DETERMINED, "count")
"""Units of what is counted: the same code and seed give the same number. Templates that died are counted, too."""


def whole_of(metric: str, unit: str) -> float | None:
    """The whole, in its unit, where a metric is a share, which is never negative and never larger; else None."""
    if unit == "%":
        return None if metric.endswith("_gain") else 100.0
    return 1.0 if not unit and metric.endswith("_share") else None


def is_of_machine(unit: str) -> bool:
    """Tells whether the unit is of a time, of memory, of a speed, or of the largest batch that fits."""
    return unit in (*TIMED, "bytes", "images") or unit.endswith("/s")
