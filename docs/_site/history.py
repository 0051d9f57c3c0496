"""The steps of reports/history and what asv measured of each: `docs/history.svg`, and the table of the page."""

import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from routebench.analysis import figures

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "reports" / "history"
MACHINE = "amd-epyc-2-cores"
CHART = ROOT / "docs" / "history.svg"
MS, MB = 1e3, 1e-6
LAYER, MEMORY = "layer.Time.time_forward_and_backward", "layer.Memory.peakmem_forward_and_backward"
PLAIN, KERNELS = "plain torch", "kernels"
Lines = Mapping[str, tuple[str, float]]
"""By the name of a line: the benchmark with its parameters, and what one of its units is in units of the panel."""
PANELS: Mapping[str, Lines] = {
    "Dynamic, one layer: ms": {
        PLAIN: (f"{LAYER}('dynamic', 'reference')", MS), KERNELS: (f"{LAYER}('dynamic', 'auto')", MS)
    },
    "EM, one layer: ms": {PLAIN: (f"{LAYER}('em', 'reference')", MS), KERNELS: (f"{LAYER}('em', 'auto')", MS)},
    "EM, peak memory: MB": {PLAIN: (f"{MEMORY}('em', 'reference')", MB), KERNELS: (f"{MEMORY}('em', 'auto')", MB)},
    "Command line: s": {
        "--dry-run": ("start.Start.time_dry_run", 1), "list methods": ("start.Start.time_list_methods", 1),
        "--help": ("start.Start.time_help", 1),
    },
}  # fmt: skip
COLOURS = ("#0060a8", "#c2410c", "#5b6470")


@dataclass(frozen=True)
class Step:
    """A commit.

    Args:
        commit: its first digits.
        name: in two words.
        what: it brought, in a sentence or two.
        values: by benchmark with its parameters, in asv's units; NaN where it failed.
    """

    commit: str
    name: str
    what: str
    values: Mapping[str, float]

    def value(self, benchmark: str, scale: float = 1) -> float:
        """NaN where there is none."""
        return scale * self.values.get(benchmark, math.nan)


def steps(machine: str = MACHINE) -> list[Step]:
    """The steps that were measured on a machine, the oldest first."""
    with (HISTORY / "steps.csv").open(encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    found = {row["commit"]: next((HISTORY / machine).glob(f"{row['commit']}*.json"), None) for row in told}
    return [
        Step(row["commit"], row["step"], row["what"], _values(json.loads(file.read_text(encoding="utf-8"))))
        for row in told
        if (file := found[row["commit"]]) is not None
    ]


def table() -> list[Sequence[str]]:
    """A row per step: its number, name, commit, what it brought, and the test error of a small fit."""
    fit = "fit.SmallFit.track_test_error('{}')"
    rows: list[Sequence[str]] = []
    for number, step in enumerate(steps(), 1):
        errors = [step.value(fit.format(method)) for method in ("dynamic", "em")]
        rows.append((str(number), f"**{step.name}** (`{step.commit}`)", step.what, *(f"{one:.1f}" for one in errors)))
    return rows


def chart(machine: str = MACHINE) -> str:
    """What was measured over the steps, as SVG."""
    figure = figures.figure_of(_draw, steps(machine), height=5.2, rows=2, columns=2, sharex=True)
    return figures.to_svg(figure)


def _draw(grid: list[Axes], measured: list[Step]) -> None:
    numbers = range(1, len(measured) + 1)
    for axes, (title, lines) in zip(grid, PANELS.items(), strict=True):
        for place, (name, (benchmark, scale)) in enumerate(lines.items()):
            values = [step.value(benchmark, scale) for step in measured]
            style: dict[str, Any] = {"color": COLOURS[place], "marker": figures.MARKERS[place], "markersize": 4}
            axes.plot(numbers, values, label=name, **style)
        axes.set_title(title, fontsize=9.5)
        axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # room for the names
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8.5, frameon=False, loc="upper right", ncols=2, columnspacing=1, handlelength=1.5)
    for axes in grid[2:]:
        axes.set_xlabel("step")


def _values(found: Mapping[str, Any]) -> dict[str, float]:
    """What asv keeps: for each benchmark the values of all parameters, the last of which changes first."""
    values = {}
    for name, (results, parameters, *_) in found["results"].items():
        for chosen, value in zip(product(*parameters), results or [], strict=False):
            named = f"{name}({', '.join(chosen)})" if chosen else name
            values[named] = math.nan if value is None else float(value)
    return values


if __name__ == "__main__":
    figures.save_svg(chart(*sys.argv[1:]), CHART)
