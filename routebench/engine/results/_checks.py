"""Checks of what a record or a plan may hold. A file that holds anything else is damaged."""

import marshal
import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from routebench.declared import NEVER_NEGATIVE, declared
from routebench.errors import UserError, printable
from routebench.plain import DEPTH, LARGEST

Check = Callable[[Any], bool]
SLACK = 1e-5
"""Relative distance of a value from its range that is rounding, as of float32."""
LARGEST_VALUE = 1e100
"""No measurement gives more, and sums of squares of such values are still numbers."""
LONGEST = 1e10
"""Seconds: times that long are no measurement."""
LOSSES = ("loss", "train_loss", "held_out_loss")
ADDED = "added_loss"
"""The part of a loss that routing methods add, which may be negative."""
_KEY = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(r"\w[\w.-]*")
_FILE = re.compile(rf"(arrays/{_KEY.pattern}|fits/{_KEY.pattern}/weights)\.safetensors")


def is_key(value: Any) -> bool:
    """Tells whether this is the key of a run or a fit: 16 hex digits, so that it cannot be a path."""
    return type(value) is str and _KEY.fullmatch(value) is not None


def expect_key(value: Any) -> str:
    """The key of a run or a fit.

    Raises:
        UserError: it is something else, which could be a path.
    """
    if not is_key(value):
        raise UserError(f"expected a run's key, 16 hex digits as in column `cell` of load_results, got {value!r:.80}")
    return str(value)


def of_type(kind: type) -> Check:
    """A check that the type is exactly this one; true is no integer."""
    return lambda value: type(value) is kind


is_text, is_flag, is_list = map(of_type, (str, bool, list))


def is_name(value: Any) -> bool:
    """A text that names a file in a folder, and none elsewhere."""
    return is_text(value) and Path(value).name == value not in ("", "..") and "\0" not in value


def is_whole(value: Any) -> bool:
    """An integer of at most 64 bits."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def is_seconds(value: Any) -> bool:
    """A number from 0 to 300 years, or none."""
    return value is None or ((is_whole(value) or type(value) is float) and 0 <= value < LONGEST)


def is_number(value: Any) -> bool:
    """A finite number."""
    return is_whole(value) or (type(value) is float and math.isfinite(value))


def is_positive(value: Any) -> bool:
    """A finite number above 0."""
    return is_number(value) and value > 0


def is_points(value: Any) -> bool:
    """A difference in points, above 0 and up to 100."""
    return is_positive(value) and value <= 100


def is_natural(value: Any) -> bool:
    """An integer from 0 up, of at most 64 bits."""
    return is_whole(value) and value >= 0


def is_scalar(value: Any) -> bool:
    """A string, a number, true, false or none."""
    return value is None or type(value) in {str, bool, float} or is_whole(value)


def is_mark(value: Any) -> bool:
    """A coordinate of a number: any scalar except NaN and infinity."""
    return is_scalar(value) and not (type(value) is float and not math.isfinite(value))


def is_value(value: Any) -> bool:
    """A number or none: no truth value, and no integer of more than 64 bits."""
    return value is None or type(value) is float or is_whole(value)


def beyond_range(record: Mapping[str, Any]) -> str:
    """The first value that cannot be, by the range that its measure declares, in words; empty if there is none.

    Nor has a run that failed any value. A loss that is a user's or a network's own may be negative.

    Args:
        record: a record as a file has it, or any other table.
    """
    metrics: Any = record.get("metrics")
    known = [one for one in metrics if _has_number(one)] if is_list(metrics) else []
    free = () if _loss_of(record) in NEVER_NEGATIVE and all(one["metric"] != ADDED for one in known) else LOSSES
    for metric in known:
        name, unit, value = metric["metric"], metric["unit"], metric["value"]
        low, high = (-math.inf, math.inf) if name in free else _range_of(name, unit)
        if not max(low, -LARGEST_VALUE) <= value <= min(high, LARGEST_VALUE):
            return f"holds {name} {value:.6g}{unit and ' '}{unit}, which no measurement gives"
    if known and is_text(status := record.get("status")) and status != "ok":
        return f"holds {known[0]['metric']} of a run whose status is {status!r:.40}, and not 'ok'"
    return ""


def _loss_of(record: Mapping[str, Any]) -> str:
    """The name of the loss that a run was trained with, without hyperparameters; empty where nothing tells it."""
    identity = record.get("identity")
    training = identity.get("training") if isinstance(identity, dict) else None
    return str(training.get("loss", "")).partition("[")[0] if isinstance(training, dict) else ""


def _has_number(metric: Any) -> bool:
    named = isinstance(metric, dict) and is_text(metric.get("metric")) and is_text(metric.get("unit"))
    return bool(named and is_number(metric.get("value")))


def _range_of(name: str, unit: str) -> tuple[float, float]:
    """The range of a metric, with room for rounding. A declaration with another unit does not count."""
    known = declared().get(name)
    low, high = (-math.inf, math.inf) if known is None or known.unit != unit else known.range
    return low - SLACK * max(1.0, abs(low)), high + SLACK * max(1.0, abs(high))


def is_plain(value: Any, depth: int = DEPTH) -> bool:
    """Scalars in nested tables and lists, up to a depth.

    Args:
        value: as JSON has it.
        depth: how deep tables and lists may be.
    """
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(is_plain(one, depth - 1) for one in inner)
    return is_scalar(value)


def is_sums(value: Any) -> bool:
    """A table of checksums by file, each a run's raw outputs or the weights of a fit."""
    return by_name(is_text)(value) and all(map(_FILE.fullmatch, value))


