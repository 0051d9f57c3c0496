"""What the suites `accuracy` and `cost` measure, with the preset `smoke`: their metrics, each as asv understands it."""

import math
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
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
            if done.returncode not in (0, 3):  # 3: what failed has no value, nor have its benchmarks
                raise RuntimeError(f"routebench {' '.join(call)} ended with {done.returncode}")
        return rows_of(Path("results"))

    setup_cache.timeout = HOUR  # type: ignore[attr-defined]  # where asv looks for it

    def track_test_error(self, rows: Rows, method: str) -> float:
        """Of the network as it was trained: not with other numbers of iterations."""
        return tracked([row for row in rows if tested_as_trained(row)], "accuracy", "accuracy", method)

    def track_training_time(self, rows: Rows, method: str) -> float:
        return tracked(rows, "cost", "training_time", method)

    def track_inference_time(self, rows: Rows, method: str) -> float:
        return tracked(rows, "cost", "inference_time", method)

    def track_training_memory(self, rows: Rows, method: str) -> float:
        return tracked(rows, "cost", "training_memory", method)

    track_test_error.unit = "%"  # type: ignore[attr-defined]  # where asv looks for it
    track_training_time.unit = "s/image"  # type: ignore[attr-defined]
    track_inference_time.unit = "s/image"  # type: ignore[attr-defined]
    track_training_memory.unit = "bytes"  # type: ignore[attr-defined]


def rows_of(folder: Path) -> Rows:
    """The rows of a results folder, and one without a value for each run that was planned and not run."""
    from routebench import load_results  # not above: a commit without it still has the benchmarks' names

    module = "routebench.engine.results" if find_spec("routebench.engine.results") else "routebench.engine.store"
    store = import_module(module).Store(folder)  # an earlier commit has it elsewhere
    table, planned = load_results(folder), store.planned()
    rows = table.to_dict("records") + planned[planned["status"] == "not run"].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def tracked(rows: Rows, suite: str, metric: str, method: str) -> float:
    """The typical value of one metric of one method; the whole network's, where parts of it are measured too.

    NaN, which asv takes for "failed", if a planned run of the method has no value: a mean over what is left would be
    better or worse because of what is missing.

    Raises:
        NotImplementedError: the suite has no such method, which asv takes for "does not apply".
    """
    planned = [row for row in rows if (row["suite"], row["method"]) == (suite, method)]
    if not planned:
        raise NotImplementedError
    own = [row for row in planned if row.get("metric") == metric]
    own = [row for row in own if row.get("part") == "network"] or own
    measured = {row["cell"] for row in own}
    if measured != {row["cell"] for row in planned} or not all(_is_number(row["value"]) for row in own):
        return math.nan
    return typical(own)


def tested_as_trained(row: Mapping[str, Any]) -> bool:
    """Tells whether routing had as many iterations as in training; a run without a result had none of its own."""
    return row.get("metric") is None or str(row["test_iterations"]) == str(row["iterations"])


def typical(rows: Iterable[Mapping[str, Any]]) -> float:
    """The mean over settings of the smallest of each one's repeats, which differ by what disturbed them.

    Less is better; milliseconds for a batch become seconds for an image. Of shares in %, which may be 0, it is the
    arithmetic mean; of anything else the geometric one, in which each setting has the same weight, and NaN where a
    value is not above 0.
    """
    best: dict[str, float] = {}
    shares = False
    for row in rows:
        found = lower_is_better(row["metric"], float(row["value"]), row["unit"], _direction(row))
        value = found.value / 1000 / int(row["batch"]) if found.unit == "ms" else found.value
        setting = f"{row['iterations']} {row['seed']} {row.get('part')} {row.get('batch')} {row.get('backend')}"
        best[setting] = min(value, best.get(setting, math.inf))
        shares = found.unit == "%"
    values = list(best.values())
    if shares:
        return statistics.fmean(values)
    return statistics.geometric_mean(values) if min(values) > 0 else math.nan


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _direction(row: Mapping[str, Any]) -> bool | None:
    direction = row["higher_is_better"]
    return bool(direction) if isinstance(direction, bool) or direction in (0, 1) else None
