"""Every suite's main measure side by side: one row per method and T, one column per suite."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pandas import DataFrame

from routebench.analysis._estimate import Estimate
from routebench.analysis._result import Analysis, Main
from routebench.analysis._runs import Runs
from routebench.analysis._table import Column, Row, flat
from routebench.analysis.wording import NOTHING, listed, marked, name_of

PRESETS = ("smoke", "quick", "full")  # from the least to the most that an answer can rest on
AHEAD = " *"
Method = tuple[str, int | None]  # label and T


@dataclass(frozen=True)
class Measure:
    """A column of the overview.

    Args:
        key: of the column in its table.
        title: heading.
        runs: where it was measured.
        main: what.
        numbers: mean and limits; NaN where there are none.
        ahead: the method that is significantly ahead of all others; None if none is known to be.
    """

    key: str
    title: str
    runs: Runs
    main: Main
    numbers: Mapping[Method, tuple[float, float, float]]
    ahead: Method | None


def weight_of(preset: str) -> int:
    """How much an answer can rest on a preset; one of the user's own counts most."""
    return PRESETS.index(preset) if preset in PRESETS else len(PRESETS)


def overview_of(found: Iterable[tuple[Runs, Analysis]]) -> Analysis | None:
    """A table of what first analyses say their main measure is, from each suite's strongest preset.

    Args:
        found: runs and what an analysis found in them, the newest first; those without a main measure are left out.

    Returns:
        columns `name, label, iterations, role`, and three for each measure; None without one.
    """
    known = [(runs, analysis) for runs, analysis in found if analysis.main is not None]
    best = {suite: max(weight_of(runs.preset) for runs, _ in known if runs.suite == suite) for suite in _suites(known)}
    strongest = [(runs, analysis) for runs, analysis in known if weight_of(runs.preset) == best[runs.suite]]
    measures = _measures(sorted(strongest, key=lambda one: (one[0].suite != "accuracy", one[0].suite)))
    roles = _roles(strongest)
    if not roles:
        return None
    table = _table(measures, roles)
    return Analysis(
        title="Every suite, side by side",
        reading=_reading(measures, roles),
        table=table,
        columns=(
            Column("Method", "name", marked, "routing method, and T, its iterations", numeric=False),
            *(_column(measure) for measure in measures),
        ),
        notes=(
            "Mean over seeds, ± half of its 95 % interval; a dash where a suite did not measure a method with that T.",
            "Of each method, those T are here that the first column has; others are on the page of their suite.",
            *([f"{AHEAD.strip()} significantly ahead of all others in its column: alone in the best rank group."]
              if any(measure.ahead for measure in measures) else []),
        ),
    )  # fmt: skip


def _suites(known: Iterable[tuple[Runs, Analysis]]) -> list[str]:
    return list(dict.fromkeys(runs.suite for runs, _ in known))


def _measures(found: list[tuple[Runs, Analysis]]) -> list[Measure]:
    measures = []
    for place, (runs, analysis) in enumerate(found):
        main, table = _main_of(analysis)
        title = f"{main.title}, {main.unit}" if main.unit else main.title
        alike = {other.suite for other, analysis in found if _main_of(analysis)[0].title == main.title}
        title = title if len(alike) == 1 or runs.suite == runs.protocol else f"{runs.suite}: {title}"
        same = [other for other, _ in found if other.suite == runs.suite]
        title += "".join(
            f" · {getattr(runs, part)}" for part in ("data", "model") if len({getattr(one, part) for one in same}) > 1
        )
        measures.append(
            Measure(f"{runs.suite}_{place + 1}", title, runs, main, _numbers(main, table), _ahead(analysis))
        )
    return measures


def _main_of(analysis: Analysis) -> tuple[Main, DataFrame]:
    assert analysis.main is not None
    return analysis.main, analysis.table if analysis.main.table is None else analysis.main.table


def _numbers(main: Main, table: DataFrame) -> dict[Method, tuple[float, float, float]]:
    prefix = "" if main.column == "mean" else f"{main.column}_"
    keys = (main.column, f"{prefix}low", f"{prefix}high")
    rows = [*flat(table).to_dict("records")]
    return {
        _method(row): (_number(row.get(keys[0])), _number(row.get(keys[1])), _number(row.get(keys[2]))) for row in rows
    }


def _method(row: Row) -> Method:
    steps = row.get("iterations")
    return str(row["label"]), None if pd.isna(steps) else int(steps)


def _number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


def _ahead(analysis: Analysis) -> Method | None:
    """Who is alone in the best rank group, where every method with a number has a group."""
    table = flat(analysis.table)
    if "group" not in table or analysis.main is None or analysis.main.table is not None:
        return None
    measured = table[table[analysis.main.column].notna()]
    first = measured[measured["group"] == table["group"].iloc[0]]
    known = len(measured) > 1 and bool(measured["group"].notna().all()) and len(first) == 1
    return _method(first.iloc[0].to_dict()) if known else None


def _roles(found: Iterable[tuple[Runs, Analysis]]) -> dict[Method, str]:
    roles: dict[Method, str] = {}
    for _, analysis in found:
        for row in flat(_main_of(analysis)[1]).to_dict("records"):
            roles.setdefault(_method(row), str(row.get("role", "method")))
    return roles


def _table(measures: list[Measure], roles: Mapping[Method, str]) -> DataFrame:
    rows = []
    nothing = (math.nan,) * 3
    for (label, iterations), role in roles.items():
        row: dict[str, Any] = {"label": label, "iterations": pd.NA if iterations is None else iterations}
        row = {"name": name_of(label, iterations), **row, "role": role}
        for measure in measures:
            numbers = measure.numbers.get((label, iterations), nothing)
            row |= dict(zip((measure.key, f"{measure.key}_low", f"{measure.key}_high"), numbers, strict=True))
        rows.append(row)
    first = measures[0]
    table = DataFrame(rows)
    known = table[first.key].notna()
    table = table[known | ~table["label"].isin(table.loc[known, "label"])]
    return table.sort_values(
        [first.key, "name"], ascending=[first.main.higher_is_better is False, True], kind="stable", na_position="last",
        ignore_index=True,
    )  # fmt: skip


def _column(measure: Measure) -> Column:
    def text(row: Row) -> str:
        mean, low, high = (row[f"{measure.key}{part}"] for part in ("", "_low", "_high"))
        marked = AHEAD if measure.ahead is not None and measure.ahead == _method(row) else ""
        return NOTHING if math.isnan(mean) else f"{Estimate(mean, low, high):±.{measure.main.digits}}{marked}"

    runs, better = measure.runs, measure.main.higher_is_better
    way = "" if better is None else f"; {'higher' if better else 'lower'} is better"
    explained = f"suite {runs.suite}, {runs.preset} preset, {runs.data}, {runs.model}{way}"
    return Column(measure.title, measure.key, text, explained)


def _reading(measures: list[Measure], roles: Mapping[Method, str]) -> str:
    """How many methods there are, and for how many each suite has a number."""
    told = [f"{measure.title.partition(',')[0]} ({len({*map(_label, _measured(measure))})})" for measure in measures]
    return f"{len({*map(_label, roles)})} methods, controls included. Measured: {listed(told, len(told))}."


def _label(method: Method) -> str:
    return method[0]


def _measured(measure: Measure) -> list[Method]:
    return [method for method, numbers in measure.numbers.items() if not math.isnan(numbers[0])]