def maybe(check: Check) -> Check:
    """The check, or none."""
    return lambda value: value is None or check(value)


def each(check: Check) -> Check:
    """A list of such values."""
    return lambda value: is_list(value) and all(map(check, value))


def by_name(check: Check, other_than: Collection[str] = ()) -> Check:
    """A table of such values, whose keys are none of some names."""
    taken = frozenset(other_than)
    return lambda value: isinstance(value, dict) and all(map(check, value.values())) and taken.isdisjoint(value)


def table(needed: Mapping[str, Check], known: Mapping[str, Check] | None = None, rest: Check = is_plain) -> Check:
    """A table with required and optional keys, and any others."""
    checks = {**needed, **(known or {})}

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not value.keys() >= needed.keys():
            return False
        return all(checks.get(key, rest)(one) for key, one in value.items())

    return check


def _is_number(value: Any) -> bool:
    return value is not None and is_value(value)


is_fit = table(
    {"epochs": each(by_name(_is_number))},
    {
        "backends": each(is_text),
        "files": lambda value: by_name(is_text)(value) and all(map(_NAME.fullmatch, value)),
    },
)
"""The form of `fit.json`, which tells how a network was trained. The files that it names lie beside it."""


class Once:
    """A check of many tables that checks each kind once, and some keys every time.

    Args:
        check: the check of the whole table.
        own: keys in which tables of one kind differ, with the checks of their values; a key may be missing.
    """

    def __init__(self, check: Check, **own: Check):
        self._check, self._own = check, own
        self._seen: dict[bytes, Mapping[str, Any]] = {}

    def __call__(self, value: Any) -> bool:
        """Tells whether it is such a table."""
        try:
            kind = self._kind(value)
        except (TypeError, ValueError):  # no table, or one too deep
            return False
        if kind in self._seen:
            return all(check(value[key]) for key, check in self._own.items() if key in value)
        if self._check(value):
            self._seen[kind] = value
            return True
        return False

    def shared(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The same table, which was checked, with the parts of the first one of its kind, to save memory."""
        kept = self._seen.setdefault(self._kind(value), value)
        return {**kept, **{key: value[key] for key in self._own if key in value}}

    def _kind(self, value: Mapping[str, Any]) -> bytes:
        return exact_bytes({**value, **{key: None for key in self._own if key in value}})


def exact_bytes(value: Any) -> bytes:
    """The fastest serialisation that distinguishes 1, 1.0 and True."""
    return marshal.dumps(value, 2)  # version 2 has no references


def cleaned(content: Any) -> Any:
    """The same with every string `printable`, safe to show anywhere.

    Raises:
        RecursionError: it is too deep.
    """
    if isinstance(content, dict):
        return {printable(key): cleaned(value) for key, value in content.items()}
    if isinstance(content, list):
        return [cleaned(one) for one in content]
    return printable(content) if isinstance(content, str) else content
