"""Effect of each setting of a method: variants against the plain form, laid out as table 1 of Hinton et al. 2018."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench import statistics
from routebench.analysis import (
    Analysis,
    Column,
    Estimate,
    Row,
    Runs,
    analysis_of,
    figures,
    forest,
    run,
)
from routebench.analysis.comparison import ACCURACY, Contender, contenders_of, finished, objects_of, settled
from routebench.analysis.families import variants_of

PLAIN = "plain form"


@analysis_of("accuracy", "ablations", place=25)
def ablations(runs: Runs) -> Analysis | None:
    """Accuracy (%) of every variant of a method, and its paired difference (points) to the method's plain form."""
    rows = [row for bases in variants_of(contenders_of(runs), runs.model) for row in _rows(runs, *bases)]
    known = [row["difference"].known for row in rows]
    if not any(known):
        return None
    table = DataFrame(rows)
    variants = table[known].reset_index(drop=True)
    return Analysis(
        title="Components of each method",
        reading="What does each setting add to the plain form of its method?",
        table=table,
        figure=figures.figure_of(_draw, variants, runs, height=figures.height_of_rows(map(str, variants["method"]))),
        columns=_columns(table),
        notes=tuple(_notes(table)),
        alternative="Differences of variants to the plain form of their method, with intervals.",
    )


def _rows(runs: Runs, base: Contender, variants: Iterable[Contender]) -> list[dict[str, Any]]:
    return [_row(runs, base, None), *(_row(runs, variant, base) for variant in variants)]


def _row(runs: Runs, one: Contender, base: Contender | None) -> dict[str, Any]:
    seconds, base_seconds = _seconds(runs, one), _seconds(runs, base) if base else math.nan
    settings = one.method.settings or "defaults"
    return {
        "method": one.method,
        "variant": settings if base else f"{PLAIN}: {settings}",
        "mean": Estimate.of(statistics.accuracy_interval(one.values, objects_of(runs, [one]))),
        "n_ok": len(one.accuracies),
        "n_planned": one.planned,
        "difference": settled(runs).difference(one.method, base.method) if base else Estimate(kind=""),
        "fit_seconds": seconds,
        "slower": seconds / base_seconds,
    }


def _seconds(runs: Runs, one: Contender) -> float:
    own = runs.results[runs.results["cell"].isin(list(one.cells.values()))]
    return float(own.loc[own["metric"] == "fit_seconds", "value"].mean())


def _columns(table: DataFrame) -> tuple[Column, ...]:
    several = len({method.model for method in table["method"]}) > 1
    columns = [
        Column("Method", "method.name", _name, numeric=False),
        *((Column("Network", "method.model", numeric=False),) if several else ()),
        Column("Settings", "variant", explained="changed from the defaults", numeric=False),
        ACCURACY,
        finished(),
        Column("Difference", "difference", "+.2", "points above the plain form, paired by seed"),
        Column("p (Holm)", "difference.p_holm", "p", "over all variants of this table"),
    ]
    if table["slower"].notna().any():
        columns.append(Column("Time, ×", "slower", ".2f", "seconds of a fit, over those of the plain form"))
    return tuple(columns)


def _name(row: Row) -> str:
    return str(replace(row["method"], params="", variant="", networks=1))


def _notes(table: DataFrame) -> list[str]:
    notes = [
        (
            "The plain form has the fewest settings changed from the defaults of those that have a result. Differences "
            "are paired by seed, at the same T; the interval is for one difference alone."
        ),
        "Filled: p below 0.05 after Holm's correction over all variants here.",
    ]
    if any(gap.kind in statistics.BY_SAMPLE for gap in table["difference"]):
        notes.append("One seed only: differences are over test images, and another seed may order them otherwise.")
    if table["slower"].notna().any():
        notes.append("Time is on the wall clock, whatever else ran; the suite `cost` measures it alone.")
    return notes


def _draw(axes: Axes, variants: DataFrame, runs: Runs) -> None:
    rows = zip(variants["method"], variants["difference"], strict=True)
    lines = [forest.Line(str(method), gap, runs.colour(method)) for method, gap in rows]
    forest.draw(axes, lines, "points above the plain form")


if __name__ == "__main__":
    run(ablations)
