"""What the suites `accuracy` and `cost` measure, with the preset `smoke`: their metrics, each as asv understands it."""

import math
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from routebench.registry import routing

from .lower import lower_is_better  # asv imports this folder as a package of its own

Rows = list[dict[str, Any]]
"""Rows of `routebench.load_results` as dictionaries, which asv can pass on."""

SUITES = ("accuracy", "cost")
HOUR = 3600


class Suite:
    """Both suites are run once for each commit; every benchmark reads off one number for each method.

    Times are those of the protocol `cost`, whose timer waits for a GPU before it reads the clock; where there is no GPU
    the processor is measured.
    """

    params = sorted(routing)
    param_names = ("method",)
    timeout = HOUR

    def setup_cache(self) -> Rows:
        """Runs the suites in asv's folder for the commit. `-P` keeps the current folder off the path."""
        for suite in SUITES:
            call = ("suite", suite, "--preset", "smoke", "--results", "results")
            done = subprocess.run([sys.executable, "-P", "-m", "routebench", *call], check=False)
            if done.returncode not in (0, 3):  # 3: what failed has no row, and its benchmarks are left out
                raise RuntimeError(f"routebench {' '.join(call)} ended with {done.returncode}")
        return rows_of(Path("results"))

    setup_cache.timeout = HOUR  # type: ignore[attr-defined]  # where asv looks for it

    def track_test_error(self, rows: Rows, method: str) -> float:
        """Of the network as it was trained: not with other numbers of iterations."""
        return typical(row for row in named(rows, "accuracy", method) if tested_as_trained(row))

    def track_training_time(self, rows: Rows, method: str) -> float:
        return typical(named(rows, "training_time", method))

    def track_inference_time(self, rows: Rows, method: str) -> float:
        return typical(named(rows, "inference_time", method))

    def track_training_memory(self, rows: Rows, method: str) -> float:
        return typical(named(rows, "training_memory", method))

    track_test_error.unit = "%"  # type: ignore[attr-defined]  # where asv looks for it
    track_training_time.unit = "s/image"  # type: ignore[attr-defined]
    track_inference_time.unit = "s/image"  # type: ignore[attr-defined]
    track_training_memory.unit = "bytes"  # type: ignore[attr-defined]


def rows_of(folder: Path) -> Rows:
    """The rows of a results folder that have a value."""
    from routebench import load_results  # not above: a commit without it still has the benchmarks' names

    table = load_results(folder)
    rows = table[table["value"].notna()].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def named(rows: Rows, metric: str, method: str) -> Rows:
    """The rows of one metric of one method; the whole network's, where parts of it are measured too.

    Raises:
        NotImplementedError: there are none, which asv takes for "does not apply".
    """
    own = [row for row in rows if (row["metric"], row["method"]) == (metric, method)]
    whole = [row for row in own if row.get("part") == "network"]
    if not own:
        raise NotImplementedError
    return whole or own


def tested_as_trained(row: Mapping[str, Any]) -> bool:
    """Whether routing had as many iterations as in training."""
    return str(row["test_iterations"]) == str(row["iterations"])


def typical(rows: Iterable[Mapping[str, Any]]) -> float:
    """The geometric mean over settings of the smallest of each one's repeats, which differ by what disturbed them.

    Less is better; milliseconds for a batch become seconds for an image.
    """
    best: dict[str, float] = {}
    for row in rows:
        found = lower_is_better(row["metric"], float(row["value"]), row["unit"], _direction(row))
        value = found.value / 1000 / int(row["batch"]) if found.unit == "ms" else found.value
        setting = f"{row['iterations']} {row['seed']} {row.get('part')} {row.get('batch')} {row.get('backend')}"
        best[setting] = min(value, best.get(setting, math.inf))
    return math.exp(sum(math.log(max(value, 1e-12)) for value in best.values()) / len(best))


def _direction(row: Mapping[str, Any]) -> bool | None:
    direction = row["higher_is_better"]
    return bool(direction) if isinstance(direction, bool) or direction in (0, 1) else None
